"""Ids of calls, each once in what is shown. Pure."""

import itertools
from collections.abc import Sequence, Set
from dataclasses import replace

from agent.messages import Assistant, Message, ToolCall


def with_own_ids(reply: Assistant, earlier: Set[str]) -> Assistant:
    """The reply with new ids for those of its calls whose id an earlier call has. Some servers count from the start in
    each reply, and what is kept of a call is kept by its id: the output of a later one would pass for masked."""
    if not any(call.id in earlier for call in reply.calls):
        return reply
    taken = {*earlier, *(call.id for call in reply.calls)}
    parts = [
        replace(part, id=_free(part.id, taken)) if isinstance(part, ToolCall) and part.id in earlier else part
        for part in reply.parts
    ]
    return replace(reply, parts=tuple(parts))


def are_own(shown: Sequence[Message]) -> bool:
    """Whether no two calls have the same id."""
    ids = [call.id for message in shown if isinstance(message, Assistant) for call in message.calls]
    return len(set(ids)) == len(ids)


def _free(id: str, taken: set[str]) -> str:
    free = next(name for number in itertools.count(2) if (name := f"{id}-{number}") not in taken)
    taken.add(free)
    return free
