"""Expands variables for folders in extensions, quoting them where needed: most authors forget that a path may contain
spaces. Pure."""

import re
import shlex
from collections.abc import Callable, Mapping

_BY_SHELL = re.compile(r"""<<|"(?:\\.|[^"\\])*(?:\$\(|`)""", re.DOTALL)
"""Nested quoting, which only a shell can parse."""
_PIECE = re.compile(
    r"""(?P<kept>'[^']*'|\\.|(?<!\S)\#[^\n]*)|(?P<double>"(?:\\.|[^"\\])*")"""
    r"""|\$(?:(?P<bare>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)(?::?-[^{}$"'`\s]*)?\})""",
    re.DOTALL,
)
_SPECIAL = re.compile(r'[$`"\\]')
_FILE = re.compile(r"(?<![\w@])@\$\{(\w+)\}(\S*?)(?=[.,;:!?)]*(?:\s|\Z))")


def in_one_word(line: str, names: Mapping[str, str]) -> str:
    """Quote these variables in a shell command line where needed, so that each expands to one word."""

    def quoted(piece: re.Match[str]) -> str:
        value = names.get(piece["bare"] or piece["braced"] or "", "")
        return piece[0] if shlex.quote(value) == value or not value else f'"{piece[0]}"'

    return _with_pieces(line, quoted)


def filled_line(line: str, values: Mapping[str, str]) -> str:
    """Replace `${NAME}` in a shell command line with values, each quoted as one word."""

    def value(piece: re.Match[str]) -> str:
        if piece["double"]:
            return expand_folder_names(
                piece[0], {name: _SPECIAL.sub(r"\\\g<0>", each) for name, each in values.items()}
            )
        name = piece["braced"] or ""
        return shlex.quote(values[name]) if piece[0] == f"${{{name}}}" and name in values else piece[0]

    return expand_folder_names(_with_pieces(line, value), values)


def filled_words(text: str, values: Mapping[str, str]) -> str:
    """Replace `${NAME}` in a text with values. Files mentioned with `@` are quoted where needed."""

    def file(match: re.Match[str]) -> str:
        value = values.get(match[1], "")
        return f'@"{value}{match[2]}"' if any(sign.isspace() for sign in value) else match[0]

    return expand_folder_names(_FILE.sub(file, text), values)


def expand_folder_names(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", value)
    return text


def _with_pieces(line: str, becomes: Callable[[re.Match[str]], str]) -> str:
    return line if _BY_SHELL.search(line) else _PIECE.sub(becomes, line)
