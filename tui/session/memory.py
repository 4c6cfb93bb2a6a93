"""Saves notes, informs the session about them, and removes them."""

from pathlib import Path

from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.session import Remembered
from ebbtide.agent.input.memory import MemoryNote, announce_memory, remember, undo_remember
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.view.blocks import Notice


async def keep_note(controller: SessionController, text: str, path: Path) -> None:
    """Add a note to one of the files that sessions start with. Errors are shown."""
    try:
        kept = remember(text, path)
    except AgentError as error:
        return controller.fail(error)
    await controller.run_with_activity(
        "remembering", lambda session: session.change(announce_memory, kept.entry, kept.path)
    )
    return controller.advance(kept)


async def announce_forgotten(controller: SessionController, note: MemoryNote) -> None:
    """Tell the running session which note was removed."""
    entry, path = note.text, str(note.path)
    await controller.run_with_activity(
        "forgetting", lambda session: session.change(announce_memory, entry, path, is_taken_back=True)
    )


async def take_back_note(controller: SessionController) -> bool:
    """Remove the last note from its file if nothing has happened since; otherwise show why not. Returns whether
    there was such a note."""
    match controller.view.blocks[-1:]:
        case (Notice(remembered=Remembered() as kept),):
            try:
                undo_remember(kept)
            except AgentError as error:
                controller.notice(str(error))
                return True
            entry, path = kept.entry, kept.path
            await controller.run_with_activity(
                "forgetting", lambda session: session.change(announce_memory, entry, path, is_taken_back=True)
            )
            controller.notice(f"taken out of `{kept.path}` again, and this session was told")
            return True
        case _:
            return False
