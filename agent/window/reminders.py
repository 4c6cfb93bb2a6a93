"""Adds reminder notes to the end of the next message, each only once. `ebbtide.agent.prompt.reminder_notes` decides
their content."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.control_calls import open_items
from ebbtide.agent.messages import Conversation, Note, User
from ebbtide.agent.prompt.reminder_notes import (
    ReminderFacts,
    announced_facts,
    context_correction,
    due_notes,
    with_announced,
)
from ebbtide.agent.records.session_state import SessionState
from ebbtide.agent.window.deferral import Deferral
from ebbtide.agent.window.server_tools import ServerTools
from ebbtide.tools.base import Tool
from ebbtide.tools.compact_context import CompactContext


class Reminders:
    """Tracks which facts the model knows, and adds notes when they change."""

    def __init__(
        self,
        read_facts: Callable[[], ReminderFacts] = ReminderFacts,
        conversation: Conversation | None = None,
        note_at: float = 0.80,
        mode: str = "",
        attended: bool | None = None,
    ) -> None:
        """At first, the model knows what the system prompt says (the current surroundings except for tools) and what
        the notes in the conversation say. `mode`, `attended`: the values in the system prompt, if they are not the
        current ones."""
        self._read_facts = read_facts
        self._note_at = note_at
        now = read_facts()
        attended_at_start = now.attended if attended is None else attended
        self._initial_facts = replace(
            now, deferred=0, served="", instructions=(), folders="", mode=mode or now.mode, attended=attended_at_start
        )
        self._announced = announced_facts(conversation or Conversation(), self._initial_facts)

    def correction(self, conversation: Conversation, used: float, epoch: int) -> Note | None:
        """Return a note that corrects an earlier one after a rewrite; None if none is needed."""
        return context_correction(conversation, used, self._note_at) if epoch != self._announced.epoch else None

    def add_to(self, message: User, state: SessionState, used: float, epoch: int) -> User:
        """Return the message with the notes that are due. `state`: the session's state after the message; `used`:
        percentage of the effective window that the next request takes; `epoch`: number of rewrites so far. A message
        without parts gets no notes, because it is not sent."""
        if not message.parts:
            return message
        todos = open_items(state.todos)
        now = replace(self._read_facts(), todos=todos, scratchpad=state.notes, used=used, epoch=epoch)
        announced = self._announced
        if epoch != announced.epoch:
            announced = replace(self._initial_facts, epoch=announced.epoch, deferred=announced.deferred)
        self._announced = with_announced(now, announced, self._note_at)
        notes = due_notes(now, announced, self._note_at)
        return replace(message, parts=(*message.parts, *notes)) if notes else message


def current_facts(
    read_environment: Callable[[], ReminderFacts],
    approval: Approver,
    tools: Sequence[Tool],
    deferral: Deferral,
    served: ServerTools,
) -> ReminderFacts:
    """Return the facts from `read_environment` plus the current permissions and tools."""
    deferred_count, has_hosted_search = deferral.deferred_state
    return replace(
        read_environment(),
        mode=approval.policy.mode,
        folders="\n".join(approval.policy.added_folders),
        deferred=deferred_count,
        hosted=has_hosted_search,
        served=served.change_summary(),
        instructions=served.instructions,
        can_compact=deferral.is_offered(CompactContext.name)
        and any(tool.name == CompactContext.name for tool in tools),
    )
