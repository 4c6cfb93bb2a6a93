"""The thinking settings of Anthropic's models."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebbtide.agent.messages import (
    Assistant,
    Message,
    ProviderItem,
    Reasoning,
)
from ebbtide.agent.providers.base import ModelFacts, Request
from ebbtide.agent.providers.wires.http import Json

if TYPE_CHECKING:
    pass

BUDGETS = {"minimal": 1024, "low": 2048, "high": 16384, "xhigh": 32768, "max": 65536}
"""Thinking tokens by effort, for models that need a budget."""

USUAL_BUDGET = 8192

LEAST_BUDGET = 1024
"""The smallest budget that the API accepts."""


def thinking_body(request: Request, facts: ModelFacts) -> Json:
    if facts.thinking == "adaptive":
        if request.effort == "none":
            return {}
        thinking: Json = {"thinking": {"type": "adaptive", "display": "summarized"}}
        if request.effort:
            thinking["output_config"] = {"effort": "low" if request.effort == "minimal" else request.effort}
        return thinking
    budget = min(BUDGETS.get(request.effort or "", USUAL_BUDGET), request.max_output_tokens // 2)
    if facts.thinking != "budget" or request.effort == "none" or budget < LEAST_BUDGET:
        return {}
    if not _thought_so_far(request.messages, facts):
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _thought_so_far(messages: Sequence[Message], facts: ModelFacts) -> bool:
    """False within a turn that began without thinking: models with a budget refuse to start thinking there. A user
    message right after outputs is merged with them, so it does not end the turn for the provider."""
    has_outputs = False
    for message in reversed(messages):
        if isinstance(message, Assistant):
            began = message.model == facts.id and isinstance(message.parts[0], Reasoning | ProviderItem)
            return began or not (has_outputs and message.calls)
        has_outputs = has_outputs or bool(message.outputs)
    return True
