"""The list of sessions: found, looked into, renamed, forked, deleted, also on the real store; and its lines."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from rich.cells import cell_len
from textual.widgets import Input

from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.events.session import TextDelta, TurnFinished
from ebbtide.agent.messages import Assistant, Text, ToolCall, User
from ebbtide.tui.screens.panel import PanelScreen
from ebbtide.tui.view.panel import PanelRow, row_line
from ebbtide.tui.view.sessions import session_details, session_line, sessions_headline
from ebbtide.tui.widgets.listing import Listing
from tests.kit.app_pilot import Terminal, started, terminal
from tests.kit.fake_sessions import FakeLibrary, FakeSession, FakeSessions, conversation, session_info
from tests.kit.plain_lines import plain
from tests.tui.test_real_session import working

OTHER = "/home/me/other"
INFOS = (
    session_info("aa1", "fix the parser", updated_at=900.0, messages=12, cost=0.21),
    session_info("bb2", "add a flag", updated_at=800.0, parent="aa1", cost=None),
    session_info("cc3", "elsewhere", updated_at=700.0, project=OTHER),
)
MESSAGES = {"bb2": (User((Text("please add --json"),)), Assistant((Text("Done: the tide turns."),), "scripted/demo"))}


@asynccontextmanager
async def listed(
    *sessions: FakeSession, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[Terminal, PanelScreen]]:
    """The list of sessions, seen from the first of these."""
    opener = FakeSessions(list(sessions) or [FakeSession()], INFOS, listing=FakeLibrary(INFOS, MESSAGES))
    async with started(opener, size) as t:
        await t.rests()
        yield t, await t.opens("/sessions")


def ids(rows: Sequence[PanelRow]) -> list[str]:
    return [row.value for row in rows]


def words_of(row: PanelRow) -> str:
    return plain(row_line(row, 60))


async def test_what_was_said_is_found_and_shown_beside_its_title() -> None:
    async with listed(FakeSession(), FakeSession(id="bb2", history=conversation(1)), size=(120, 40)) as (t, screen):
        assert (ids(screen.rows), screen.has_class("beside")) == (["aa1", "bb2"], True)
        await t.pilot.press("t", "i", "d", "e")
        await t.until(lambda: screen.is_settled and ids(screen.rows) == ["bb2"])
        await t.until(lambda: "the tide turns" in t.reads("said"))
        assert "1 found in this project" in t.reads("headline")
        await t.pilot.press("enter")
        await t.shows("Answer 0.")
        assert t.sessions.opened[-1] == ("bb2", None)


async def test_all_projects_are_listed_by_a_key() -> None:
    async with listed() as (t, screen):
        await t.pilot.press("tab", "a")
        await t.until(lambda: screen.is_settled and len(screen.rows) == 3)
        assert "in all projects" in t.reads("headline")
        await t.pilot.press("a")
        await t.until(lambda: screen.is_settled and len(screen.rows) == 2)
        await t.pilot.press("x")
        await t.until(lambda: screen.is_settled and ids(screen.rows) == ["aa1"])
        assert screen.query_one("#filter", Input).value == "x"


async def test_a_title_is_changed_and_a_session_forked() -> None:
    async with listed() as (t, screen):
        await t.pilot.press("tab", "r", "!", "enter")
        await t.until(lambda: screen.is_settled and not screen.is_editing and screen.rows[0].title == "fix the parser!")
        await t.pilot.press("r", "x", "escape")
        await t.until(lambda: not screen.is_editing)
        await t.pilot.press("f")
        await t.until(lambda: screen.is_settled and ids(screen.rows) == ["aa1f", "aa1", "bb2"])
        assert t.library.done == [("rename", "aa1", "fix the parser!"), ("fork", "aa1", None, False)]
        await t.until(lambda: "forked from aa1" in t.reads("said"))
        await t.pilot.press("r", *["backspace"] * 40, "enter")
        await t.until(lambda: "cannot be empty" in t.reads("answers"))


async def test_tags_are_changed_and_shown() -> None:
    async with listed() as (t, screen):
        await t.pilot.press("tab", "t", *"parser #Two", "enter")
        await t.until(
            lambda: screen.is_settled and not screen.is_editing and "#parser #two" in words_of(screen.rows[0])
        )
        assert t.library.done == [("tag", "aa1", ("parser", "two"), None)]
        await t.until(lambda: "#parser #two" in t.reads("said"))
        await t.pilot.press("t", *["backspace"] * 3, "-", "-", "!", "enter")
        await t.until(lambda: "is not a valid tag" in t.reads("answers"))
        assert len(t.library.done) == 1


async def test_the_title_goes_to_the_session_that_was_marked_when_it_was_begun() -> None:
    async with listed() as (t, screen):
        await t.pilot.press("tab", "r", "!")
        screen.query_one(Listing).move_mark(1)  # as when a search puts others into the list
        await t.pilot.press("enter")
        await t.until(lambda: screen.is_settled and not screen.is_editing)
        assert t.library.done == [("rename", "aa1", "fix the parser!")]


async def test_what_was_said_is_searched_once_nobody_types(monkeypatch: pytest.MonkeyPatch) -> None:
    async with listed() as (t, screen):
        monkeypatch.setattr("ebbtide.tui.session.session_list.SEARCH_DELAY_S", 3_600.0)
        await t.pilot.press("f", "l", "a", "g")
        await t.until(lambda: ids(screen.rows) == ["bb2"] and "searching messages" in t.reads("headline"))
        monkeypatch.setattr("ebbtide.tui.session.session_list.SEARCH_DELAY_S", 0.0)
        await t.pilot.press("backspace", "backspace", "backspace", "backspace", "t", "i", "d", "e")
        await t.until(lambda: screen.is_settled and ids(screen.rows) == ["bb2"])
        assert "searching" not in t.reads("headline")
        await t.pilot.press("escape")


async def test_a_page_that_cannot_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    infos = tuple(session_info(f"{n:04}", f"session {n}") for n in range(250))
    async with terminal(FakeSession(), infos=infos) as t:
        screen = await t.opens("/sessions")

        async def fails(**_: object) -> NoReturn:
            raise StoreFailed("the store is gone", "unreadable")

        monkeypatch.setattr(await t.sessions.open_library(), "page", fails)
        screen.query_one(Listing).move_mark(190)
        await t.until(lambda: "the store is gone" in t.reads("answers"))
        await t.pilot.press("escape")


async def test_nothing_is_deleted_before_the_list_is_left() -> None:
    async with listed(FakeSession(id="aa1")) as (t, _):
        await t.pilot.press("tab", "d")
        await t.until(lambda: "this session is open" in t.reads("answers"))
        await t.pilot.press("down", "d")
        await t.until(lambda: "bb2 will be deleted when" in t.reads("answers"))
        await t.pilot.press("d")
        await t.until(lambda: "bb2 will not be deleted" in t.reads("answers"))
        await t.pilot.press("d", "enter")
        await t.until(lambda: "1 to be deleted" in t.reads("headline"))
        assert t.library.done == []
        await t.pilot.press("escape")
        await t.shows("deleted bb2  add a flag")
        assert t.library.done == [("delete", "bb2")]


async def test_the_sessions_of_agents_are_nested_and_go_with_their_session() -> None:
    own = tuple(session_info(f"aa1{n}", f"task {n}", owner="aa1", agent="explore") for n in range(5))
    infos = (replace(INFOS[0], agents=own), INFOS[1])
    opener = FakeSessions([FakeSession()], infos, listing=FakeLibrary(infos))
    async with started(opener, (80, 24)) as t:
        await t.rests()
        screen = await t.opens("/sessions")
        assert ids(screen.rows) == ["aa1", "aa10", "aa11", "aa12", "aa1+", "bb2"]
        await t.pilot.press("tab", *["down"] * 4, "enter")
        await t.until(lambda: screen.is_settled and ids(screen.rows) == ["aa1", *(one.id for one in own), "bb2"])
        assert screen.rows[screen.query_one(Listing).marked_index].value == "aa13"
        await t.pilot.press("d", *["up"] * 4, "d")
        await t.until(lambda: "aa1 and its agent sessions will be deleted" in t.reads("answers"))
        await t.pilot.press("down", "d")
        await t.until(lambda: "aa10 will be deleted together with aa1" in t.reads("answers"))
        await t.pilot.press("escape")
        await t.shows("deleted aa1  fix the parser and 5 agent sessions")
        assert t.library.done == [("delete", "aa1")]


async def test_a_long_list_comes_as_it_is_walked() -> None:
    infos = tuple(session_info(f"{n:04}", f"session {n}") for n in range(450))
    async with terminal(FakeSession(), infos=infos) as t:
        screen = await t.opens("/sessions")
        assert len(screen.rows) == 200
        assert "200+" in t.reads("headline")
        screen.query_one(Listing).move_mark(190)
        await t.until(lambda: len(screen.rows) == 400)
        assert screen.query_one(Listing).marked_index == 190
        screen.query_one(Listing).move_mark(1_000)
        await t.until(lambda: len(screen.rows) == 450)
        screen.query_one(Listing).move_mark(1_000)
        await t.until(lambda: "450 in this project" in t.reads("headline"))


async def test_a_real_session_is_found_by_what_was_said_renamed_forked_and_deleted(tmp_path: Path) -> None:
    async with working(tmp_path, {"text": "The moon is out."}, {"text": "Second."}) as t:
        await t.says("what about tonight?", shows="The moon is out.")
        first = t.session
        await t.says("/clear")
        screen = await t.opens("/sessions")
        await t.press("m", "o", "o", "n", until=lambda: screen.is_settled and ids(screen.rows) == [first.id])
        await t.pilot.press("tab", "r", "!", "enter")
        await t.until(lambda: screen.is_settled and ids(screen.rows) == [first.id] and not screen.is_editing)
        assert screen.rows[0].title == "what about tonight?!"
        await t.press("f", until=lambda: screen.is_settled and len(screen.rows) == 2)
        library = await t.app.controller.sessions.open_library()
        fork = next(info for info in await library.page() if info.parent)
        assert (fork.title, fork.parent, fork.messages) == ("what about tonight?! (fork)", first.id, 2)
        await t.until(lambda: f"forked from {first.id}" in t.reads("said"))
        await t.press("enter", shows="The moon is out.")
        await t.rests()
        assert (t.session.id, t.session.history) == (fork.id, first.history)
        screen = await t.opens("/sessions")
        screen.query_one(Listing).move_mark(1)
        await t.press("tab", "d", "escape", shows=f"deleted {first.id}")


@pytest.mark.parametrize("width", [8, 20, 47, 48, 75, 76, 89, 90, 160])
def test_a_line_is_as_wide_as_the_list(width: int) -> None:
    info = session_info("a", "測試 " * 40, model="anthropic/claude", updated_at=0.0, cost=1.5)
    line = plain(session_line(info, width, 7_200.0, "", (), shows_projects=True))
    assert cell_len(line) == max(width, 2 + 4 + 2 + 7)
    assert line.endswith("2 h")
    assert ("msgs" in line, "$1.50" in line, "claude" in line) == (width >= 48, width >= 76, width >= 90)


@pytest.mark.parametrize("width", [30, 48, 90, 160])
def test_a_line_with_tags_is_as_wide_and_keeps_its_title(width: int) -> None:
    info = session_info("a", "測試 " * 40, updated_at=0.0, tags=("parser", "r" * 50))
    line = plain(session_line(info, width, 7_200.0, "", (), shows_projects=False))
    assert cell_len(line) == width
    assert ("#parser" in line) == (width >= 90)
    assert line.startswith("  測試 測試")
    short = plain(session_line(replace(info, title="t"), width, 7_200.0, "", (), shows_projects=False))
    assert cell_len(short) == width
    assert "t  #parser" in short


def test_a_line_says_what_is_open_forked_and_to_be_deleted() -> None:
    info = session_info("a", "", parent="b")
    assert plain(session_line(info, 40, 0.0, "", (), shows_projects=False)).startswith("↳ (no messages yet)")
    assert plain(session_line(info, 40, 0.0, "a", (), shows_projects=False)).startswith("● ")
    assert plain(session_line(info, 40, 0.0, "", ("a",), shows_projects=False)).startswith("✗ ")


def test_the_end_of_a_session_is_shown_with_its_calls() -> None:
    messages = (
        User((Text("\n".join(str(number) for number in range(20))),)),
        Assistant((Text("Look."), ToolCall("1", "bash", {"command": "make"})), "m/a"),
    )
    lines = [plain(line) for line in session_details(session_info("a", "t", parent="b"), "why\nso", messages)]
    assert lines[:5] == ["t", "4 messages  $0.00  a", "scripted/demo", "/home/me/project", "forked from b"]
    assert lines[5:9] == ["", "found in", "why", "so"]
    assert lines[-4:] == ["  … 8 more lines", "", "  Look.", "  ● bash  make"]


def test_the_headline_counts() -> None:
    line = sessions_headline(200, True, includes_all_projects=True, search_text="", search_status="", deletion_count=0)
    assert plain(line) == "Sessions  200+ in all projects"
    line = sessions_headline(
        3, False, includes_all_projects=False, search_text="x", search_status="reading …", deletion_count=2
    )
    assert plain(line) == "Sessions  3 found in this project · reading … · 2 to be deleted when you close this list"


async def test_the_number_of_a_session_that_is_offered_opens_it_until_something_is_said() -> None:
    infos = (session_info("s1", "mend the lexer"), session_info("s2", "speak French"))
    talk = FakeSession([[TextDelta(f"Answer {n}."), TurnFinished("answered", "x")] for n in (1, 2)], id="s2")
    async with terminal(FakeSession(), talk, infos=infos) as t:
        await t.shows("speak French")
        await t.type("2", until=lambda: t.session.id == "s2")
        await t.rests()
        await t.says("hello", shows="Answer 1.")
        await t.says("1", shows="Answer 2.")
        assert t.session.id == "s2"
