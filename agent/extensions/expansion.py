"""Arguments put into the text of a command or a skill. Pure."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from ebbtide.agent.extensions.custom_commands import Form, TextPart, parts_of
from ebbtide.agent.extensions.folder_names import filled_line, filled_words
from ebbtide.tools.lazy import dataclass

_PLACE = re.compile(
    r"(?P<awk>\b[gmn]?awk\b[^'\n]*)(?<=[ \t])(?P<program>'[^']*')"
    r"|(?P<escaped>\\)?\$(?:ARGUMENTS(?:\[(?P<index>\d+)\])?(?!\w)|(?P<number>\d)(?!\w|[.,]\d))"
)
"""A place for arguments. Neither a price (`$1.20`) nor a field in a program of awk is one."""
_NAMED_PLACE = re.compile(r"\$(?P<dollar>\$)|" + _PLACE.pattern + r"|\$(?P<name>[A-Za-z_]\w*)")
_ALL = re.compile(r"\$ARGUMENTS(?!\w|\[)")
_NAMED_ARGUMENT = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)
"""An argument by its name, as prompts of Codex are given them."""
_COMMANDS = re.compile(r"Bash\((.+)\)")
_UNCLEAR = frozenset("*?[]{}()$`|&;<>\n\\")
_ARGS = "{{args}}"
_NOTHING: Mapping[str, str] = MappingProxyType({})
_FILE = re.compile(r"@\{([^{}\n]+)\}")


@dataclass(frozen=True, slots=True)
class Expansion:
    """A text with its arguments, before its shell commands are run."""

    parts: tuple[TextPart, ...]

    @property
    def words(self) -> str:
        """All but the shell commands: in it files are named."""
        return " ".join(part.text for part in self.parts if not part.is_shell)


def expand_arguments(
    text: str, form: Form, written: str, names: Sequence[str] = (), values: Mapping[str, str] = _NOTHING
) -> Expansion:
    """`written`: what follows the name of the command. Where a text has no place for it, it stands at the end. The
    first word is `$1`, but `$0` in a text that has one, as in `$ARGUMENTS[0]`. `names`: what the words are called, each
    with a `$` before it. In a prompt of Codex `NAME=word` stands for `$NAME`, and `$$` is a `$`; elsewhere `\\$1` is
    `$1`. `values`: what stands for `${NAME}`."""
    parts = tuple(_fill_in(part, values) for part in parts_of(text, form))
    first = 0 if any(match[0] == "$0" for part in parts if not part.is_shell for match in _places(part)) else 1
    has_place = any(_ARGS in part.text if form == "toml" else any(_places(part)) for part in parts)
    put = tuple(TextPart(_substitute(part, form, written, first, names), part.is_shell) for part in parts)
    if written and not has_place and put == parts:
        put = (*put, TextPart(f"\n\nARGUMENTS: {written}"))
    return Expansion(put)


def _fill_in(part: TextPart, values: Mapping[str, str]) -> TextPart:
    return TextPart((filled_line if part.is_shell else filled_words)(part.text, values), part.is_shell)


def _substitute(part: TextPart, form: Form, written: str, first: int, names: Sequence[str]) -> str:
    if form == "toml":
        text = part.text.replace(_ARGS, shlex.quote(written) if part.is_shell else written)
        return text if part.is_shell else _FILE.sub(lambda match: f"@{_quote_path(match[1].strip())}", text)
    words = words_of(written)
    values = {name: _at(words, place) for place, name in enumerate(names)}
    if form == "codex":
        given = {word: match for word in words if (match := _NAMED_ARGUMENT.fullmatch(word))}
        values = {match[1]: match[2] for match in given.values()}
        words = [word for word in words if word not in given]

    def argument(match: re.Match[str]) -> str:
        if match["awk"]:
            return match.re.sub(argument, match["awk"]) + _ALL.sub(lambda _: written, match["program"])
        if match["escaped"]:
            return match[0] if part.is_shell else match[0].removeprefix("\\")
        if match.re is _NAMED_PLACE and match["dollar"]:
            return "$" if form == "codex" else match[0]
        if match.re is _NAMED_PLACE and match["name"]:
            return values.get(match["name"], match[0])
        if match["index"] is not None:
            return _at(words, int(match["index"]))
        if match["number"] is None:
            return written
        index = int(match["number"]) - first
        return _at(words, index) if index >= 0 else match[0]

    return (_NAMED_PLACE if form == "codex" or names else _PLACE).sub(argument, part.text)


def _places(part: TextPart) -> Iterator[re.Match[str]]:
    """Where arguments stand in a part of a text."""
    for match in _PLACE.finditer(part.text):
        if match["awk"]:
            yield from _places(TextPart(match["awk"]))
            yield from _ALL.finditer(match["program"])
        elif not match["escaped"]:
            yield match


def rules_of(tools: Sequence[str]) -> tuple[str, ...]:
    """The permission rules that stand for what a text would run without a question, as far as one stands for exactly
    that: commands by how they begin, or whole. All commands, and patterns within, are none."""
    rules = []
    for tool in tools:
        match = _COMMANDS.fullmatch(tool)
        said = "" if match is None else re.sub(r"(?::| )\*\Z", ":*", match[1])
        begins = said.endswith(":*")
        line = " ".join(said.removesuffix(":*").split())
        if line and not _UNCLEAR.intersection(line):
            rules.append(f"bash({line})" if begins else f"bash(={line})")
    return tuple(dict.fromkeys(rules))


def words_of(written: str) -> list[str]:
    try:
        return shlex.split(written)
    except ValueError:  # a quotation mark that is an apostrophe
        return written.split()


def _at(words: Sequence[str], index: int) -> str:
    return words[index] if 0 <= index < len(words) else ""


def _quote_path(path: str) -> str:
    return f'"{path}"' if any(sign.isspace() for sign in path) else path
