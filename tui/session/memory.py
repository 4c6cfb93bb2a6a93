"""What the user wants remembered: written down and told to the session, and taken back."""

from pathlib import Path

from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.session import Remembered
from ebbtide.agent.input.memory import MemoryNote, announce_memory, remember, undo_remember
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.view.blocks import Notice


async def keep_note(controller: SessionController, text: str, path: Path) -> None:
    """Adds it to a file of those that sessions begin with. What went wrong is told."""
    try:
        kept = remember(text, path)
    except AgentError as error:
        return controller.fail(error)
    await controller.run_with_activity(
        "remembering", lambda session: session.change(announce_memory, kept.entry, kept.path)
    )
    return controller.advance(kept)


async def announce_forgotten(controller: SessionController, note: MemoryNote) -> None:
    """Tells the session that runs what it is not to remember any more."""
    entry, path = note.text, str(note.path)
    await controller.run_with_activity(
        "forgetting", lambda session: session.change(announce_memory, entry, path, is_taken_back=True)
    )


async def take_back_note(controller: SessionController) -> bool:
    """Takes out of its file what was remembered, where nothing has happened since; what hinders it is told. Tells
    whether there was such a thing."""
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
