"""What a call changes, as a unified diff and as coloured lines. Diffs know text and no file on disk."""

import difflib
import re

from rich.text import Text

from tui.palette import Palette
from tui.sanitise import visible
from tui.titles import path_of
from tui.transcript import Call

_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$")


def diff_of(call: Call) -> str:
    """The diff that the user was asked about, or else one made from the call's arguments; empty if it edits nothing."""
    if call.preview:
        return call.preview
    match call.name, call.arguments:
        case "edit", {"old_string": str(old), "new_string": str(new)}:
            return _compare(old, new)
        case "write", {"content": str(content)}:
            return _compare("", content)
        case "apply_patch", {"patch": str(patch)} | {"input": str(patch)}:
            return patch
        case _:
            return ""


def counted(diff: str) -> tuple[int, int]:
    """How many lines a diff adds and removes."""
    lines = [line for line in diff.split("\n") if not line.startswith(("+++", "---", "***"))]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def title_of_diff(arguments_path: str, diff: str) -> str:
    """The file and the size of its change: `a.py  +3 −1`."""
    added, removed = counted(diff)
    return f"{arguments_path}  +{added} −{removed}".strip()


def diff_text(diff: str, palette: Palette, width: int = 0) -> Text:
    """The diff with line numbers and colours; lines are padded to `width`, so that their ground is even."""
    text = Text(no_wrap=False, end="")
    old = new = 0
    numbered = False
    for line in visible(diff).expandtabs(4).rstrip("\n").split("\n"):
        hunk = _HUNK.match(line)
        if hunk is not None:
            old, new, numbered = int(hunk.group(1)), int(hunk.group(2)), True
            text.append(f"{'⋯':>5} {hunk.group(3).strip()}\n", palette.dim)
        elif line.startswith("+++ "):
            continue
        elif line.startswith("--- "):
            text.append(_file_of(line) + "\n", palette.strong)
        elif line.startswith("*** "):
            text.append(line + "\n", palette.strong)
        elif line.startswith("+"):
            text.append(f"{_number(new, numbered)} {line.ljust(max(0, width - 6))}\n", palette.added)
            new += 1
        elif line.startswith("-"):
            text.append(f"{_number(old, numbered)} {line.ljust(max(0, width - 6))}\n", palette.removed)
            old += 1
        else:
            text.append(f"{_number(new, numbered)} ", palette.faint)
            text.append(f"{line}\n", palette.text)
            old, new = old + 1, new + 1
    text.right_crop(1)
    return text


def _number(number: int, numbered: bool) -> str:
    return f"{number:>5}" if numbered else " " * 5


def _file_of(header: str) -> str:
    name = header[4:].split("\t", 1)[0]
    return name.removeprefix("a/")


def _compare(old: str, new: str) -> str:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=2)
    return "\n".join(line for line in lines if not line.startswith(("--- ", "+++ ", "@@ ")))


def changed_path(call: Call) -> str:
    return path_of(call.arguments) or ", ".join(call.changed)
