"""The plot of a session's requests, as values."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.messages import Usage
from ebbtide.agent.records.usage import RequestUsage, Rewrite
from ebbtide.tui.view.timeline import (
    TOKEN_KIND_GLYPHS,
    TOKEN_KIND_STYLES,
    RequestColumn,
    column_cells,
    column_numbers_text,
    legend_line,
    plot_lines,
    request_columns,
    rewrite_letter,
)
from tests.kit.plain_lines import plain

counts = st.integers(0, 200_000)
usages = st.builds(Usage, counts, counts, counts, st.integers(0, 9_000))
asked = st.builds(RequestUsage, st.just("step"), st.just("m/a"), usages, st.none() | st.floats(0, 1), st.just(0.0))


def rewrite(requests: int, reason: str = "rent") -> Rewrite:
    return Rewrite(reason, ("mask",), 90_000, 60_000, 0.0, 0.0, requests)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[RequestUsage], list[Rewrite]]:
    requests = draw(st.lists(asked, max_size=30))
    places = sorted(draw(st.lists(st.integers(0, len(requests)), max_size=4)))
    return requests, [rewrite(place) for place in places]


def request(fresh: int, written: int, read: int, output: int) -> RequestUsage:
    return RequestUsage("step", "m/a", Usage(fresh, read, written, output), 0.01, 0.0)


@given(histories(), st.integers(1, 40))
def test_every_request_and_every_rewrite_stands_in_one_column(
    history: tuple[list[RequestUsage], list[Rewrite]], width: int
) -> None:
    requests, rewrites = history
    columns = request_columns(requests, rewrites, width)
    assert len(columns) <= width
    assert [one for column in columns for one in column.requests] == requests
    if width > 1:
        assert [one for column in columns for one in column.rewrites] == rewrites
    for column in columns:
        assert all(
            column.first_number - 1 <= one.requests <= max(column.last_number, column.first_number - 1)
            for one in column.rewrites
        )
    newest = columns[-(width // 3) :] if width >= 3 else ()
    assert all(len(column.requests) <= 1 for column in newest)


@given(histories(), st.integers(1, 40), st.integers(4, 30))
def test_a_plot_is_as_wide_and_high_as_it_should_be_and_what_is_there_is_seen(
    history: tuple[list[RequestUsage], list[Rewrite]], width: int, height: int
) -> None:
    columns = request_columns(*history, width)
    lines = plot_lines(columns, height, 0)
    assert len(lines) == height + 2
    assert {sum(len(words) for words, _ in line) for line in lines} <= {len(columns)}
    top = max((column.total_tokens for column in columns), default=0)
    for column in columns:
        stack = column_cells(column, height, top)
        assert len(stack) == height
        cells = [words for words, _ in stack if words != " "]
        assert bool(cells) == bool(column.total_tokens)
        seen = [part for part, glyph in TOKEN_KIND_GLYPHS.items() if glyph in cells]
        assert all(column.tokens_by_kind[part] for part in seen)
        assert len(cells) >= min(len([part for part in column.tokens_by_kind.values() if part]), 1)
    heights = [sum(words != " " for words, _ in column_cells(column, height, top)) for column in columns]
    for one, other in pairwise(columns):
        if one.total_tokens <= other.total_tokens:
            assert heights[columns.index(one)] <= heights[columns.index(other)]


def test_parts_are_told_apart_by_their_glyphs_and_stand_in_the_order_of_their_price() -> None:
    assert len(set(TOKEN_KIND_GLYPHS.values())) == len(TOKEN_KIND_GLYPHS) == len(set(TOKEN_KIND_STYLES.values()))
    column = RequestColumn((request(20_000, 20_000, 40_000, 20_000),), 1)
    assert plain(column_cells(column, 10, 100_000)) == "░░░░▒▒██••"


def test_old_requests_share_columns_and_rewrites_are_marked_by_their_cause() -> None:
    requests = [request(10, 0, 1_000 * number, 5) for number in range(1, 13)]
    columns = request_columns(requests, [rewrite(3), rewrite(11, "by hand"), rewrite(12, "system")], 9)
    assert [len(column.requests) for column in columns] == [2, 2, 2, 2, 1, 1, 1, 1, 0]
    assert [(place, rewrite_letter(column.rewrites)) for place, column in enumerate(columns) if column.rewrites] == [
        (1, "s"), (7, "h"), (8, "x"),
    ]  # fmt: skip
    marks, point = plot_lines(columns, 4, 7)[-2:]
    assert plain(marks) == " s     hx"
    assert plain(point) == "       ▲ "


def test_few_requests_stand_apart() -> None:
    columns = request_columns([request(10, 0, 1_000, 5)] * 2, [rewrite(1)], 9)
    *lines, marks, point = [plain(line) for line in plot_lines(columns, 2, 1, width=6)]
    assert (lines, marks, point) == (["░░ ░░ "] * 2, "   s  ", "   ▲  ")
    assert [plain(line) for line in plot_lines(columns, 2, 1, width=5)] == ["░░", "░░", " s", " ▲"]


def test_the_figures_of_a_column_are_said_in_a_line() -> None:
    one, several = RequestColumn((request(40, 2_000, 96_000, 350),), 41), RequestColumn((request(40, 0, 0, 1),) * 3, 1)
    assert column_numbers_text(one) == "request 41: 96.0k read, 2.0k written, 40 fresh, 350 output, 98% hit, $0.0100"
    assert column_numbers_text(several).startswith(
        "requests 1–3, 3 requests: 0 read, 0 written, 120 fresh, 3 output, 0% hit"
    )
    assert column_numbers_text(RequestColumn((), 9)) == "the next request has a new prefix"
    summary = RequestUsage("summary", "m/\x1bb", Usage(1), None, 0.0)
    assert column_numbers_text(RequestColumn((summary,), 2)).startswith("request 2, summary by m/")
    assert "\x1b" not in column_numbers_text(RequestColumn((summary,), 2))


def test_the_legend_says_what_there_is_room_for() -> None:
    assert plain(legend_line(112_000, 80)).startswith("Requests (max 112k)  ░ cache read  ▒ cache write")
    assert plain(legend_line(112_000, 10)) == "Requests (max 112k)  "
    columns = request_columns([request(10, 0, 1_000, 5)] * 3, [rewrite(1, "asked"), rewrite(2, "by hand")], 9)
    assert plain(legend_line(112_000, 120, columns)).endswith("r requested  h by hand  ")
