"""What left the view, brought back to its end at the user's wish. What is already in the view stays as it is: to show a
masked output again in its place would change what was sent before."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from agent.env import Env
from agent.errors import AgentError
from agent.events import BroughtBack
from agent.measuring import budget_of
from agent.messages import Conversation, Note, User
from agent.recall import Recall
from tools.kept import Found
from tools.pictures import PICTURE_TYPES

Part = TypeVar("Part")

MOST = 51_200
"""Bytes that are brought back at once."""
BYTES_A_TOKEN = 3


@dataclass(frozen=True, slots=True)
class Brought:
    conversation: Conversation
    event: BroughtBack


def bring_back(ref: str, recall: Recall) -> Callable[[Conversation, Env], Awaitable[Brought]]:
    """Adds what a reference stands for, or as much of it as half of the room that is left takes, to a conversation.
    Raises `AgentError`."""

    async def work(conversation: Conversation, env: Env) -> Brought:
        before = budget_of(conversation, env)
        room = before.remaining // 2
        if room <= 0:
            raise AgentError("the window is full: `/compact` makes room first")
        found = await recall.fetch(ref)
        try:
            text = told(found, min(room * BYTES_A_TOKEN, MOST))
        finally:
            found.content.close()
        message = User((Note(text),))
        await env.recorder.said(message)
        after = conversation.plus(message)
        budget = budget_of(after, env)
        is_whole = not text.endswith("…]")
        event = BroughtBack(found.ref, budget.used - before.used, is_whole, budget.used, budget.window.size)
        env.emit(event)
        return Brought(after, event)

    return work


def kept(part: Part | None) -> Part:
    """What looks up what is kept. Raises `AgentError` when nothing is."""
    if part is None:
        raise AgentError("this session keeps nothing that could be looked up")
    return part


def told(found: Found, most: int) -> str:
    """What the model is told: the content, or its beginning. Raises `AgentError`."""
    if not found.media_type.startswith("text/"):
        how = (
            "let the model read it with `recall`"
            if found.media_type in PICTURE_TYPES
            else "`/archive` says how to save it"
        )
        raise AgentError(f"`{found.ref}` is {found.media_type}: {how}")
    content, (start, end) = found.content, (0, found.content.size)
    if found.span is not None:
        start, end = found.span
    if found.lines is not None:
        start, end = content.line_start(found.lines[0]), content.line_start(found.lines[1] + 1)
    data = content.read(start, min(end - start, most))
    rest = end - start - len(data)
    text = data.decode("utf-8", "ignore" if rest > 0 else "replace")
    left_out = f"\n[… {rest:,} bytes left out; `recall` shows them …]" if rest > 0 else ""
    return f"[The user brings `{found.ref}` back into view:]\n{text}{left_out}"
