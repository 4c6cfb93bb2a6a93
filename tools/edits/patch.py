"""Parses the patch format of `apply_patch`.

    *** Begin Patch
    *** Update File: path         hunks: `@@ a line above`, then lines that begin with ` `, `-` or `+`
    *** Move to: new path         right after `Update File`, optional
    *** Add File: path            lines that begin with `+`
    *** Delete File: path
    *** End Patch

Markers and headers may be indented. Surrounding fences and here-documents are ignored, and unified diffs are also
accepted.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

_BEGIN, _END, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
_HEADER = re.compile(r"([ \t]*)\*\*\* ?(Update File|Add File|Delete File|Move to): ?(.+?)\s*$")
_DIFF_HUNK_HEADER = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")
"""The hunk header of a unified diff. Its numbers are unreliable and ignored."""
_CLOSING_STARS = re.compile(r"(?<=\w) ?\*\*\*$")
"""Matches the asterisks that some models add at the end of a marker."""
_OLD_FILE_NAME, _NEW_FILE_NAME = re.compile(r"--- (\S.*?)(?:\t.*)?$"), re.compile(r"\+\+\+ (\S.*?)(?:\t.*)?$")
_BETWEEN_FILES = re.compile(
    r"diff |index [0-9a-f]+\.\.|(?:new|deleted|old) (?:file )?mode \d|similarity index |Index: |={20}"
)
_NO_FILE = "/dev/null"
_NO_LINE_END = "\\ No newline"

LinePrefix: TypeAlias = Literal[" ", "-", "+"]


class PatchError(Exception):
    """Raised if a patch cannot be parsed or does not fit. The message says why and what to do."""


@dataclass(frozen=True, slots=True)
class PatchHunk:
    preceding_lines: tuple[str, ...]
    """Lines that must occur, in order, before the lines of the hunk."""
    lines: tuple[tuple[LinePrefix, str], ...]
    is_at_end: bool = False

    @property
    def old(self) -> list[str]:
        return [line for prefix, line in self.lines if prefix != "+"]

    @property
    def new(self) -> list[str]:
        return [line for prefix, line in self.lines if prefix != "-"]

    @property
    def without_trailing_blanks(self) -> "PatchHunk":
        """The hunk without unchanged empty lines at its end."""
        count = len(self.lines)
        while count and self.lines[count - 1] == (" ", ""):
            count -= 1
        return replace(self, lines=self.lines[:count])

    @property
    def unchanged_lines(self) -> list[tuple[int, int]]:
        """The index of each unchanged line in `old`, and its index in `new`."""
        pairs, old_index, new_index = list[tuple[int, int]](), 0, 0
        for prefix, _ in self.lines:
            if prefix == " ":
                pairs.append((old_index, new_index))
            old_index, new_index = old_index + (prefix != "+"), new_index + (prefix != "-")
        return pairs


@dataclass(frozen=True, slots=True)
class AddFile:
    path: str
    content: str


@dataclass(frozen=True, slots=True)
class DeleteFile:
    path: str


@dataclass(frozen=True, slots=True)
class UpdateFile:
    path: str
    hunks: tuple[PatchHunk, ...]
    move_to: str | None = None


FilePatch: TypeAlias = AddFile | DeleteFile | UpdateFile


def parse_patch(patch: str) -> tuple[FilePatch, ...]:
    """Parse a patch into its changes to each file. Raises `PatchError`."""
    lines = patch.replace("\r\n", "\n").replace("\r", "" if "\n" in patch else "\n").split("\n")
    if not any(_HEADER.match(line) or line.strip() in (_BEGIN, _END) for line in lines):
        file_patches = tuple(_parse_unified_diff(lines))
        if file_patches:
            return file_patches
    file_patches = tuple(_parse_sections(_lines_between_markers(lines)))
    if not file_patches:
        raise PatchError("the patch is empty: name at least one file")
    return file_patches


def _lines_between_markers(lines: list[str]) -> list[str]:
    """Return the lines between the markers, without their common indentation. Text around the markers, such as a fence
    or a here-document, is ignored."""
    stripped_lines = [_CLOSING_STARS.sub("", line.strip()) for line in lines]
    first_header = next((index for index, line in enumerate(lines) if _HEADER.match(line)), len(lines))
    if _BEGIN not in stripped_lines and (_END not in stripped_lines or first_header == len(lines)):
        raise PatchError(_missing_begin_problem(stripped_lines))
    begin_index = stripped_lines.index(_BEGIN) if _BEGIN in stripped_lines else first_header - 1
    end_indices = [
        index
        for index, line in enumerate(lines)
        if line.startswith(_END) and stripped_lines[index] == _END and index > begin_index
    ]
    end_indices = end_indices or [
        index for index, stripped_line in enumerate(stripped_lines) if stripped_line == _END and index > begin_index
    ]
    if not end_indices:
        raise PatchError(f"the last line must be `{_END}`: the patch may have been cut off")
    body = lines[begin_index + 1 : end_indices[-1]]
    margin = lines[max(begin_index, 0)][: -len(lines[max(begin_index, 0)].lstrip())]
    is_indented = margin and all(line.startswith(margin) or not line.strip() for line in body)
    return [line.removeprefix(margin) for line in body] if is_indented else body


def _missing_begin_problem(stripped_lines: list[str]) -> str:
    """Explain what is wrong with a patch that has no begin marker."""
    if len(stripped_lines) == 1 and stripped_lines[0].startswith((_BEGIN, f"`{_BEGIN}")) and "\\n" in stripped_lines[0]:
        return "its newlines are written as `\\n`: send the patch with real newlines"
    if any(line.startswith("<<<<<<<") for line in stripped_lines) and any(
        line.startswith(">>>>>>>") for line in stripped_lines
    ):
        return "SEARCH/REPLACE blocks are not a patch: call `edit` with the first as `old` and the second as `new`"
    return f"the first line must be `{_BEGIN}`"


def _parse_sections(lines: list[str]) -> Iterator[FilePatch]:
    index = 0
    while index < len(lines):
        if not lines[index].strip() or lines[index].rstrip() in (_BEGIN, _END):
            index += 1
            continue
        header = _HEADER.match(lines[index])
        if header is None or header[2] == "Move to":
            expected = "`*** Update File: path`, `*** Add File:` or `*** Delete File:`"
            raise PatchError(f"expected {expected}, got {lines[index]!r}")
        end = _end_of_section(lines, index + 1, {"", header[1]} if header[2] == "Update File" else None)
        yield _parse_section(header[2], header[3], lines[index + 1 : end])
        index = end


def _end_of_section(lines: list[str], index: int, indents: set[str] | None) -> int:
    """Return the index of the next header. Within an update, a header counts as a line of the file if its indentation
    differs from that of the update's header."""
    while index < len(lines):
        header = _HEADER.match(lines[index])
        ends_section = header is not None and (indents is None or header[1] in indents)
        if (ends_section and header is not None and header[2] != "Move to") or lines[index].rstrip() in (_BEGIN, _END):
            break
        index += 1
    return index


def _parse_unified_diff(lines: list[str]) -> Iterator[FilePatch]:
    """Parse a unified diff into its changes to each file. Raises `PatchError`."""
    starts = [index for index in range(len(lines)) if _file_names_at(lines, index) is not None]
    if any(line.startswith(("GIT binary patch", "rename from ", "copy from ")) for line in lines):
        raise PatchError("a diff with renames or binary data is not supported: use `*** Move to:`, or bash")
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=False):
        old, new = _file_names_at(lines, start) or ("", "")
        body = lines[start + 2 : end]
        body_end = next(
            (index for index, line in enumerate(body) if _BETWEEN_FILES.match(line) or line.startswith("```")),
            len(body),
        )
        body = body[:body_end]
        while body and (not body[-1].strip() or body[-1].strip() == "EOF"):
            body = body[:-1]
        path = old if new == _NO_FILE else new
        if old == _NO_FILE:
            yield _parse_section("Add File", path, body)
        elif new == _NO_FILE:
            yield DeleteFile(path)
        else:
            yield UpdateFile(old, tuple(_parse_hunks(old, body)), new if new != old else None)


def _file_names_at(lines: list[str], index: int) -> tuple[str, str] | None:
    """Return the old and new names if a file's section in a unified diff begins at this line. None otherwise."""
    if index + 1 >= len(lines):
        return None
    old_match, new_match = _OLD_FILE_NAME.match(lines[index]), _NEW_FILE_NAME.match(lines[index + 1])
    if (
        old_match is None
        or new_match is None
        or not any(line.startswith("@@") for line in lines[index + 2 : index + 3])
    ):
        return None
    names = old_match[1].rstrip(), new_match[1].rstrip()
    has_prefixes = all(
        name.startswith(prefix) or name == _NO_FILE for name, prefix in zip(names, ("a/", "b/"), strict=True)
    )
    old_name, new_name = (name[2:] if has_prefixes and name != _NO_FILE else name for name in names)
    return old_name, new_name


def _parse_section(action: str, path: str, body: list[str]) -> FilePatch:
    if action == "Add File":
        return AddFile(path, _added_content(path, body))
    if action == "Delete File":
        if any(line.strip() for line in body):
            raise PatchError(f"`{path}` is to be deleted, but lines follow: remove them")
        return DeleteFile(path)
    move_header = _HEADER.match(body[0]) if body else None
    body = body[1:] if move_header else body
    repeated_names = _file_names_at(body, 0)  # a diff inside a patch repeats the path
    hunks = tuple(_parse_hunks(path, body[2:] if repeated_names else body))
    if not hunks and move_header is None:
        raise PatchError(f"no hunk follows `*** Update File: {path}`: write lines that begin with a space, - or +")
    return UpdateFile(path, hunks, move_header[3] if move_header else None)


def _added_content(path: str, body: list[str]) -> str:
    while body and not body[-1].strip():
        body = body[:-1]
    body = [line or "+" for line in body if not line.startswith((_NO_LINE_END, "@@ -0,0 "))]
    invalid_line = next((line for line in body if not line.startswith("+")), None)
    if invalid_line is not None:
        raise PatchError(f"every line of the new file `{path}` must begin with +, this one does not: {invalid_line!r}")
    return "".join(line[1:] + "\n" for line in body)


def _parse_hunks(path: str, body: list[str]) -> Iterator[PatchHunk]:
    preceding_lines: list[str] = []
    lines: list[tuple[LinePrefix, str]] = []
    empty_count = 0
    for line in body:
        if line.startswith("@@"):
            if lines:
                yield _create_hunk(preceding_lines, lines, empty_count)
                preceding_lines, lines = [], []
            preceding_lines += _context_of_header(line)
        elif line.startswith(_NO_LINE_END):
            continue
        elif line.rstrip() == _END_OF_FILE:
            yield _create_hunk(preceding_lines, lines, empty_count, is_at_end=True)
            preceding_lines, lines = [], []
        else:
            lines.append(_parse_hunk_line(path, line))
            empty_count = 0 if line else empty_count + 1
    if any(prefix != " " or text for prefix, text in lines):
        yield _create_hunk(preceding_lines, lines, empty_count)


def _create_hunk(
    preceding_lines: list[str], lines: list[tuple[LinePrefix, str]], empty_count: int, *, is_at_end: bool = False
) -> PatchHunk:
    """Create a hunk without the last `empty_count` lines. These lines have no prefix, and only separate the hunk from
    the next marker."""
    return PatchHunk(tuple(preceding_lines), tuple(lines[: max(len(lines) - empty_count, 0)]), is_at_end)


def _context_of_header(line: str) -> list[str]:
    if _DIFF_HUNK_HEADER.match(line):
        return []
    context = line[2:].removeprefix(" ").removesuffix(" @@")
    return [context] if context.strip() else []


def _parse_hunk_line(path: str, line: str) -> tuple[LinePrefix, str]:
    if not line:
        return " ", ""
    match line[0]:
        case " " | "-" | "+" as prefix:
            return prefix, line[1:]
        case _:
            raise PatchError(f"in the patch of `{path}` this line does not begin with a space, - or +: {line!r}")
