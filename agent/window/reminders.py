"""Adds reminder notes to the end of the next message, each only once. Their content is decided by
`ebbtide.agent.prompt.reminder_notes`."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.control_calls import format_open_items
from ebbtide.agent.messages import Conversation, Note, User
from ebbtide.agent.prompt.reminder_notes import (
    ReminderFacts,
    announced_facts,
    choose_due_notes,
    context_correction_note,
    facts_after_notes,
)
from ebbtide.agent.records.session_state import SessionState
from ebbtide.agent.window.deferral import ToolDeferral
from ebbtide.agent.window.server_tools import ServerTools
from ebbtide.tools.base import Tool
from ebbtide.tools.compact_context import CompactContext


class Reminders:
    """Tracks which facts the model knows, and adds notes when they change."""

    def __init__(
        self,
        read_facts: Callable[[], ReminderFacts] = ReminderFacts,
        conversation: Conversation | None = None,
        first_note_threshold: float = 0.80,
        mode: str = "",
        is_interactive: bool | None = None,
    ) -> None:
        """Initially, the model knows the system prompt (the current environment without the tools) and the notes in the
        conversation. `mode`, `is_interactive`: the values in the system prompt, if they differ from the current
        ones."""
        self._read_facts = read_facts
        self._note_threshold = first_note_threshold
        facts = read_facts()
        was_interactive = facts.is_interactive if is_interactive is None else is_interactive
        self._initial_facts = replace(
            facts,
            deferred_count=0,
            server_tool_changes="",
            server_instructions=(),
            added_folders="",
            mode=mode or facts.mode,
            is_interactive=was_interactive,
        )
        self._known_facts = announced_facts(conversation or Conversation(), self._initial_facts)

    def correction_note(self, conversation: Conversation, used_percent: float, rewrite_count: int) -> Note | None:
        """Build a note that corrects an earlier note after a rewrite. None if no correction is needed."""
        return (
            context_correction_note(conversation, used_percent, self._note_threshold)
            if rewrite_count != self._known_facts.rewrite_count
            else None
        )

    def add_notes(self, message: User, state: SessionState, used_percent: float, rewrite_count: int) -> User:
        """Add all notes that are currently due. A message without parts gets none, because it is not sent. `state`: the
        session's state after the message. `used_percent`: percentage of the effective window taken by the next request.
        `rewrite_count`: number of rewrites so far."""
        if not message.parts:
            return message
        todos = format_open_items(state.todos)
        facts = replace(
            self._read_facts(),
            todos=todos,
            scratchpad=state.notes,
            used_percent=used_percent,
            rewrite_count=rewrite_count,
        )
        announced = self._known_facts
        if rewrite_count != announced.rewrite_count:
            announced = replace(
                self._initial_facts, rewrite_count=announced.rewrite_count, deferred_count=announced.deferred_count
            )
        self._known_facts = facts_after_notes(facts, announced, self._note_threshold)
        notes = choose_due_notes(facts, announced, self._note_threshold)
        return replace(message, parts=(*message.parts, *notes)) if notes else message


def build_reminder_facts(
    read_environment: Callable[[], ReminderFacts],
    approver: Approver,
    tools: Sequence[Tool],
    deferral: ToolDeferral,
    server_tools: ServerTools,
) -> ReminderFacts:
    """Return the facts from `read_environment` plus the current permissions and tools."""
    deferred_count, has_hosted_search = deferral.deferred_state
    return replace(
        read_environment(),
        mode=approver.policy.mode,
        added_folders="\n".join(approver.policy.added_folders),
        deferred_count=deferred_count,
        has_hosted_search=has_hosted_search,
        server_tool_changes=server_tools.change_summary(),
        server_instructions=server_tools.instructions,
        can_compact=deferral.is_offered(CompactContext.name)
        and any(tool.name == CompactContext.name for tool in tools),
    )
