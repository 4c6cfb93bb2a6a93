"""Compaction as it happens: one strategy after the other, from the cheapest to the last resort, until there is room.
What each of them makes of a conversation is decided in `agent.context.compaction`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from agent.context.apply_strategy import climb, cut_outputs, is_enough
from agent.context.compaction import (
    LEAST_SUMMARY,
    CompactionPlan,
    Floor,
    can_pay,
    compacted,
    fitting_caps,
    is_worth_it,
    plan_at,
    plan_compaction,
    solve_floor,
)
from agent.context.estimate import estimate_text
from agent.context.pins import SHORTENED, smaller_pins
from agent.context.receipt import receipt
from agent.context.settings import CompactionSettings
from agent.context.strategies import CUT, LADDERS, TOOLS, Room, Strategy, size_of
from agent.context.summary import Draft, Reading, RefusedSummary, instruction, read_reply, without_open_calls
from agent.context.summary_cost import SummaryJob
from agent.context.transcript import chunks, named_outputs, transcript
from agent.errors import AgentError, ContextOverflow, EmptyAnswer, ProviderError
from agent.events import Event, Noticed, ReplyFinished, RetryScheduled
from agent.interrupt import Interrupt
from agent.messages import Conversation, Text, User
from agent.providers.base import Provider, Request
from agent.providers.learned_limits import FAILURES, SMALL, LearnedLimits, Summarisers
from agent.providers.stream import stream_reply
from agent.view_events import Cause, CompactionFailed, CompactionStarted, ContextCompacted, Price, ReceiptItem
from tools.extent import counted

NO_MORE = f"{FAILURES} summaries in a row could not be used, so no more are asked for; `/compact` tries again"
READER = (
    "You write down what a coding session has been about, so that somebody else can go on with it without having "
    "seen it."
)
MOST_CHUNKS = 24
"""Pieces of a conversation that are summarised one after the other. What is longer is left to the ledger."""


@dataclass(frozen=True, slots=True)
class CompactResult:
    before_tokens: int
    after_tokens: int
    before_messages: int
    after_messages: int
    strategies: tuple[str, ...]
    """What ran, in order: `tools` held back, `pins` shown by their ends, `mask`, `share`, `summary` or `chunks` by a
    model, `ledger` without one, `mask_all`, `attachments`, `cut`, `drop`, `last`, `pictures`, `least`, `references`,
    `step`, `words`. Empty when nothing could be gained."""
    is_interrupted: bool = False
    """The user was faster: the conversation is as it was."""


@dataclass(frozen=True, slots=True)
class Compacted:
    conversation: Conversation
    result: CompactResult
    problem: str = ""
    """Which component is too large, when what stays after any compaction leaves too little room."""


@dataclass(frozen=True, slots=True)
class CompactionContext:
    """What a compaction works with."""

    provider: Provider
    request: Callable[[Conversation], Request]
    """What would be sent to the provider to go on with a conversation: the same system text and tools."""
    room: Room
    size: Callable[[Conversation], int]
    """Tokens of the request that a conversation would be sent with, by the measure of all other figures."""
    settings: CompactionSettings
    interrupt: Interrupt
    emit: Callable[[Event], None]
    lessons: LearnedLimits = field(default_factory=LearnedLimits)
    summarisers: Summarisers | None = None
    is_cold: bool = False
    """Nothing of the conversation is in the provider's cache any more."""
    price_of: Callable[[Sequence[str]], Price | None] = lambda strategies: None
    """What a rewrite by these strategies costs and saves."""
    pieces: int = MOST_CHUNKS
    """Requests that one summary may take by somebody who has not seen the conversation."""


@dataclass(frozen=True, slots=True)
class ForcedStrategy:
    """The one strategy that is tried, and the price that has chosen it, if one has."""

    rung: Strategy
    price: Price | None = None
    cut: int | None = None
    """Where a summary has to end, when that was chosen, too."""


@dataclass(slots=True)
class SummaryCost:
    """Listens to a compaction: what its summaries cost, and who wrote the last one."""

    emit: Callable[[Event], None]
    cost: float | None = 0.0
    """US dollars; None when the price of any request is not known."""
    model: str = ""

    def hear(self, event: Event) -> None:
        if isinstance(event, ReplyFinished):
            self.model = event.model
            self.cost = None if event.cost is None or self.cost is None else self.cost + event.cost
        self.emit(event)


async def compact(
    conversation: Conversation,
    work: CompactionContext,
    cause: Cause,
    focus: str | None = None,
    chosen: ForcedStrategy | None = None,
) -> Compacted:
    """The conversation made smaller. It always gets smaller or stays as it was: when no model gives a usable summary,
    the ledger stands for what is left out, unless one strategy was `chosen`. An interrupted compaction leaves the
    conversation unchanged."""
    if cause == "asked":
        work.lessons.failures = 0
    # A price that has chosen one strategy counts on the tools staying in the cache.
    room = work.room if chosen is None else replace(work.room, deferrable=0)
    work = replace(work, settings=replace(work.settings, caps=fitting_caps(work.settings.caps, room)))
    floor = solve_floor(conversation, work.settings.caps, room)
    after, ran, writer = conversation, list[str](), ""
    if floor.deferred:
        # What the provider counted, it counted with them.
        after, ran = replace(conversation, anchor=None, anchored=0), [TOOLS]
        room = room.with_tools_held_back
    if floor.pins != "whole" and chosen is None:
        smaller = smaller_pins(after, floor.pins)
        ran = ran if smaller is after else [*ran, SHORTENED]
        after = smaller
    is_done = bool(ran) and cause != "asked" and is_enough(TOOLS, after, room)
    rungs = LADDERS[cause] if chosen is None else (chosen.rung,)
    if cause != "asked" and chosen is None and work.lessons.rests_in(room.effective):
        rungs = tuple(rung for rung in rungs if rung not in ("summary", "chunks"))
    bill = SummaryCost(work.emit)
    pieces = work.pieces if cause == "asked" or room.effective > SMALL else 1  # in a small one they outweigh the work
    work = replace(work, emit=bill.hear, pieces=pieces)
    work.emit(CompactionStarted(work.size(conversation)))
    for rung in () if is_done else rungs:
        candidate = await _try(rung, after, work, floor, focus, chosen.cut if chosen else None)
        if work.interrupt.requested():
            unchanged = result_of(conversation, conversation, (), work.size)
            return Compacted(conversation, replace(unchanged, is_interrupted=True), floor.problem)
        if candidate is None:
            continue
        has_room = room.share(candidate) <= 1.0 if chosen else is_enough(rung, candidate, room)
        is_guessed = rung == "pictures" and cause == "overflow"
        if not is_guessed and not _helps(rung, after, candidate, has_room, work.size):
            continue
        after, ran = candidate, [*ran, rung]
        writer = bill.model if rung in ("summary", "chunks") else writer
        if cause == "asked" or has_room:
            break
    deferred = floor.deferred if TOOLS in ran else 0
    result = result_of(conversation, after, ran, work.size, deferred)
    if "pictures" in ran and cause == "overflow":
        # What they take is not known: more than there was room for.
        result = replace(result, before_tokens=max(result.before_tokens, room.effective, result.after_tokens + 1))
    if ran:
        items = receipt(conversation, after, ran, floor.deferred, room.ratio)
        told = event_of(result, cause, items)
        price = (chosen.price if chosen else None) or work.price_of(ran)
        work.emit(replace(told, price=price, model=writer, cost=bill.cost))
    if floor.problem and (cause == "asked" or not work.lessons.is_floor_told):
        work.emit(Noticed(f"{floor.problem}; a model with a larger window leaves more room"))
        work.lessons.is_floor_told = True
    return Compacted(after, result, floor.problem)


def _helps(
    rung: Strategy, before: Conversation, after: Conversation, has_room: bool, told: Callable[[Conversation], int]
) -> bool:
    """Whether a strategy's outcome is taken: always smaller, by a tenth when it replaces messages by a summary; masking
    that leaves too little room only costs the cache that a summary would be read from, and unseen outputs are cut below
    their share only where that makes enough room, or nothing else can go. What comes last, a step that is named for
    instance, has to be smaller as it is `told`, too."""
    match rung:
        case "mask" | "cut":
            return size_of(after) < size_of(before) and has_room
        case "summary" | "chunks" | "ledger":
            return is_worth_it(before, after)
        case "share" | "mask_all" | "attachments" | "drop" | "last" | "pictures":
            return size_of(after) < size_of(before)
        case "least" | "references" | "step" | "words":
            return size_of(after) < size_of(before) and told(after) < told(before)


async def _try(
    rung: Strategy,
    conversation: Conversation,
    work: CompactionContext,
    floor: Floor,
    focus: str | None,
    cut: int | None = None,
) -> Conversation | None:
    if rung in CUT:
        return cut_outputs(rung, conversation, work.room)
    if rung not in ("summary", "chunks"):
        return climb(rung, conversation, work.settings.caps, floor)
    if cut is None:
        plan = plan_compaction(conversation, floor.caps.tail, least=floor.least, newest=floor.caps.turns)
    else:
        plan = plan_at(conversation, cut)
    if plan is None or work.lessons.is_broken or not can_pay(conversation, plan):
        return None
    work.lessons.since_summary = 0
    draft = await summarise(conversation, plan, work, floor, focus, cached=rung == "summary")
    after = compacted(plan, draft, floor.caps) if draft else conversation
    if draft and is_worth_it(conversation, after):
        work.lessons.failures = 0
        return after
    if draft:
        work.emit(CompactionFailed(work.provider.facts.id, "it is hardly smaller than what it replaces"))
    if not work.interrupt.requested():
        work.lessons.failures += 1
    if work.lessons.failures == FAILURES:
        work.emit(Noticed(NO_MORE))
    return None


async def summarise(
    conversation: Conversation,
    plan: CompactionPlan,
    work: CompactionContext,
    floor: Floor,
    focus: str | None,
    *,
    cached: bool,
) -> Draft | None:
    """What a model wrote down: one of those that the user set for this, else the one that has the conversation in its
    cache. None when none gave anything that can be used."""
    asked = instruction(work.settings.wishes, focus, retain_tokens=floor.caps.retain, summary_tokens=floor.caps.summary)
    for provider in await _summarisers_of(work, job_of(conversation, plan, work, cached=cached)):
        draft = await _in_chunks(provider, plan, asked, work)
        if draft is not None or work.interrupt.requested():
            return draft
    if not cached:
        return await _in_chunks(work.provider, plan, asked, work)
    open_ended = replace(conversation, messages=without_open_calls(conversation.messages))
    caps, outputs = floor.caps, named_outputs(plan)
    asked_here = instruction(
        work.settings.wishes, focus, retain_tokens=caps.retain, summary_tokens=caps.summary, outputs=outputs
    )
    with_instruction = open_ended.plus(User((Text(asked_here),)))
    if not work.room.holds(with_instruction):
        return await _in_chunks(work.provider, plan, asked, work)
    request = work.request(with_instruction)
    try:
        reading = await _ask(work.provider, request, work)
    except ContextOverflow:
        return await _in_chunks(work.provider, plan, asked, work)
    except ProviderError as error:
        reading = RefusedSummary(str(error))
    return _draft(reading, work.provider, work)


def job_of(conversation: Conversation, plan: CompactionPlan, work: CompactionContext, *, cached: bool) -> SummaryJob:
    """What the summary takes, in tokens as the provider counts them."""
    context = round((work.room.fixed + size_of(conversation)) * work.room.scale)
    text = round(sum(map(estimate_text, transcript(plan))) * work.room.scale)
    return SummaryJob(
        context, text, is_cached=cached and not work.is_cold and context <= work.room.effective + work.room.buffer
    )


async def _summarisers_of(work: CompactionContext, job: SummaryJob) -> Sequence[Provider]:
    if work.summarisers is None:
        return ()
    try:
        return await work.summarisers(job, work.emit)
    except AgentError as error:
        work.emit(Noticed(f"the model that is set for summaries cannot be used: {error}"))
        return ()


async def _in_chunks(provider: Provider, plan: CompactionPlan, asked: str, work: CompactionContext) -> Draft | None:
    """The summary by a model that has not seen the conversation: it reads it as text, in pieces of at most half its
    window, each together with the summary of those before."""
    window = (work.lessons.window if provider is work.provider else None) or provider.window
    written = work.settings.caps.retain + work.settings.caps.summary
    room = window.effective - estimate_text(READER) - estimate_text(asked) - written
    # In a small window most of the room for an answer is not needed for a summary.
    spared = max(window.output - max(2 * written, LEAST_SUMMARY), 0) if room < window.size // 4 else 0
    pieces = chunks(transcript(plan), max(min(window.size // 2, room + spared), 500))
    if not 0 < len(pieces) <= work.pieces:
        return None
    so_far = ""
    draft: Draft | None = None
    for piece in pieces:
        said = f"{so_far}{piece}\n\n{asked}"
        request = Request(
            READER, (User((Text(said),)),), (), window.output - spared, work.request(Conversation()).session
        )
        try:
            reading = await _ask(provider, request, work)
        except ProviderError as error:
            reading = RefusedSummary(str(error))
        draft = _draft(reading, provider, work)
        if draft is None:
            return None
        so_far = f"[summary of what came before]\n{draft.retain}\n{draft.summary}\n\n"
    return draft


async def _ask(provider: Provider, request: Request, work: CompactionContext) -> Reading:
    """One request for a summary, told to nobody but as what it cost."""

    def quietly(event: Event) -> None:
        if isinstance(event, ReplyFinished):
            work.emit(replace(event, purpose="summary"))
        elif isinstance(event, RetryScheduled):
            work.emit(event)

    try:
        reply = await stream_reply(provider, request, work.interrupt, quietly)
    except EmptyAnswer:
        return RefusedSummary("it is empty")
    return read_reply(reply.message.text, reply.message.calls, reply.stop_reason)


def _draft(reading: Reading, provider: Provider, work: CompactionContext) -> Draft | None:
    if isinstance(reading, Draft):
        return reading
    if not work.interrupt.requested():
        work.emit(CompactionFailed(provider.facts.id, reading.why))
    return None


def compaction_note(result: CompactResult) -> str:
    """What the model is told after a compaction that it asked for."""
    if result.is_interrupted:
        return "[compact_context: the user interrupted it; nothing was compacted.]"
    if not result.strategies:
        return "[compact_context: nothing was compacted; there was too little before the newest steps.]"
    return (
        f"[compact_context: about {result.before_tokens:,} tokens in {counted(result.before_messages, 'message')} "
        f"became {result.after_tokens:,} in {result.after_messages}. Go on with the work.]"
    )


def event_of(result: CompactResult, cause: Cause, items: tuple[ReceiptItem, ...]) -> ContextCompacted:
    return ContextCompacted(
        result.before_tokens,
        result.after_tokens,
        result.before_messages,
        result.after_messages,
        result.strategies,
        cause,
        items,
    )


def result_of(
    before: Conversation,
    after: Conversation,
    ran: Sequence[str],
    size: Callable[[Conversation], int],
    deferred: int = 0,
) -> CompactResult:
    """What a compaction has come to: sizes of whole requests, system text and tools included, as they are shown
    everywhere. `deferred`: tokens of the tools that are held back since."""
    return CompactResult(size(before), size(after) - deferred, len(before.messages), len(after.messages), tuple(ran))
