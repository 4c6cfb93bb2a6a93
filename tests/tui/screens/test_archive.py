"""The archive browser, driven by its keys."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from rich.cells import cell_len

from ebbtide.agent.archive.listing import ArchiveItem, ContentPage
from ebbtide.agent.messages import ToolCall
from ebbtide.tui.commands.context import ArchiveRow, archive_line, archive_rows, build_archive_panel
from ebbtide.tui.screens.panel import PanelScreen
from ebbtide.tui.view.panel import matching_rows
from ebbtide.tui.widgets.listing import Listing
from ebbtide.tui.widgets.pages import page_heading
from tests.kit.app_pilot import Terminal, list_on, terminal
from tests.kit.fake_sessions import FakeSession, FakeShelf
from tests.kit.plain_lines import plain


def ran(number: int, command: str, state: str = "preview") -> ArchiveItem:
    call = ToolCall(f"c{number}", "bash", {"command": command})
    return ArchiveItem(f"r{number}", state, 1_000 * number, number, 0.0, call)  # type: ignore[arg-type]  # one of its words


ITEMS = (ran(3, "pytest -q"), ran(2, "git log", "masked"), ran(1, "echo \x1b[31mred", "removed"))
TEXTS = {"r3": "\n".join(f"line {n} of r3" for n in range(1, 101)), "r2": "\x1b[2Jwiped\u202e"}


@asynccontextmanager
async def browsing(
    items: tuple[ArchiveItem, ...] = ITEMS, texts: Mapping[str, str] = TEXTS
) -> AsyncIterator[tuple[Terminal, PanelScreen]]:
    """The archive of a session that kept these."""
    async with terminal(FakeSession(archive_listing=FakeShelf(items, texts))) as t:
        yield t, await t.opens("/archive")


async def pressed(t: Terminal, screen: PanelScreen, *keys: str) -> None:
    await t.press(*keys, until=lambda: screen.is_settled)


async def test_enter_inserts_the_reference_that_is_marked() -> None:
    async with browsing() as (t, screen):
        await pressed(t, screen, "down")
        await t.press("enter")
        assert t.prompt.text == "r2 "


async def test_esc_inserts_nothing() -> None:
    async with browsing() as (t, _):
        await t.press("escape")
        assert t.prompt.text == ""
        assert not list_on(t.app, "archive")


async def test_typing_filters_and_the_page_follows() -> None:
    async with browsing() as (t, screen):
        assert "line 1 of r3" in t.reads("content")
        await pressed(t, screen, *"git")
        await t.until(lambda: "wiped" in t.reads("content"))
        assert t.reads("content") == "\u241b[2Jwiped\ufffd"
        await pressed(t, screen, *"zzz")
        await t.until(lambda: "no match" in t.reads("said"))
        await t.pilot.press("enter")
        assert t.app.screen is screen


async def test_pages_turn_and_stop_at_both_ends() -> None:
    async with browsing() as (t, screen):
        height = screen.query_one("#content").size.height
        first = t.reads("what")
        assert first == f"r3  lines 1-{height} of 100"
        await pressed(t, screen, "pagedown")
        assert t.reads("what") == f"r3  lines {height + 1}-{2 * height} of 100"
        await pressed(t, screen, "pageup", "pageup")
        assert t.reads("what") == first
        for _ in range(100 // height + 2):
            await pressed(t, screen, "pagedown")
        assert t.reads("what") == f"r3  lines {101 - height}-100 of 100"


async def test_y_copies_from_the_list_and_letters_go_to_the_filter() -> None:
    async with browsing() as (t, screen):
        await pressed(t, screen, "tab")
        assert screen.query_one(Listing).has_focus
        await pressed(t, screen, "down", "y")
        assert t.app.clipboard == "r2"
        await pressed(t, screen, "p")
        assert not screen.query_one(Listing).has_focus
        await pressed(t, screen, "y", "ctrl+y")
        assert (t.app.clipboard, screen.query_one("#filter").value) == ("r3", "py")  # type: ignore[attr-defined]  # an Input


async def test_what_is_gone_says_so() -> None:
    async with browsing() as (t, screen):
        await pressed(t, screen, "down", "down")
        await t.until(lambda: "was removed" in t.reads("content"))
        assert t.reads("what") == "r1"


async def test_a_session_that_kept_nothing() -> None:
    async with browsing((), {}) as (t, _):
        assert t.reads("said") == "nothing stored yet"
        await t.press("enter", "down", "pagedown", "escape")
        assert t.prompt.text == ""


async def test_of_two_thousand_only_what_is_looked_at_is_painted() -> None:
    many = tuple(ran(number, f"make target-{number}") for number in range(2_000, 0, -1))
    async with browsing(many, {"r1": "the first"}) as (t, screen):
        listing, painted = screen.query_one(Listing), list[int]()
        paint = listing._paint_line
        listing._paint_line = lambda index, width: painted.append(index) or paint(index, width)  # type: ignore[func-returns-value]  # counts
        await pressed(t, screen, "down")
        height = listing.size.height
        assert set(painted) <= set(range(height))
        await pressed(t, screen, "up", *["up"] * 3)
        assert listing.marked_index == 0
        listing.move_mark(1_999)
        await t.until(lambda: "the first" in t.reads("content"))
        assert listing.scroll_offset.y == 2_000 - height


def test_rows_fit_their_width_whatever_they_say() -> None:
    wide = ran(12, "grep -r 漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字 .", "summarised")
    rows = archive_rows((wide, *ITEMS), 90.0)
    assert rows[3] == ArchiveRow("r1", "bash  echo \u241b[31mred", "1 line", "1.0 kB", "1 min", "removed")
    for width in (70, 100):
        for row in rows:
            spans = archive_line(row, width, 3)
            assert sum(cell_len(words) for words, _ in spans) == width
    assert archive_line(rows[1], 70, 3) == (
        ("r3   ", "accent"),
        (f"{'bash  pytest -q':<23}", "text"),
        ("      3 lines   3.0 kB   1 min  ", "dim"),
        ("preview   ", "dim"),
    )
    panel = build_archive_panel(FakeShelf(), rows)
    assert [row.value for row in matching_rows(panel, "BASH log")] == ["r2"]
    assert [row.value for row in matching_rows(panel, "")] == ["r12", "r3", "r2", "r1"]
    assert page_heading("r3", ContentPage((), 1, 0)) == "r3  empty"


def test_a_row_says_how_often_and_when_its_thing_was_looked_up() -> None:
    (row,) = archive_rows((replace(ran(3, "pytest -q"), access_count=2, accessed_at=3_000.0),), 10_200.0)
    assert row.recall_text == "recalled 2×, 2 h ago"
    spans = archive_line(row, 100, 4)
    assert "  recalled 2×, 2 h ago  " in plain(spans)
    assert sum(cell_len(text) for text, _ in spans) == 100
