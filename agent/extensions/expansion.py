"""Expands arguments in the text of a command or a skill. Pure."""

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
"""A placeholder for arguments. A price (`$1.20`) and a field in an awk program are not placeholders."""
_NAMED_PLACE = re.compile(r"\$(?P<dollar>\$)|" + _PLACE.pattern + r"|\$(?P<name>[A-Za-z_]\w*)")
_ALL = re.compile(r"\$ARGUMENTS(?!\w|\[)")
_NAMED_ARGUMENT = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)
"""A named argument, as in Codex prompts."""
_COMMANDS = re.compile(r"Bash\((.+)\)")
_UNCLEAR = frozenset("*?[]{}()$`|&;<>\n\\")
_ARGS = "{{args}}"
_NOTHING: Mapping[str, str] = MappingProxyType({})
_FILE = re.compile(r"@\{([^{}\n]+)\}")


@dataclass(frozen=True, slots=True)
class Expansion:
    """A text with its arguments expanded, before its shell commands run."""

    parts: tuple[TextPart, ...]

    @property
    def words(self) -> str:
        """The text without shell commands; file mentions are looked up in it."""
        return " ".join(part.text for part in self.parts if not part.is_shell)


def expand_arguments(
    text: str, form: Form, written: str, names: Sequence[str] = (), values: Mapping[str, str] = _NOTHING
) -> Expansion:
    """Expand the arguments in a text. `written` is what follows the command's name; it is appended if the text has no
    placeholder. The first word is `$1`, or `$0` if the text contains `$0`, as in `$ARGUMENTS[0]`. `names` are argument
    names, written with a leading `$`. In a Codex prompt, `NAME=word` sets `$NAME` and `$$` is a literal `$`; in other
    forms `\\$1` is a literal `$1`. `values` replace `${NAME}`."""
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
    """Yield the placeholders in a part of a text."""
    for match in _PLACE.finditer(part.text):
        if match["awk"]:
            yield from _places(TextPart(match["awk"]))
            yield from _ALL.finditer(match["program"])
        elif not match["escaped"]:
            yield match


def rules_of(tools: Sequence[str]) -> tuple[str, ...]:
    """Return the permission rules equivalent to the listed tools: exact commands or command prefixes. Tools that allow
    all commands, or contain inner wildcards, have no equivalent."""
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
