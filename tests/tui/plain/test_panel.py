"""The lists of commands in lines: numbers and words in the place of keys."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.archive.listing import ArchiveItem
from agent.messages import ToolCall
from tests.tui.doubles import FakeFiles, FakeLibrary, FakeSession, FakeSessions, FakeShelf, conversation, session_info
from tests.tui.plain.test_app import Talking, Typist, talking
from tests.tui.screens.test_changes import CHANGED
from tests.tui.screens.test_rewind import TREE
from tests.tui.screens.test_servers import FakeBoard
from tests.tui.set_up import Setup
from tests.waiting import until
from tui.plain.app import PlainFront
from tui.plain.panel import PAGE
from tui.prompt.history import History

CHOOSE = "Number, or words to find; an empty line closes: "
INFOS = (session_info("aa1", "fix the parser"), session_info("bb2", "add a flag"))


async def answers(talk: Talking, prompt: str, line: str) -> None:
    await until(lambda: talk.typist.lines.empty() and talk.typist.prompt == prompt)
    talk.type(line)


@pytest.mark.parametrize(
    ("written", "done", "told"),
    [
        ("fork 2", ("fork", "bb2", None, False), "forked: `bb2f` begins as `bb2`, which stays as it is"),
        ("delete 2", ("delete", "bb2"), "deleted bb2  add a flag"),
    ],
)
async def test_a_word_before_the_number_says_what_is_done(written: str, done: tuple[object, ...], told: str) -> None:
    async with talking(FakeSession(id="aa1")) as talk:
        talk.sessions.shelf = FakeLibrary(INFOS)
        await talk.rests()
        talk.type("/sessions")
        await answers(talk, CHOOSE, written)
        await talk.shows(told)
        assert talk.sessions.shelf.done == [done]


async def test_a_session_is_renamed_unless_no_title_is_written() -> None:
    async with talking(FakeSession(id="aa1")) as talk:
        talk.sessions.shelf = FakeLibrary(INFOS)
        for title in ("", "a better name"):
            await talk.rests()
            talk.type("/sessions")
            await answers(talk, CHOOSE, "rename 2")
            await answers(talk, "New title; an empty line cancels: ", title)
        await talk.shows("a better name, ")
        assert talk.sessions.shelf.done == [("rename", "bb2", "a better name")]


async def test_a_branch_is_opened_by_its_word() -> None:
    async with talking(FakeSession(history=conversation(2))) as talk:
        talk.sessions.shelf = FakeLibrary(branches=TREE)
        await talk.rests()
        talk.type("/rewind")
        await talk.shows("1: document it")
        await answers(talk, CHOOSE, "open 1")
        await until(lambda: talk.sessions.opened[-1] == ("fork1", None))


async def test_what_was_kept_is_read_by_pages_and_inserted() -> None:
    item = ArchiveItem("r1", "preview", 1_000, 90, 0.0, ToolCall("c1", "bash", {"command": "make"}))
    lines = "\n".join(f"line {number}" for number in range(1, PAGE * 2 + 2))
    async with talking(FakeSession(shelf=FakeShelf((item,), {"r1": lines}))) as talk:
        await talk.rests()
        talk.type("/archive")
        await talk.shows("1 thing kept, the newest first.")
        await answers(talk, CHOOSE, "1")
        await answers(talk, "Enter for more, a line number, or q: ", "")
        await talk.shows(f"r1, lines {PAGE + 1} to {PAGE * 2} of {PAGE * 2 + 1}:")
        await answers(talk, "Enter for more, a line number, or q: ", "q")
        await until(lambda: talk.typist.given == ["r1 "])


async def test_the_diff_of_a_file_is_printed() -> None:
    async with talking(FakeSession(files=FakeFiles(CHANGED, ("git is not there",)))) as talk:
        await talk.rests()
        talk.type("/files")
        await talk.shows("git is not there")
        await answers(talk, CHOOSE, "made")
        await talk.shows("1: made.py: 1 line added, 0 removed")
        await answers(talk, CHOOSE, "1")
        await talk.shows("print(1)")


@pytest.mark.parametrize(
    ("word", "done", "told"),
    [
        ("off", ["switch forge"], "forge"),
        ("restart", ["restart forge"], "forge"),
        ("log", [], "forge ␛[2Jsays 200"),
        ("nothing", [], "Forge 2.1"),
    ],
)
async def test_what_is_done_with_a_server_is_named(word: str, done: list[str], told: str) -> None:
    board = FakeBoard()
    async with talking(FakeSession(servers=board)) as talk:
        await talk.rests()
        talk.type("/mcp")
        await answers(talk, CHOOSE, "1")
        await talk.shows("Forge 2.1")
        await answers(talk, "off, restart, login or log; an empty line closes: ", word)
        await talk.shows(told)
        await talk.rests()
        assert (board.done, board.changed) == (done, None)


async def test_the_address_to_log_in_at_is_printed() -> None:
    board = FakeBoard()
    async with talking(FakeSession(servers=board)) as talk:
        await talk.rests()
        talk.type("/mcp")
        await answers(talk, CHOOSE, "1")
        await answers(talk, "off, restart, login or log; an empty line closes: ", "login")
        await until(lambda: board.changed is not None)
        await talk.shows("https://chat.example/login")
        board.logged_in.set()
        await until(lambda: board.done == ["login forge"])


@asynccontextmanager
async def with_settings(setup: Setup) -> AsyncIterator[Talking]:

    opener = FakeSessions([FakeSession()])
    front = PlainFront(opener, History(None), guard=0.0, settings=setup.settings)
    typist = Typist()
    talk = Talking(front, typist, opener, asyncio.get_running_loop().create_task(front.run(typist)))
    try:
        await talk.rests()
        yield talk
    finally:
        typist.close()
        await talk.running


async def test_a_setting_is_changed_and_put_back(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    async with with_settings(setup) as talk:
        for value, written in (("2.5", "[agent]\nmax_cost = 2.5\n"), ("none", "")):
            talk.type("/settings agent.max_cost")
            await answers(talk, "New value, or `none` for the default; an empty line cancels: ", value)
            await talk.rests()
            assert setup.written == written


async def test_a_model_that_is_not_in_the_list_may_be_typed() -> None:
    async with talking(FakeSession()) as talk:
        await talk.rests()
        talk.type("/model")
        await answers(talk, CHOOSE, "ollama/my-own")
        await talk.shows("4: ollama/my-own  as it is written")
        await answers(talk, CHOOSE, "4")
        await until(lambda: talk.sessions.opened[-1] == (None, "ollama/my-own"))
