"""A bar chart of a session's requests, with a column of stacked cells for each request. Each kind of token has its own
glyph, so that the chart can be read without colours."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ebbtide.agent.messages import Usage
from ebbtide.agent.records.usage import RequestUsage, Rewrite
from ebbtide.agent.view.items import proportional_shares
from ebbtide.agent.window.overview import Overview, total_cost
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.numbers import format_dollars, format_tokens
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, Span, TextStyle

TokenKind: TypeAlias = Literal["read", "written", "fresh", "output"]

TOKEN_KIND_GLYPHS: dict[TokenKind, str] = {"read": "░", "written": "▒", "fresh": "█", "output": "•"}
"""The glyph for each kind of token, from the bottom of a column to the top."""
TOKEN_KIND_STYLES: dict[TokenKind, TextStyle] = {"read": "dim", "written": "accent", "fresh": "warn", "output": "good"}
TOKEN_KIND_NAMES: dict[TokenKind, str] = {
    "read": "cache read",
    "written": "cache write",
    "fresh": "fresh",
    "output": "output",
}

REWRITE_REASONS = {
    "full": "window full",
    "background": "window full, between turns",
    "asked": "requested",
    "overflow": "too large for the provider",
    "rent": "saves money",
    "budget": "outputs over budget",
    "pictures": "image rejected",
    "cold": "cache expired",
}
"""Descriptions of the reasons for rewrites."""

CAUSE_LETTERS = {
    "full": "f",
    "background": "f",
    "asked": "r",
    "overflow": "t",
    "rent": "s",
    "budget": "o",
    "pictures": "i",
    "cold": "c",
    "by hand": "h",
    "undone": "u",
    "model": "m",
}
"""The letter for each cause of a rewrite. If a cause is not listed, the letter is `x`: the start of the request changed
for another reason."""


_SPACED_COLUMN_CELLS = 3
"""Number of cells per column if columns are spaced apart."""


@dataclass(frozen=True, slots=True)
class RequestColumn:
    """A column of the chart: a single request, or several older ones combined."""

    requests: tuple[RequestUsage, ...]
    first_number: int
    """Number of the column's first request, counting from 1."""
    rewrites: tuple[Rewrite, ...] = ()
    """Rewrites right before the column's first request or between its requests."""

    @property
    def last_number(self) -> int:
        return self.first_number + len(self.requests) - 1

    @property
    def usage(self) -> Usage:
        return sum((request.usage for request in self.requests), Usage())

    @property
    def tokens_by_kind(self) -> dict[TokenKind, int]:
        """Tokens of each kind. For several requests, this is the mean."""
        usage, request_count = self.usage, max(len(self.requests), 1)
        tokens_by_kind: dict[TokenKind, int] = {
            "read": usage.cache_read,
            "written": usage.cache_write,
            "fresh": usage.input,
            "output": usage.output,
        }
        return {kind: -(-token_count // request_count) for kind, token_count in tokens_by_kind.items()}

    @property
    def total_tokens(self) -> int:
        return sum(self.tokens_by_kind.values())


def request_columns(
    requests: Sequence[RequestUsage], rewrites: Sequence[Rewrite], width: int
) -> tuple[RequestColumn, ...]:
    """Build at most `width` columns with one request each. If there are more requests, older ones share columns. A
    rewrite after the last request gets a column of its own."""
    width = max(width, 1)
    has_late_rewrite = any(rewrite.requests >= len(requests) for rewrite in rewrites)
    request_width = max(width - 1, 1) if has_late_rewrite and width > 1 else width
    bounds = [0]
    for column_size in _column_sizes(len(requests), request_width):
        bounds.append(bounds[-1] + column_size)
    columns = [
        RequestColumn(
            tuple(requests[start:end]),
            start + 1,
            tuple(rewrite for rewrite in rewrites if start <= rewrite.requests < end),
        )
        for start, end in itertools.pairwise(bounds)
    ]
    late_rewrites = tuple(rewrite for rewrite in rewrites if rewrite.requests >= len(requests))
    if late_rewrites and width > 1:
        columns.append(RequestColumn((), len(requests) + 1, late_rewrites))
    return tuple(columns)


def _column_sizes(count: int, width: int) -> list[int]:
    """Decide how many requests each column has, oldest first. Columns in the newer half have one request each."""
    if count <= width:
        return [1] * count
    single_count = width // 2
    older_count, shared_count = count - single_count, width - single_count
    return [*proportional_shares([1] * shared_count, older_count), *([1] * single_count)]


def plot_lines(
    columns: Sequence[RequestColumn], height: int, selected_index: int | None = None, *, width: int = 0
) -> list[Line]:
    """Draw the plot as lines from top to bottom, then a line with the letters of rewrites, then a line that marks the
    selected column. Columns are spaced apart if they fit into `width`."""
    max_tokens = max((column.total_tokens for column in columns), default=0)
    is_spaced = _SPACED_COLUMN_CELLS * len(columns) <= width
    stacks = [column_cells(column, height, max_tokens) for column in columns]
    lines = [_merge_cells([stack[level] for stack in stacks], is_spaced) for level in range(height - 1, -1, -1)]
    rewrite_marks: list[Span] = [
        (rewrite_letter(column.rewrites), "warn" if column.rewrites else "dim") for column in columns
    ]
    selection_marks: list[Span] = [("▲" if index == selected_index else " ", "strong") for index in range(len(columns))]
    return [
        *lines,
        *(
            _merge_cells([(f"{mark:<{_SPACED_COLUMN_CELLS}}" if is_spaced else mark, style) for mark, style in marks])
            for marks in (rewrite_marks, selection_marks)
        ),
    ]


def column_cells(column: RequestColumn, height: int, max_tokens: int) -> list[Span]:
    """Build the cells of a column from bottom to top. Kinds of tokens that would fill less than a quarter of a cell are
    left out, unless they are the largest."""
    tokens_by_kind = {kind: token_count for kind, token_count in column.tokens_by_kind.items() if token_count}
    filled_cells = min(
        max(round(height * column.total_tokens / max(max_tokens, 1)), 1 if tokens_by_kind else 0), height
    )
    largest_kinds = sorted(tokens_by_kind, key=lambda kind: -tokens_by_kind[kind])[:filled_cells]
    visible_kinds = {kind for kind in largest_kinds if 4 * height * tokens_by_kind[kind] >= max_tokens} | set(
        largest_kinds[:1]
    )
    tokens_by_kind = {kind: token_count for kind, token_count in tokens_by_kind.items() if kind in visible_kinds}
    free_cells = filled_cells - len(tokens_by_kind)
    shares = proportional_shares(list(tokens_by_kind.values()), free_cells) if tokens_by_kind else ()
    stack: list[Span] = []
    for kind, share in zip(tokens_by_kind, shares, strict=True):
        stack += [(TOKEN_KIND_GLYPHS[kind], TOKEN_KIND_STYLES[kind])] * (share + 1)
    return [*stack, *[(" ", "dim")] * (height - len(stack))]  # type: ignore[list-item]  # a span with a style


def rewrite_letter(rewrites: Sequence[Rewrite]) -> str:
    """Get the letter of the last rewrite; a space if there is none."""
    return CAUSE_LETTERS.get(rewrites[-1].reason, "x") if rewrites else " "


def _merge_cells(cells: Sequence[Span], is_spaced: bool = False) -> Line:
    """Join the cells of a line, merging neighbours of the same colour."""
    spans: list[Span] = []
    for glyph, style in cells:
        cells_text = f"{glyph * (_SPACED_COLUMN_CELLS - 1)} " if is_spaced else glyph
        if spans and spans[-1][1] == style:
            spans[-1] = (spans[-1][0] + cells_text, style)
        else:
            spans.append((cells_text, style))
    return tuple(spans)


def legend_line(max_tokens: int, width: int, columns: Sequence[RequestColumn] = ()) -> Line:
    """Format the plot's maximum and the legend of its glyphs and letters, cut to the width."""
    spans: list[Span] = [("Requests ", "strong"), (f"(max {format_tokens(max_tokens)})  ", "dim")]
    remaining_width = width - sum(len(text) for text, _ in spans)
    for kind, glyph in TOKEN_KIND_GLYPHS.items():
        if remaining_width >= len(TOKEN_KIND_NAMES[kind]) + 4:
            spans += [(glyph, TOKEN_KIND_STYLES[kind]), (f" {TOKEN_KIND_NAMES[kind]}  ", "dim")]
            remaining_width -= len(TOKEN_KIND_NAMES[kind]) + 4
    for letter, reason in _letter_meanings(columns).items():
        if remaining_width >= len(reason) + 4:
            spans += [(letter, "warn"), (f" {reason}  ", "dim")]
            remaining_width -= len(reason) + 4
    return tuple(spans)


def _letter_meanings(columns: Sequence[RequestColumn]) -> dict[str, str]:
    """Get the meanings of the letters below the columns."""
    last_rewrites = [column.rewrites[-1] for column in columns if column.rewrites]
    names = {cause: REWRITE_REASONS.get(cause, cause) for cause in CAUSE_LETTERS}
    return {rewrite_letter([rewrite]): names.get(rewrite.reason, "changed") for rewrite in last_rewrites}


def column_numbers_text(column: RequestColumn) -> str:
    """Format the numbers of the selected column as one line."""
    if not column.requests:
        return "the next request has a new prefix"
    usage, cost = column.usage, total_cost(column.requests)
    hit_rate = usage.cache_read / usage.prompt if usage.prompt else 0.0
    request_count = len(column.requests)
    requests_text = (
        f"request {column.first_number:,}"
        if request_count == 1
        else f"requests {column.first_number:,}–{column.last_number:,}"
    )
    purpose = column.requests[0].purpose
    purpose_text = f", {purpose} by {column.requests[0].model}" if request_count == 1 and purpose != "step" else ""
    count_text = f", {pluralize(request_count, 'request')}" if request_count > 1 else ""
    sizes_text = (
        f"{format_tokens(usage.cache_read)} read, {format_tokens(usage.cache_write)} written, "
        f"{format_tokens(usage.input)} fresh"
    )
    return sanitise_line(
        f"{requests_text}{purpose_text}{count_text}: {sizes_text}, {format_tokens(usage.output)} output, "
        f"{hit_rate:.0%} hit, {format_dollars(cost)}"
    )


def list_rewrites(overview: Overview) -> tuple[Rewrite, ...]:
    return tuple(epoch.rewrite for epoch in overview.epochs if epoch.rewrite is not None)
