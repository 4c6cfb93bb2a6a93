"""The list of earlier sessions. It knows what tells sessions apart, not how they are opened."""

from collections.abc import Sequence

from tui.numbers import age
from tui.ports import SessionInfo
from tui.screens.picker import Choice, Picker


def session_picker(sessions: Sequence[SessionInfo], current: str, now: float) -> Picker:
    """Gives the id of the session to go on with, or an empty text. `now` is in Unix seconds."""
    choices = [
        Choice(
            value=info.id,
            label=info.title or "(nothing said yet)",
            before=age(now - info.updated_at),
            after=f"{info.messages} messages, {info.model}",
            own=info.id == current,
        )
        for info in sessions
    ]
    return Picker("Go on with a session", choices, "No session to go on with.")
