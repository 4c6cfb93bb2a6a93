"""The thinking settings of Anthropic's models."""

from collections.abc import Sequence

from ebbtide.agent.messages import (
    Assistant,
    Message,
    ProviderItem,
    Reasoning,
)
from ebbtide.agent.providers.base import ModelFacts, Request
from ebbtide.agent.providers.wires.http import JsonObject


def thinking_body(request: Request, facts: ModelFacts) -> JsonObject:
    if facts.thinking == "adaptive":
        if request.effort == "none":
            return {}
        thinking: JsonObject = {"thinking": {"type": "adaptive", "display": "summarized"}}
        if request.effort:
            thinking["output_config"] = {"effort": "low" if request.effort == "minimal" else request.effort}
        return thinking
    budget = facts.thinking_budget(request.effort, request.max_output_tokens)
    if not budget or not _may_think(request.messages, facts):
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _may_think(messages: Sequence[Message], facts: ModelFacts) -> bool:
    """Whether thinking may be requested. Models with a budget refuse to start thinking in the middle of a turn, so a
    turn that began without thinking stays without it. To the provider, a user message right after outputs does not
    begin a new turn, because it is merged with them."""
    has_outputs = False
    for message in reversed(messages):
        if isinstance(message, Assistant):
            has_thought = message.model == facts.id and isinstance(
                next(iter(message.parts), None), Reasoning | ProviderItem
            )
            return has_thought or not (has_outputs and message.calls)
        has_outputs = has_outputs or bool(message.outputs)
    return True
