"""The next request and its size, as the session's parts see them, and the tools that are chosen anew. Nothing is
sent."""

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
    """The budget of the next request with the tools that are offered now, in the window as far as it is known."""
    prompt = env.view.prompt(conversation, env.instructions, images=env.provider.facts.images)
    return env.meter.measure(prompt, conversation, env.offered_tools, window_of(env), sections_of(env.instructions))


def count_ahead(conversation: Conversation, meter: Meter) -> None:
    """What is asked of each message before a session goes on, found out ahead: with many that takes a while. In any
    thread."""
    for message in visible_messages(conversation):
        meter.size_of(message)
        estimate_message(message)
        min_tokens((message,))
        digests_of(message)
        for output in message.outputs if isinstance(message, User) else ():
            output_size(output)


def sections_of(instructions: Instructions) -> dict[BudgetSection, str]:
    """The parts of the system text that a budget shows by themselves."""
    return {
        "instructions": instructions.project,
        "memories": instructions.memories,
        "skills": instructions.skills,
    }


def request_mark(env: SessionContext) -> RequestMark | None:
    """What the session remembers of its last request: how it began, what it had to fit into, what its tools took."""
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
    """The window of the model: what an overflow has taught in this session goes before what is known of it."""
    return env.learned_limits.window or env.provider.window


def to_request(prompt: Prompt, tools: tuple[ToolSpec, ...], env: SessionContext) -> Request:
    """What is sent to the provider."""
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
    """Chooses the tools that are held back from now on: at the start of a session, and at a rewrite of its view.
    What servers have brought meanwhile joins them."""
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
    """The conversation, with tools offered that a small window is not offered before they are of use: those for jobs
    from the first job on, those that bring back from the first reference on. What was counted with other tools does not
    hold any more."""
    has_jobs = bool(env.call_runner.workspace.jobs.by_id)
    has_kept = not all(map(env.deferral.offers, RECALL_TOOLS)) and _names_references(conversation, env)
    if not env.deferral.take_occasions(has_jobs=has_jobs, has_kept=has_kept):
        return conversation
    choose_tools(env)
    return replace(conversation, anchor=None, anchored=0)


def _names_references(conversation: Conversation, env: SessionContext) -> bool:
    """Whether the model is told of something by which one of these tools would bring it back."""
    prompt = env.view.prompt(conversation, env.instructions, images=env.provider.facts.images)
    said = (message for message in prompt.messages if isinstance(message, User))
    return any(name in message_text(message) for message in said for name in RECALL_TOOLS)
