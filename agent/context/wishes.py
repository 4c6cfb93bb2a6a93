"""What the model asked to be done with its own context. Pure: messages in, wishes out."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.messages import Assistant, Message, User


@dataclass(frozen=True, slots=True)
class CompactionWish:
    focus: str | None


def compaction_wish(messages: Sequence[Message]) -> CompactionWish | None:
    """What the last step's `compact_context` call asks for, or None without one. Once anything was said after that
    step, its wish is over."""
    match messages:
        case (*_, Assistant() as reply, User() as outputs) if not outputs.text:
            done = {output.call_id for output in outputs.outputs if output.status == "done"}
        case _:
            return None
    for call in reversed(reply.calls):
        if call.name == "compact_context" and call.id in done:
            focus = call.arguments.get("focus")
            return CompactionWish(focus if isinstance(focus, str) and focus.strip() else None)
    return None
