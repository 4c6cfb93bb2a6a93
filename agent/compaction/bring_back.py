"""Brings stored content back into view, at the end of the conversation. Messages already in view stay unchanged,
because unmasking an output in its place would change the cached prefix."""

from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

from ebbtide.agent.archive.recall import SessionRecall
from ebbtide.agent.budget.prices import Prices
from ebbtide.agent.budget.request_budget import ContextBudget
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.view import BroughtBack
from ebbtide.agent.messages import Conversation, Message, Note, User
from ebbtide.agent.window.measure import measure_budget
from ebbtide.agent.window.session_context import ModelContext, TurnContext, WindowContext
from ebbtide.tools.base import ToolError
from ebbtide.tools.files.image_types import IMAGE_TYPES
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.outputs.plain_text import is_mostly_binary
from ebbtide.tools.outputs.stored_content import StoredContent
from ebbtide.tools.read_result import referenced_range

T = TypeVar("T")

MAX_BROUGHT_BACK_BYTES = 51_200
"""Maximum number of bytes brought back at once."""
SNIFF_BYTES = 1 << 14
"""Number of bytes examined to determine whether the content is text."""
MIN_RETRY_BYTES = 64
"""Minimum number of content bytes to add. If fewer fit, the note is added without content."""


@dataclass(frozen=True, slots=True)
class BringBackResult:
    conversation: Conversation
    event: BroughtBack


async def bring_back_content(
    conversation: Conversation,
    window: WindowContext,
    turn: TurnContext,
    ref: str,
    recall: SessionRecall,
    *,
    is_dry_run: bool = False,
) -> BringBackResult:
    """Add the content of a reference to the conversation, limited to half of the remaining room. `is_dry_run`: change
    nothing; return the unchanged conversation and the event that would be emitted. Raises `AgentError`."""
    budget = measure_budget(conversation, window)
    max_tokens = budget.remaining // 2
    if max_tokens <= 0:
        raise AgentError("the window is full: free space with `/compact` first")
    stored = await recall.fetch(ref)
    with closing(stored.content):
        note, is_whole = _fit_note(stored, max_tokens, window.model.meter.estimate_message)
    message = User((note,))
    new_conversation = conversation.plus(message)
    event = _brought_back_event(stored.ref, budget, measure_budget(new_conversation, window), is_whole, window.model)
    if is_dry_run:
        return BringBackResult(conversation, event)
    await turn.recorder.record_user_message(message)
    turn.emit(event)
    return BringBackResult(new_conversation, event)


def _fit_note(
    stored_content: StoredContent, max_tokens: int, count_tokens: Callable[[Message], int]
) -> tuple[Note, bool]:
    """Return a note with as much of the content as fits into `max_tokens` tokens, and whether it is complete."""
    max_bytes = MAX_BROUGHT_BACK_BYTES
    while True:
        note, is_whole = build_bring_back_note(stored_content, max_bytes)
        token_count = count_tokens(User((note,)))
        if token_count <= max_tokens or max_bytes == 0:
            return note, is_whole
        max_bytes = max_bytes * max_tokens * 9 // (token_count * 10) if max_bytes > MIN_RETRY_BYTES else 0


def _brought_back_event(
    ref: str, budget: ContextBudget, new_budget: ContextBudget, is_whole: bool, model: ModelContext
) -> BroughtBack:
    new_tokens = new_budget.used - budget.used
    cost = cost_of_new_tokens(new_tokens, new_budget.used, model.facts.prices)
    return BroughtBack(ref, new_tokens, is_whole, new_budget.used, new_budget.window.available_tokens, cost)


def cost_of_new_tokens(new_tokens: int, request_tokens: int, prices: Prices | None) -> float | None:
    """Compute the cost, in US dollars, of `new_tokens` new tokens in a request of `request_tokens` tokens. None if
    prices are unknown."""
    if prices is None:
        return None
    price = prices.per_token(request_tokens)
    return new_tokens * max(price.cache_write, price.input)


def require_stored(lookup: T | None) -> T:
    """Return `lookup`. If it is None, the session is not stored: raise `AgentError`."""
    if lookup is None:
        raise AgentError("this session is not stored, so there is nothing to look up")
    return lookup


def build_bring_back_note(stored_content: StoredContent, max_bytes: int) -> tuple[Note, bool]:
    """Return a note with the content, or its beginning, and whether it is complete. Raises `AgentError`."""
    if not stored_content.media_type.startswith("text/"):
        advice = (
            "let the model read it with `recall`"
            if stored_content.media_type in IMAGE_TYPES
            else "`/archive` says how to save it"
        )
        raise AgentError(f"`{stored_content.ref}` is {stored_content.media_type}: {advice}")
    try:
        start, end = referenced_range(stored_content)
    except ToolError as error:
        raise AgentError(str(error)) from error
    data = stored_content.content.read(start, min(end - start, max_bytes))
    sample = stored_content.content.read(0, SNIFF_BYTES)
    if b"\0" in sample or is_mostly_binary(sample.decode("utf-8", "replace")):
        raise AgentError(f"`{stored_content.ref}` is not text: let the model read it with `read_result`")
    omitted_bytes = end - start - len(data)
    text = data.decode("utf-8", "ignore" if omitted_bytes > 0 else "replace")
    omission_note = (
        f"\n[… {pluralize(omitted_bytes, 'byte')} left out; `recall` shows them …]" if omitted_bytes > 0 else ""
    )
    note_text = f"[The user brings `{stored_content.ref}` back into view:]\n{text}{omission_note}"
    return Note(note_text, kind="brought", name=stored_content.ref), omitted_bytes <= 0
