r"""The patch format of `apply_patch`: parsed, and hunks found in a text. Pure; every line end is `\n`.

*** Begin Patch
*** Update File: path         hunks: `@@ a line above`, then lines that begin with ` `, `-` or `+`
*** Move to: new path         right after `Update File`, optional
*** Add File: path            lines that begin with `+`
*** Delete File: path
*** End Patch
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tools.files.matching import nearest, plain_signs
from tools.files.text import Replacement

_BEGIN, _END, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
_HEADER = re.compile(r"\*\*\* (Update File|Add File|Delete File|Move to): (.+?)\s*$")
_RANGES = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")
"""The hunk header of a unified diff. Its numbers are not trusted, so it says nothing."""

_READINGS: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip, lambda line: plain_signs(line).strip())

Sign: TypeAlias = Literal[" ", "-", "+"]


class PatchError(Exception):
    """Why a patch cannot be understood or does not fit, and what to do."""


@dataclass(frozen=True, slots=True)
class PatchHunk:
    above: tuple[str, ...]
    """Lines to be found, one after the other, before the hunk's own."""
    lines: tuple[tuple[Sign, str], ...]
    at_end: bool = False

    @property
    def old(self) -> list[str]:
        return [line for sign, line in self.lines if sign != "+"]


@dataclass(frozen=True, slots=True)
class Add:
    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Delete:
    path: str


@dataclass(frozen=True, slots=True)
class Update:
    path: str
    hunks: tuple[PatchHunk, ...]
    move_to: str | None = None


FilePatch: TypeAlias = Add | Delete | Update


def parse(patch: str) -> tuple[FilePatch, ...]:
    """What the patch does to each file. Raises `PatchError`."""
    lines = _inside(patch.replace("\r\n", "\n").split("\n"))
    found: list[FilePatch] = []
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        header = _HEADER.match(lines[at])
        if header is None or header[1] == "Move to":
            expected = "`*** Update File: path`, `*** Add File:` or `*** Delete File:`"
            raise PatchError(f"expected {expected}, got {lines[at]!r}")
        end = _end_of_section(lines, at + 1)
        found.append(_section(header[1], header[2], lines[at + 1 : end]))
        at = end
    if not found:
        raise PatchError("the patch is empty: name at least one file")
    return tuple(found)


def _inside(lines: list[str]) -> list[str]:
    """The lines between the markers. What stands around them, such as a fence or a here-document, is let go."""
    marks = [line.strip() for line in lines]
    if _BEGIN not in marks:
        raise PatchError(f"the first line must be `{_BEGIN}`")
    begin = marks.index(_BEGIN)
    ends = [at for at, line in enumerate(lines) if line.rstrip() == _END and at > begin]
    if not ends:
        raise PatchError(f"the last line must be `{_END}`: the patch may have been cut off")
    return lines[begin + 1 : ends[-1]]


def _end_of_section(lines: list[str], at: int) -> int:
    while at < len(lines):
        header = _HEADER.match(lines[at])
        if header is not None and header[1] != "Move to":
            break
        at += 1
    return at


def _section(verb: str, path: str, body: list[str]) -> FilePatch:
    if verb == "Add File":
        return Add(path, _added(path, body))
    if verb == "Delete File":
        if any(line.strip() for line in body):
            raise PatchError(f"`{path}` is to be deleted, yet lines follow: leave them out")
        return Delete(path)
    move = _HEADER.match(body[0]) if body else None
    hunks = tuple(_hunks(path, body[1:] if move else body))
    if not hunks and move is None:
        raise PatchError(f"no hunk follows `*** Update File: {path}`: write lines that begin with a blank, - or +")
    return Update(path, hunks, move[2] if move else None)


def _added(path: str, body: list[str]) -> str:
    while body and not body[-1].strip():
        body = body[:-1]
    wrong = next((line for line in body if not line.startswith("+")), None)
    if wrong is not None:
        raise PatchError(f"every line of the new file `{path}` must begin with +, this one does not: {wrong!r}")
    return "".join(line[1:] + "\n" for line in body)


def _hunks(path: str, body: list[str]) -> Iterator[PatchHunk]:
    above: list[str] = []
    lines: list[tuple[Sign, str]] = []
    for line in body:
        if line.startswith("@@"):
            if lines:
                yield _hunk(above, lines)
                above, lines = [], []
            above += _above(line)
        elif line.rstrip() == _END_OF_FILE:
            yield _hunk(above, lines, at_end=True)
            above, lines = [], []
        else:
            lines.append(_signed(path, line))
    if any(sign != " " or text for sign, text in lines):
        yield _hunk(above, lines)


def _hunk(above: list[str], lines: list[tuple[Sign, str]], at_end: bool = False) -> PatchHunk:
    """The hunk without the empty lines that only set it apart from the next marker."""
    while lines and lines[-1] == (" ", ""):
        lines = lines[:-1]
    return PatchHunk(tuple(above), tuple(lines), at_end)


def _above(line: str) -> list[str]:
    if _RANGES.match(line):
        return []
    context = line[2:].removeprefix(" ").removesuffix(" @@")
    return [context] if context.strip() else []


def _signed(path: str, line: str) -> tuple[Sign, str]:
    if not line:
        return " ", ""
    match line[0]:
        case " " | "-" | "+" as sign:
            return sign, line[1:]
        case _:
            raise PatchError(f"in the patch of `{path}` this line does not begin with a blank, - or +: {line!r}")


def changes_of(path: str, text: str, hunks: tuple[PatchHunk, ...]) -> tuple[Replacement, ...]:
    """The hunks as changes of the text, in its order. Raises `PatchError` for the first one that does not fit."""
    lines = text.removesuffix("\n").split("\n") if text else []
    changes, at = [], 0
    for number, hunk in enumerate(hunks, start=1):
        where = f"hunk {number} of `{path}`"
        first = _place(lines, hunk, at, where, text)
        at = first + len(hunk.old)
        changes.append(_change(lines, first, hunk, text))
    return tuple(changes)


def _place(lines: list[str], hunk: PatchHunk, at: int, where: str, text: str) -> int:
    """The index of the line where the hunk begins, not before `at`."""
    start = at
    for context in hunk.above:
        found = _find(lines, [context], start)
        if not found:
            hint = _after(at) + _closest(text, context)
            raise PatchError(f"{where}: the line `@@ {context}` is not in the file{hint}")
        start = found[0] + 1
    old = hunk.old
    if not old:
        return start if hunk.above and not hunk.at_end else len(lines)
    if hunk.at_end and len(lines) - len(old) >= start and _find(lines, old, len(lines) - len(old)):
        return len(lines) - len(old)
    found = _find(lines, old, start)
    if not found and hunk.above and _find(lines, old, start - 1) == [start - 1]:
        return start - 1  # the line after @@ is repeated as the first line of the hunk
    if not found:
        wanted = "\n".join(old)
        raise PatchError(f"{where}: its lines are not in the file{_after(at)}{_closest(text, wanted)}")
    if len(found) > 1 and not hunk.above:
        places = ", ".join(str(place + 1) for place in found[:20])
        raise PatchError(f"{where} fits at lines {places}: add context, or `@@` with a line above the right place")
    return found[0]


def _find(lines: list[str], wanted: list[str], start: int) -> list[int]:
    """Where the wanted lines stand, in the strictest reading that finds them."""
    count = len(wanted)
    for reading in _READINGS:
        goal = [reading(line) for line in wanted]
        read = [reading(line) for line in lines[start:]]
        places = (at for at in range(len(read) - count + 1) if read[at] == goal[0])
        found = [at + start for at in places if read[at : at + count] == goal]
        if found:
            return found
    return []


def _after(at: int) -> str:
    return f" after line {at}, where the hunk before it ends" if at else ""


def _closest(text: str, wanted: str) -> str:
    miss = nearest(text, wanted)
    if miss is None:
        return ": read the file again"
    shown = "\n".join(miss.lines[:40])
    return f"; closest is, from line {miss.first_line}:\n{shown}"


def _change(lines: list[str], first: int, hunk: PatchHunk, text: str) -> Replacement:
    """The change that the hunk makes at its place. Context lines stay as the file has them."""
    here = iter(lines[first : first + len(hunk.old)])
    new = []
    for sign, line in hunk.lines:
        if sign == "+":
            new.append(line)
        else:
            kept = next(here)
            if sign == " ":
                new.append(kept)
    last = first + len(hunk.old)
    start = sum(len(line) + 1 for line in lines[:first])
    put = "".join(line + "\n" for line in new)
    if last < len(lines) or text.endswith("\n") or not text:
        return Replacement(start, start + sum(len(line) + 1 for line in lines[first:last]), put)
    if first == len(lines):
        return Replacement(len(text), len(text), "\n" + put.removesuffix("\n"))
    return Replacement(start, len(text), put.removesuffix("\n"))
