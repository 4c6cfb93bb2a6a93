"""Variables that stand for a folder in what projects and plugins bring. Most who write one forget that there may be a
blank in the path of the folder. Pure."""

import re
import shlex
from collections.abc import Callable, Mapping

_BY_SHELL = re.compile(r"""<<|"(?:\\.|[^"\\])*(?:\$\(|`)""", re.DOTALL)
"""Here quotes stand in more than one layer, which only a shell takes apart."""
_PIECE = re.compile(
    r"""(?P<kept>'[^']*'|\\.|(?<!\S)\#[^\n]*)|(?P<double>"(?:\\.|[^"\\])*")"""
    r"""|\$(?:(?P<bare>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)(?::?-[^{}$"'`\s]*)?\})""",
    re.DOTALL,
)
_SPECIAL = re.compile(r'[$`"\\]')
_FILE = re.compile(r"(?<![\w@])@\$\{(\w+)\}(\S*?)(?=[.,;:!?)]*(?:\s|\Z))")


def in_one_word(line: str, names: Mapping[str, str]) -> str:
    """A line for a shell in which each of these variables is one word: quoted where it is not yet, and has to be."""

    def quoted(piece: re.Match[str]) -> str:
        value = names.get(piece["bare"] or piece["braced"] or "", "")
        return piece[0] if shlex.quote(value) == value or not value else f'"{piece[0]}"'

    return _with_pieces(line, quoted)


def filled_line(line: str, values: Mapping[str, str]) -> str:
    """A line for a shell with values in the place of `${NAME}`, each as one word."""

    def value(piece: re.Match[str]) -> str:
        if piece["double"]:
            return expand_folder_names(
                piece[0], {name: _SPECIAL.sub(r"\\\g<0>", each) for name, each in values.items()}
            )
        name = piece["braced"] or ""
        return shlex.quote(values[name]) if piece[0] == f"${{{name}}}" and name in values else piece[0]

    return expand_folder_names(_with_pieces(line, value), values)


def filled_words(text: str, values: Mapping[str, str]) -> str:
    """A text with values in the place of `${NAME}`. Files that it names with `@` are quoted where they have to be."""

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
