"""A bar chart of a session's requests, one column of stacked cells each. Each part has its own glyph, so colours are
optional."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ebbtide.agent.context.view_items import shared_out
from ebbtide.agent.messages import Usage
from ebbtide.agent.overview import Overview, total_cost
from ebbtide.agent.records.usage import RequestUsage, Rewrite
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.numbers import dollars, tokens
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, Span, TextStyle

CostPart: TypeAlias = Literal["read", "written", "fresh", "output"]

GLYPHS: dict[CostPart, str] = {"read": "░", "written": "▒", "fresh": "█", "output": "•"}
"""From the bottom up."""
INKS: dict[CostPart, TextStyle] = {"read": "dim", "written": "accent", "fresh": "warn", "output": "good"}
WORDS: dict[CostPart, str] = {"read": "cache read", "written": "cache write", "fresh": "fresh", "output": "output"}

CAUSES = {
    "full": "f",
    "background": "f",
    "asked": "a",
    "overflow": "o",
    "rent": "r",
    "budget": "b",
    "pictures": "p",
    "cold": "c",
    "by hand": "h",
    "undone": "u",
    "model": "m",
}
"""The letter of a rewrite by its cause; `x` if the prefix changed otherwise."""


_APART = 3
"""Cells per column if spaced apart."""


@dataclass(frozen=True, slots=True)
class Column:
    """One request, or several old ones."""

    requests: tuple[RequestUsage, ...]
    first: int
    """The number of the first of them, counted from 1."""
    rewrites: tuple[Rewrite, ...] = ()
    """The rewrites right before or among them."""

    @property
    def last(self) -> int:
        return self.first + len(self.requests) - 1

    @property
    def usage(self) -> Usage:
        return sum((asked.usage for asked in self.requests), Usage())

    @property
    def parts(self) -> dict[CostPart, int]:
        """Tokens of each part; the mean of several requests."""
        usage, many = self.usage, max(len(self.requests), 1)
        sizes: dict[CostPart, int] = {
            "read": usage.cache_read,
            "written": usage.cache_write,
            "fresh": usage.input,
            "output": usage.output,
        }
        return {part: -(-size // many) for part, size in sizes.items()}

    @property
    def size(self) -> int:
        return sum(self.parts.values())


def columns_of(requests: Sequence[RequestUsage], rewrites: Sequence[Rewrite], width: int) -> tuple[Column, ...]:
    """At most `width` columns, one request each; if there are more, older requests share columns. A rewrite after
    the last request gets its own column."""
    width = max(width, 1)
    pending = any(rewrite.requests >= len(requests) for rewrite in rewrites)
    room = max(width - 1, 1) if pending and width > 1 else width
    bounds = [0]
    for size in _sizes(len(requests), room):
        bounds.append(bounds[-1] + size)
    columns = [
        Column(
            tuple(requests[start:end]),
            start + 1,
            tuple(rewrite for rewrite in rewrites if start <= rewrite.requests < end),
        )
        for start, end in itertools.pairwise(bounds)
    ]
    late = tuple(rewrite for rewrite in rewrites if rewrite.requests >= len(requests))
    if late and width > 1:
        columns.append(Column((), len(requests) + 1, late))
    return tuple(columns)


def _sizes(count: int, width: int) -> list[int]:
    """Number of requests per column, oldest first; the newest half of the columns have one each."""
    if count <= width:
        return [1] * count
    single = width // 2
    older, columns = count - single, width - single
    return [*shared_out([1] * columns, older), *([1] * single)]


def plot(columns: Sequence[Column], height: int, pointed: int | None = None, *, width: int = 0) -> list[Line]:
    """The columns as lines from the top down, with the marks of rewrites and of the selected column below. If they
    fit into `width`, columns are spaced apart."""
    top = max((column.size for column in columns), default=0)
    is_apart = _APART * len(columns) <= width
    stacks = [stack_of(column, height, top) for column in columns]
    lines = [_merge_cells([stack[level] for stack in stacks], is_apart) for level in range(height - 1, -1, -1)]
    marks: list[Span] = [(mark_of(column.rewrites), "warn" if column.rewrites else "dim") for column in columns]
    points: list[Span] = [("▲" if place == pointed else " ", "strong") for place in range(len(columns))]
    return [
        *lines,
        *(
            _merge_cells([(f"{words:<{_APART}}" if is_apart else words, ink) for words, ink in below])
            for below in (marks, points)
        ),
    ]


def stack_of(column: Column, height: int, top: int) -> list[Span]:
    """The cells of a column from the bottom up. A column is never empty, but a part below a quarter of a cell is
    dropped."""
    parts = {part: size for part, size in column.parts.items() if size}
    cells = min(max(round(height * column.size / max(top, 1)), 1 if parts else 0), height)
    largest = sorted(parts, key=lambda part: -parts[part])[:cells]
    seen = {part for part in largest if 4 * height * parts[part] >= top} | set(largest[:1])
    parts = {part: size for part, size in parts.items() if part in seen}
    free = cells - len(parts)
    shares = shared_out(list(parts.values()), free) if parts else ()
    stack: list[Span] = []
    for part, share in zip(parts, shares, strict=True):
        stack += [(GLYPHS[part], INKS[part])] * (share + 1)
    return [*stack, *[(" ", "dim")] * (height - len(stack))]  # type: ignore[list-item]  # a span of an ink


def mark_of(rewrites: Sequence[Rewrite]) -> str:
    """The letter of the last rewrite; a space without any."""
    return CAUSES.get(rewrites[-1].reason, "x") if rewrites else " "


def _merge_cells(cells: Sequence[Span], is_apart: bool = False) -> Line:
    """The cells of a line, with neighbours of one colour merged."""
    spans: list[Span] = []
    for glyph, ink in cells:
        words = f"{glyph * (_APART - 1)} " if is_apart else glyph
        if spans and spans[-1][1] == ink:
            spans[-1] = (spans[-1][0] + words, ink)
        else:
            spans.append((words, ink))
    return tuple(spans)


def legend(top: int, width: int, columns: Sequence[Column] = ()) -> Line:
    """The legend of glyphs and letters and the height of the plot, as far as it fits."""
    spans: list[Span] = [("Requests ", "strong"), (f" to {tokens(top)}  ", "dim")]
    room = width - sum(len(words) for words, _ in spans)
    for part, glyph in GLYPHS.items():
        if room >= len(WORDS[part]) + 4:
            spans += [(glyph, INKS[part]), (f" {WORDS[part]}  ", "dim")]
            room -= len(WORDS[part]) + 4
    for letter, reason in _reasons(columns).items():
        if room >= len(reason) + 4:
            spans += [(letter, "warn"), (f" {reason}  ", "dim")]
            room -= len(reason) + 4
    return tuple(spans)


def _reasons(columns: Sequence[Column]) -> dict[str, str]:
    """The meaning of each letter below the columns."""
    last = [column.rewrites[-1] for column in columns if column.rewrites]
    known = {cause: "paid for itself" if cause == "rent" else cause for cause in CAUSES}
    return {mark_of([one]): known.get(one.reason, "changed") for one in last}


def figures(column: Column) -> str:
    """The figures of the selected column, in one line."""
    if not column.requests:
        return "the next request begins differently"
    usage, cost = column.usage, total_cost(column.requests)
    hit = usage.cache_read / usage.prompt if usage.prompt else 0.0
    many = len(column.requests)
    which = f"request {column.first:,}" if many == 1 else f"requests {column.first:,}–{column.last:,}"
    purpose = column.requests[0].purpose
    what = f", {purpose} by {column.requests[0].model}" if many == 1 and purpose != "step" else ""
    each = f", {pluralize(many, 'request')}" if many > 1 else ""
    sizes = f"{tokens(usage.cache_read)} read, {tokens(usage.cache_write)} written, {tokens(usage.input)} fresh"
    return sanitised_line(
        f"{which}{what}{each}: {sizes}, {tokens(usage.output)} output, {hit:.0%} hit, {dollars(cost)}"
    )


def rewrites_in(overview: Overview) -> tuple[Rewrite, ...]:
    return tuple(epoch.rewrite for epoch in overview.epochs if epoch.rewrite is not None)
