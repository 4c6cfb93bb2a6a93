"""What the user wants remembered: written down and told to the session, and taken back."""

from pathlib import Path

from agent.errors import AgentError
from agent.events import Remembered
from agent.input.memory import remember, reminded_of, take_back
from tui.session.controller import SessionController
from tui.view.blocks import Notice


async def keep_note(talk: SessionController, text: str, path: Path) -> None:
    """Adds it to a file of those that sessions begin with. What went wrong is told."""
    try:
        kept = remember(text, path)
    except AgentError as error:
        return talk.fail(error)
    await talk.aside("remembering", lambda session: session.change(reminded_of, kept.entry))
    return talk.advance(kept)


async def take_back_note(talk: SessionController) -> bool:
    """Takes out of its file what was remembered, where nothing has happened since; what hinders it is told. Tells
    whether there was such a thing."""
    match talk.view.blocks[-1:]:
        case (Notice(remembered=Remembered() as kept),):
            try:
                take_back(kept)
            except AgentError as error:
                talk.notice(str(error))
                return True
            entry = kept.entry
            await talk.aside("forgetting", lambda session: session.change(reminded_of, entry, is_taken_back=True))
            talk.notice(f"taken out of `{kept.path}` again, and this session was told")
            return True
        case _:
            return False
