"""Notes at the end of what is sent next, each told once. What there is to tell is decided in
`ebbtide.agent.context.reminder_notes`."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.context.control_calls import open_items
from ebbtide.agent.context.reminder_notes import (
    Surroundings,
    announced_surroundings,
    correction,
    notes_for,
    with_announced,
)
from ebbtide.agent.messages import Conversation, Note, User
from ebbtide.agent.records.session_state import SessionState
from ebbtide.agent.window.deferral import Deferral
from ebbtide.agent.window.server_tools import ServerTools
from ebbtide.tools.base import Tool

COMPACT = "compact_context"


class Reminders:
    """What one session's model has been told of its surroundings."""

    def __init__(
        self,
        surroundings: Callable[[], Surroundings] = Surroundings,
        conversation: Conversation | None = None,
        note_at: float = 0.80,
        mode: str = "",
        attended: bool | None = None,
    ) -> None:
        """At first the model knows what its system text says, which are the surroundings now except for tools, and what
        the notes in the conversation say. `mode`, `attended`: those of the system text, where they may be others."""
        self._surroundings = surroundings
        self._note_at = note_at
        now = surroundings()
        there = now.attended if attended is None else attended
        self._start = replace(
            now, deferred=0, served="", instructions=(), folders="", mode=mode or now.mode, attended=there
        )
        self._told = announced_surroundings(conversation or Conversation(), self._start)

    def correction(self, conversation: Conversation, used: float, epoch: int) -> Note | None:
        """What has to be said after a rewrite of a note that it has made untrue."""
        return correction(conversation, used, self._note_at) if epoch != self._told.epoch else None

    def add_to(self, message: User, situation: SessionState, used: float, epoch: int) -> User:
        """The message with the notes that are due. `situation`: as the message leaves it; `used`: percent of the usable
        window that the next request takes; `epoch`: rewrites so far. An empty message is not sent, so nothing is added
        to it."""
        if not message.parts:
            return message
        todos = open_items(situation.todos)
        now = replace(self._surroundings(), todos=todos, scratchpad=situation.notes, used=used, epoch=epoch)
        told = self._told
        if epoch != told.epoch:
            told = replace(self._start, epoch=told.epoch, deferred=told.deferred)
        self._told = with_announced(now, told, self._note_at)
        notes = notes_for(now, told, self._note_at)
        return replace(message, parts=(*message.parts, *notes)) if notes else message


def surroundings_now(
    outside: Callable[[], Surroundings],
    approval: Approver,
    tools: Sequence[Tool],
    deferral: Deferral,
    served: ServerTools,
) -> Surroundings:
    """The surroundings that `outside` knows, and how permissions and tools are at this moment."""
    held, hosted = deferral.deferred_state
    return replace(
        outside(),
        mode=approval.policy.mode,
        folders="\n".join(approval.policy.roots),
        deferred=held,
        hosted=hosted,
        served=served.news(),
        instructions=served.instructions,
        can_compact=deferral.offers(COMPACT) and any(tool.name == COMPACT for tool in tools),
    )
