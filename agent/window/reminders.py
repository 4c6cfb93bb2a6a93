"""Adds notes to the end of the next message, each once. Their content is decided in
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
    """Tracks what one session's model knows about its surroundings."""

    def __init__(
        self,
        surroundings: Callable[[], Surroundings] = Surroundings,
        conversation: Conversation | None = None,
        note_at: float = 0.80,
        mode: str = "",
        attended: bool | None = None,
    ) -> None:
        """At first the model knows what its system prompt says (the current surroundings except for tools) and what the
        notes in the conversation say. `mode`, `attended`: as stated in the system prompt, if different from now."""
        self._surroundings = surroundings
        self._note_at = note_at
        now = surroundings()
        there = now.attended if attended is None else attended
        self._start = replace(
            now, deferred=0, served="", instructions=(), folders="", mode=mode or now.mode, attended=there
        )
        self._told = announced_surroundings(conversation or Conversation(), self._start)

    def correction(self, conversation: Conversation, used: float, epoch: int) -> Note | None:
        """Return a note that corrects an earlier one after a rewrite."""
        return correction(conversation, used, self._note_at) if epoch != self._told.epoch else None

    def add_to(self, message: User, situation: SessionState, used: float, epoch: int) -> User:
        """Add the notes that are due. `situation`: the state after the message; `used`: percentage of the effective
        window that the next request takes; `epoch`: number of rewrites so far. An empty message is not sent, so it
        stays empty."""
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
    """Return the surroundings from `outside`, with the current permissions and tools."""
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
