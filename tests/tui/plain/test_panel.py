"""The lists of commands in lines: numbers and words in the place of keys."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.archive.listing import ArchiveItem
from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.boundary import SessionBoundary
from ebbtide.agent.calls.policy import Policy
from ebbtide.agent.checkpoints.project import ProjectCheckpoints
from ebbtide.agent.checkpoints.undo_points import TurnKey
from ebbtide.agent.input.memory import append_memory, list_memory_files
from ebbtide.agent.messages import ToolCall
from ebbtide.tools.base import Workspace
from ebbtide.tui.plain.panel import PAGE_LINES
from tests.kit.checkpoints import project_in
from tests.kit.fake_sessions import (
    FakeCheckpoints,
    FakeFiles,
    FakeLibrary,
    FakeSession,
    FakeShelf,
    conversation,
    session_info,
)
from tests.kit.polling import until
from tests.kit.user_settings import Setup
from tests.tui.integrations.mcp.test_server_list import FakeBoard
from tests.tui.plain.test_app import Talking, talking
from tests.tui.screens.test_changes import CHANGED
from tests.tui.screens.test_rewind import TREE

CHOOSE = "Number, or words to find; an empty line closes: "
INFOS = (session_info("aa1", "fix the parser"), session_info("bb2", "add a flag"))


async def answers(controller: Talking, prompt: str, line: str) -> None:
    await until(lambda: controller.typist.lines.empty() and controller.typist.prompt == prompt)
    controller.type(line)


async def chooses(controller: Talking, command: str, line: str) -> None:
    """Types a command, and answers its list."""
    controller.type(command)
    await answers(controller, CHOOSE, line)


@pytest.mark.parametrize(
    ("written", "done", "message"),
    [
        ("fork 2", ("fork", "bb2", None, False), "forked as `bb2f`; `bb2` is unchanged"),
        ("delete 2", ("delete", "bb2"), "deleted bb2  add a flag"),
    ],
)
async def test_a_word_before_the_number_says_what_is_done(written: str, done: tuple[object, ...], message: str) -> None:
    async with talking(FakeSession(id="aa1")) as controller:
        controller.sessions.listing = FakeLibrary(INFOS)
        await controller.rests()
        await chooses(controller, "/sessions", written)
        await controller.shows(message)
        assert controller.sessions.listing.done == [done]


async def test_a_session_is_renamed_unless_no_title_is_written() -> None:
    async with talking(FakeSession(id="aa1")) as controller:
        controller.sessions.listing = FakeLibrary(INFOS)
        for title in ("", "a better name"):
            await controller.rests()
            await chooses(controller, "/sessions", "rename 2")
            await answers(controller, "New title (an empty line cancels): ", title)
        await controller.shows("a better name, ")
        assert controller.sessions.listing.done == [("rename", "bb2", "a better name")]


async def test_a_branch_is_opened_by_its_word() -> None:
    async with talking(FakeSession(history=conversation(2))) as controller:
        controller.sessions.listing = FakeLibrary(branches=TREE)
        await controller.rests()
        await controller.says("/rewind", shows="1: document it")
        await answers(controller, CHOOSE, "open 1")
        await until(lambda: controller.sessions.opened[-1] == ("fork1", None))


async def test_what_was_kept_is_read_by_pages_and_inserted() -> None:
    item = ArchiveItem("r1", "preview", 1_000, 90, 0.0, ToolCall("c1", "bash", {"command": "make"}))
    lines = "\n".join(f"line {number}" for number in range(1, PAGE_LINES * 2 + 2))
    async with talking(FakeSession(archive_listing=FakeShelf((item,), {"r1": lines}))) as controller:
        await controller.rests()
        await controller.says("/archive", shows="Archive: 1 stored")
        await answers(controller, CHOOSE, "1")
        await answers(controller, "Enter for more, a line number, or q: ", "")
        await controller.shows(f"r1, lines {PAGE_LINES + 1} to {PAGE_LINES * 2} of {PAGE_LINES * 2 + 1}:")
        await answers(controller, "Enter for more, a line number, or q: ", "q")
        await answers(controller, "y to insert; an empty line closes: ", "y")
        await until(lambda: controller.typist.given == ["r1 "])


async def test_the_diff_of_a_file_is_printed() -> None:
    async with talking(FakeSession(file_history=FakeFiles(CHANGED, ("git is not there",)))) as controller:
        await controller.rests()
        await controller.says("/files", shows="git is not there")
        await answers(controller, CHOOSE, "made")
        await controller.shows("1: made.py: 1 line added, 0 removed")
        await answers(controller, CHOOSE, "1")
        await controller.shows("print(1)")


@pytest.mark.parametrize(
    ("word", "done", "message"),
    [
        ("off", ["switch forge"], "forge"),
        ("restart", ["restart forge"], "forge"),
        ("log", [], "forge ␛[2Jsays 200"),
        ("nothing", [], "Forge 2.1"),
    ],
)
async def test_what_is_done_with_a_server_is_named(word: str, done: list[str], message: str) -> None:
    board = FakeBoard()
    async with talking(FakeSession(servers=board)) as controller:
        await controller.rests()
        await chooses(controller, "/mcp", "1")
        await controller.shows("Forge 2.1")
        await answers(controller, "off, restart, login or log; an empty line closes: ", word)
        await controller.shows(message)
        await controller.rests()
        assert (board.done, board.on_change) == (done, None)


async def test_the_address_to_log_in_at_is_printed() -> None:
    board = FakeBoard()
    async with talking(FakeSession(servers=board)) as controller:
        await controller.rests()
        await chooses(controller, "/mcp", "1")
        await answers(controller, "off, restart, login or log; an empty line closes: ", "login")
        await until(lambda: board.on_change is not None)
        await controller.shows("https://chat.example/login")
        board.logged_in.set()
        await until(lambda: board.done == ["login forge"])


async def test_a_setting_is_changed_and_put_back(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    async with talking(FakeSession(), settings=setup.settings) as controller:
        await controller.rests()
        for value, written in (("2.5", "[agent]\nmax_cost = 2.5\n"), ("none", "")):
            controller.type("/settings agent.max_cost")
            await answers(controller, "New value (`none` empties it, an empty line cancels): ", value)
            await controller.rests()
            assert setup.written == written


async def test_folders_are_added_listed_and_removed(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    boundary = SessionBoundary(Approver(Policy("/w")), Workspace(Path("/w"), tmp_path))
    async with talking(FakeSession(boundary=boundary)) as controller:
        await controller.rests()
        controller.type("/add-dir")
        await controller.shows("No additional folders.")
        controller.type(f"/add-dir {tmp_path}/less")
        await controller.shows(f"there is no folder `{tmp_path}/less`")
        controller.type(f"/add-dir {tmp_path}/more")
        await controller.shows(f"`{tmp_path}/more` is a working folder until you exit")
        await chooses(controller, "/add-dir", "remove 1")
        await controller.shows(f"{tmp_path}/more is no longer a working folder")
        assert boundary.added_folders == ()


async def test_what_sessions_begin_with_is_listed_and_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = Setup(tmp_path)
    (setup.project / "CLAUDE.md").write_text("Be kind.\n")
    monkeypatch.setenv("EDITOR", "sed -i s/kind/brief/")
    own = list_memory_files(setup.settings.config)[1].path
    append_memory("use tabs", own)
    async with talking(FakeSession(working_folder=setup.project), settings=setup.settings) as controller:
        await controller.rests()
        await chooses(controller, "/memory", "1")
        await controller.shows("was changed; the model is informed with your next message")
        assert (setup.project / "CLAUDE.md").read_text() == "Be brief.\n"
        await chooses(controller, "/memory", "forget 2")
        await controller.shows("note removed")
        assert not own.exists()


async def test_what_holds_commands_is_told(tmp_path: Path) -> None:
    boundary = SessionBoundary(Approver(Policy("/w")), Workspace(Path("/w"), tmp_path))
    async with talking(FakeSession(boundary=boundary)) as controller:
        await controller.rests()
        controller.type("/sandbox")
        await controller.shows("Sandbox: no sandbox: turned off by `agent.sandbox`")


async def test_a_model_that_is_not_in_the_list_may_be_typed() -> None:
    async with talking(FakeSession()) as controller:
        await controller.rests()
        await chooses(controller, "/model", "ollama/my-own")
        await controller.shows("4: ollama/my-own, use as typed")
        await answers(controller, CHOOSE, "4")
        await until(lambda: controller.sessions.opened[-1] == (None, "ollama/my-own"))


class ListedFiles(FakeCheckpoints):
    """Those of a real folder."""

    turn = TurnKey("abc123", 1)

    def __init__(self, project: ProjectCheckpoints) -> None:
        self.project = project

    async def run(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return work(self.project, *args, **kwargs)


async def test_files_are_read_by_their_numbers_and_taken_back_by_a_word(tmp_path: Path) -> None:
    project, place = project_in(tmp_path), TurnKey("abc123", 0)
    changed = tmp_path / "work" / "a.txt"
    before = project.capture_states([str(changed)])
    changed.write_text("new\n")
    project.record_changes(place, before)
    project.finish_turn(place)
    async with talking(FakeSession(checkpoints=ListedFiles(project), changes=[None])) as controller:
        await controller.rests()
        for answer in ("1", "undo"):
            if answer == "1":
                controller.type("/undo")
            assert changed.exists()
            await answers(controller, "Number, or words to find; `undo` for all of it; an empty line closes: ", answer)
        await controller.shows("1 file restored · `/redo` reapplies the change")
        await controller.shows("removed 1: new")
    assert not changed.exists()
    project.close()
