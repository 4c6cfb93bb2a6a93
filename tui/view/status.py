"""What the status line says, by parts. Pure: it is given all numbers and a width."""

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
"""A mark that rises and falls while something goes on."""

CELLS = 10
"""Of the bar that shows what fills the room for a request."""

_INKS: Mapping[str, TextStyle] = {"system": "accent", "tools": "warn", "summary": "good", "history": "text"}
"""The parts that the bar tells apart, from the beginning of a request on."""

_GROUPS: Mapping[str, str] = {
    "instructions": "system", "memories": "system", "skills": "system", "retain": "summary", "pending": "history",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StatusLineState:
    view: SessionView
    elapsed: ElapsedSeconds = ElapsedSeconds()  # a frozen value
    hint: str = ""
    """Said instead of what goes on, for a moment."""
    branch: str = ""
    pace: int = 0
    """Tokens a second that stream in, about."""
    wanted: "tuple[StatusPart, ...]" = ()
    """The parts that are shown, those first that give way first."""
    sandbox: str = ""
    """What holds commands; empty while that is not known."""
    beat: int | None = None
    """Which picture of the moving mark is due; None where it does not move."""


def status_line(shown: StatusLineState, width: int, keys: str = "") -> Line:
    """Left what goes on, right the numbers, as many as there is room for; the left is cut where even it has none.
    `keys`: those to be named where nothing goes on."""
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
    """The same words with neighbours of one ink as one."""
    return tuple(("".join(text for text, _ in same), ink) for ink, same in groupby(line, key=lambda span: span[1]))


def bar(parts: Sequence[tuple[str, int]], room: int, used: int | None = None) -> Line:
    """Cells for what fills the room, coloured by component, and lighter ones for what is free. `used`: what is known
    of the whole since the parts were measured."""
    sizes = dict.fromkeys(_INKS, 0)
    for name, size in parts:
        sizes[_GROUPS.get(name, name)] = sizes.get(_GROUPS.get(name, name), 0) + max(0, size)
    used = sum(sizes.values()) if used is None else used
    filled = min(CELLS, max(1, round(CELLS * used / room))) if used and room > 0 else 0
    cells = _share_cells(sizes, filled)
    spans: Line = tuple(("━" * count, _INKS.get(name, "text")) for name, count in cells.items() if count)
    return (*spans, ("─" * (CELLS - filled), "dim")) if filled < CELLS else spans


def _share_cells(sizes: Mapping[str, int], cells: int) -> dict[str, int]:
    """The cells by the largest remainder, so that together they are as many as there are."""
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
    """How long it is until a failed request is sent again; empty when none waits."""
    last = shown.view.turn[-1] if shown.view.turn else None
    if not isinstance(last, Retry):
        return ""
    left = math.ceil(last.delay) - shown.elapsed.part
    return f"{last.which} in {seconds(left)}" if left > 0 else last.which


def _mode(shown: StatusLineState) -> Line:
    mode = shown.view.mode
    return ((f"{sanitised_line(mode)} mode", "accent" if mode == "plan" else "dim"),) if mode else ()


def _part(name: "StatusPart", shown: StatusLineState) -> Line:
    """A part; empty when there is nothing to say of it."""
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
