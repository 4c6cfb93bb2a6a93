"""Custom commands: files with the text of a message, with placeholders for arguments, for the output of shell commands
and for files."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Literal, Self, TypeAlias

from ebbtide.agent.config.load import toml_of
from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.discovery import discover, ignored_hook_notices
from ebbtide.agent.extensions.extension_files import UnusableFile, text_of
from ebbtide.agent.extensions.extension_folders import ExtensionFolder, Owner, Source
from ebbtide.agent.extensions.front_matter import BrokenFrontMatter, list_at, split, text_at
from ebbtide.agent.extensions.trust import TrustItem, digest_of_text, item_in
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import ellipsize, pluralize

Form: TypeAlias = Literal["markdown", "toml", "codex"]

_NAME = re.compile(r"[\w.:-]+")
_SHELL_MARKDOWN = re.compile(r"(?<!\S)!`(?P<line>[^`\n]+)`|^```!\n(?P<block>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class CustomCommand:
    """A custom command; usable once approved."""

    name: str
    description: str
    hint: str
    """What may follow the name, for people."""
    text: str
    """The text with its placeholders, as written."""
    form: Form
    """The syntax of the placeholders."""
    tools: tuple[str, ...]
    """Tools that the command asks to use without permission."""
    model: str
    path: Path
    source: Source
    item: TrustItem
    has_hooks: bool = False
    """Whether the file declares hooks, which are not run."""
    plugin: str = ""
    """The name of the plugin that contains it."""
    arguments: tuple[str, ...] = ()
    """The names of its arguments, in order."""

    def with_name(self, name: str) -> Self:
        return replace(self, name=name)

    @property
    def owner(self) -> Owner:
        return self.item.owner


def find_commands(config: Config) -> tuple[tuple[CustomCommand, ...], tuple[str, ...]]:
    """Return all commands, and one line for each file that was left out."""
    found, problems = discover("command", config, _read_command)
    return found, (*problems, *ignored_hook_notices("command", found))


def _read_command(path: Path, place: ExtensionFolder) -> CustomCommand:
    name = ":".join(path.relative_to(place.folder).with_suffix("").parts).replace(" ", "-")
    if not _NAME.fullmatch(name):
        raise UnusableFile("its name contains characters that are not allowed")
    written = text_of(path, place.boundary)
    head, text = _toml(written) if path.suffix == ".toml" else split(written)
    text = place.with_folder(text)
    form: Form = "toml" if path.suffix == ".toml" else "codex" if place.source == "codex" else "markdown"
    if not text.strip():
        raise UnusableFile("it is empty")
    tools = tuple(map(place.with_folder, list_at(head, "allowed-tools") or ()))
    hint = text_at(head, "argument-hint")
    description = text_at(head, "description") or ellipsize(text.strip().splitlines()[0].lstrip("# "), 80)
    shown = [f"says: {description} ({pluralize(len(text.splitlines()), 'line')})"]
    shown += [f"runs: {line}" for lines in shell_lines(text, form) for line in lines.splitlines()]
    shown += [f"allowed without asking: {', '.join(tools)}"] if tools else []
    model = text_at(head, "model")
    shown += [f"runs with the model: {model}"] if model else []
    # The same text runs other commands when it is parsed in another form.
    read_as = () if form == "markdown" else (form,)
    item = item_in(place, name, path, digest_of_text(written, *read_as), shown)
    has_hooks = bool(head.get("hooks"))
    return CustomCommand(
        name,
        description,
        hint,
        text,
        form,
        tools,
        model,
        path,
        place.source,
        item,
        has_hooks,
        place.plugin,
        list_at(head, "arguments") or (),
    )


def _toml(written: str) -> tuple[dict[str, object], str]:
    try:
        content = toml_of(written)
    except (ValueError, RecursionError) as error:
        raise BrokenFrontMatter(" ".join(str(error).split())[:200]) from error
    prompt = content.get("prompt")
    if not isinstance(prompt, str):
        raise BrokenFrontMatter("it has no `prompt` string")
    return content, prompt


def shell_lines(text: str, form: Form) -> tuple[str, ...]:
    """Return the shell commands in a text, as written."""
    return tuple(part.text for part in parts_of(text, form) if part.is_shell)


@dataclass(frozen=True, slots=True)
class TextPart:
    """Literal text, or a shell command that is replaced by its output."""

    text: str
    is_shell: bool = False


def parts_of(text: str, form: Form) -> tuple[TextPart, ...]:
    """Split a text into literal text and shell commands, in order. This happens before arguments are inserted, so that
    nothing in an argument is run."""
    parts, end = list[TextPart](), 0
    for start, stop, command in _shell_places(text, form):
        parts += [TextPart(text[end:start]), TextPart(command, is_shell=True)]
        end = stop
    return tuple(part for part in (*parts, TextPart(text[end:])) if part.text)


def _shell_places(text: str, form: Form) -> list[tuple[int, int, str]]:
    if form != "toml":
        found = _SHELL_MARKDOWN.finditer(text)
        return [(match.start(), match.end(), (match["line"] or match["block"]).strip()) for match in found]
    places, at = [], 0
    while (start := text.find("!{", at)) >= 0:
        depth, stop = 1, start + 2
        while stop < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[stop], 0)
            stop += 1
        if depth:
            break
        places.append((start, stop, text[start + 2 : stop - 1].strip()))
        at = stop
    return places
