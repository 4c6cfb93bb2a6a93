"""Draws the requests of a session as SVG. Each column shows one or more requests, split into tokens read from the
cache, written to the cache, sent uncached, and output. Context rewrites are marked. No I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from ebbtide.agent.messages import Usage
from ebbtide.agent.records.usage import RequestUsage, Rewrite
from ebbtide.tools.outputs.extent import pluralize

MAX_COLUMNS = 240
MAX_COLUMN_WIDTH = 24
"""Maximum width of a column, which matters for a session with few requests."""
WIDTH, HEIGHT, LEFT_MARGIN, TOP_MARGIN, BOTTOM_MARGIN = 960, 220, 56, 14, 26
"""Size of the image and its margins, in SVG units."""

_COLUMN_PARTS = (("read", "cache read"), ("written", "cache write"), ("fresh", "fresh"), ("output", "output"))
"""Fields and labels of a column's parts, from bottom to top."""


@dataclass(slots=True)
class TimelineColumn:
    """Consecutive requests drawn as one column. Mutable: requests are added to it."""

    first_request: int
    """Number of its first request, from 1."""
    request_count: int = 0
    usage: Usage = Usage()  # noqa: RUF009  # a frozen value
    cost: float | None = 0.0
    """US dollars; None if any price is unknown."""

    def add(self, request: RequestUsage) -> None:
        self.request_count += 1
        self.usage += request.usage
        self.cost = None if self.cost is None or request.cost is None else self.cost + request.cost

    @property
    def mean_token_counts(self) -> tuple[int, int, int, int]:
        """Tokens in each part of the column; for several requests, the mean per request."""
        usage, request_count = self.usage, max(self.request_count, 1)
        return (
            usage.cache_read // request_count,
            usage.cache_write // request_count,
            usage.input // request_count,
            usage.output // request_count,
        )

    @property
    def token_count(self) -> int:
        return sum(self.mean_token_counts)


def timeline_columns(requests: Iterable[RequestUsage], request_count: int) -> list[TimelineColumn]:
    """Group requests into columns. `request_count` is the total number of requests."""
    requests_per_column = max(1, -(-request_count // MAX_COLUMNS))
    columns: list[TimelineColumn] = []
    for index, request in enumerate(requests):
        if index % requests_per_column == 0:
            columns.append(TimelineColumn(index + 1))
        columns[-1].add(request)
    return columns


def draw_timeline_svg(columns: Sequence[TimelineColumn], rewrites: Sequence[Rewrite], token_limit: int | None) -> str:
    """Draw the timeline. `token_limit` is the token limit of a request, if known."""
    if not columns:
        return ""
    axis_max = max(max(column.token_count for column in columns), 1)
    if token_limit is not None and token_limit < 4 * axis_max:
        axis_max = max(axis_max, token_limit)
    plot_height = HEIGHT - TOP_MARGIN - BOTTOM_MARGIN
    column_width = min((WIDTH - LEFT_MARGIN - 8) / len(columns), MAX_COLUMN_WIDTH)
    last_request = columns[-1].first_request + columns[-1].request_count - 1
    pieces = [
        f'<svg class="timeline" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="Tokens of {last_request} requests, {len(rewrites)} rewrites of the context">'
    ]
    for fraction in (0.0, 0.5, 1.0):
        y = TOP_MARGIN + plot_height * (1 - fraction)
        pieces.append(f'<line class="grid" x1="{LEFT_MARGIN}" y1="{y:.1f}" x2="{WIDTH - 8}" y2="{y:.1f}"/>')
        pieces.append(
            f'<text x="{LEFT_MARGIN - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{_short_count(round(axis_max * fraction))}</text>"
        )
    for index, column in enumerate(columns):
        pieces.append(_column_svg(column, LEFT_MARGIN + index * column_width, column_width, plot_height, axis_max))
    if token_limit is not None and token_limit <= axis_max:
        y = TOP_MARGIN + plot_height * (1 - token_limit / axis_max)
        pieces.append(f'<line class="limit" x1="{LEFT_MARGIN}" y1="{y:.1f}" x2="{WIDTH - 8}" y2="{y:.1f}">')
        pieces.append(f"<title>a request may take {token_limit:,} tokens</title></line>")
    requests_per_column = columns[0].request_count
    pieces += [
        _rewrite_svg(rewrite, LEFT_MARGIN + min(rewrite.requests / requests_per_column, len(columns)) * column_width)
        for rewrite in rewrites
    ]
    end = LEFT_MARGIN + len(columns) * column_width
    pieces.append(f'<text x="{LEFT_MARGIN}" y="{HEIGHT - 8}">request 1</text>')
    pieces.append(f'<text x="{max(end, 120):.1f}" y="{HEIGHT - 8}" text-anchor="end">{last_request:,}</text></svg>')
    return "".join(pieces)


def timeline_legend() -> str:
    """Return the legend of the colours."""
    keys = "".join(f'<span class="key {name}">{label}</span>' for name, label in _COLUMN_PARTS)
    return f'<p class="legend">{keys}<span class="key rewrite">context rewritten</span></p>'


def timeline_totals(columns: Sequence[TimelineColumn], token_limit: int | None) -> str:
    """Return one sentence with the totals of all requests and the limit of the last one."""
    usage = sum((column.usage for column in columns), Usage())
    request_count = sum(column.request_count for column in columns)
    input_parts = (
        f"{usage.cache_read:,} read from the cache, {usage.cache_write:,} written to it, {usage.input:,} fresh"
    )
    limit_text = f"; limit of the last one: {token_limit:,}" if token_limit is not None else ""
    return f"{pluralize(request_count, 'request')}: {input_parts}, {usage.output:,} tokens of output{limit_text}"


def _column_svg(column: TimelineColumn, x: float, column_width: float, plot_height: int, max_tokens: int) -> str:
    is_group = column.request_count > 1
    label = (
        f"requests {column.first_request:,}–{column.first_request + column.request_count - 1:,}, each"
        if is_group
        else f"request {column.first_request:,}"
    )
    token_counts = ", ".join(
        f"{token_count:,} {part_label}"
        for (_, part_label), token_count in zip(_COLUMN_PARTS, column.mean_token_counts, strict=True)
        if token_count
    )
    cost = "price unknown" if column.cost is None else f"${column.cost:.4f}"
    pieces = [f"<g><title>{label}: {token_counts or 'nothing'}; {cost}</title>"]
    y = float(TOP_MARGIN + plot_height)
    width = max(column_width * 0.86, 0.6)
    for (name, _), token_count in zip(_COLUMN_PARTS, column.mean_token_counts, strict=True):
        height = plot_height * token_count / max_tokens
        y -= height
        if height > 0:
            pieces.append(f'<rect class="{name}" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"/>')
    return "".join([*pieces, "</g>"])


def _rewrite_svg(rewrite: Rewrite, x: float) -> str:
    tooltip = f"before request {rewrite.requests + 1:,}: {rewrite.reason}"
    if rewrite.before != rewrite.after:
        tooltip += f", {rewrite.before:,} to {rewrite.after:,} tokens"
    if rewrite.strategies:
        tooltip += f" ({', '.join(rewrite.strategies)})"
    y = HEIGHT - BOTTOM_MARGIN
    return (
        f'<g class="rewrite"><title>{escape(tooltip)}</title>'
        f'<line x1="{x:.2f}" y1="{TOP_MARGIN}" x2="{x:.2f}" y2="{y}"/>'
        f'<path d="M{x:.2f} {y} l-4 7 h8 z"/></g>'
    )


def _short_count(count: int) -> str:
    if count < 1_000:
        return str(count)
    if count < 9_950:
        return f"{count / 1_000:.1f}k"
    return f"{count / 1_000:.0f}k" if count < 999_500 else f"{count / 1_000_000:.1f}M"
