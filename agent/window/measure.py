"""Builds and measures the next request, and chooses its tools. Sends nothing."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from ebbtide.agent.budget.last_request import RequestRecord
from ebbtide.agent.budget.prefix import part_digests
from ebbtide.agent.budget.request_budget import BudgetSection, ContextBudget
from ebbtide.agent.budget.server_truncation import min_tokens
from ebbtide.agent.events.session import Event
from ebbtide.agent.messages import Conversation, User
from ebbtide.agent.prompt.build import Instructions, Prompt
from ebbtide.agent.prompt.view_cache import ViewCache
from ebbtide.agent.providers.base import Request
from ebbtide.agent.providers.token_meter import TokenMeter
from ebbtide.agent.tokens.estimate import estimate_message, estimate_output
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.agent.view.visible import visible_messages
from ebbtide.agent.window.session_context import WindowContext

MeasuredConversation: TypeAlias = tuple[Conversation, ContextBudget]
"""A conversation, and its budget if it is sent as the next request."""


def measure_budget(conversation: Conversation, window: WindowContext) -> ContextBudget:
    """Return the next request's budget, based on the tools currently offered and the window size as currently known."""
    model = window.model
    prompt = window.view_cache.build_prompt(conversation, window.instructions, supports_images=model.facts.images)
    return model.meter.measure(
        prompt, conversation, window.tools.offered_specs, model.known_window, budget_sections(window.instructions)
    )


def warm_measurement_cache(conversation: Conversation, meter: TokenMeter) -> None:
    """Measure all messages in advance, so that the next request need not wait. Thread-safe."""
    for message in visible_messages(conversation):
        meter.estimate_message(message)
        estimate_message(message)
        min_tokens((message,))
        part_digests(message)
        for output in message.outputs if isinstance(message, User) else ():
            estimate_output(output)


def budget_sections(instructions: Instructions) -> dict[BudgetSection, str]:
    """Return the sections of the system prompt that a budget lists separately."""
    return {
        "instructions": instructions.project,
        "memories": instructions.memories,
        "skills": instructions.skills,
    }


def last_request_record(window: WindowContext) -> RequestRecord | None:
    """Return the record of the last request: its prefix, its window, and the size of its tools."""
    mark = window.prefix_watch.mark
    if mark is None:
        return None
    model, deferral = window.model, window.tools.deferral
    mark = replace(
        mark,
        record=model.meter.usage_check.count_record,
        scale=model.meter.scale,
        misses=window.prefix_watch.miss_count,
    )
    if not window.prefix_watch.has_sent:
        return mark
    return replace(
        mark,
        window=replace(model.known_window, notices=()),
        tool_tokens=model.meter.tool_tokens,
        held_back=(len(deferral.deferred_names), deferral.deferred_tokens),
        server=model.facts.server_digest,
        believed=model.provider.window.size if model.learned_limits.window is not None else None,
    )


def create_request(prompt: Prompt, tools: tuple[ToolSpec, ...], window: WindowContext) -> Request:
    model = window.model
    return Request(
        prompt.system,
        prompt.messages,
        tools,
        model.known_window.output,
        model.cache_key,
        model.effort,
        prompt.shared_prefix_chars,
        window.prefix_watch.plan_cache_breakpoints(prompt, tools, model.facts),
    )


def is_compaction_needed(conversation: Conversation, window: WindowContext) -> bool:
    """Whether a compaction would be necessary before the next request."""
    is_enabled = window.compaction_settings.is_automatic and window.compaction_settings.on_full == "compact"
    return is_enabled and measure_budget(conversation, window).verdict != "fits"


def choose_tools(window: WindowContext, emit: Callable[[Event], None]) -> None:
    """Choose the tools to defer from now on, and list any new server tools. Called at the start of a session and at
    each rewrite, because both begin a new prefix."""
    model, tools, facts = window.model, window.tools, window.model.facts
    previous_tools = tools.offered_specs
    tools.server_tools.update_listed()
    tools.deferral.choose_tools(
        tools.all_specs,
        model.known_window.available_tokens,
        model.meter.estimate_definition,
        emit,
        facts.tool_search,
        facts.max_tools,
        is_small_model=facts.is_small,
    )
    if tools.offered_specs != previous_tools:
        window.prefix_watch.allow_tool_change()


def create_request_sizer(conversation: Conversation, window: WindowContext) -> Callable[[Conversation], int]:
    """Create a function that measures requests in tokens, for variants of this conversation. It does not change the
    session's own measurements."""
    measuring_window = measuring_copy(window)
    measuring_window.model.meter.update_scale(conversation, measure_budget(conversation, measuring_window))
    return lambda view: measure_budget(view, measuring_window).used


def measuring_copy(window: WindowContext) -> WindowContext:
    """Return a copy with its own meter and view cache, so that another thread can use it to measure."""
    return replace(window, model=replace(window.model, meter=window.model.meter.fresh_copy()), view_cache=ViewCache())
