"""What every wire's real server would say to the requests of a scripted session. Pure."""

from dataclasses import replace

from ebbtide.agent.messages import Assistant, Message, Reasoning
from ebbtide.agent.providers.base import Request
from ebbtide.agent.tool_specs import ToolSpec
from tests.kit.adapters import ADAPTERS, Adapter
from tests.kit.model_replies import thought
from tests.kit.strict_api import refusal


def refused_by_a_wire(request: Request, model: str) -> str | None:
    """Why one of the real servers would not take a request of a session with `model`, or None."""
    for adapter in ADAPTERS:
        provider, _, name = model.partition("/")
        facts = replace(adapter.facts, provider=provider, name=name)
        messages = tuple(_signed(message, adapter) for message in request.messages)
        tools = request.tools if adapter.name == "anthropic" else tuple(t for t in request.tools if not _is_plain(t))
        why = refusal(adapter.name, adapter.body(replace(request, messages=messages, tools=tools), facts))
        if why is not None:
            return f"{adapter.name}: {why}"
    return None


def _is_plain(tool: ToolSpec) -> bool:
    """Whether a definition is deferred in no group, which is sent to Anthropic alone, whose search finds such."""
    return tool.deferred_group is not None and not tool.deferred_group.name


def _signed(message: Message, adapter: Adapter) -> Message:
    """The message with its thoughts as they stand on that wire."""
    if not isinstance(message, Assistant):
        return message
    parts = (replace(p, native=thought(p.text, adapter.name)) if isinstance(p, Reasoning) else p for p in message.parts)
    return replace(message, parts=tuple(parts))
