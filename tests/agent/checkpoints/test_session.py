"""The checkpoints of a session at work: with hooks, ahead of commands, and when it ends."""

import asyncio
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from ebbtide.agent.calls.hooks import OutputHooks
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.checkpoints import checkpoint_thread
from ebbtide.agent.checkpoints.checkpoint_thread import CheckpointThread
from ebbtide.agent.checkpoints.project import ProjectCheckpoints
from ebbtide.agent.checkpoints.session_checkpoints import SessionCheckpoints
from ebbtide.agent.checkpoints.undo_points import to_undo
from ebbtide.agent.checkpoints.work_tree import Limits
from ebbtide.agent.config.option_values import AfterTool
from ebbtide.agent.events.session import Event, TurnStarted
from ebbtide.agent.events.view import FilesChanged
from ebbtide.agent.messages import ToolCall
from ebbtide.tools.base import Result, Workspace
from tests.agent.checkpoints.trees import project_in
from tests.waiting import soon


class Kept:
    """Checkpoints of a folder `work`, what they told, and how large their looks may be."""

    def __init__(self, folder: Path, *, ahead: bool = False) -> None:
        self.told: list[Event] = []
        self.interrupt = Interrupt()
        self.root = folder / "work"
        self.root.mkdir(exist_ok=True)
        self.thread = CheckpointThread(partial(project_in, folder, Limits(9000, 10_000, 100_000_000)))
        self.checkpoints = SessionCheckpoints(
            self.thread, "s", lambda: 1, lambda: False, self.told.append, self.interrupt, self.root if ahead else None
        )

    async def undo(self) -> None:
        def back(project: ProjectCheckpoints) -> None:
            point = to_undo(project.points())
            assert point is not None
            project.restore(project.plan((point.id,)), point.place, "undo")

        await self.checkpoints.run(back)


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Kept]:
    found = Kept(tmp_path)
    yield found
    await found.checkpoints.close()


async def test_what_a_hook_makes_of_an_edit_belongs_to_the_turn(kept: Kept, tmp_path: Path) -> None:
    path = kept.root / "a.py"
    path.write_text("before")
    workspace = Workspace(kept.root, tmp_path / "outputs")
    workspace.outputs.mkdir()
    formats = AfterTool("edit", "printf ' and formatted' >> a.py; echo log > b.log")
    hooks = OutputHooks([formats], "s", workspace, kept.interrupt, kept.told.append, kept.checkpoints.around)
    kept.checkpoints.note(TurnStarted("s", "m", "go"))
    asked = PermissionRequest("edit", "write", (str(path),))
    async with kept.checkpoints.around("write", asked.subjects, reads_only=False, show=print):
        path.write_text("edited")
    await hooks.feedback_on(ToolCall("1", "edit", {}), asked, "done", Result("edited"))
    await kept.checkpoints.end_turn()
    assert path.read_text() == "edited and formatted"
    assert kept.told == [FilesChanged(("a.py", "b.log"), "", 2, 1)]
    await kept.undo()
    assert {each.name: each.read_text() for each in kept.root.iterdir()} == {"a.py": "before"}


async def test_a_large_folder_is_looked_at_ahead_and_an_edit_does_not_wait_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_thread, "LARGE_FOLDER_PATHS", 20)
    kept = Kept(tmp_path, ahead=True)
    for number in range(50):
        (kept.root / str(number)).write_text(f"of file {number}")
    held, goes_on = threading.Event(), threading.Event()

    def stopped() -> bool:
        if kept.thread.to_read == 25:
            held.set()
            goes_on.wait()
        return False

    monkeypatch.setattr(kept.interrupt, "is_requested", stopped)
    kept.checkpoints.note(TurnStarted("s", "m", "go"))
    await soon(held.is_set)
    begun = kept.thread.submit(lambda project: project.to_read, short=True)
    goes_on.set()
    assert await asyncio.wrap_future(begun) == 24  # in the middle of the look
    async with kept.checkpoints.around("run", (), reads_only=False, show=print):
        (kept.root / "7").unlink()
    await kept.checkpoints.end_turn()
    assert kept.told == [FilesChanged(("7",), "", 0, 1)]
    await kept.undo()
    assert (kept.root / "7").read_text() == "of file 7"
    await kept.checkpoints.close()
