"""What a call changes, as a unified diff and as coloured lines. Diffs know text and no file on disk."""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rich.text import Text

from tui.palette import Palette
from tui.sanitise import visible
from tui.transcript import Call

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)$")


@dataclass(frozen=True, slots=True)
class DiffLine:
    kind: Literal["file", "hunk", "added", "removed", "kept", "note"]
    text: str
    number: int = 0
    """The line's number in the file it is in; 0 when it is not known."""


def diff_of(call: Call) -> str:
    """The diff that the user was asked about, or else one made from the call's arguments; empty if it edits nothing."""
    if call.preview:
        return call.preview
    match call.name, call.arguments:
        case "edit", {"old": str(old), "new": str(new)}:
            return _compare(old, new)
        case "write", {"content": str(content)}:
            return _compare("", content)
        case "apply_patch", {"patch": str(patch)}:
            return patch
        case _:
            return ""


def diff_lines(diff: str) -> Iterator[DiffLine]:
    """The lines of a unified diff. Inside a hunk only the first character counts, so that no line can pose as a header.

    Without a file header the numbers of a hunk are those of a fragment, and are left out.
    """
    old = new = old_left = new_left = 0
    before, numbered, is_patch = "", False, diff.startswith("*** Begin Patch")
    for line in diff.rstrip("\n").split("\n"):
        hunk = _HUNK.match(line)
        if old_left > 0 or new_left > 0 or (is_patch and not line.startswith(("*** ", "@@"))):
            kind: Literal["added", "removed", "kept"] = _kind(line)
            yield DiffLine(kind, line, (old if kind == "removed" else new) if numbered else 0)
            old, old_left = old + (kind != "added"), old_left - (kind != "added")
            new, new_left = new + (kind != "removed"), new_left - (kind != "removed")
        elif hunk is not None:
            old, new = int(hunk[1]), int(hunk[3])
            old_left, new_left = int(hunk[2] or 1), int(hunk[4] or 1)
            yield DiffLine("hunk", hunk[5].strip())
        elif line.startswith("--- "):
            before, numbered = line, True
        elif line.startswith("+++ "):
            yield DiffLine("file", _file_of(before, line))
        else:
            yield DiffLine("note", line)


def counted(diff: str) -> tuple[int, int]:
    """How many lines a diff adds and removes."""
    kinds = [line.kind for line in diff_lines(diff)]
    return kinds.count("added"), kinds.count("removed")


def diff_text(diff: str, palette: Palette, width: int = 0) -> Text:
    """The diff with line numbers and colours; changed lines are padded to `width`, so that their ground is even."""
    styles = {"added": palette.added, "removed": palette.removed}
    text = Text(end="")
    is_first_hunk = True
    for line in diff_lines(visible(diff).expandtabs(4)):
        match line.kind:
            case "file":
                text.append(f"{line.text}\n", palette.strong)
                is_first_hunk = True
            case "hunk":
                if line.text or not is_first_hunk:
                    text.append(f"    ⋯ {line.text}\n", palette.dim)
                is_first_hunk = False
            case "note":
                text.append(f"{line.text}\n", palette.dim)
            case "added" | "removed":
                text.append(f"{_number(line)} {line.text}".ljust(width) + "\n", styles[line.kind])
            case "kept":
                text.append(f"{_number(line)} ", palette.faint).append(f"{line.text}\n", palette.text)
    text.right_crop(1)
    return text


def _kind(line: str) -> Literal["added", "removed", "kept"]:
    match line[:1]:
        case "+":
            return "added"
        case "-":
            return "removed"
        case _:
            return "kept"


def _number(line: DiffLine) -> str:
    return f"{line.number:>4}" if line.number else ""


def _file_of(before: str, after: str) -> str:
    old, new = (header[4:].split("\t", 1)[0] for header in (before, after))
    if new == "/dev/null":
        return f"{old.removeprefix('a/')} (deleted)"
    return new.removeprefix("b/") + (" (new)" if old == "/dev/null" else "")


def _compare(old: str, new: str) -> str:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=2)
    return "\n".join(list(lines)[2:])
