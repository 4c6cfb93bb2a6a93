"""Finds syntax errors that a change has introduced in Python, JSON or TOML, with Python's own parsers."""

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ebbtide.tools.base import AppliedChange, ToolError
from ebbtide.tools.files.paths import display_path
from ebbtide.tools.files.text import decode_file
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.plain_text import truncate_line

MAX_PARSED_BYTES = 500_000
"""Largest file that is parsed, in bytes. Parsing a file of that size takes Python about 0.3 s."""
_MAX_LINE_CHARS = 80
"""Maximum number of characters shown of the invalid line."""
_FILE_NAME = "<an edited file>"
_TOML_POSITION = regex(r" \(at line (\d+), column \d+\)\Z")
_COMMENTED_JSON_STEM = regex(r"tsconfig.*|jsconfig.*|devcontainer|\.eslintrc|settings|launch|tasks|extensions")
"""Matches names, without suffix, of JSON files that usually contain comments. New files with such names are not
checked."""


def syntax_errors_note(changes: Iterable[AppliedChange], root: Path) -> str:
    """Return one line for each file that no longer parses, or is new and does not parse. Empty if there are none."""
    return "\n".join(filter(None, (_syntax_note(change, display_path(change.path, root)) for change in changes)))


def can_parse(path: Path) -> bool:
    """Whether there is a parser for this type of file."""
    return path.suffix.lower() in _PARSERS


def _syntax_note(change: AppliedChange, name: str) -> str:
    parse = _PARSERS.get(change.path.suffix.lower())
    if (
        parse is None
        or not change.new_content
        or len(change.new_content) > MAX_PARSED_BYTES
        or len(change.old_content or b"") > MAX_PARSED_BYTES
    ):
        return ""
    is_new = not change.old_content or not change.old_content.strip()
    if is_new and parse is _json_error and _COMMENTED_JSON_STEM.fullmatch(change.path.stem.lower()):
        return ""
    error = _syntax_error(parse, change.new_content)
    if not error or (change.old_content and _syntax_error(parse, change.old_content)):
        return ""
    return f"`{name}` {'does not parse' if is_new else 'no longer parses'}: {error}"


def _syntax_error(parse: "Callable[[str], tuple[int, str] | None]", content: bytes) -> str:
    """Describe where and why the content does not parse. Empty if it parses or if that is unknown."""
    try:
        text = decode_file(content).normalised_text
        error = parse(text)
    except (ToolError, UnicodeError, ValueError, RecursionError, MemoryError, OverflowError):
        return ""
    if error is None:
        return ""
    line_number, message = error
    lines = text.split("\n")
    source_line = (
        truncate_line(lines[line_number - 1].strip(), _MAX_LINE_CHARS) if 0 < line_number <= len(lines) else ""
    )
    return f"line {line_number}{f', `{source_line}`' if source_line else ''}: {message}"


def _python_error(text: str) -> tuple[int, str] | None:
    warnings.filterwarnings("ignore", module=re.escape(_FILE_NAME))  # set each time, because others reset filters
    try:
        compile(text, _FILE_NAME, "exec", flags=_ONLY_AST, dont_inherit=True)
    except SyntaxError as error:
        return error.lineno or 0, f"{error.msg} (Python {sys.version_info.major}.{sys.version_info.minor})"
    return None


def _json_error(text: str) -> tuple[int, str] | None:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.lineno, error.msg
    return None


def _toml_error(text: str) -> tuple[int, str] | None:
    import tomllib  # noqa: PLC0415  # deferred: few files are TOML

    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        position = _TOML_POSITION.search(str(error))
        return int(position[1]) if position else 0, _TOML_POSITION.sub("", str(error))
    return None


_ONLY_AST = 0x400  # `ast.PyCF_ONLY_AST`, without importing `ast`
_PARSERS: Mapping[str, Callable[[str], tuple[int, str] | None]] = {
    ".py": _python_error,
    ".pyi": _python_error,
    ".json": _json_error,
    ".toml": _toml_error,
}
