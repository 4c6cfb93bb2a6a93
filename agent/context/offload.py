"""What is shown of an output that there is no room for. Pure: an output in, an output out."""

from collections.abc import Callable
from dataclasses import replace

from agent.messages import ToolOutput

HEAD = 0.6
"""Of what is shown of a text, what is its beginning; the rest is its end."""


def preview(output: ToolOutput, room: int, size: int, count: Callable[[ToolOutput], int]) -> ToolOutput:
    """The output with the middle of its text left out, so that it takes no more than there is room for, and a note of
    where all of it is. Of its pictures none are shown. `size` is what it takes as a whole. Where there is no room at
    all, only the note is left."""
    keep = len(output.text) * max(room, 0) // max(size, 1)
    shown = _cut(output, keep)
    while keep and count(shown) > room:
        keep = keep * 3 // 4 if keep > 40 else 0
        shown = _cut(output, keep)
    return shown


def _cut(output: ToolOutput, keep: int) -> ToolOutput:
    head = int(keep * HEAD)
    tail = len(output.text) - (keep - head)
    pictures = f"; its pictures ({len(output.images)}) are not shown, look at one at a time" if output.images else ""
    where = f"; all of it is in {output.whole}" if output.whole else "; ask for less at a time to see it"
    note = f"[… {tail - head:,} characters left out: the context window is nearly full{where}{pictures} …]"
    parts = (output.text[:head], note, output.text[tail:])
    return replace(output, text="\n".join(part for part in parts if part), images=())
