"""The checkpoints of a session at work: with hooks, ahead of commands, and when it ends."""

import asyncio
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from ebbtide.agent.calls.execute import CallPosition
from ebbtide.agent.calls.output_intake import OutputArchiver
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.channel import Channel, Interrupt
from ebbtide.agent.checkpoints import checkpoint_thread
from ebbtide.agent.checkpoints.checkpoint_thread import CheckpointThread
from ebbtide.agent.checkpoints.project import ProjectCheckpoints
from ebbtide.agent.checkpoints.session_checkpoints import SessionCheckpoints
from ebbtide.agent.checkpoints.undo_points import next_undo
from ebbtide.agent.checkpoints.unread_files import ScanLimits
from ebbtide.agent.compose.optional_parts import create_tool_hooks
from ebbtide.agent.config.option_values import AfterToolHook
from ebbtide.agent.events.session import Event, TurnStarted
from ebbtide.agent.events.view import FilesChanged
from ebbtide.agent.messages import ToolCall
from ebbtide.tools.base import Result, Workspace
from tests.kit.checkpoints import project_in
from tests.kit.polling import soon


class RecordedSession:
    """Checkpoints of a folder `work`, what they told, and how large their looks may be."""

    def __init__(self, folder: Path, *, ahead: bool = False) -> None:
        self.events: list[Event] = []
        self.interrupt = Interrupt()
        self.root = folder / "work"
        self.root.mkdir(exist_ok=True)
        self.thread = CheckpointThread(partial(project_in, folder, ScanLimits(9000, 10_000, 100_000_000)))
        self.checkpoints = SessionCheckpoints(
            self.thread, "s", lambda: 1, lambda: False, self.events.append, self.interrupt, self.root if ahead else None
        )

    async def undo(self) -> None:
        def back(project: ProjectCheckpoints) -> None:
            point = next_undo(project.points())
            assert point is not None
            project.restore(project.plan_undo((point.id,)), point.turn_key, "undo")

        await self.checkpoints.run(back)


@pytest.fixture
async def recorded(tmp_path: Path) -> AsyncIterator[RecordedSession]:
    found = RecordedSession(tmp_path)
    yield found
    await found.checkpoints.close()


async def test_what_a_hook_makes_of_an_edit_belongs_to_the_turn(recorded: RecordedSession, tmp_path: Path) -> None:
    path = recorded.root / "a.py"
    path.write_text("before")
    workspace = Workspace(recorded.root, tmp_path / "outputs")
    workspace.outputs_folder.mkdir()
    formats = AfterToolHook("edit", "printf ' and formatted' >> a.py; echo log > b.log")
    hooks = create_tool_hooks(
        None, [formats], "s", recorded.root, workspace, Channel(), recorded.checkpoints.guard_call, {}
    )
    recorded.checkpoints.observe(TurnStarted("s", "m", "go"))
    asked = PermissionRequest("edit", "write", (str(path),))
    async with recorded.checkpoints.guard_call("write", asked.subjects, reads_only=False, on_progress=print):
        path.write_text("edited")
    await OutputArchiver(hooks=hooks).store_and_show(
        ToolCall("1", "edit", {}), CallPosition(), "done", Result("edited"), asked
    )
    await recorded.checkpoints.end_turn()
    assert path.read_text() == "edited and formatted"
    assert recorded.events == [FilesChanged(("a.py", "b.log"), "", 2, 1)]
    await recorded.undo()
    assert {each.name: each.read_text() for each in recorded.root.iterdir()} == {"a.py": "before"}


async def test_a_large_folder_is_looked_at_ahead_and_an_edit_does_not_wait_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_thread, "MIN_SCANNED_AHEAD_PATHS", 20)
    recorded = RecordedSession(tmp_path, ahead=True)
    for number in range(50):
        (recorded.root / str(number)).write_text(f"of file {number}")
    reached, goes_on = threading.Event(), threading.Event()

    def stopped() -> bool:
        if recorded.thread.unread_file_count == 25:
            reached.set()
            goes_on.wait()
        return False

    monkeypatch.setattr(recorded.interrupt, "is_requested", stopped)
    recorded.checkpoints.observe(TurnStarted("s", "m", "go"))
    await soon(reached.is_set)
    begun = recorded.thread.submit(lambda project: project.unread_file_count, is_short=True)
    goes_on.set()
    assert await asyncio.wrap_future(begun) == 24  # in the middle of the look
    async with recorded.checkpoints.guard_call("run", (), reads_only=False, on_progress=print):
        (recorded.root / "7").unlink()
    await recorded.checkpoints.end_turn()
    assert recorded.events == [FilesChanged(("7",), "", 0, 1)]
    await recorded.undo()
    assert (recorded.root / "7").read_text() == "of file 7"
    await recorded.checkpoints.close()
