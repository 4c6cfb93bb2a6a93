"""The status line, by parts. Pure: the caller supplies all numbers and the width."""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import PurePath
from typing import TYPE_CHECKING

from rich.cells import cell_len

from ebbtide.tools.lazy import dataclass
from ebbtide.tui.text.numbers import dollars, seconds, tokens
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, TextStyle, parse_inline_code
from ebbtide.tui.view.blocks import Retry, SessionView
from ebbtide.tui.view.elapsed import ElapsedSeconds
from ebbtide.tui.view.folders import sandbox_label
from ebbtide.tui.view.key_hints import key_lines

if TYPE_CHECKING:  # a type only: settings are loaded behind the first paint
    from ebbtide.agent.config.options import StatusPart

_TIDE = "▁▂▃▄▃▂"
"""Frames of the activity mark."""

CELLS = 10
"""Cells of the context bar."""

_INKS: Mapping[str, TextStyle] = {"system": "accent", "tools": "warn", "summary": "good", "history": "text"}
"""Colours of the bar's parts, in request order."""

_GROUPS: Mapping[str, str] = {
    "instructions": "system", "memories": "system", "skills": "system", "retain": "summary", "pending": "history",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StatusLineState:
    view: SessionView
    elapsed: ElapsedSeconds = ElapsedSeconds()  # a frozen value
    hint: str = ""
    """A temporary hint, shown instead of the activity."""
    branch: str = ""
    pace: int = 0
    """Streaming speed, in approximate tokens per second."""
    wanted: "tuple[StatusPart, ...]" = ()
    """The parts to show; the first are dropped first."""
    sandbox: str = ""
    """The sandbox state; empty while unknown."""
    beat: int | None = None
    """The frame of the activity mark; None if it does not move."""


def status_line(shown: StatusLineState, width: int, keys: str = "") -> Line:
    """The activity on the left and as many numbers as fit on the right; the left is cut if necessary. `keys`: hints
    shown when idle."""
    left = _left_side(shown, keys, width)
    said = [part for name in shown.wanted if (part := _part(name, shown))]
    if (held := sandbox_label(shown.sandbox, shown.view.mode))[0]:
        said.append((held,))
    while said and _cells(left) + sum(_cells(part) + 2 for part in said) > width:
        said.pop(0)
    gap = width - _cells(left) - sum(_cells(part) for part in said) - 2 * max(0, len(said) - 1)
    right: Line = ()
    for part in said:
        right = (*right, ("  ", "dim"), *part) if right else part
    return (*left, (" " * max(0, gap), "text"), *_merge_spans(right))


def _merge_spans(line: Line) -> Line:
    """The line with neighbouring spans of one colour merged."""
    return tuple(("".join(text for text, _ in same), ink) for ink, same in groupby(line, key=lambda span: span[1]))


def bar(parts: Sequence[tuple[str, int]], room: int, used: int | None = None) -> Line:
    """The bar of used cells, coloured by component, and lighter free cells. `used`: current total, if it changed
    since the parts were measured."""
    sizes = dict.fromkeys(_INKS, 0)
    for name, size in parts:
        sizes[_GROUPS.get(name, name)] = sizes.get(_GROUPS.get(name, name), 0) + max(0, size)
    used = sum(sizes.values()) if used is None else used
    filled = min(CELLS, max(1, round(CELLS * used / room))) if used and room > 0 else 0
    cells = _share_cells(sizes, filled)
    spans: Line = tuple(("━" * count, _INKS.get(name, "text")) for name, count in cells.items() if count)
    return (*spans, ("─" * (CELLS - filled), "dim")) if filled < CELLS else spans


def _share_cells(sizes: Mapping[str, int], cells: int) -> dict[str, int]:
    """Distribute the cells by largest remainder."""
    whole = sum(sizes.values())
    if not whole:
        return dict.fromkeys(sizes, 0)
    shares = {name: cells * size / whole for name, size in sizes.items()}
    counts = {name: int(share) for name, share in shares.items()}
    left = cells - sum(counts.values())
    for name in sorted(shares, key=lambda name: counts[name] - shares[name])[:left]:
        counts[name] += 1
    return counts


def _left_side(shown: StatusLineState, keys: str, width: int) -> Line:
    view = shown.view
    if shown.hint:
        return parse_inline_code(sanitised_line(shown.hint), "warn")
    if not view.busy:
        return key_lines(keys, width)[0] if keys else _mode(shown)
    if view.asked:
        return (("● waits for your answer", "warn"),)
    activity = _countdown(shown) or sanitised_line(view.hook_status or view.activity or "working")
    part, turn = shown.elapsed.part, shown.elapsed.turn
    took = seconds(part) if part == turn else f"{seconds(part)} of {seconds(turn)}"
    mark = "●" if shown.beat is None else _TIDE[shown.beat % len(_TIDE)]
    return ((f"{mark} ", "accent"), (activity, "text"), (f"  {took}  Esc interrupts", "dim"))


def _countdown(shown: StatusLineState) -> str:
    """Time until a failed request is retried; empty if none is pending."""
    last = shown.view.turn[-1] if shown.view.turn else None
    if not isinstance(last, Retry):
        return ""
    left = math.ceil(last.delay) - shown.elapsed.part
    return f"{last.which} in {seconds(left)}" if left > 0 else last.which


def _mode(shown: StatusLineState) -> Line:
    mode = shown.view.mode
    return ((f"{sanitised_line(mode)} mode", "accent" if mode == "plan" else "dim"),) if mode else ()


def _part(name: "StatusPart", shown: StatusLineState) -> Line:
    """A part of the status line; empty if it has nothing to show."""
    view = shown.view
    match name:
        case "speed":
            return ((f"{shown.pace} tok/s", "dim"),) if shown.pace else ()
        case "cache":
            share = round(100 * view.read / view.prompted) if view.prompted else 0
            return ((f"cache {share}%", "dim"),) if share else ()
        case "branch":
            return ((sanitised_line(shown.branch), "dim"),) if shown.branch else ()
        case "mode":
            return _mode(shown) if view.busy and view.mode not in ("", "ask") else ()
        case "model":
            # The name of a scripted model is a path: its end says which one.
            model = f"scripted/{PurePath(view.model).name}" if view.model.startswith("scripted/") else view.model
            return ((sanitised_line(model), "dim"),) if view.model else ()
        case "turn":
            spent = view.turn_cost
            turn = f"turn {dollars(spent)}" if spent and view.cost and spent < view.cost else ""
            kept = (
                f"cache kept {view.keep_alive_count}×, {dollars(view.keep_alive_cost)}" if view.keep_alive_count else ""
            )
            return ((", ".join(filter(None, (turn, kept))), "dim"),) if turn or kept else ()
        case "cost":
            return ((dollars(view.cost), "dim"),) if view.cost else ()
        case "context":
            return _context(view)


def _context(view: SessionView) -> Line:
    used = f"{'~' if view.is_guess else ''}{tokens(view.used)}"
    if not view.room:
        return ((f"{used} tokens", "dim"),) if view.used else ()
    text = f"{used} of {tokens(view.room)} ({100 * view.used / view.room:.0f}%)"
    return (*bar(view.parts, view.room, view.used), (f" {text}", "dim")) if view.parts else ((text, "dim"),)


def _cells(line: Line) -> int:
    return sum(cell_len(text) for text, _ in line)
