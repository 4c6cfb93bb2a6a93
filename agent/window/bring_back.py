"""Bring stored content back into view, at its end. What is already in view stays unchanged: unmasking an output in
place would change what was sent before."""

from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

from ebbtide.agent.archive.recall import SessionRecall
from ebbtide.agent.context.budget import ContextBudget
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.view import BroughtBack
from ebbtide.agent.messages import Conversation, Message, Note, User
from ebbtide.agent.providers.base import Prices
from ebbtide.agent.window.measure import budget_of
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.base import ToolError
from ebbtide.tools.files.pictures import PICTURE_TYPES
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.outputs.plain_text import is_mostly_noise
from ebbtide.tools.outputs.stored import StoredContent
from ebbtide.tools.read_result import part_of

Part = TypeVar("Part")

MAX_BYTES = 51_200
"""Maximum bytes brought back at once."""
SNIFF_BYTES = 1 << 14
"""Bytes examined to tell whether the content is text."""
MIN_BYTES = 64
"""Below this many bytes a further attempt is not worth it."""


@dataclass(frozen=True, slots=True)
class BringBackResult:
    conversation: Conversation
    event: BroughtBack


async def bring_back(
    conversation: Conversation, env: SessionContext, ref: str, recall: SessionRecall, *, only_price: bool = False
) -> BringBackResult:
    """Add the content of a reference to the conversation, up to half of the remaining room. `only_price`: return the
    conversation unchanged, with the event that would be emitted. Raises `AgentError`."""
    before = budget_of(conversation, env)
    room = before.remaining // 2
    if room <= 0:
        raise AgentError("the window is full: `/compact` makes room first")
    found = await recall.fetch(ref)
    with closing(found.content):
        note, is_whole = _fitting(found, room, env.meter.size_of)
    message = User((note,))
    after = conversation.plus(message)
    event = _event(found.ref, before, budget_of(after, env), is_whole, env)
    if only_price:
        return BringBackResult(conversation, event)
    await env.recorder.record_user_message(message)
    env.emit(event)
    return BringBackResult(after, event)


def _fitting(found: StoredContent, room: int, size_of: Callable[[Message], int]) -> tuple[Note, bool]:
    """Return a note with as much of the content as fits into `room` tokens, and whether it is complete."""
    most = MAX_BYTES
    while True:
        note, is_whole = bring_back_note(found, most)
        size = size_of(User((note,)))
        if size <= room or most == 0:
            return note, is_whole
        most = most * room * 9 // (size * 10) if most > MIN_BYTES else 0


def _event(ref: str, before: ContextBudget, after: ContextBudget, is_whole: bool, env: SessionContext) -> BroughtBack:
    size = after.used - before.used
    cost = cost_of(size, after.used, env.provider.facts.prices)
    return BroughtBack(ref, size, is_whole, after.used, after.window.effective, cost)


def cost_of(size: int, used: int, prices: Prices | None) -> float | None:
    """US dollars for `size` tokens sent for the first time in a request of `used` tokens; None if prices are
    unknown."""
    if prices is None:
        return None
    price = prices.at(used)
    return size * max(price.cache_write, price.input)


def require_stored(part: Part | None) -> Part:
    """Return the part of the session that looks up stored content. Raises `AgentError` if the session is not stored."""
    if part is None:
        raise AgentError("this session is not stored, so there is nothing to look up")
    return part


def bring_back_note(found: StoredContent, most: int) -> tuple[Note, bool]:
    """Return a note with the content, or its beginning, and whether it is complete. Raises `AgentError`."""
    if not found.media_type.startswith("text/"):
        how = (
            "let the model read it with `recall`"
            if found.media_type in PICTURE_TYPES
            else "`/archive` says how to save it"
        )
        raise AgentError(f"`{found.ref}` is {found.media_type}: {how}")
    try:
        start, end = part_of(found)
    except ToolError as error:
        raise AgentError(str(error)) from error
    data = found.content.read(start, min(end - start, most))
    head = found.content.read(0, SNIFF_BYTES)
    if b"\0" in head or is_mostly_noise(head.decode("utf-8", "replace")):
        raise AgentError(f"`{found.ref}` is not text: let the model read it with `read_result`")
    rest = end - start - len(data)
    text = data.decode("utf-8", "ignore" if rest > 0 else "replace")
    left_out = f"\n[… {pluralize(rest, 'byte')} left out; `recall` shows them …]" if rest > 0 else ""
    said = f"[The user brings `{found.ref}` back into view:]\n{text}{left_out}"
    return Note(said, kind="brought", name=found.ref), rest <= 0
