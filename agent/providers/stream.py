"""One request and its reply, tried again when that can help; and what the provider's own search has found in it."""

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
"""For an answer that breaks off: each costs a whole request, and what cannot be read is often the same again."""
FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
MAX_TRUSTED_WAITS = 3
"""How often a server's own wait is enough. One that goes on asking for none would be asked without end."""
JITTER = 0.25
"""The part of a delay that chance may take off, so that many clients do not return at once."""


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """How long a request is tried again."""

    patience: float | None = 600.0
    """Seconds; None: until the user has enough of it."""
    first: float = 10.0
    """Seconds for a server that nobody has reached yet: its address is probably mistyped."""
    fallback_after: float | None = None
    """Seconds after which another model takes over where there is one; None: never."""

    def limit(self, error: ProviderError, *, reached: bool, may_leave: bool) -> float | None:
        """Seconds in which a request that failed so is tried again; None: no end is set."""
        limits = [self.patience]
        if isinstance(error, Unreachable) and not reached:
            limits.append(self.first)
        if may_leave:
            limits.append(self.fallback_after)
        return min((limit for limit in limits if limit is not None), default=None)


def delay_before(
    attempt: int, error: ProviderError, jitter: float, waited: float = 0.0, limit: float | None = None
) -> float | None:
    """Seconds to wait after the failure of try number `attempt` (from 1) before the next; None: give up. Of an answer
    that broke off, `attempt` is how many did.

    `jitter` is a random number from 0 to 1, `waited` the seconds since the first try, `limit` the most of them.
    """
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
    """The names of the tools that each search has found."""
    for part in message.parts:
        if not isinstance(part, ProviderItem):
            continue
        match part.native.get("type"):
            case "tool_search_tool_result":
                yield part.tools
            case "tool_search_output":
                yield tuple(_names(part.native.get("tools")))


def _names(tools: object) -> Iterator[str]:
    """Tools may stand in a namespace."""
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict) and tool.get("type") == "namespace":
            yield from _names(tool.get("tools"))
        elif isinstance(tool, dict) and isinstance(tool.get("name"), str):
            yield tool["name"]


Emit = Callable[[Event], None]

MOST_OUTPUT = 65_536
"""Tokens that a reply may take when it is asked for again because it was too long."""

QUICK = RetryLimits(patience=60.0)
"""For what the session can do without: summaries, readings, samples."""

REPLACEABLE = RetryLimits(patience=10.0)
"""For a model that another one stands in for at once."""


@dataclass(slots=True)
class Retries:
    """How requests are tried again, and what is known of the ways to the servers. One for each session."""

    persistence: RetryLimits = QUICK
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep
    reached: set[str] = field(default_factory=set)
    """Models whose servers have said something."""
    answered: set[str] = field(default_factory=set)
    """Models that have answered in this session since it was opened."""


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
    """The model's reply. When the user interrupts, the reply is what had been said, without calls. A reply that says
    nothing is asked for once more, but in a step behind calls that did something: whoever runs that says a word on it.
    So is one that was cut at the limit of its length, with more room, where the request's `budget` tells how much there
    is; when that fails, it is taken as it was cut. One that says the same again and again is stopped, and says it once.
    `may_leave`: another model can take over. Raises `ProviderError` after the last attempt, and `EmptyAnswer`."""
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
            emit(Noticed(f"the reply is taken as it was cut, since it could not be had again: {error}"))
            emit(TextDelta(reply.message.text))  # whoever shows it has let it go for the second try
    if _is_empty(reply):
        nothing = EmptyAnswer(f"`{provider.facts.id}` {_why_empty(reply, request)}")
        nothing.is_silence = reply.stop_reason == "end"
        raise nothing
    if reply.stop_reason == "max_tokens" and not reply.message.calls:
        emit(Noticed("the answer was cut at the limit of what the model may write; ask it to go on"))
    return reply


def _second_try(
    request: Request, reply: Reply, provider: Provider, budget: ContextBudget | None
) -> tuple[Request, str] | None:
    """What is asked once more, and why; None when the reply is taken as it is."""
    larger = with_more_output(request, reply, provider, budget)
    if _is_empty(reply):
        is_done = budget is not None and reply.stop_reason == "end" and follows_success(request.messages)
        return None if is_done or reply.stop_reason == "refusal" else (larger, "the model answered with nothing")
    if budget is None or larger.max_output_tokens == request.max_output_tokens:
        return None
    limits = f"{request.max_output_tokens:,} tokens, and may take {larger.max_output_tokens:,} now"
    return larger, f"the reply was cut at {limits}"


def with_more_output(
    request: Request, reply: Reply, provider: Provider, budget: ContextBudget | None = None
) -> Request:
    """The request with as much room for the reply as the model can use, when the last one used it all up, and when that
    fits into the window as far as it is known."""
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
            return f"used all {limit} tokens it may write before it answered; raise `agent.max_output_tokens`"
        case _:
            return "answered with nothing, twice; rephrase the message or choose another model"


@dataclass(frozen=True, slots=True)
class _RetryLoop:
    """Requests to a provider, each as often as it takes."""

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
        """Seconds until the next try, which are told. Raises the error when there is none. `cuts`: answers that broke
        off, which are counted by themselves."""
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
    """The error, with how long it was tried or why it was not."""
    wait = error.retry_after
    if error.retryable and wait is not None and limit is not None and wait > limit - waited:
        more = f"It asks for a wait of {_span(wait)}, which is more than `retry.patience` has left."
    elif attempt > 1:
        more = f"Tried {attempt} times in {_span(waited)}."
    else:
        return error
    text = str(error).removesuffix(error.todo).rstrip()
    told = copy(error)  # of its kind, with all that is known of it
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
        if isinstance(chunks, AsyncGenerator):  # the server is not to write on
            await chunks.aclose()
    raise AssertionError("a provider's stream ends in a reply or raises")


def _repetition_reply(said: str, what: str, times: int, provider: Provider, emit: Emit) -> Reply:
    """What a model had said when it was stopped, since it would have gone on with the same."""
    emit(
        Noticed(f"the reply was stopped: the model {what} the same {times} times, one after the other; it is kept once")
    )
    return Reply(Assistant((Text(said),) if said.strip() else (), provider.facts.id), Usage(), "repetition")
