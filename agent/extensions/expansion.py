"""Expands arguments in the text of a command or skill."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from ebbtide.agent.extensions.custom_commands import PlaceholderSyntax, TextPart, split_shell_commands
from ebbtide.agent.extensions.variable_expansion import fill_shell_line, fill_text
from ebbtide.tools.lazy import dataclass

_PLACEHOLDER = re.compile(
    r"(?P<awk>\b[gmn]?awk\b[^'\n]*)(?<=[ \t])(?P<program>'[^']*')"
    r"|(?P<escaped>\\)?\$(?:ARGUMENTS(?:\[(?P<index>\d+)\])?(?!\w)|(?P<number>\d)(?!\w|[.,]\d))"
)
"""Matches a placeholder for arguments, but not a price (`$1.20`) or a field in an awk program."""
_NAMED_PLACEHOLDER = re.compile(r"\$(?P<dollar>\$)|" + _PLACEHOLDER.pattern + r"|\$(?P<name>[A-Za-z_]\w*)")
_ALL_ARGUMENTS = re.compile(r"\$ARGUMENTS(?!\w|\[)")
_NAMED_ARGUMENT = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)
"""A named argument, as in Codex prompts."""
_BASH_TOOL = re.compile(r"Bash\((.+)\)")
_SHELL_SPECIALS = frozenset("*?[]{}()$`|&;<>\n\\")
_TOML_ARGUMENTS = "{{args}}"
_NO_VALUES: Mapping[str, str] = MappingProxyType({})
_TOML_FILE = re.compile(r"@\{([^{}\n]+)\}")


@dataclass(frozen=True, slots=True)
class Expansion:
    """Text with its arguments expanded, before its shell commands run."""

    parts: tuple[TextPart, ...]

    @property
    def text_outside_shell(self) -> str:
        """The text without its shell commands. File mentions are looked up only in this text."""
        return " ".join(part.text for part in self.parts if not part.is_shell)


def expand_arguments(
    text: str,
    syntax: PlaceholderSyntax,
    arguments: str,
    argument_names: Sequence[str] = (),
    values: Mapping[str, str] = _NO_VALUES,
) -> Expansion:
    r"""Expand arguments in text. `arguments`: the text after the command's name; it is appended if there is no
    placeholder. The first word is `$1`, unless the text contains `$0`; then the first word is `$0`. `$ARGUMENTS[0]` is
    always the first word. The text refers to `argument_names` with a leading `$`. In a Codex prompt, `NAME=word` sets
    `$NAME` and `$$` is a literal `$`; in other syntaxes `\$1` is a literal `$1`. `values` replace `${NAME}`."""
    parts = tuple(_fill_variables(part, values) for part in split_shell_commands(text, syntax))
    first_index = (
        0 if any(match[0] == "$0" for part in parts if not part.is_shell for match in _placeholders(part)) else 1
    )
    has_placeholder = any(
        _TOML_ARGUMENTS in part.text if syntax == "toml" else any(_placeholders(part)) for part in parts
    )
    expanded = tuple(
        TextPart(_substitute(part, syntax, arguments, first_index, argument_names), part.is_shell) for part in parts
    )
    if arguments and not has_placeholder and expanded == parts:
        expanded = (*expanded, TextPart(f"\n\nARGUMENTS: {arguments}"))
    return Expansion(expanded)


def _fill_variables(part: TextPart, values: Mapping[str, str]) -> TextPart:
    return TextPart((fill_shell_line if part.is_shell else fill_text)(part.text, values), part.is_shell)


def _substitute(
    part: TextPart, syntax: PlaceholderSyntax, arguments: str, first_index: int, argument_names: Sequence[str]
) -> str:
    if syntax == "toml":
        text = part.text.replace(_TOML_ARGUMENTS, shlex.quote(arguments) if part.is_shell else arguments)
        return text if part.is_shell else _TOML_FILE.sub(lambda match: f"@{_quote_path(match[1].strip())}", text)
    words = split_words(arguments)
    named_arguments = {name: _word_at(words, index) for index, name in enumerate(argument_names)}
    if syntax == "codex":
        named_words = {word: match for word in words if (match := _NAMED_ARGUMENT.fullmatch(word))}
        named_arguments = {match[1]: match[2] for match in named_words.values()}
        words = [word for word in words if word not in named_words]

    def replace_placeholder(match: re.Match[str]) -> str:
        if match["awk"]:
            return match.re.sub(replace_placeholder, match["awk"]) + _ALL_ARGUMENTS.sub(
                lambda _: arguments, match["program"]
            )
        if match["escaped"]:
            return match[0] if part.is_shell else match[0].removeprefix("\\")
        if match.re is _NAMED_PLACEHOLDER and match["dollar"]:
            return "$" if syntax == "codex" else match[0]
        if match.re is _NAMED_PLACEHOLDER and match["name"]:
            return named_arguments.get(match["name"], match[0])
        if match["index"] is not None:
            return _word_at(words, int(match["index"]))
        if match["number"] is None:
            return arguments
        index = int(match["number"]) - first_index
        return _word_at(words, index) if index >= 0 else match[0]

    return (_NAMED_PLACEHOLDER if syntax == "codex" or argument_names else _PLACEHOLDER).sub(
        replace_placeholder, part.text
    )


def _placeholders(part: TextPart) -> Iterator[re.Match[str]]:
    """Yield the placeholders for arguments in a part."""
    for match in _PLACEHOLDER.finditer(part.text):
        if match["awk"]:
            yield from _placeholders(TextPart(match["awk"]))
            yield from _ALL_ARGUMENTS.finditer(match["program"])
        elif not match["escaped"]:
            yield match


def rules_for_tools(tools: Sequence[str]) -> tuple[str, ...]:
    """Convert the listed tools to permission rules for exact commands or command prefixes. Tools that allow all
    commands, or contain `*` before the end, have no equivalent rule and are skipped."""
    rules = []
    for tool in tools:
        match = _BASH_TOOL.fullmatch(tool)
        pattern = "" if match is None else re.sub(r"(?::| )\*\Z", ":*", match[1])
        is_prefix = pattern.endswith(":*")
        command = " ".join(pattern.removesuffix(":*").split())
        if command and not _SHELL_SPECIALS.intersection(command):
            rules.append(f"bash({command})" if is_prefix else f"bash(={command})")
    return tuple(dict.fromkeys(rules))


def split_words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:  # `shlex` takes an apostrophe for an unclosed quotation mark
        return arguments.split()


def _word_at(words: Sequence[str], index: int) -> str:
    return words[index] if 0 <= index < len(words) else ""


def _quote_path(path: str) -> str:
    return f'"{path}"' if any(character.isspace() for character in path) else path
