"""Manual compaction in steps: preview, summary, compaction."""

from typing import TYPE_CHECKING

from ebbtide.agent.compaction.compact import CompactionResult
from ebbtide.agent.compaction.manual_compaction import (
    CompactionPreview,
    DraftResult,
    apply_summary,
    draft_summary,
    preview_compaction,
)
from ebbtide.agent.compaction.summary import draft_text, parse_edited_summary, with_facts
from ebbtide.agent.errors import AgentError
from ebbtide.agent.tokens.estimate import estimate_text
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.text.numbers import format_dollars

if TYPE_CHECKING:  # session modules load only after the first paint
    from ebbtide.agent.session import Session


class ManualCompaction:
    """A manual compaction. The conversation is changed only by `apply`."""

    def __init__(self, controller: SessionController, session: "Session", preview: CompactionPreview) -> None:
        self._controller = controller
        self._session = session
        self.preview = preview
        self.last_draft = DraftResult(preview.conversation, None)
        """The most recent draft of the summary."""
        self.is_done = False

    @property
    def summary_text(self) -> str:
        """The drafted summary, for editing."""
        return draft_text(self.last_draft.draft) if self.last_draft.draft is not None else ""

    async def draft(self) -> DraftResult:
        """Let a model write the summary. The user can interrupt this. Raises `AgentError`."""
        previous_cost = self.last_draft.cost
        with self._controller.busy_with("summarising"):
            draft = await self._session.change_conversation(draft_summary, self.preview, self._controller.show_event)
        cost = None if previous_cost is None or draft.cost is None else previous_cost + draft.cost
        self.last_draft = DraftResult(draft.conversation, draft.draft, draft.model, cost, draft.is_interrupted)
        return self.last_draft

    def predict_result(self, text: str) -> CompactionResult:
        """Predict the result of compacting with this summary."""
        return self.preview.result(parse_edited_summary(text))

    def missing_facts(self, text: str) -> tuple[str, ...]:
        """Find required facts that an edited summary lacks. An empty summary lacks none, because the facts then become
        the summary."""
        draft = parse_edited_summary(text)
        return self.preview.missing_facts(draft) if draft is not None else ()

    def with_missing_facts(self, text: str) -> str:
        """Add the missing facts to the summary."""
        missing_facts = self.missing_facts(text)
        return with_facts(text.rstrip(), missing_facts) if missing_facts else text

    async def apply(self, text: str) -> None:
        """Compact with this summary. If `AgentError` is raised, nothing has changed."""
        with self._controller.busy_with("compacting"):
            await self._session.change_conversation(
                apply_summary, self.preview, parse_edited_summary(text), self.last_draft, self._controller.show_event
            )
        self.is_done = True

    def interrupt(self) -> None:
        self._session.interrupt()

    def report_unused_cost(self) -> None:
        """Report the cost of a summary that was not used."""
        if self.is_done or self.last_draft.cost == 0.0:
            return
        cost = "price unknown" if self.last_draft.cost is None else format_dollars(self.last_draft.cost)
        self._controller.show_notice(f"nothing was compacted; the summary was discarded ({cost})")


def estimate_summary_tokens(text: str) -> int:
    """Estimate the number of tokens of a summary."""
    draft = parse_edited_summary(text)
    return estimate_text(draft.retain) + estimate_text(draft.summary) if draft is not None else 0


async def begin_compaction(controller: SessionController, focus: str) -> ManualCompaction | None:
    """Start a manual compaction. If there is nothing to compact, show why and return None."""
    session = controller.session
    if session is None:
        return None
    try:
        with controller.busy_with("measuring the context"):
            return ManualCompaction(
                controller, session, await session.change_conversation(preview_compaction, focus or None)
            )
    except AgentError as error:
        controller.show_notice(str(error))
        return None
