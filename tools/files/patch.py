"""Parses the patch format of `apply_patch`. Pure.

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
"""The stars at the end of a marker that some models add."""
_OLD_NAME, _NEW_NAME = re.compile(r"--- (\S.*?)(?:\t.*)?$"), re.compile(r"\+\+\+ (\S.*?)(?:\t.*)?$")
_BETWEEN_FILES = re.compile(
    r"diff |index [0-9a-f]+\.\.|(?:new|deleted|old) (?:file )?mode \d|similarity index |Index: |={20}"
)
_NO_FILE = "/dev/null"
_NO_LINE_END = "\\ No newline"

LinePrefix: TypeAlias = Literal[" ", "-", "+"]


class PatchError(Exception):
    """A patch cannot be parsed or does not fit; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class PatchHunk:
    preceding_lines: tuple[str, ...]
    """Lines that must be found, in order, before the lines of the hunk."""
    lines: tuple[tuple[LinePrefix, str], ...]
    is_at_end: bool = False

    @property
    def old(self) -> list[str]:
        return [line for sign, line in self.lines if sign != "+"]

    @property
    def new(self) -> list[str]:
        return [line for sign, line in self.lines if sign != "-"]

    @property
    def without_trailing_blanks(self) -> "PatchHunk":
        """The hunk, without unchanged empty lines at its end."""
        count = len(self.lines)
        while count and self.lines[count - 1] == (" ", ""):
            count -= 1
        return replace(self, lines=self.lines[:count])

    @property
    def unchanged_lines(self) -> list[tuple[int, int]]:
        """Pairs of indices of the unchanged lines in `old` and `new`."""
        found, old, new = list[tuple[int, int]](), 0, 0
        for sign, _ in self.lines:
            if sign == " ":
                found.append((old, new))
            old, new = old + (sign != "+"), new + (sign != "-")
        return found


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
    """Return what the patch does to each file. Raises `PatchError`."""
    lines = patch.replace("\r\n", "\n").replace("\r", "" if "\n" in patch else "\n").split("\n")
    if not any(_HEADER.match(line) or line.strip() in (_BEGIN, _END) for line in lines):
        found = tuple(_parse_unified_diff(lines))
        if found:
            return found
    found = tuple(_sections(_lines_between_markers(lines)))
    if not found:
        raise PatchError("the patch is empty: name at least one file")
    return found


def _lines_between_markers(lines: list[str]) -> list[str]:
    """Return the lines between the markers, without their common indentation. Text around the markers, such as a fence
    or a here-document, is ignored."""
    marks = [_CLOSING_STARS.sub("", line.strip()) for line in lines]
    first = next((at for at, line in enumerate(lines) if _HEADER.match(line)), len(lines))
    if _BEGIN not in marks and (_END not in marks or first == len(lines)):
        raise PatchError(_missing_begin_reason(marks))
    begin = marks.index(_BEGIN) if _BEGIN in marks else first - 1
    ends = [at for at, line in enumerate(lines) if line.startswith(_END) and marks[at] == _END and at > begin]
    ends = ends or [at for at, mark in enumerate(marks) if mark == _END and at > begin]
    if not ends:
        raise PatchError(f"the last line must be `{_END}`: the patch may have been cut off")
    inner = lines[begin + 1 : ends[-1]]
    margin = lines[max(begin, 0)][: -len(lines[max(begin, 0)].lstrip())]
    is_indented = margin and all(line.startswith(margin) or not line.strip() for line in inner)
    return [line.removeprefix(margin) for line in inner] if is_indented else inner


def _missing_begin_reason(marks: list[str]) -> str:
    """Return why lines without a begin marker are not a patch."""
    if len(marks) == 1 and marks[0].startswith((_BEGIN, f"`{_BEGIN}")) and "\\n" in marks[0]:
        return "its line ends are written as `\\n`: send the patch with line ends"
    if any(mark.startswith("<<<<<<<") for mark in marks) and any(mark.startswith(">>>>>>>") for mark in marks):
        return "SEARCH/REPLACE blocks are not a patch: call `edit` with the one as `old` and the other as `new`"
    return f"the first line must be `{_BEGIN}`"


def _sections(lines: list[str]) -> Iterator[FilePatch]:
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].rstrip() in (_BEGIN, _END):
            at += 1
            continue
        header = _HEADER.match(lines[at])
        if header is None or header[2] == "Move to":
            expected = "`*** Update File: path`, `*** Add File:` or `*** Delete File:`"
            raise PatchError(f"expected {expected}, got {lines[at]!r}")
        end = _end_of_section(lines, at + 1, {"", header[1]} if header[2] == "Update File" else None)
        yield _section(header[2], header[3], lines[at + 1 : end])
        at = end


def _end_of_section(lines: list[str], at: int, margins: set[str] | None) -> int:
    """Return the index of the next header. Within an update, a header that is indented differently from the update's
    own counts as a line of the file."""
    while at < len(lines):
        header = _HEADER.match(lines[at])
        is_here = header is not None and (margins is None or header[1] in margins)
        if (is_here and header is not None and header[2] != "Move to") or lines[at].rstrip() in (_BEGIN, _END):
            break
        at += 1
    return at


def _parse_unified_diff(lines: list[str]) -> Iterator[FilePatch]:
    """Yield the files of a unified diff. Raises `PatchError`."""
    starts = [at for at in range(len(lines)) if _file_names_at(lines, at) is not None]
    if any(line.startswith(("GIT binary patch", "rename from ", "copy from ")) for line in lines):
        raise PatchError("a diff with renames or binary data is not supported: use `*** Move to:`, or bash")
    for at, end in zip(starts, [*starts[1:], len(lines)], strict=False):
        old, new = _file_names_at(lines, at) or ("", "")
        body = lines[at + 2 : end]
        cut = next(
            (i for i, line in enumerate(body) if _BETWEEN_FILES.match(line) or line.startswith("```")), len(body)
        )
        body = body[:cut]
        while body and (not body[-1].strip() or body[-1].strip() == "EOF"):
            body = body[:-1]
        path = old if new == _NO_FILE else new
        if old == _NO_FILE:
            yield _section("Add File", path, body)
        elif new == _NO_FILE:
            yield DeleteFile(path)
        else:
            yield UpdateFile(old, tuple(_hunks(old, body)), new if new != old else None)


def _file_names_at(lines: list[str], at: int) -> tuple[str, str] | None:
    """Return the two names at the beginning of a file in a unified diff, or None."""
    if at + 1 >= len(lines):
        return None
    old, new = _OLD_NAME.match(lines[at]), _NEW_NAME.match(lines[at + 1])
    if old is None or new is None or not any(line.startswith("@@") for line in lines[at + 2 : at + 3]):
        return None
    names = old[1].rstrip(), new[1].rstrip()
    has_prefixes = all(
        name.startswith(prefix) or name == _NO_FILE for name, prefix in zip(names, ("a/", "b/"), strict=True)
    )
    old_name, new_name = (name[2:] if has_prefixes and name != _NO_FILE else name for name in names)
    return old_name, new_name


def _section(verb: str, path: str, body: list[str]) -> FilePatch:
    if verb == "Add File":
        return AddFile(path, _added_content(path, body))
    if verb == "Delete File":
        if any(line.strip() for line in body):
            raise PatchError(f"`{path}` is to be deleted, but lines follow: leave them out")
        return DeleteFile(path)
    move = _HEADER.match(body[0]) if body else None
    body = body[1:] if move else body
    named = _file_names_at(body, 0)  # a diff inside a patch repeats the path
    hunks = tuple(_hunks(path, body[2:] if named else body))
    if not hunks and move is None:
        raise PatchError(f"no hunk follows `*** Update File: {path}`: write lines that begin with a blank, - or +")
    return UpdateFile(path, hunks, move[3] if move else None)


def _added_content(path: str, body: list[str]) -> str:
    while body and not body[-1].strip():
        body = body[:-1]
    body = [line or "+" for line in body if not line.startswith((_NO_LINE_END, "@@ -0,0 "))]
    wrong = next((line for line in body if not line.startswith("+")), None)
    if wrong is not None:
        raise PatchError(f"every line of the new file `{path}` must begin with +, this one does not: {wrong!r}")
    return "".join(line[1:] + "\n" for line in body)


def _hunks(path: str, body: list[str]) -> Iterator[PatchHunk]:
    above: list[str] = []
    lines: list[tuple[LinePrefix, str]] = []
    empty = 0
    for line in body:
        if line.startswith("@@"):
            if lines:
                yield _hunk(above, lines, empty)
                above, lines = [], []
            above += _context_of_header(line)
        elif line.startswith(_NO_LINE_END):
            continue
        elif line.rstrip() == _END_OF_FILE:
            yield _hunk(above, lines, empty, at_end=True)
            above, lines = [], []
        else:
            lines.append(_parse_hunk_line(path, line))
            empty = 0 if line else empty + 1
    if any(sign != " " or text for sign, text in lines):
        yield _hunk(above, lines, empty)


def _hunk(above: list[str], lines: list[tuple[LinePrefix, str]], empty: int, *, at_end: bool = False) -> PatchHunk:
    """Return the hunk without empty lines that only separate it from the next marker. `empty`: the number of lines
    without a prefix at the end of the hunk."""
    return PatchHunk(tuple(above), tuple(lines[: max(len(lines) - empty, 0)]), at_end)


def _context_of_header(line: str) -> list[str]:
    if _DIFF_HUNK_HEADER.match(line):
        return []
    context = line[2:].removeprefix(" ").removesuffix(" @@")
    return [context] if context.strip() else []


def _parse_hunk_line(path: str, line: str) -> tuple[LinePrefix, str]:
    if not line:
        return " ", ""
    match line[0]:
        case " " | "-" | "+" as sign:
            return sign, line[1:]
        case _:
            raise PatchError(f"in the patch of `{path}` this line does not begin with a blank, - or +: {line!r}")
