"""Expands folder variables in extensions, and quotes them where needed, because many authors forget that a path can
contain spaces."""

import re
import shlex
from collections.abc import Callable, Mapping

_NESTED_QUOTING = re.compile(r"""<<|"(?:\\.|[^"\\])*(?:\$\(|`)""", re.DOTALL)
"""Nested quoting, which only a shell can parse."""
_SHELL_PIECE = re.compile(
    r"""(?P<kept>'[^']*'|\\.|(?<!\S)\#[^\n]*)|(?P<double>"(?:\\.|[^"\\])*")"""
    r"""|\$(?:(?P<bare>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)(?::?-[^{}$"'`\s]*)?\})""",
    re.DOTALL,
)
_DOUBLE_QUOTE_SPECIALS = re.compile(r'[$`"\\]')
_FILE_MENTION = re.compile(r"(?<![\w@])@\$\{(\w+)\}(\S*?)(?=[.,;:!?)]*(?:\s|\Z))")


def quote_variables(line: str, values: Mapping[str, str]) -> str:
    """Quote variables in a shell command line where needed, so that each expands to a single word. `values`: the
    variables to quote."""

    def quote_piece(match: re.Match[str]) -> str:
        value = values.get(match["bare"] or match["braced"] or "", "")
        return match[0] if shlex.quote(value) == value or not value else f'"{match[0]}"'

    return _substitute_pieces(line, quote_piece)


def fill_shell_line(line: str, values: Mapping[str, str]) -> str:
    """Replace `${NAME}` in a shell command line with its value, quoted as one word."""

    def replace_piece(match: re.Match[str]) -> str:
        if match["double"]:
            return expand_variables(
                match[0], {variable: _DOUBLE_QUOTE_SPECIALS.sub(r"\\\g<0>", text) for variable, text in values.items()}
            )
        variable = match["braced"] or ""
        return shlex.quote(values[variable]) if match[0] == f"${{{variable}}}" and variable in values else match[0]

    return expand_variables(_substitute_pieces(line, replace_piece), values)


def fill_text(text: str, values: Mapping[str, str]) -> str:
    """Replace `${NAME}` in text with its value. Files mentioned with `@` are quoted where needed."""

    def quote_mention(match: re.Match[str]) -> str:
        value = values.get(match[1], "")
        return f'@"{value}{match[2]}"' if any(character.isspace() for character in value) else match[0]

    return expand_variables(_FILE_MENTION.sub(quote_mention, text), values)


def expand_variables(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", value)
    return text


def _substitute_pieces(line: str, replace: Callable[[re.Match[str]], str]) -> str:
    return line if _NESTED_QUOTING.search(line) else _SHELL_PIECE.sub(replace, line)
