"""Parses unified diffs into files, hunks and numbered lines."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeAlias

DiffLineKind: TypeAlias = Literal["added", "removed", "kept"]
FileState: TypeAlias = Literal["changed", "new", "deleted", "renamed"]

_HUNK_HEADER = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)", re.DOTALL)
_PATCH_HEADERS = {"*** Update File: ": "changed", "*** Add File: ": "new", "*** Delete File: ": "deleted"}
_KIND_BY_SIGN: dict[str, DiffLineKind] = {"+": "added", "-": "removed"}


@dataclass(frozen=True, slots=True)
class DiffLine:
    kind: DiffLineKind
    text: str
    """The line without its line ending."""
    old_number: int = 0
    """Line number before the change; 0 if unknown or if there is none."""
    new_number: int = 0
    has_newline: bool = True
    """Whether the line ends with a line ending."""


@dataclass(frozen=True, slots=True)
class Hunk:
    heading: str
    """The section heading of the hunk, if any."""
    lines: tuple[DiffLine, ...]


@dataclass(frozen=True, slots=True)
class Remark:
    """A line in a diff that says something about the file and is not part of its content."""

    text: str


@dataclass(frozen=True, slots=True)
class FileDiff:
    name: str
    """The file's name; empty for a fragment without one."""
    state: FileState = "changed"
    previous_name: str = ""
    """The file's previous name if it was renamed; otherwise empty."""
    parts: tuple[Hunk | Remark, ...] = ()

    @property
    def lines(self) -> Iterator[DiffLine]:
        return (line for part in self.parts if isinstance(part, Hunk) for line in part.lines)


@lru_cache(maxsize=16)
def parse_diff(diff: str) -> tuple[FileDiff, ...]:
    """Parse a diff into files. In a hunk, only a line's first character counts, so no line can be mistaken for a
    header. A diff without a header is a fragment; its line numbers are dropped."""
    if not diff:
        return ()
    lines = diff.removesuffix("\n").split("\n")
    return _parse_patch(lines) if lines[0] == "*** Begin Patch" else _DiffParser().parse(lines)


@lru_cache(maxsize=256)
def count_changes(diff: str) -> tuple[int, int]:
    """Count the added and removed lines."""
    kinds = [line.kind for file in parse_diff(diff) for line in file.lines]
    return kinds.count("added"), kinds.count("removed")


class _DiffParser:
    """Parses the lines of a unified diff."""

    def __init__(self) -> None:
        self._files: list[FileDiff] = []
        self._parts: list[Hunk | Remark] = []
        self._lines: list[DiffLine] | None = None
        self._heading = ""
        self._old_header = self._renamed_from = ""
        self._is_numbered = False
        self._old_line_number = self._new_line_number = self._remaining_old_lines = self._remaining_new_lines = 0

    def parse(self, lines: list[str]) -> tuple[FileDiff, ...]:
        for line in lines:
            if self._lines is not None and line.startswith("\\") and self._lines:
                self._lines[-1] = replace(self._lines[-1], has_newline=False)
            elif self._remaining_old_lines > 0 or self._remaining_new_lines > 0:
                self._add_line(line)
            else:
                self._parse_header(line)
        self._end_file()
        return tuple(self._files)

    def _add_line(self, line: str) -> None:
        kind: DiffLineKind = _KIND_BY_SIGN.get(line[:1], "kept")
        old_number = self._old_line_number if kind != "added" and self._is_numbered else 0
        new_number = self._new_line_number if kind != "removed" and self._is_numbered else 0
        if self._lines is not None:
            self._lines.append(DiffLine(kind, line[1:], old_number, new_number))
        if kind != "added":
            self._old_line_number, self._remaining_old_lines = self._old_line_number + 1, self._remaining_old_lines - 1
        if kind != "removed":
            self._new_line_number, self._remaining_new_lines = self._new_line_number + 1, self._remaining_new_lines - 1

    def _parse_header(self, line: str) -> None:
        match = _HUNK_HEADER.fullmatch(line)
        self._end_hunk()
        if match is not None:
            self._heading, self._lines = match[5].strip(), []
            self._old_line_number, self._new_line_number = int(match[1]), int(match[3])
            self._remaining_old_lines, self._remaining_new_lines = int(match[2] or 1), int(match[4] or 1)
        elif line.startswith("rename from "):
            self._renamed_from = line.removeprefix("rename from ")
        elif line.startswith("rename to "):
            self._begin_file(FileDiff(line.removeprefix("rename to "), "renamed", self._renamed_from))
        elif line.startswith("--- "):
            self._old_header = line
        elif line.startswith("+++ "):
            self._begin_named_file(line)
        else:
            self._parts.append(Remark(line))

    def _begin_named_file(self, line: str) -> None:
        old_name, new_name = (header[4:].split("\t", 1)[0] for header in (self._old_header, line))
        self._is_numbered = True
        last_file = self._files[-1] if self._files else FileDiff("")
        if (
            last_file.state == "renamed"
            and not (last_file.parts or self._parts)
            and last_file.name == new_name.removeprefix("b/")
        ):
            return  # this header belongs to the file just begun
        if new_name == "/dev/null":
            self._begin_file(FileDiff(old_name.removeprefix("a/"), "deleted"))
        else:
            self._begin_file(FileDiff(new_name.removeprefix("b/"), "new" if old_name == "/dev/null" else "changed"))

    def _begin_file(self, file: FileDiff) -> None:
        self._end_file()
        self._files.append(file)

    def _end_file(self) -> None:
        self._end_hunk()
        if self._parts and not self._files:
            self._files.append(FileDiff(""))
        if self._files and self._parts:
            last_file = self._files[-1]
            self._files[-1] = replace(last_file, parts=(*last_file.parts, *self._parts))
        self._parts = []

    def _end_hunk(self) -> None:
        if self._lines is not None:
            self._parts.append(Hunk(self._heading, tuple(self._lines)))
        self._lines = None


def _parse_patch(lines: list[str]) -> tuple[FileDiff, ...]:
    """Parse an `apply_patch` patch into files. Such patches have no line numbers."""
    files: list[FileDiff] = []
    hunks: list[list[DiffLine]] = []
    headings: list[str] = []

    def end_file() -> None:
        if files:
            parts = tuple(Hunk(heading, tuple(hunk_lines)) for heading, hunk_lines in zip(headings, hunks, strict=True))
            files[-1] = replace(files[-1], parts=parts)
        hunks.clear()
        headings.clear()

    for line in lines:
        header = next((header for header in _PATCH_HEADERS if line.startswith(header)), None)
        if header is not None:
            end_file()
            state: FileState = "new" if header.startswith("*** Add") else "deleted" if "Delete" in header else "changed"
            files.append(FileDiff(line.removeprefix(header), state))
        elif line.startswith("*** Move to: ") and files:
            files[-1] = FileDiff(line.removeprefix("*** Move to: "), "renamed", files[-1].name)
        elif line.startswith("*** "):
            continue
        elif line.startswith("@@"):
            headings.append(line.removeprefix("@@").strip())
            hunks.append([])
        else:
            if not hunks:
                headings.append("")
                hunks.append([])
            hunks[-1].append(DiffLine(_KIND_BY_SIGN.get(line[:1], "kept"), line[1:]))
    end_file()
    return tuple(files)
