"""A turn: the user's message, then steps until the model has answered. It names the steps; others do the work."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from agent.compaction import Compacted, compact, compaction_note
from agent.context.budget import ContextBudget, Section
from agent.context.offload import offload
from agent.context.prompt import Instructions, Prompt, build_prompt
from agent.context.select import ToolSpec, select_tools
from agent.context.wishes import compaction_wish
from agent.debug import Debug
from agent.errors import ContextExhausted
from agent.events import Cause, ContextMeasured, Event, StepStarted, TurnEnd
from agent.execute import Hands, run_calls
from agent.interrupt import Interrupt
from agent.messages import Assistant, Conversation, Note, ToolOutput, User
from agent.meter import Meter
from agent.providers.base import Provider, Reply, Request
from agent.recorder import Recorder
from agent.stream import stream_reply
from agent.tail import Tail
from agent.watch import Watch

StepEnd: TypeAlias = Literal["answered", "interrupted"] | None
"""How the turn ended with this step, or None when the model waits for the outputs of its calls."""


@dataclass(frozen=True, slots=True)
class Limits:
    steps: int | None = None
    """Requests that a turn may make."""
    cost: float | None = None
    """US dollars that may be spent before the next request is refused."""


@dataclass(frozen=True, slots=True)
class Env:
    """What a step works with."""

    provider: Provider
    instructions: Instructions
    tools: tuple[ToolSpec, ...]
    hands: Hands
    recorder: Recorder
    interrupt: Interrupt
    emit: Callable[[Event], None]
    spent: Callable[[], float]
    """US dollars so far in this run."""
    limits: Limits = Limits()  # a frozen value
    tail_tokens: int = 8000
    effort: str | None = None
    debug: Debug = field(default_factory=Debug)
    meter: Meter = field(default_factory=Meter)
    """What is known of the size of requests."""
    watch: Watch = field(default_factory=Watch)
    tail: Tail = field(default_factory=Tail)


@dataclass(frozen=True, slots=True)
class Step:
    conversation: Conversation
    reply: Reply
    end: StepEnd


async def take_step(conversation: Conversation, env: Env, *, last: bool = False) -> Step:
    """Show the model the conversation, do what it asks, and keep what came of it. In the last step that is allowed,
    calls are not run."""
    tools = select_tools(env.tools)
    prompt = build_prompt(conversation, env.instructions, images=env.provider.facts.images)
    budget = measure(prompt, conversation, tools, env)
    if budget.verdict != "fits":
        conversation = await make_room(conversation, env)
        prompt = build_prompt(conversation, env.instructions, images=env.provider.facts.images)
        budget = measure(prompt, conversation, tools, env)
    env.emit(ContextMeasured(budget.used, env.provider.window.size, env.provider.window.effective))
    if budget.verdict == "block" and not env.interrupt.requested():
        raise ContextExhausted(too_big(budget.used, env))

    request = env.watch.sending(to_request(prompt, tools, env), env.provider.facts)
    reply = await stream_reply(env.provider, request, env.interrupt, env.emit)
    env.watch.answered(reply.usage)
    conversation = env.meter.anchored(conversation, reply, budget, tools, env.emit)
    await env.recorder.replied(reply.message)

    outputs = not_run(reply) if last else await run_calls(reply.message.calls, env.hands)
    shown = with_notes(User(offload(outputs, budget)), conversation, env)
    conversation = conversation.plus(shown)
    await env.recorder.snapshot(conversation, shown)
    return Step(conversation, reply, end_of(reply, env.interrupt))


async def run_turn(said: User, conversation: Conversation, env: Env) -> tuple[Conversation, TurnEnd, str]:
    """The conversation after the model has answered what the user said, how the turn ended, and the answer."""
    said = with_notes(said, conversation, env)
    await env.recorder.said(said)
    conversation = conversation.plus(said)
    env.meter.begin_turn(said)
    for number in itertools.count(1):
        if env.limits.cost is not None and env.spent() >= env.limits.cost:
            return conversation, "cost_limit", last_words(conversation)
        conversation = await compact_if_asked(conversation, env)
        env.emit(StepStarted(number))
        step = await take_step(conversation, env, last=number == env.limits.steps)
        conversation = step.conversation
        if step.end is not None:
            return conversation, step.end, step.reply.message.text
        if number == env.limits.steps:
            return conversation, "step_limit", step.reply.message.text
    raise AssertionError("the count never ends")


def measure(prompt: Prompt, conversation: Conversation, tools: tuple[ToolSpec, ...], env: Env) -> ContextBudget:
    """The budget of the next request, by component."""
    parts = env.instructions
    sections: dict[Section, str] = {
        "instructions": parts.project,
        "memories": parts.memories,
        "skills": parts.skills,
    }
    return env.meter.measure(prompt, conversation, tools, env.provider.window, sections)


async def make_room(conversation: Conversation, env: Env) -> Conversation:
    """The conversation with its older part summarised, kept as such."""
    compacted = await compact_now(conversation, env, "full")
    return compacted.conversation


async def compact_if_asked(conversation: Conversation, env: Env) -> Conversation:
    """The conversation compacted and a note on what that changed, when the last step's calls asked for it."""
    wish = compaction_wish(conversation.messages)
    if wish is None:
        return conversation
    compacted = await compact_now(conversation, env, "asked", wish.focus)
    told = User((Note(compaction_note(compacted.result)),))
    await env.recorder.said(told)
    return compacted.conversation.plus(told)


async def compact_now(conversation: Conversation, env: Env, cause: Cause, focus: str | None = None) -> Compacted:
    """Compacts the conversation and keeps the result; what `/compact` does, too."""

    def request(asked: Conversation) -> Request:
        prompt = build_prompt(asked, env.instructions, images=env.provider.facts.images)
        return to_request(prompt, select_tools(env.tools), env)

    compacted = await compact(
        conversation, request, env.provider, env.tail_tokens, env.interrupt, env.emit, cause, focus
    )
    if compacted.result.strategies:
        env.meter.rewritten()
        env.watch.rewritten()
        await env.recorder.snapshot(compacted.conversation, User(()))
    return compacted


def to_request(prompt: Prompt, tools: tuple[ToolSpec, ...], env: Env) -> Request:
    """What is sent to the provider."""
    return Request(
        prompt.system,
        prompt.messages,
        tools,
        env.provider.window.output,
        env.recorder.session,
        env.effort,
        prompt.stable,
        env.watch.plan(prompt, tools, env.provider.facts),
    )


def with_notes(message: User, conversation: Conversation, env: Env) -> User:
    """The message with what the program has to tell the model besides, at the moment at which it is written down."""
    prompt = build_prompt(conversation.plus(message), env.instructions, images=env.provider.facts.images)
    budget = measure(prompt, conversation.plus(message), env.tools, env)
    # A request that does not fit is compacted before it is sent: what it says of its size would not be true any more.
    used = 100 * budget.used / budget.window.effective if budget.verdict == "fits" else 0.0
    return env.tail.add_to(message, used, env.watch.epoch)


def not_run(reply: Reply) -> tuple[ToolOutput, ...]:
    """Outputs for calls that the limit of steps leaves no request to answer."""
    text = "not run: the turn had reached its limit of steps"
    return tuple(ToolOutput(call.id, text, "interrupted") for call in reply.message.calls)


def end_of(reply: Reply, interrupt: Interrupt) -> StepEnd:
    if interrupt.requested() or reply.stop_reason == "interrupted":
        return "interrupted"
    return None if reply.message.calls or reply.stop_reason == "pause" else "answered"


def last_words(conversation: Conversation) -> str:
    """The text of the last reply, which is all the answer there is when a turn ends early."""
    for message in reversed(conversation.messages):
        if isinstance(message, Assistant):
            return message.text
    return ""


def too_big(used: int, env: Env) -> str:
    return (
        f"the conversation takes about {used:,} tokens, and `{env.provider.facts.id}` has room for "
        f"{env.provider.window.effective:,} even after compaction; start a new session or take a model with a larger "
        "window"
    )
