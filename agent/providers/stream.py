"""Sends a request, retries it after failures that may be temporary, and reads the reply."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from copy import copy
from dataclasses import field, replace
from typing import Any

from ebbtide.agent.budget.request_budget import ContextBudget
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.errors import (
    EmptyAnswer,
    Overloaded,
    ProviderError,
    RateLimited,
    StreamCut,
    TimedOut,
    Unreachable,
)
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
from ebbtide.agent.prompt.empty_reply import ends_in_success
from ebbtide.agent.providers.base import (
    CallChunk,
    ModelFacts,
    Provider,
    ReasoningChunk,
    Reply,
    Request,
    TextChunk,
    is_web_search_result,
)
from ebbtide.agent.providers.repetition import RepetitionDetector
from ebbtide.agent.view.sources import cited_sources
from ebbtide.tools.lazy import dataclass

MAX_STREAM_ATTEMPTS = 5
"""Maximum number of broken streams before giving up. Each costs a full request, and a malformed reply tends to recur.
"""
FIRST_RETRY_DELAY_S = 0.5
MAX_RETRY_DELAY_S = 30.0
MAX_TRUSTED_ATTEMPTS = 3
"""Up to this attempt, the delay is exactly what the server requests. Later delays grow even if the server keeps asking
for an immediate retry."""
MAX_DELAY_JITTER = 0.25
"""Maximum share by which a delay is randomly shortened, so that clients do not all retry at the same time."""


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """Limits on how long a request is retried."""

    max_seconds: float | None = 600.0
    """Seconds to keep retrying a request; None retries until the user interrupts."""
    unreached_max_seconds: float = 10.0
    """Seconds to keep retrying a server that was never reached. Its address is probably wrong."""
    fallback_after: float | None = None
    """Seconds after which a fallback takes over, if there is one; None never uses a fallback."""

    def retry_seconds(self, error: ProviderError, *, is_reached: bool, has_fallback: bool) -> float | None:
        """Return how many seconds to retry after this error; None for no limit."""
        limits = [self.max_seconds]
        if isinstance(error, Unreachable) and not is_reached:
            limits.append(self.unreached_max_seconds)
        if has_fallback:
            limits.append(self.fallback_after)
        return min((limit for limit in limits if limit is not None), default=None)


def retry_delay(
    attempt: int, error: ProviderError, jitter: float, waited_seconds: float = 0.0, max_seconds: float | None = None
) -> float | None:
    """Return the seconds to wait before the next attempt, or None to give up.

    `attempt`: number of the failed attempt, from 1; for a broken stream, the number of broken streams so far. `jitter`:
    a random number from 0 to 1. `waited_seconds`: seconds since the first attempt. `max_seconds`: maximum of
    `waited_seconds`; None for no limit."""
    if not error.is_retryable or (isinstance(error, StreamCut) and attempt >= MAX_STREAM_ATTEMPTS):
        return None
    remaining = max_seconds - waited_seconds if max_seconds is not None else None
    if remaining is not None and remaining <= 0:
        return None
    delay = min(FIRST_RETRY_DELAY_S * 2.0 ** min(attempt - 1, 16), MAX_RETRY_DELAY_S) * (1 - MAX_DELAY_JITTER * jitter)
    requested_delay = error.retry_after
    if requested_delay is not None and (remaining is None or requested_delay <= remaining):
        if attempt <= MAX_TRUSTED_ATTEMPTS:
            return requested_delay
        delay = max(delay, requested_delay)
    elif requested_delay is not None:
        return None
    return delay if remaining is None else min(delay, remaining)


def found_tool_names(message: Assistant) -> Iterator[tuple[str, ...]]:
    """Yield, for each search in a reply, the names of the tools that it found."""
    for part in message.parts:
        if not isinstance(part, ProviderItem):
            continue
        match part.native.get("type"):
            case "tool_search_tool_result":
                yield part.tools
            case "tool_search_output":
                yield tuple(_tool_names(part.native.get("tools")))


def _tool_names(tools: object) -> Iterator[str]:
    """Yield the names of tools, including those inside namespaces."""
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict) and tool.get("type") == "namespace":
            yield from _tool_names(tool.get("tools"))
        elif isinstance(tool, dict) and isinstance(tool.get("name"), str):
            yield tool["name"]


EventCallback = Callable[[Event], None]

MAX_RETRY_OUTPUT_TOKENS = 65_536
"""Maximum output limit, in tokens, for repeating a request whose reply was cut off."""

OPTIONAL_REQUEST_LIMITS = RetryLimits(max_seconds=60.0)
"""Limits for optional requests, such as those for summaries."""

REPLACEABLE_MODEL_LIMITS = RetryLimits(max_seconds=10.0)
"""Limits for a model that can be replaced at once by another one."""


@dataclass(slots=True)
class RetryPolicy:
    """The retry limits of a session, and the models whose servers have responded."""

    limits: RetryLimits = OPTIONAL_REQUEST_LIMITS
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep
    reached_models: set[str] = field(default_factory=set)
    """Models whose servers have responded in any way, even with an error."""
    answered_models: set[str] = field(default_factory=set)
    """Models that have replied since the session was opened."""


async def stream_reply(
    provider: Provider,
    request: Request,
    interrupt: Interrupt,
    emit: EventCallback,
    budget: ContextBudget | None = None,
    retry_policy: RetryPolicy | None = None,
    *,
    has_fallback: bool = False,
) -> Reply:
    """Send the request and return the model's reply. After an interrupt, return the text received so far, without
    calls.

    An empty reply is requested once more, except after successful calls, where the caller handles it, and for a web
    search. If a reply was cut off at its output limit and `budget` has room, it is requested again with a higher limit;
    if that fails, the cut-off reply is returned. A reply that repeats itself is stopped, and only one copy of the
    repeated part is kept.
    `has_fallback`: a fallback can take over. Raises `EmptyAnswer`, and `ProviderError` after the last attempt.
    """
    retry_loop = _RetryLoop(provider, interrupt, emit, retry_policy or RetryPolicy(), has_fallback)
    reply = await retry_loop.reply_with_retries(request)
    second_request = _second_request(request, reply, provider, budget)
    if second_request is not None:
        request, reason = second_request
        emit(RetryScheduled(2, 2, 0.0, reason))
        try:
            reply = await retry_loop.reply_with_retries(request)
        except ProviderError as error:
            if _is_empty(reply, request):
                raise
            emit(Noticed(f"the cut-off reply is kept, since the retry failed: {error}"))
            emit(TextDelta(reply.message.text))  # the display discarded it before the second attempt
    if _is_empty(reply, request):
        empty_error = EmptyAnswer(f"`{provider.facts.id}` {_why_empty(reply, request)}")
        empty_error.is_silence = reply.stop_reason == "end"
        raise empty_error
    if reply.stop_reason == "max_tokens" and not reply.message.calls:
        emit(Noticed("the answer was cut at the output limit; ask the model to continue"))
    return reply


def _second_request(
    request: Request, reply: Reply, provider: Provider, budget: ContextBudget | None
) -> tuple[Request, str] | None:
    """Return the request to send again, and the reason; None if the reply is accepted."""
    if request.max_web_searches:
        return None  # its searches would be charged for again
    larger_request = with_more_output(request, reply, provider, budget)
    if _is_empty(reply, request):
        is_done = budget is not None and reply.stop_reason == "end" and ends_in_success(request.messages)
        return None if is_done or reply.stop_reason == "refusal" else (larger_request, "the model sent an empty answer")
    if budget is None or larger_request.max_output_tokens == request.max_output_tokens:
        return None
    limits_text = f"{request.max_output_tokens:,} tokens; the new limit is {larger_request.max_output_tokens:,}"
    return larger_request, f"the reply was cut at {limits_text}"


def with_more_output(
    request: Request, reply: Reply, provider: Provider, budget: ContextBudget | None = None
) -> Request:
    """Raise the request's output limit, if the reply reached it and a larger one fits the window. Otherwise, return the
    request unchanged."""
    larger_limit = min(MAX_RETRY_OUTPUT_TOKENS, provider.facts.max_output_tokens)
    window = budget.window if budget is not None else provider.window
    prompt_tokens = max(reply.usage.prompt, budget.used if budget is not None else 0)
    if reply.stop_reason != "max_tokens" or prompt_tokens + larger_limit > window.size:
        return request
    return replace(request, max_output_tokens=max(larger_limit, request.max_output_tokens))


def _is_empty(reply: Reply, request: Request) -> bool:
    has_no_content = not reply.message.text.strip() and not reply.message.calls
    is_paused = reply.stop_reason == "pause" and bool(reply.message.parts)
    has_searched = bool(request.max_web_searches) and any(map(is_web_search_result, reply.message.parts))
    return (
        has_no_content
        and not is_paused
        and not has_searched
        and reply.stop_reason not in ("interrupted", "overflow", "repetition")
    )


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
    emit: EventCallback
    retry_policy: RetryPolicy
    has_fallback: bool

    async def reply_with_retries(self, request: Request) -> Reply:
        attempt, broken_stream_count = 1, 0
        start_time = self.retry_policy.now()
        model = self.provider.facts.id
        while True:
            received_texts: list[str] = []
            try:
                reply = await self.interrupt.race(_read_reply(self.provider, request, self.emit, received_texts))
            except ProviderError as error:
                broken_stream_count += isinstance(error, StreamCut)
                delay = self._compute_next_delay(attempt, broken_stream_count, start_time, error, bool(received_texts))
                attempt += 1
                await self.interrupt.race(self.retry_policy.sleep(delay))
                if not self.interrupt.is_requested():
                    continue
                received_texts, reply = [], None
            if reply is None:
                parts = (Text("".join(received_texts)),) if "".join(received_texts).strip() else ()
                return Reply(Assistant(parts, model), Usage(), "interrupted")
            self.retry_policy.reached_models.add(model)
            self.retry_policy.answered_models.add(model)
            cost = _request_cost(reply, self.provider.facts)
            for names in found_tool_names(reply.message):
                self.emit(ToolsFound(names))
            self._report_reply(reply, cost)
            return reply

    def _report_reply(self, reply: Reply, cost: float | None) -> None:
        self.emit(
            ReplyFinished(
                self.provider.facts.id,
                reply.stop_reason,
                reply.usage,
                cost,
                sources=cited_sources(reply.message),
                skipped_frames=reply.skipped_frame_count,
            )
        )

    def _compute_next_delay(
        self, attempt: int, broken_stream_count: int, start_time: float, error: ProviderError, has_text: bool
    ) -> float:
        """Return the delay before the next attempt, in seconds, and report it. Raises the error if there is no next
        attempt. `broken_stream_count`: number of broken streams, which are counted separately."""
        if has_text or not isinstance(error, Unreachable):
            self.retry_policy.reached_models.add(self.provider.facts.id)
        if error.cause == "not_running" and self.provider.facts.id not in self.retry_policy.answered_models:
            raise error
        is_reached = self.provider.facts.id in self.retry_policy.reached_models
        max_seconds = self.retry_policy.limits.retry_seconds(
            error, is_reached=is_reached, has_fallback=self.has_fallback
        )
        waited_seconds = self.retry_policy.now() - start_time
        attempt_number, max_attempts = (
            (broken_stream_count, MAX_STREAM_ATTEMPTS) if isinstance(error, StreamCut) else (attempt, 0)
        )
        delay = retry_delay(attempt_number, error, random.random(), waited_seconds, max_seconds)
        if delay is None:
            raise _final_error(error, attempt, waited_seconds, max_seconds)
        remaining = None if max_seconds is None else max(max_seconds - waited_seconds - delay, 0.0)
        reason = str(error).removesuffix(error.todo).rstrip(" .")
        self.emit(
            RetryScheduled(attempt_number + 1, max_attempts, delay, reason, remaining, short_failure_reason(error))
        )
        return delay


_OVERLOAD_STATUSES = (None, 503, 529)
"""Statuses of `Overloaded` errors that mean too much work. The others mean that the server itself failed."""


def short_failure_reason(error: ProviderError) -> str:
    """Describe a temporary error in a few words, with its HTTP status."""
    match error:
        case RateLimited():
            reason = "Too many requests"
        case Overloaded():
            reason = "Overloaded" if error.status in _OVERLOAD_STATUSES else "Server error"
        case TimedOut():
            reason = "No response"
        case Unreachable():
            reason = "No connection"
        case StreamCut():
            reason = "Reply cut off"
        case _:
            reason = "Request failed"
    return f"{reason} ({error.status})" if error.status not in (None, 200) else reason


def _request_cost(reply: Reply, facts: ModelFacts) -> float | None:
    """Return the cost of a request in US dollars; None if it is unknown."""
    if reply.billed_dollars is not None or facts.prices is None:
        return reply.billed_dollars
    return facts.prices.cost(reply.usage) + reply.web_search_count * facts.dollars_per_search


def _final_error(error: ProviderError, attempt: int, waited_seconds: float, max_seconds: float | None) -> ProviderError:
    """Add a sentence to the error: how long the request was retried, or why it was not."""
    requested_delay = error.retry_after
    if (
        error.is_retryable
        and requested_delay is not None
        and max_seconds is not None
        and requested_delay > max_seconds - waited_seconds
    ):
        explanation = f"It asks to wait {_duration_text(requested_delay)}, longer than `retry.patience` allows."
    elif attempt > 1:
        explanation = f"Tried {attempt} times in {_duration_text(waited_seconds)}."
    else:
        return error
    text = str(error).removesuffix(error.todo).rstrip()
    extended_error = copy(error)  # a copy keeps the type and attributes of the error
    extended_error.args = (
        f"{text}{'' if text.endswith(('.', '!', '?')) else '.'} {explanation} {error.todo}".rstrip(),
    )
    extended_error.__cause__ = error
    return extended_error


def _duration_text(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


async def _read_reply(provider: Provider, request: Request, emit: EventCallback, received_texts: list[str]) -> Reply:
    may_repeat = provider.facts.may_repeat
    text_detector, reasoning_detector = RepetitionDetector(), RepetitionDetector()
    chunks = provider.stream(request)
    try:
        async for chunk in chunks:
            match chunk:
                case TextChunk(text):
                    received_texts.append(text)
                    emit(TextDelta(text))
                    if may_repeat and (repetition := text_detector.add(text)) is not None:
                        return _repetition_reply(
                            "".join(received_texts)[: repetition.first_piece_end],
                            "said",
                            repetition.repeat_count,
                            provider,
                            emit,
                        )
                case ReasoningChunk(text):
                    emit(ReasoningDelta(text))
                    if may_repeat and (repetition := reasoning_detector.add(text)) is not None:
                        return _repetition_reply(
                            "".join(received_texts), "thought", repetition.repeat_count, provider, emit
                        )
                case CallChunk(_, name, argument_chars, call_id):
                    emit(CallDelta(name, argument_chars, call_id))
                case Reply():
                    return chunk
    finally:
        if isinstance(chunks, AsyncGenerator):  # stops the server from generating further
            await chunks.aclose()
    raise AssertionError("a provider's stream ends in a reply or raises")


def _repetition_reply(text: str, verb: str, times: int, provider: Provider, emit: EventCallback) -> Reply:
    """Build the reply of a model that was stopped because it repeated itself."""
    emit(
        Noticed(f"the reply was stopped: the model {verb} the same thing {times} times in a row; only one copy is kept")
    )
    return Reply(Assistant((Text(text),) if text.strip() else (), provider.facts.id), Usage(), "repetition")
