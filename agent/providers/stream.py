"""Sends a request, retrying if that can help, and reads its reply."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from copy import copy
from dataclasses import field, replace
from typing import Any

from ebbtide.agent.channel import Interrupt
from ebbtide.agent.context.budget import ContextBudget
from ebbtide.agent.context.empty_reply import follows_success
from ebbtide.agent.context.repetition import RepetitionWatch
from ebbtide.agent.errors import EmptyAnswer, ProviderError, StreamCut, Unreachable
from ebbtide.agent.events.session import (
    CallDelta,
    Event,
    Noticed,
    ReasoningDelta,
    ReplyFinished,
    RetryScheduled,
    TextDelta,
    ToolsFound,
)
from ebbtide.agent.messages import Assistant, ProviderItem, Text, Usage
from ebbtide.agent.providers.base import CallChunk, Provider, ReasoningChunk, Reply, Request, TextChunk
from ebbtide.tools.lazy import dataclass

ATTEMPTS = 5
"""Attempts after broken streams: each costs a full request, and a malformed reply is often repeated."""
FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
MAX_TRUSTED_WAITS = 3
"""How many times the server's requested delay is used as it is. Later delays also grow, in case it keeps asking for
none."""
JITTER = 0.25
"""The share of a delay that is randomised, so that many clients do not retry at once."""


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """How long a request is retried."""

    patience: float | None = 600.0
    """Seconds; None retries until the user interrupts."""
    first: float = 10.0
    """Seconds for a server that was never reached: its address is probably wrong."""
    fallback_after: float | None = None
    """Seconds after which a fallback takes over, if there is one; None: never."""

    def limit(self, error: ProviderError, *, reached: bool, may_leave: bool) -> float | None:
        """How long to retry after this error, in seconds; None for no limit."""
        limits = [self.patience]
        if isinstance(error, Unreachable) and not reached:
            limits.append(self.first)
        if may_leave:
            limits.append(self.fallback_after)
        return min((limit for limit in limits if limit is not None), default=None)


def delay_before(
    attempt: int, error: ProviderError, jitter: float, waited: float = 0.0, limit: float | None = None
) -> float | None:
    """Seconds to wait before the next attempt, or None to give up.

    `attempt`: number of the failed attempt, from 1; for broken streams, how many there were. `jitter`: a random
    number from 0 to 1. `waited`: seconds since the first attempt, at most `limit`."""
    if not error.retryable or (isinstance(error, StreamCut) and attempt >= ATTEMPTS):
        return None
    left = limit - waited if limit is not None else None
    if left is not None and left <= 0:
        return None
    delay = min(FIRST_DELAY * 2.0 ** min(attempt - 1, 16), LONGEST_DELAY) * (1 - JITTER * jitter)
    asked = error.retry_after
    if asked is not None and (left is None or asked <= left):
        if attempt <= MAX_TRUSTED_WAITS:
            return asked
        delay = max(delay, asked)
    elif asked is not None:
        return None
    return delay if left is None else min(delay, left)


def tools_found(message: Assistant) -> Iterator[tuple[str, ...]]:
    """The names of the tools found by each search."""
    for part in message.parts:
        if not isinstance(part, ProviderItem):
            continue
        match part.native.get("type"):
            case "tool_search_tool_result":
                yield part.tools
            case "tool_search_output":
                yield tuple(_names(part.native.get("tools")))


def _names(tools: object) -> Iterator[str]:
    """The names of tools, including those inside namespaces."""
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict) and tool.get("type") == "namespace":
            yield from _names(tool.get("tools"))
        elif isinstance(tool, dict) and isinstance(tool.get("name"), str):
            yield tool["name"]


Emit = Callable[[Event], None]

MOST_OUTPUT = 65_536
"""Output limit in tokens for a reply that is requested again because it was cut off."""

QUICK = RetryLimits(patience=60.0)
"""For optional requests: summaries, readings, samples."""

REPLACEABLE = RetryLimits(patience=10.0)
"""For a model that another one can replace at once."""


@dataclass(slots=True)
class Retries:
    """The retry policy of a session, and which servers have responded."""

    persistence: RetryLimits = QUICK
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep
    reached: set[str] = field(default_factory=set)
    """Models whose servers have responded."""
    answered: set[str] = field(default_factory=set)
    """Models that have answered since the session was opened."""


async def stream_reply(
    provider: Provider,
    request: Request,
    interrupt: Interrupt,
    emit: Emit,
    budget: ContextBudget | None = None,
    retries: Retries | None = None,
    *,
    may_leave: bool = False,
) -> Reply:
    """Return the model's reply. On an interrupt, it is the text so far, without calls.

    An empty reply is requested once more, unless it follows successful calls in a step, where the caller handles it.
    A reply cut off at its output limit is requested again with a higher limit, if `budget` leaves space; if that
    fails, the cut reply is returned. A reply that repeats itself is stopped, and the repeated part is kept once.
    `may_leave`: a fallback can take over. Raises `ProviderError` after the last attempt, and `EmptyAnswer`."""
    trying = _RetryLoop(provider, interrupt, emit, retries or Retries(), may_leave)
    reply = await trying.reply(request)
    again = _second_try(request, reply, provider, budget)
    if again is not None:
        request, why = again
        emit(RetryScheduled(2, 2, 0.0, why))
        try:
            reply = await trying.reply(request)
        except ProviderError as error:
            if _is_empty(reply):
                raise
            emit(Noticed(f"the cut-off reply is kept, since the retry failed: {error}"))
            emit(TextDelta(reply.message.text))  # the display discarded it for the second attempt
    if _is_empty(reply):
        nothing = EmptyAnswer(f"`{provider.facts.id}` {_why_empty(reply, request)}")
        nothing.is_silence = reply.stop_reason == "end"
        raise nothing
    if reply.stop_reason == "max_tokens" and not reply.message.calls:
        emit(Noticed("the answer was cut at the output limit; ask the model to continue"))
    return reply


def _second_try(
    request: Request, reply: Reply, provider: Provider, budget: ContextBudget | None
) -> tuple[Request, str] | None:
    """The request to repeat and why; None if the reply is accepted."""
    larger = with_more_output(request, reply, provider, budget)
    if _is_empty(reply):
        is_done = budget is not None and reply.stop_reason == "end" and follows_success(request.messages)
        return None if is_done or reply.stop_reason == "refusal" else (larger, "the model sent an empty answer")
    if budget is None or larger.max_output_tokens == request.max_output_tokens:
        return None
    limits = f"{request.max_output_tokens:,} tokens; the new limit is {larger.max_output_tokens:,}"
    return larger, f"the reply was cut at {limits}"


def with_more_output(
    request: Request, reply: Reply, provider: Provider, budget: ContextBudget | None = None
) -> Request:
    """The request with a larger output limit, if the reply used up its limit and the larger one fits into the
    window."""
    more = min(MOST_OUTPUT, provider.facts.max_output_tokens)
    window = budget.window if budget is not None else provider.window
    prompt = max(reply.usage.prompt, budget.used if budget is not None else 0)
    if reply.stop_reason != "max_tokens" or prompt + more > window.size:
        return request
    return replace(request, max_output_tokens=max(more, request.max_output_tokens))


def _is_empty(reply: Reply) -> bool:
    says_nothing = not reply.message.text.strip() and not reply.message.calls
    is_going_on = reply.stop_reason == "pause" and bool(reply.message.parts)
    return says_nothing and not is_going_on and reply.stop_reason not in ("interrupted", "overflow", "repetition")


def _why_empty(reply: Reply, request: Request) -> str:
    match reply.stop_reason:
        case "refusal":
            return "declined to answer; rephrase the message or choose another model"
        case "max_tokens":
            limit = request.max_output_tokens
            return f"used all {limit} output tokens before answering; raise `agent.max_output_tokens`"
        case _:
            return "sent two empty answers; rephrase the message or choose another model"


@dataclass(frozen=True, slots=True)
class _RetryLoop:
    """Sends requests to a provider, with retries."""

    provider: Provider
    interrupt: Interrupt
    emit: Emit
    retries: Retries
    may_leave: bool

    async def reply(self, request: Request) -> Reply:
        attempt, cuts, began, model = 1, 0, self.retries.now(), self.provider.facts.id
        while True:
            heard: list[str] = []
            try:
                reply = await self.interrupt.race(_read_reply(self.provider, request, self.emit, heard))
            except ProviderError as error:
                cuts += isinstance(error, StreamCut)
                delay = self._delay(attempt, cuts, began, error, bool(heard))
                attempt += 1
                await self.interrupt.race(self.retries.sleep(delay))
                if not self.interrupt.is_requested():
                    continue
                heard, reply = [], None
            if reply is None:
                said = (Text("".join(heard)),) if "".join(heard).strip() else ()
                return Reply(Assistant(said, model), Usage(), "interrupted")
            self.retries.reached.add(model)
            self.retries.answered.add(model)
            cost = self.provider.facts.prices.cost(reply.usage) if self.provider.facts.prices else None
            for names in tools_found(reply.message):
                self.emit(ToolsFound(names))
            self.emit(ReplyFinished(model, reply.stop_reason, reply.usage, cost))
            return reply

    def _delay(self, attempt: int, cuts: int, began: float, error: ProviderError, heard: bool) -> float:
        """The delay before the next attempt in seconds, which is also reported. Raises the error if there is none.
        `cuts`: number of broken streams, which are counted separately."""
        if heard or not isinstance(error, Unreachable):
            self.retries.reached.add(self.provider.facts.id)
        if error.cause == "not_running" and self.provider.facts.id not in self.retries.answered:
            raise error
        reached = self.provider.facts.id in self.retries.reached
        limit = self.retries.persistence.limit(error, reached=reached, may_leave=self.may_leave)
        waited = self.retries.now() - began
        number, last = (cuts, ATTEMPTS) if isinstance(error, StreamCut) else (attempt, 0)
        delay = delay_before(number, error, random.random(), waited, limit)
        if delay is None:
            raise _given_up(error, attempt, waited, limit)
        left = None if limit is None else max(limit - waited - delay, 0.0)
        self.emit(RetryScheduled(number + 1, last, delay, str(error), left))
        return delay


def _given_up(error: ProviderError, attempt: int, waited: float, limit: float | None) -> ProviderError:
    """The error, with how long it was retried, or why it was not."""
    wait = error.retry_after
    if error.retryable and wait is not None and limit is not None and wait > limit - waited:
        more = f"It asks to wait {_span(wait)}, longer than `retry.patience` allows."
    elif attempt > 1:
        more = f"Tried {attempt} times in {_span(waited)}."
    else:
        return error
    text = str(error).removesuffix(error.todo).rstrip()
    told = copy(error)  # a copy keeps the type and attributes of the error
    told.args = (f"{text}{'' if text.endswith(('.', '!', '?')) else '.'} {more} {error.todo}".rstrip(),)
    told.__cause__ = error
    return told


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


async def _read_reply(provider: Provider, request: Request, emit: Emit, heard: list[str]) -> Reply:
    is_watched = provider.facts.may_repeat
    words, thoughts = RepetitionWatch(), RepetitionWatch()
    chunks = provider.stream(request)
    try:
        async for chunk in chunks:
            match chunk:
                case TextChunk(text):
                    heard.append(text)
                    emit(TextDelta(text))
                    if is_watched and (found := words.add(text)) is not None:
                        return _repetition_reply(
                            "".join(heard)[: found.end_of_first], "said", found.times, provider, emit
                        )
                case ReasoningChunk(text):
                    emit(ReasoningDelta(text))
                    if is_watched and (found := thoughts.add(text)) is not None:
                        return _repetition_reply("".join(heard), "thought", found.times, provider, emit)
                case CallChunk(_, name, size, id):
                    emit(CallDelta(name, size, id))
                case Reply():
                    return chunk
    finally:
        if isinstance(chunks, AsyncGenerator):  # stops the server from generating further
            await chunks.aclose()
    raise AssertionError("a provider's stream ends in a reply or raises")


def _repetition_reply(said: str, what: str, times: int, provider: Provider, emit: Emit) -> Reply:
    """The reply of a model that was stopped because it kept repeating itself."""
    emit(Noticed(f"the reply was stopped: the model {what} the same thing {times} times in a row; it is kept once"))
    return Reply(Assistant((Text(said),) if said.strip() else (), provider.facts.id), Usage(), "repetition")
