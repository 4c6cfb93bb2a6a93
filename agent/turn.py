"""A turn: the user's message, then steps until the model has answered. It names the steps; others do the work."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from agent.compaction import Compacted, Lessons, Summarisers, Work, compact, compaction_note
from agent.context.budget import ContextBudget, Section, Window, after_overflow
from agent.context.compact import Compacting, Room, size_of
from agent.context.final import FINAL, FULL, LAST, answer_in, not_run, report_in, was_told_to_report
from agent.context.offload import offload
from agent.context.prompt import Instructions, Prompt, build_prompt
from agent.context.select import ToolSpec, select_tools
from agent.context.wishes import compaction_wish
from agent.debug import Debug
from agent.errors import ContextExhausted, ContextOverflow
from agent.events import Cause, ContextMeasured, Event, FinalTurn, StepStarted, TurnEnd, WindowLearned
from agent.execute import Hands, run_calls
from agent.interrupt import Interrupt
from agent.messages import Assistant, Conversation, Note, User
from agent.meter import Meter
from agent.providers.base import Provider, Reply, Request
from agent.recorder import Recorder
from agent.stream import stream_reply
from agent.tail import Tail
from agent.watch import Watch

StepEnd: TypeAlias = Literal["answered", "interrupted", "context_limit"] | None
"""How the turn ended with this step, or None when the model waits for the outputs of its calls."""

RECOVERIES = 3
"""How often a request that the provider found too large is made smaller and sent again."""


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
    compacting: Compacting = Compacting()  # noqa: RUF009  # a frozen value
    summarisers: Summarisers | None = None
    """The models that the user set for summaries."""
    lessons: Lessons = field(default_factory=Lessons)
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
    """Show the model the conversation, do what it asks, and keep what came of it. In the last step that is allowed, and
    when the window is full and there is to be a report, calls are not run."""
    tools = select_tools(env.tools)
    conversation, budget = await make_room(conversation, tools, env)
    is_final = ends_in_report(budget, env)
    was_told = is_final and was_told_to_report(conversation)
    if is_final and not was_told:
        conversation = await tell_to_report(conversation, budget, env)

    conversation, reply = await ask(conversation, tools, env)
    conversation = env.meter.anchored(conversation, reply, budget, tools, env.emit)
    await env.recorder.replied(reply.message)

    outputs = (
        not_run(reply.message, FULL if is_final else LAST)
        if is_final or last
        else await run_calls(reply.message.calls, env.hands)
    )
    shown = with_notes(User(offload(outputs, budget)), conversation, env)
    conversation = conversation.plus(shown)
    await env.recorder.snapshot(conversation, shown)
    return Step(conversation, reply, end_of(reply, env.interrupt) or ("context_limit" if was_told else None))


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
            return conversation, step.end, answer_in(step.reply.message)
        if number == env.limits.steps:
            return conversation, "step_limit", answer_in(step.reply.message)
    raise AssertionError("the count never ends")


async def make_room(
    conversation: Conversation, tools: tuple[ToolSpec, ...], env: Env
) -> tuple[Conversation, ContextBudget]:
    """The conversation in a form that fits into the window, and its budget. Where a full window is to end in a report,
    only what would not fit at all is compacted. Raises `ContextExhausted`."""
    budget, problem = budget_of(conversation, tools, env), ""
    if budget.verdict != "fits" and not ends_in_report(budget, env):
        compacted = await compact_now(conversation, env, "full")
        conversation, problem = compacted.conversation, compacted.problem
        budget = budget_of(conversation, tools, env)
    env.emit(ContextMeasured(budget.used, budget.window.size, budget.window.effective))
    if budget.verdict == "block" and not ends_in_report(budget, env) and not env.interrupt.requested():
        raise ContextExhausted(too_big(budget, problem, env))
    return conversation, budget


def ends_in_report(budget: ContextBudget, env: Env) -> bool:
    """Whether the window is full and the user wants a report then, and there is room to ask for it."""
    return env.compacting.on_full == "final" and budget.verdict != "fits" and budget.remaining >= 0


async def compact_now(
    conversation: Conversation, env: Env, cause: Cause = "asked", focus: str | None = None, counted: int | None = None
) -> Compacted:
    """Compacts the conversation and keeps the result; what `/compact` does, too. `counted`: what the provider counted
    in the request that was too large."""

    def request(asked: Conversation) -> Request:
        prompt = build_prompt(asked, env.instructions, images=env.provider.facts.images)
        return to_request(prompt, select_tools(env.tools), env)

    budget = budget_of(conversation, select_tools(env.tools), env)
    room = room_of(budget, conversation, counted)
    work = Work(env.provider, request, room, env.compacting, env.interrupt, env.emit, env.lessons, env.summarisers)
    compacted = await compact(conversation, work, cause, focus)
    if compacted.result.strategies:
        env.meter.rewritten()
        env.watch.rewritten()
        await env.recorder.snapshot(compacted.conversation, User(()))
        env.debug.say("context/emergency" if cause == "overflow" else "context/compact", **told(compacted, cause))
    return compacted


async def ask(conversation: Conversation, tools: tuple[ToolSpec, ...], env: Env) -> tuple[Conversation, Reply]:
    """The model's reply, and the conversation that it answers. A request that the provider finds too large is made
    smaller and sent again, three times at most. Raises `ContextExhausted`."""
    for attempt in itertools.count(1):
        prompt = build_prompt(conversation, env.instructions, images=env.provider.facts.images)
        request = env.watch.sending(to_request(prompt, tools, env), env.provider.facts)
        try:
            reply = await stream_reply(env.provider, request, env.interrupt, env.emit)
        except ContextOverflow as error:
            smaller = await recover(conversation, tools, env, attempt, error.size, error.limit)
            if smaller is None:
                raise ContextExhausted(f"{error}. {too_big(budget_of(conversation, tools, env), '', env)}") from error
        else:
            env.watch.answered(reply.usage)
            if reply.stop_reason != "overflow":
                return conversation, reply
            smaller = await recover(conversation, tools, env, attempt, reply.usage.total or None, None)
            if smaller is None and not reply.message.parts:
                raise ContextExhausted(too_big(budget_of(conversation, tools, env), "", env))
            if smaller is None:
                return conversation, reply
        conversation = smaller
    raise AssertionError("the count never ends")


async def recover(
    conversation: Conversation,
    tools: tuple[ToolSpec, ...],
    env: Env,
    attempt: int,
    size: int | None,
    limit: int | None,
) -> Conversation | None:
    """The conversation made smaller after the provider found it too large, and the real window learnt from that. None
    when this was the last attempt, or nothing can be made smaller."""
    if attempt > RECOVERIES:
        return None
    budget = budget_of(conversation, tools, env)
    env.lessons.window = after_overflow(budget.window, size or budget.used, limit)
    env.emit(WindowLearned(env.lessons.window.size, attempt, RECOVERIES))
    compacted = await compact_now(conversation, env, "overflow", counted=size)
    return compacted.conversation if compacted.result.strategies else None


async def compact_if_asked(conversation: Conversation, env: Env) -> Conversation:
    """The conversation compacted and a note on what that changed, when the last step's calls asked for it."""
    wish = compaction_wish(conversation.messages)
    if wish is None:
        return conversation
    compacted = await compact_now(conversation, env, "asked", wish.focus)
    told = User((Note(compaction_note(compacted.result)),))
    await env.recorder.said(told)
    return compacted.conversation.plus(told)


def is_over_trigger(conversation: Conversation, env: Env) -> bool:
    """Whether the next request would have to wait for a compaction."""
    return (
        env.compacting.on_full == "compact" and budget_of(conversation, select_tools(env.tools), env).verdict != "fits"
    )


def budget_of(conversation: Conversation, tools: tuple[ToolSpec, ...], env: Env) -> ContextBudget:
    """The budget of the next request, in the window as far as it is known by now."""
    prompt = build_prompt(conversation, env.instructions, images=env.provider.facts.images)
    parts = env.instructions
    sections: dict[Section, str] = {
        "instructions": parts.project,
        "memories": parts.memories,
        "skills": parts.skills,
    }
    return env.meter.measure(prompt, conversation, tools, window_of(env), sections)


def window_of(env: Env) -> Window:
    """The window of the model: what an overflow has taught in this session goes before what is known of it."""
    return env.lessons.window or env.provider.window


def room_of(budget: ContextBudget, conversation: Conversation, counted: int | None) -> Room:
    """The window for a compaction. Sizes after it can only be estimated, so they are scaled by how much more the
    provider counted than was estimated."""
    system = budget.system + budget.instructions + budget.memories + budget.skills
    estimated = system + budget.tools + size_of(conversation)
    scale = max(counted or 0, budget.used) / max(estimated, 1)
    window = budget.window
    scale = min(max(scale, 1.0), 3.0)
    return Room(window.effective, system, budget.tools, window.compact_trigger, scale, window.buffer)


def told(compacted: Compacted, cause: Cause) -> dict[str, object]:
    """The fields of a debug line about a compaction."""
    result = compacted.result
    sizes = {"beforeTokens": result.before_tokens, "afterTokens": result.after_tokens}
    if cause == "overflow":
        return {"reason": cause, "rung": result.strategies[-1], **sizes}
    counts = {"beforeMessages": result.before_messages, "afterMessages": result.after_messages}
    return {"reason": cause, "strategies": result.strategies, **sizes, **counts}


async def tell_to_report(conversation: Conversation, budget: ContextBudget, env: Env) -> Conversation:
    """The conversation with a note that this is the final turn."""
    note = User((Note(FINAL),))
    await env.recorder.said(note)
    env.emit(FinalTurn(budget.used, budget.window.effective))
    env.debug.say("context/final-turn", reason="context", projectedTokens=budget.used, limit=budget.window.effective)
    return conversation.plus(note)


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
    budget = budget_of(conversation.plus(message), env.tools, env)
    # A request that does not fit is compacted before it is sent: what it says of its size would not be true any more.
    used = 100 * budget.used / budget.window.effective if budget.verdict == "fits" else 0.0
    return env.tail.add_to(message, used, env.watch.epoch)


def end_of(reply: Reply, interrupt: Interrupt) -> StepEnd:
    if interrupt.requested() or reply.stop_reason == "interrupted":
        return "interrupted"
    is_waiting = (reply.message.calls and report_in(reply.message) is None) or reply.stop_reason == "pause"
    return None if is_waiting else "answered"


def last_words(conversation: Conversation) -> str:
    """The text of the last reply, which is all the answer there is when a turn ends early."""
    for message in reversed(conversation.messages):
        if isinstance(message, Assistant):
            return message.text
    return ""


def too_big(budget: ContextBudget, problem: str, env: Env) -> str:
    why = f" ({problem})" if problem else ""
    return (
        f"the conversation takes about {budget.used:,} tokens, and `{env.provider.facts.id}` has room for "
        f"{budget.window.effective:,} even after compaction{why}; start a new session or take a model with a larger "
        "window"
    )
