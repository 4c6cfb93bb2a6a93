"""A manual compaction, step by step: preview, summary, compaction; and its undo."""

from typing import TYPE_CHECKING

from ebbtide.agent.context.estimate import estimate_text
from ebbtide.agent.context.summary import as_text, read_edited, with_facts
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.view import RewriteUndone
from ebbtide.agent.window.compact import CompactResult
from ebbtide.agent.window.manual_compact import Preview, SummaryDraft, apply_summary, draft_summary, preview_compaction
from ebbtide.agent.window.undo import offer_undo, undo
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.text.numbers import dollars

if TYPE_CHECKING:  # types only: what a session is made of is loaded behind the first paint
    from ebbtide.agent.session import Session


class ManualCompaction:
    """Changes nothing until `apply`. The cost of an unused summary is reported."""

    def __init__(self, controller: SessionController, session: "Session", preview: Preview) -> None:
        self._controller = controller
        self._session = session
        self.preview = preview
        self.drafted = SummaryDraft(preview.conversation, None)
        """The last summary draft."""
        self.is_done = False

    @property
    def text(self) -> str:
        """The summary as drafted, for editing."""
        return as_text(self.drafted.draft) if self.drafted.draft is not None else ""

    async def draft(self) -> SummaryDraft:
        """Have a model write the summary; can be interrupted. Raises `AgentError`."""
        before = self.drafted.cost
        with self._controller.busy_with("summarising"):
            drafted = await self._session.change(draft_summary, self.preview, self._controller.advance)
        cost = None if before is None or drafted.cost is None else before + drafted.cost
        self.drafted = SummaryDraft(drafted.conversation, drafted.draft, drafted.model, cost, drafted.is_interrupted)
        return self.drafted

    def result(self, text: str) -> CompactResult:
        """The result of compacting with this text."""
        return self.preview.result(read_edited(text))

    def missing(self, text: str) -> tuple[str, ...]:
        """Required facts missing from an edited summary. An empty text is replaced by the facts."""
        draft = read_edited(text)
        return self.preview.missing(draft) if draft is not None else ()

    def with_missing_facts(self, text: str) -> str:
        """The text with the missing facts added."""
        missing = self.missing(text)
        return with_facts(text.rstrip(), missing) if missing else text

    async def apply(self, text: str) -> None:
        """Compact with this text. Raises `AgentError`, and then nothing has changed."""
        with self._controller.busy_with("compacting"):
            await self._session.change(
                apply_summary, self.preview, read_edited(text), self.drafted, self._controller.advance
            )
        self.is_done = True

    def interrupt(self) -> None:
        self._session.interrupt()

    def leave(self) -> None:
        """Report the cost of an unused summary."""
        if self.is_done or self.drafted.cost == 0.0:
            return
        cost = "at an unknown price" if self.drafted.cost is None else f"for {dollars(self.drafted.cost)}"
        self._controller.notice(f"nothing was compacted; a summary was made {cost} and is not used")


def size_of(text: str) -> int:
    """The approximate tokens of a summary."""
    draft = read_edited(text)
    return estimate_text(draft.retain) + estimate_text(draft.summary) if draft is not None else 0


async def begin(controller: SessionController, focus: str) -> ManualCompaction | None:
    """Start a manual compaction; None if there is nothing to compact, which is shown."""
    session = controller.session
    if session is None:
        return None
    try:
        with controller.busy_with("looking at what there is"):
            return ManualCompaction(controller, session, await session.change(preview_compaction, focus or None))
    except AgentError as error:
        controller.notice(str(error))
        return None


async def what_undo_does(controller: SessionController) -> RewriteUndone | None:
    """What undoing the last rewrite would change and cost; None, with a notice, if that is impossible."""
    if controller.session is None:
        return None
    try:
        return (await controller.session.change(offer_undo)).event
    except AgentError as error:
        controller.notice(str(error))
        return None


async def take_back(controller: SessionController) -> None:
    """Undo the last rewrite. A failure is shown and changes nothing."""
    if controller.session is None:
        return
    try:
        with controller.busy_with("undoing"):
            controller.advance((await controller.session.change(undo)).event)
    except AgentError as error:
        controller.notice(str(error))
