"""The status line and its parts. All numbers and the width come from the caller."""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import PurePath
from typing import TYPE_CHECKING

from rich.cells import cell_len

from ebbtide.tools.lazy import dataclass
from ebbtide.tui.text.numbers import format_dollars, format_duration, format_tokens
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, Span, TextStyle, parse_inline_code
from ebbtide.tui.view.blocks import Call, Retry, SessionView
from ebbtide.tui.view.key_hints import key_hint_lines

if TYPE_CHECKING:  # the settings module loads only after the first paint
    from ebbtide.agent.config.options import StatusPart

_MIN_VISIBLE_DIFFERENCE_S = 5
"""The time of the activity is shown beside that of the turn only if they differ by at least this many seconds."""

_MAX_SEARCHED_BLOCKS = 20
"""Number of newest blocks in which to look for the running call."""


@dataclass(frozen=True, slots=True)
class ElapsedSeconds:
    """Elapsed time in whole seconds."""

    activity: int = 0
    """Seconds spent on the current activity."""
    turn: int = 0
    """Seconds spent on the turn, not counting time spent waiting for the user."""


class ElapsedTimer:
    """Measures how long the current activity and the current turn have taken."""

    def __init__(self) -> None:
        self._last_time = 0.0
        self._activity_seconds = self._turn_seconds = 0.0
        self._was_counting = False
        """Whether time has been counted since the last view."""
        self._last_activity: object = None

    def elapsed_at(self, view: SessionView, now: float) -> ElapsedSeconds:
        """Get the elapsed time at `now`. Must be called with every view."""
        elapsed = now - self._last_time if self._was_counting else 0.0
        activity = _activity_id(view) if view.is_busy else None
        if not view.is_busy or self._last_activity is None:
            self._activity_seconds = self._turn_seconds = 0.0
        else:
            self._turn_seconds += elapsed
            self._activity_seconds = self._activity_seconds + elapsed if activity == self._last_activity else 0.0
        self._last_time = now
        self._last_activity = activity
        self._was_counting = view.is_busy and not view.open_questions
        return ElapsedSeconds(int(self._activity_seconds), int(self._turn_seconds))


def _activity_id(view: SessionView) -> object:
    """Get a value that identifies the current activity. Progress within an activity, such as a call's text growing,
    does not change it."""
    running_call_ids = (
        block.call_id
        for block in view.turn_blocks[-_MAX_SEARCHED_BLOCKS:]
        if isinstance(block, Call) and block.status == "running"
    )
    return view.hook_status or view.activity.partition(" (")[0], next(running_call_ids, "")


CHARS_PER_TOKEN = 4
"""Approximate number of characters per token."""

_MIN_MEASURED_S = 1.0
"""How long a speed is measured before it is shown, in seconds."""


class ReplySpeed:
    """How fast replies are streamed."""

    def __init__(self) -> None:
        self._start_time = 0.0
        self._start_chars = 0
        self._last_chars = 0

    def tokens_per_second(self, streamed_chars: int, now: float) -> int:
        """Estimate the tokens per second since the reply began; 0 while unknown. `streamed_chars`: number of characters
        so far. If it is smaller than in the last call, another reply has begun."""
        if streamed_chars < self._last_chars or not self._last_chars:
            self._start_time, self._start_chars = now, streamed_chars
        self._last_chars = streamed_chars
        elapsed = now - self._start_time
        return (
            round((streamed_chars - self._start_chars) / CHARS_PER_TOKEN / elapsed) if elapsed >= _MIN_MEASURED_S else 0
        )


def sandbox_label(state: str, mode: str) -> Span:
    """Describe the sandbox state in a word or two. Empty if the full sandbox is on, except in `auto` mode. `state`: a
    `SandboxState`, or empty while unknown."""
    match state:
        case "":
            return ("", "dim")
        case "none":
            return ("no sandbox", "warn")
        case "off":
            return ("sandbox off", "warn" if mode == "auto" else "dim")
        case "landlock":
            return ("Landlock only", "warn")
        case _:
            return ("sandboxed" if mode == "auto" else "", "dim")


_ACTIVITY_FRAMES = "▁▂▃▄▃▂"
"""Frames of the animated activity mark."""

BAR_CELLS = 10
"""Number of cells in the context bar."""

_BAR_STYLES: Mapping[str, TextStyle] = {"system": "accent", "tools": "warn", "summary": "good", "history": "text"}
"""Colours of the bar's parts, in request order."""

_BAR_GROUPS: Mapping[str, str] = {
    "instructions": "system", "memories": "system", "skills": "system", "retain": "summary", "pending": "history",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StatusLineState:
    view: SessionView
    elapsed: ElapsedSeconds = ElapsedSeconds()  # a shared default is safe: the class is frozen
    hint: str = ""
    """A temporary hint, shown instead of the activity."""
    branch: str = ""
    tokens_per_second: int = 0
    """Streaming speed, in approximate tokens per second."""
    visible_parts: "tuple[StatusPart, ...]" = ()
    """The parts to show. If there is too little space, they are dropped in this order."""
    sandbox: str = ""
    """The sandbox state; empty while unknown."""
    frame: int | None = None
    """The frame of the activity mark; None if it is not animated."""


def status_line(state: StatusLineState, width: int, key_hints: str = "") -> Line:
    """Build the status line: the activity on the left, and as many parts as fit on the right. An activity that is too
    long is cut. `key_hints`: hints to show when idle."""
    left_spans = _activity_spans(state, key_hints, width)
    parts = [part for name in state.visible_parts if (part := _build_status_part(name, state))]
    if (sandbox_span := sandbox_label(state.sandbox, state.view.mode))[0]:
        parts.append((sandbox_span,))
    while parts and _line_width(left_spans) + sum(_line_width(part) + 2 for part in parts) > width:
        parts.pop(0)
    gap_width = width - _line_width(left_spans) - sum(_line_width(part) for part in parts) - 2 * max(0, len(parts) - 1)
    right_spans: Line = ()
    for part in parts:
        right_spans = (*right_spans, ("  ", "dim"), *part) if right_spans else part
    return (*left_spans, (" " * max(0, gap_width), "text"), *_merge_spans(right_spans))


def _merge_spans(line: Line) -> Line:
    """Merge neighbouring spans of the same colour."""
    return tuple(
        ("".join(text for text, _ in group), style) for style, group in groupby(line, key=lambda span: span[1])
    )


def context_bar(parts: Sequence[tuple[str, int]], available_tokens: int, used_tokens: int | None = None) -> Line:
    """Draw the context bar: used cells in the colour of their component, free cells dimmed. `used_tokens`: the current
    total, if it has changed since the parts were measured."""
    sizes = dict.fromkeys(_BAR_STYLES, 0)
    for name, size in parts:
        sizes[_BAR_GROUPS.get(name, name)] = sizes.get(_BAR_GROUPS.get(name, name), 0) + max(0, size)
    used_tokens = sum(sizes.values()) if used_tokens is None else used_tokens
    filled_cells = (
        min(BAR_CELLS, max(1, round(BAR_CELLS * used_tokens / available_tokens)))
        if used_tokens and available_tokens > 0
        else 0
    )
    cells = _distribute_cells(sizes, filled_cells)
    spans: Line = tuple(("━" * count, _BAR_STYLES.get(name, "text")) for name, count in cells.items() if count)
    return (*spans, ("─" * (BAR_CELLS - filled_cells), "dim")) if filled_cells < BAR_CELLS else spans


def _distribute_cells(sizes: Mapping[str, int], cells: int) -> dict[str, int]:
    """Divide the cells in proportion to the sizes, using the largest-remainder method."""
    total = sum(sizes.values())
    if not total:
        return dict.fromkeys(sizes, 0)
    shares = {name: cells * size / total for name, size in sizes.items()}
    counts = {name: int(share) for name, share in shares.items()}
    remaining_cells = cells - sum(counts.values())
    for name in sorted(shares, key=lambda name: counts[name] - shares[name])[:remaining_cells]:
        counts[name] += 1
    return counts


def _activity_spans(state: StatusLineState, key_hints: str, width: int) -> Line:
    view = state.view
    if state.hint:
        return parse_inline_code(sanitise_line(state.hint), "warn")
    if not view.is_busy:
        return key_hint_lines(key_hints, width)[0] if key_hints else _mode_text(state)
    if view.open_questions:
        return (("● waiting for your answer", "warn"),)
    mark = "●" if state.frame is None else _ACTIVITY_FRAMES[state.frame % len(_ACTIVITY_FRAMES)]
    if view.retry is not None:
        return (
            (f"{mark} ", "accent"),
            (retry_text(view.retry, state.elapsed.activity), "warn"),
            (" · Esc to stop", "dim"),
        )
    activity = sanitise_line(view.hook_status or view.activity or "working")
    activity_seconds, turn_seconds = state.elapsed.activity, state.elapsed.turn
    elapsed = (
        format_duration(turn_seconds)
        if turn_seconds - activity_seconds < _MIN_VISIBLE_DIFFERENCE_S
        else f"{format_duration(activity_seconds)} of {format_duration(turn_seconds)}"
    )
    return ((f"{mark} ", "accent"), (activity, "text"), (f"  {elapsed}  Esc interrupt", "dim"))


def retry_text(retry: Retry, waited_seconds: int = 0) -> str:
    """Say why a request failed and when it will be sent again. `waited_seconds`: seconds since it failed."""
    seconds_left = math.ceil(retry.delay) - waited_seconds
    when = f"retrying in {format_duration(seconds_left)}" if seconds_left > 0 else "trying again"
    return f"{sanitise_line(retry.reason).rstrip('.')} · {when}, {retry.attempt_text}"


def _mode_text(state: StatusLineState) -> Line:
    mode = state.view.mode
    return ((f"{sanitise_line(mode)} mode", "accent" if mode == "plan" else "dim"),) if mode else ()


def _build_status_part(name: "StatusPart", state: StatusLineState) -> Line:
    """Build one part of the status line; empty if it has nothing to show."""
    view = state.view
    match name:
        case "speed":
            return ((f"{state.tokens_per_second} tok/s", "dim"),) if state.tokens_per_second else ()
        case "cache":
            share = round(100 * view.cached_tokens / view.prompt_tokens) if view.prompt_tokens else 0
            return ((f"cache {share}%", "dim"),) if share else ()
        case "branch":
            return ((sanitise_line(state.branch), "dim"),) if state.branch else ()
        case "mode":
            return _mode_text(state) if view.is_busy and view.mode not in ("", "ask") else ()
        case "model":
            # A scripted model's name contains a path. Its last part is enough.
            model = f"scripted/{PurePath(view.model).name}" if view.model.startswith("scripted/") else view.model
            return ((sanitise_line(model), "dim"),) if view.model else ()
        case "turn":
            turn_cost = view.turn_cost
            turn = f"turn {format_dollars(turn_cost)}" if turn_cost and view.cost and turn_cost < view.cost else ""
            renewal_text = (
                f"cache renewed {view.keep_alive_count}×, {format_dollars(view.keep_alive_cost)}"
                if view.keep_alive_count
                else ""
            )
            return ((", ".join(filter(None, (turn, renewal_text))), "dim"),) if turn or renewal_text else ()
        case "cost":
            return ((format_dollars(view.cost), "dim"),) if view.cost else ()
        case "context":
            return _context_part(view)


def _context_part(view: SessionView) -> Line:
    used_text = f"{'~' if view.is_estimate else ''}{format_tokens(view.used_tokens)}"
    if not view.available_tokens:
        return ((f"{used_text} tokens", "dim"),) if view.used_tokens else ()
    text = (
        f"{used_text} of {format_tokens(view.available_tokens)} ({100 * view.used_tokens / view.available_tokens:.0f}%)"
    )
    return (
        (*context_bar(view.component_tokens, view.available_tokens, view.used_tokens), (f" {text}", "dim"))
        if view.component_tokens
        else ((text, "dim"),)
    )


def _line_width(line: Line) -> int:
    return sum(cell_len(text) for text, _ in line)
