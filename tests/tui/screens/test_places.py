"""The answer of `/why`, driven by its keys."""

from rich.cells import cell_len

from ebbtide.agent.view.provenance import Occurrence
from ebbtide.tui.commands.context import (
    OCCURRENCE_KEY_HINTS,
    VISIBLE_OCCURRENCE_KEY_HINTS,
    occurrence_line,
    status_text,
)
from ebbtide.tui.screens.panel import PanelScreen
from ebbtide.tui.view.panel import EXPANDED_KEY_HINTS
from ebbtide.tui.widgets.key_line import KeyLine
from ebbtide.tui.widgets.listing import Listing
from tests.kit.app_pilot import Terminal, list_on, terminal
from tests.kit.fake_sessions import FakeSession, FakeShelf
from tests.kit.plain_lines import plain

PLACES = (
    Occurrence("r1", "masked", "Ran: ls – exit 0"),
    Occurrence("msg-1", "summarised", "you said", "sum-2"),
    Occurrence("r9", "visible", "Viewed a.py – 2 lines"),
)
TEXTS = {
    "r1": "\n".join(f"line {n} of r1" for n in range(1, 101)),
    "msg-1": "\x1b[2Jfind the needle",
    "r9": "one\na needle",
}


def answering(**given: object) -> FakeSession:
    return FakeSession(places=PLACES, archive_listing=FakeShelf((), TEXTS), **given)  # type: ignore[arg-type]  # its own fields


async def pressed(t: Terminal, screen: PanelScreen, *keys: str) -> None:
    await t.pilot.press(*keys)
    await t.pilot.pause()
    await t.until(lambda: screen.is_settled)


def named(t: Terminal) -> str:
    return t.app.screen.query_one(KeyLine).text


async def test_the_newest_place_that_is_out_of_view_is_marked_and_one_key_brings_it_back() -> None:
    for key in ("enter", "b"):
        session = answering()
        async with terminal(session) as t:
            screen = await t.opens("/why needle")
            assert t.reads("headline") == "Why  needle found in 3 places"
            assert (screen.query_one(Listing).marked_index, t.reads("said"), named(t)) == (
                1, "summarised by sum-2", OCCURRENCE_KEY_HINTS,
            )  # fmt: skip
            assert t.reads("content") == "␛[2Jfind the needle"
            await t.press(key)
            assert session.said == ["bring msg-1"]
            await t.shows("msg-1 is back in context, at the end of the conversation (1,200 tokens)")


async def test_what_is_in_view_says_so_and_stays_where_it_is() -> None:
    session = answering()
    async with terminal(session) as t:
        screen = await t.opens("/why needle")
        await pressed(t, screen, "up")
        assert (t.reads("said"), named(t)) == ("visible to the model", VISIBLE_OCCURRENCE_KEY_HINTS)
        await pressed(t, screen, "enter")
        assert t.app.screen is screen
        assert named(t) == "`r9` is already in context"
        await t.press("escape")
        assert (session.said, t.app.screen is screen) == ([], False)


async def test_a_place_is_shown_where_it_holds_the_text_and_whole() -> None:
    async with terminal(answering()) as t:
        screen = await t.opens("/why line 50 of r1")
        await pressed(t, screen, "down")
        assert t.reads("content").splitlines()[:2] == ["line 49 of r1", "line 50 of r1"]
        part = len(t.reads("content").splitlines())
        await pressed(t, screen, "o")
        await t.until(lambda: len(t.reads("content").splitlines()) > part)
        assert (screen.query_one(Listing).display, named(t)) == (False, f"Enter put into context  {EXPANDED_KEY_HINTS}")
        await pressed(t, screen, "up")
        assert t.reads("content").splitlines()[0] == "line 48 of r1"
        await pressed(t, screen, "pagedown", "pageup", "escape")
        assert t.app.screen is screen
        await t.until(lambda: len(t.reads("content").splitlines()) == part)
        await pressed(t, screen, "up", "down")
        assert t.reads("said") == "one line: the full output is stored"


async def test_what_was_not_searched_stands_above_the_list() -> None:
    async with terminal(answering(unsearched=("the end of r3 was not searched",))) as t:
        await t.opens("/why needle")
        assert t.reads("headline").splitlines()[1] == "the end of r3 was not searched"


async def test_a_text_that_was_never_seen_opens_no_list() -> None:
    async with terminal(FakeSession()) as t:
        await t.type("/why needle", shows="the model has never seen needle in this session")
        assert not list_on(t.app, "why")


def test_lines_fit_their_width_whatever_they_say() -> None:
    wide = Occurrence("r12", "stored", "Ran: grep -r 漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字 . – exit 0")
    for width in (40, 60):
        for place in (wide, *PLACES):
            assert cell_len(plain(occurrence_line(place, width, 5))) == width
    assert occurrence_line(PLACES[1], 30, 5) == (
        ("msg-1  ", "accent"),
        ("summarised  ", "warn"),
        ("you said   ", "text"),
    )


def test_each_fate_is_a_sentence() -> None:
    assert [
        status_text(place)
        for place in (*PLACES, Occurrence("r2", "stored", ""), Occurrence("r3", "dropped", "", "sum-1"))
    ] == [
        "one line: the full output is stored",
        "summarised by sum-2",
        "visible to the model",
        "preview: only parts of it are visible",
        "removed from context: sum-1 has key facts only",
    ]
