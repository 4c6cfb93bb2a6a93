"""Custom commands: files that contain the text of a message. The text may have placeholders for arguments, for the
output of shell commands and for files."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Literal, Self, TypeAlias

from ebbtide.agent.config.load import parse_toml
from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.discovery import discover_extensions, ignored_hook_notices
from ebbtide.agent.extensions.extension_files import UnusableFileError, read_text_file
from ebbtide.agent.extensions.extension_folders import ExtensionFolder, ExtensionOwner, ExtensionSource
from ebbtide.agent.extensions.front_matter import FrontMatterError, list_value, one_line_value, split_front_matter
from ebbtide.agent.extensions.trust import TrustItem, create_trust_item, hash_texts
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import ellipsize, pluralize

PlaceholderSyntax: TypeAlias = Literal["markdown", "toml", "codex"]

_NAME = re.compile(r"[\w.:-]+")
_SHELL_MARKDOWN = re.compile(r"(?<!\S)!`(?P<line>[^`\n]+)`|^```!\n(?P<block>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class CustomCommand:
    """A custom command. The user can invoke it once it is approved."""

    name: str
    description: str
    argument_hint: str
    """A hint for the user about the arguments."""
    text: str
    """The text with its placeholders, as written."""
    syntax: PlaceholderSyntax
    """The syntax of the placeholders."""
    requested_tools: tuple[str, ...]
    """Tools that the command wants to use without asking."""
    model: str
    path: Path
    source: ExtensionSource
    trust_item: TrustItem
    has_hooks: bool = False
    """Whether the file declares hooks, which are not run."""
    plugin_name: str = ""
    """The name of the plugin that contains the command; empty if none does."""
    argument_names: tuple[str, ...] = ()
    """The names of the command's arguments, in order."""

    def with_name(self, name: str) -> Self:
        return replace(self, name=name)

    @property
    def owner(self) -> ExtensionOwner:
        return self.trust_item.owner


def find_custom_commands(config: Config) -> tuple[tuple[CustomCommand, ...], tuple[str, ...]]:
    """Return all commands, and one line for each file that was skipped."""
    commands, problems = discover_extensions("command", config, _read_command)
    return commands, (*problems, *ignored_hook_notices("command", commands))


def _read_command(path: Path, extension_folder: ExtensionFolder) -> CustomCommand:
    name = ":".join(path.relative_to(extension_folder.path).with_suffix("").parts).replace(" ", "-")
    if not _NAME.fullmatch(name):
        raise UnusableFileError("its name contains characters that are not allowed")
    file_text = read_text_file(path, extension_folder.boundary)
    front_matter, text = _parse_toml_command(file_text) if path.suffix == ".toml" else split_front_matter(file_text)
    text = extension_folder.expand_plugin_root(text)
    syntax: PlaceholderSyntax = (
        "toml" if path.suffix == ".toml" else "codex" if extension_folder.source == "codex" else "markdown"
    )
    if not text.strip():
        raise UnusableFileError("it is empty")
    tools = tuple(map(extension_folder.expand_plugin_root, list_value(front_matter, "allowed-tools") or ()))
    argument_hint = one_line_value(front_matter, "argument-hint")
    description = one_line_value(front_matter, "description") or ellipsize(
        text.strip().splitlines()[0].lstrip("# "), 80
    )
    details = [f"says: {description} ({pluralize(len(text.splitlines()), 'line')})"]
    details += [f"runs: {line}" for command_text in shell_commands(text, syntax) for line in command_text.splitlines()]
    details += [f"allowed without asking: {', '.join(tools)}"] if tools else []
    model = one_line_value(front_matter, "model")
    details += [f"runs with the model: {model}"] if model else []
    # The digest includes the syntax, because in another syntax the same text would run other commands.
    syntax_part = () if syntax == "markdown" else (syntax,)
    item = create_trust_item(extension_folder, name, path, hash_texts(file_text, *syntax_part), details)
    has_hooks = bool(front_matter.get("hooks"))
    return CustomCommand(
        name,
        description,
        argument_hint,
        text,
        syntax,
        tools,
        model,
        path,
        extension_folder.source,
        item,
        has_hooks,
        extension_folder.plugin_name,
        list_value(front_matter, "arguments") or (),
    )


def _parse_toml_command(file_text: str) -> tuple[dict[str, object], str]:
    try:
        content = parse_toml(file_text)
    except (ValueError, RecursionError) as error:
        raise FrontMatterError(" ".join(str(error).split())[:200]) from error
    prompt = content.get("prompt")
    if not isinstance(prompt, str):
        raise FrontMatterError("it has no `prompt` string")
    return content, prompt


def shell_commands(text: str, syntax: PlaceholderSyntax) -> tuple[str, ...]:
    """Return the shell commands in text, as written."""
    return tuple(part.text for part in split_shell_commands(text, syntax) if part.is_shell)


@dataclass(frozen=True, slots=True)
class TextPart:
    """Literal text, or a shell command that is replaced by its output."""

    text: str
    is_shell: bool = False


def split_shell_commands(text: str, syntax: PlaceholderSyntax) -> tuple[TextPart, ...]:
    """Split text into literal parts and shell commands, in order. Call it before arguments are inserted, so that no
    text in an argument is run as a command."""
    parts, previous_end = list[TextPart](), 0
    for start, end, command in _shell_ranges(text, syntax):
        parts += [TextPart(text[previous_end:start]), TextPart(command, is_shell=True)]
        previous_end = end
    return tuple(part for part in (*parts, TextPart(text[previous_end:])) if part.text)


def _shell_ranges(text: str, syntax: PlaceholderSyntax) -> list[tuple[int, int, str]]:
    if syntax != "toml":
        matches = _SHELL_MARKDOWN.finditer(text)
        return [(match.start(), match.end(), (match["line"] or match["block"]).strip()) for match in matches]
    ranges, offset = [], 0
    while (start := text.find("!{", offset)) >= 0:
        depth, end = 1, start + 2
        while end < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        if depth:
            break
        ranges.append((start, end, text[start + 2 : end - 1].strip()))
        offset = end
    return ranges
