"""Build and measure the next request, and choose its tools. Sends nothing."""

from dataclasses import replace

from ebbtide.agent.context.budget import BudgetSection, ContextBudget, Window
from ebbtide.agent.context.estimate import estimate_message, output_size
from ebbtide.agent.context.last_request import RequestMark
from ebbtide.agent.context.mask import visible_messages
from ebbtide.agent.context.message_text import message_text
from ebbtide.agent.context.prefix import digests_of
from ebbtide.agent.context.prompt import Instructions, Prompt
from ebbtide.agent.context.server_truncation import min_tokens
from ebbtide.agent.context.small_window import RECALL_TOOLS
from ebbtide.agent.context.tool_selection import ToolSpec
from ebbtide.agent.messages import Conversation, User
from ebbtide.agent.providers.base import Request
from ebbtide.agent.providers.meter import Meter
from ebbtide.agent.window.session_context import SessionContext


def budget_of(conversation: Conversation, env: SessionContext) -> ContextBudget:
    """Return the budget of the next request with the tools now offered, in the window as far as it is known."""
    prompt = env.view.prompt(conversation, env.instructions, images=env.provider.facts.images)
    return env.meter.measure(prompt, conversation, env.offered_tools, window_of(env), sections_of(env.instructions))


def count_ahead(conversation: Conversation, meter: Meter) -> None:
    """Measure every message in advance, because that takes a while for many. Thread-safe."""
    for message in visible_messages(conversation):
        meter.size_of(message)
        estimate_message(message)
        min_tokens((message,))
        digests_of(message)
        for output in message.outputs if isinstance(message, User) else ():
            output_size(output)


def sections_of(instructions: Instructions) -> dict[BudgetSection, str]:
    """Return the sections of the system prompt that a budget lists separately."""
    return {
        "instructions": instructions.project,
        "memories": instructions.memories,
        "skills": instructions.skills,
    }


def request_mark(env: SessionContext) -> RequestMark | None:
    """Return the mark of the last request: its prefix, its window, and the size of its tools."""
    mark = env.watch.mark
    if mark is None:
        return None
    mark = replace(mark, record=env.meter.record, scale=env.meter.scale, misses=env.watch.misses)
    if not env.watch.has_sent:
        return mark
    held_back = len(env.deferral.held_back), env.deferral.held_tokens
    window = replace(window_of(env), notices=())
    believed = env.provider.window.size if env.learned_limits.window is not None else None
    server = env.provider.facts.server
    return replace(
        mark, window=window, tool_tokens=env.meter.tool_tokens, held_back=held_back, server=server, believed=believed
    )


def window_of(env: SessionContext) -> Window:
    """Return the model's window; one learned from an overflow in this session takes precedence."""
    return env.learned_limits.window or env.provider.window


def to_request(prompt: Prompt, tools: tuple[ToolSpec, ...], env: SessionContext) -> Request:
    """Return the request for the provider."""
    return Request(
        prompt.system,
        prompt.messages,
        tools,
        window_of(env).output,
        env.recorder.family,
        env.effort,
        prompt.stable,
        env.watch.plan(prompt, tools, env.provider.facts),
    )


def is_over_trigger(conversation: Conversation, env: SessionContext) -> bool:
    """Whether the next request would have to wait for a compaction."""
    is_wanted = env.compacting.is_automatic and env.compacting.on_full == "compact"
    return is_wanted and budget_of(conversation, env).verdict != "fits"


def choose_tools(env: SessionContext) -> None:
    """Choose the tools to defer from now on: at the start of a session and at a rewrite. New tools of servers are added
    to the list."""
    before = env.offered_tools
    env.server_tools.accept_present()
    facts, effective = env.provider.facts, window_of(env).effective
    env.deferral.choose(
        env.tools,
        effective,
        env.meter.size_of_tool,
        env.emit,
        facts.tool_search,
        facts.most_tools,
        is_led=facts.is_small,
    )
    if env.offered_tools != before:
        env.watch.note_tool_change()


def with_tools_of_use(conversation: Conversation, env: SessionContext) -> Conversation:
    """Offer tools that a small window only gets when they become useful: those for jobs from the first job on, and the
    recall tools from the first reference on. Counts made with other tools are discarded."""
    has_jobs = bool(env.call_runner.workspace.jobs.by_id)
    has_kept = not all(map(env.deferral.offers, RECALL_TOOLS)) and _names_references(conversation, env)
    if not env.deferral.take_occasions(has_jobs=has_jobs, has_kept=has_kept):
        return conversation
    choose_tools(env)
    return replace(conversation, anchor=None, anchored=0)


def _names_references(conversation: Conversation, env: SessionContext) -> bool:
    """Whether the model sees a reference that one of these tools would recall."""
    prompt = env.view.prompt(conversation, env.instructions, images=env.provider.facts.images)
    said = (message for message in prompt.messages if isinstance(message, User))
    return any(name in message_text(message) for message in said for name in RECALL_TOOLS)
