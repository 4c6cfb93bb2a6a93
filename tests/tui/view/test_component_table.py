"""The rows of the context screen, as values."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ebbtide.agent.view.items import ItemKind, ViewItem, ViewState
from ebbtide.agent.window.overview import DeferredTools, Overview, ServerShare, TokenCount, ToolShare
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.view.component_table import (
    MIN_ROW_TOKENS,
    ComponentRow,
    build_component_table,
    component_row_line,
    heading_line,
    stacked_bar,
)
from tests.kit.fake_sessions import overview
from tests.kit.plain_lines import plain


def item(
    key: str, kind: ItemKind, size: int, age: int = 0, state: ViewState = "visible", *, is_pinned: bool = False
) -> ViewItem:
    ref = key if key.startswith("r") else f"msg-0000000{key[1:]}"
    return ViewItem(key, ref, kind, f"what {key} is", size, age, state, is_pinned)


ITEMS = (
    item("m0", "you", 300, 3, is_pinned=True),
    item("m1", "reply", 40, 2),
    item("r1", "output", 9_000, 2),
    item("r2", "output", 30, 2, "masked"),
    item("m3", "reply", 60, 1),
    item("r3", "output", 2_000, 1, "preview"),
    item("r4", "output", 20, 1),
    item("m5", "reply", 50, 0),
)
SEEN = replace(
    overview("s"),
    components=(TokenCount("system", 2_400, "estimated"), TokenCount("tools", 1_790, "estimated"),
                TokenCount("summary", 700, "estimated"), TokenCount("history", 11_500, "counted")),
    items=ITEMS,
    pins=(item("r9", "pin", 500, is_pinned=True),),
    tools=(ToolShare("mcp__forge__create", 600),
           ToolShare("mcp__forge__list", 40),
           ToolShare("mcp__monitoring_eu__page", 310, is_sent=False, is_excluded=True)),
    servers=(ServerShare("mcp__forge", 2, 2, 640), ServerShare("mcp__monitoring_eu", 0, 1, 0)),
    prices_again=(0.3e-6,) * 99,
)  # fmt: skip


def names(rows: tuple[ComponentRow, ...]) -> list[str]:
    return ["  " * row.level + row.name for row in rows]


def test_every_component_and_every_large_part_has_a_row() -> None:
    assert names(build_component_table(SEEN).rows()) == [
        "system prompt",
        "tools",
        "  built-in tools",
        "  forge: 2 tools",
        "    create",
        "  monitoring_eu: 0 of 1 tool",
        "    page",
        "summary",
        "  r9  what r9 is",
        "your messages",
        "  what m0 is",
        "replies and calls",
        "outputs",
        "  r1  what r1 is",
        "  r2  what r2 is",
        "  r3  what r3 is",
        "  … 1 smaller",
    ]


def test_the_largest_come_first_and_the_rest_stays_last() -> None:
    found = names(build_component_table(SEEN).rows("tokens"))
    assert [name for name in found if not name.startswith(" ")] == [
        "outputs", "system prompt", "tools", "summary", "your messages", "replies and calls",
    ]  # fmt: skip
    assert found[1:5] == ["  r1  what r1 is", "  r3  what r3 is", "  r2  what r2 is", "  … 1 smaller"]
    assert found[found.index("  forge: 2 tools") + 1] == "    create"


def test_a_filter_keeps_what_holds_its_words_under_its_component() -> None:
    assert names(build_component_table(SEEN).rows(query="one line")) == ["outputs", "  r2  what r2 is"]
    assert names(build_component_table(SEEN).rows(query="pinned M0")) == ["your messages", "  what m0 is"]
    assert names(build_component_table(SEEN).rows(query="disabled"))[1:] == ["  monitoring_eu: 0 of 1 tool", "    page"]
    assert len(build_component_table(SEEN).rows(query="outputs")) == 5
    assert build_component_table(SEEN).rows(query="nothing of the kind") == ()


def test_a_row_says_where_its_number_comes_from_and_what_it_has_cost() -> None:
    found = {row.key: row for row in build_component_table(SEEN).rows() if row.key}
    assert found["r1"].source == "counted"
    assert found["r1"].carrying_cost == pytest.approx(9_000 * 0.3e-6)
    assert (found["r9"].age, found["r9"].carrying_cost, found["r9"].is_pinned) == (None, None, True)
    assert found["mcp__monitoring_eu"].state == "disabled"
    assert {row.carrying_cost for row in build_component_table(replace(SEEN, prices_again=None)).rows()} == {None}
    words, *rest = component_row_line(found["r1"], 100, 100_000, build_component_table(SEEN).columns)
    assert words[0].startswith("  r1  what r1 is")
    assert plain(rest).split() == [
        "9.0k", "9.0%", "2", "visible", "$0.0027", "counted",
    ]  # fmt: skip


def test_tools_that_are_held_back_are_named() -> None:
    rows = build_component_table(replace(SEEN, deferred=DeferredTools(60, 6_923))).rows()
    assert "deferred: 60 tools, 6.9k not sent" in [row.name for row in rows]


kinds: st.SearchStrategy[ItemKind] = st.sampled_from(["you", "reply", "output", "picture", "note"])
states: st.SearchStrategy[ViewState] = st.sampled_from(["visible", "preview", "summarised", "masked"])
items = st.lists(
    st.builds(
        ViewItem,
        st.from_regex(r"[rm]\d{1,3}", fullmatch=True),
        st.text(max_size=8),
        kinds,
        st.text(max_size=30),
        st.integers(0, 5_000),
        st.integers(0, 90),
        states,
        st.booleans(),
    ),
    max_size=12,
)


@st.composite
def overviews(draw: st.DrawFn) -> Overview:
    found = tuple(draw(items))
    sizes = st.integers(0, 5_000)
    spare = draw(st.sampled_from([0, 0, 77]))
    components = tuple(
        TokenCount(name, draw(sizes), "estimated") for name in draw(st.sampled_from([("system", "tools"), ("tools",)]))
    )
    history = TokenCount("history", sum(item.tokens for item in found) + spare, "counted")
    own = next(component.tokens for component in components if component.name == "tools")
    servers = (ServerShare("mcp__forge", 1, 2, own // 2),) if draw(st.booleans()) else ()
    return replace(overview("s"), components=(*components, history), items=found, servers=servers, pins=(), tools=())


@given(overviews(), st.sampled_from(["order", "tokens"]))
def test_components_are_the_request_and_parts_are_their_component(found: Overview, order: str) -> None:
    rows = build_component_table(found).rows(order)  # type: ignore[arg-type]  # one of the orders
    assert sum(row.tokens for row in rows if row.level == 0) == found.used_tokens
    head, parts = ComponentRow("", 0), 0
    for row in (*rows, ComponentRow("end", 0)):
        if row.level == 0:
            assert parts in (0, head.tokens)
            head, parts = row, 0
        elif row.level == 1:
            parts += row.tokens
    assert all(row.tokens >= MIN_ROW_TOKENS or row.is_pinned or row.state in ("one line", "summarised")
               for row in rows if row.level == 1 and row.key and not row.is_tool)  # fmt: skip


@given(overviews(), st.integers(1, 200))
def test_a_line_is_as_wide_as_its_place_and_holds_no_orders_for_the_terminal(found: Overview, width: int) -> None:
    table = build_component_table(found)
    for row in table.rows():
        text = plain(component_row_line(row, width, found.effective, table.columns))
        assert cell_len(text) == max(width, 8)
        assert sanitise_line(text) == text
    assert cell_len(plain(heading_line(width, table.columns))) == max(width, 8)


@given(overviews(), st.integers(1, 200))
def test_the_bar_is_the_window(found: Overview, width: int) -> None:
    table = build_component_table(found)
    line = plain(stacked_bar(table, width))
    used = min(round(width * found.used_tokens / found.effective), width)
    assert line == "█" * max(used, bool(found.used_tokens)) + "░" * (width - max(used, bool(found.used_tokens)))


def test_columns_of_which_nothing_is_said_are_left_out() -> None:
    bare = replace(SEEN, items=(), pins=(), tools=(), servers=(), instructions=())
    assert build_component_table(bare).columns == ("tokens", "share", "source")
    assert build_component_table(SEEN).columns == ("tokens", "share", "steps", "state", "carrying cost", "source")
    assert plain(heading_line(100, build_component_table(bare).columns)).split() == ["tokens", "share", "source"]
