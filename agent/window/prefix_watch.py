"""Tracks whether the prefix of a session's requests stays the same, and whether the provider's cache is used. Prefixes
are compared by `ebbtide.agent.budget.prefix`."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from ebbtide.agent.budget.last_request import MessagesDigester, RequestRecord, changes_since, create_request_record
from ebbtide.agent.budget.prefix import (
    Breakpoints,
    PartCounter,
    RequestDigester,
    RequestFingerprint,
    cache_break_cause,
    create_fingerprint,
    difference_after_rewrite,
    first_difference,
    is_cache_miss,
    plan_breakpoints,
    tokens_left_cached,
)
from ebbtide.agent.events.session import Event
from ebbtide.agent.events.view import CacheBroken, PrefixDrifted, PrefixRenewed
from ebbtide.agent.logs.debug_log import DebugLog
from ebbtide.agent.messages import Usage
from ebbtide.agent.prompt.build import Prompt, PromptSection
from ebbtide.agent.providers.base import ModelFacts, Request
from ebbtide.agent.tokens.estimate import estimate_text, estimate_tools
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.tools.lazy import dataclass

MAX_CACHE_MISSES, MIN_MISS_TOKENS = 3, 4_096
"""The provider is assumed to have no cache after `MAX_CACHE_MISSES` requests without any cache read. Only requests of
at least `MIN_MISS_TOKENS` tokens count."""


@dataclass(frozen=True, slots=True)
class CachedRequest:
    """What an answered request left in the cache."""

    fingerprint: RequestFingerprint
    usage: Usage
    answered_at: float
    rewrite_count: int

    @property
    def cached_tokens(self) -> int:
        return tokens_left_cached(self.usage)


@dataclass(frozen=True, slots=True)
class RenewableRequest:
    """The last request, if its cache can be renewed for the next one."""

    request: Request
    usage: Usage
    """The usage reported for the request."""
    idle_seconds: float
    """Seconds since the reply to the request was complete."""
    cache_age_seconds: float
    """Seconds since the cache was last used, including by renewals."""
    renewal_count: int
    """Number of renewals since the reply."""

    @property
    def cached_tokens(self) -> int:
        """Tokens known to be in the cache."""
        return tokens_left_cached(self.usage)


class PrefixWatch:
    """Tracks the requests of one session in the order in which they are sent."""

    def __init__(
        self,
        emit: Callable[[Event], None] = lambda _: None,
        debug: DebugLog | None = None,
        now: Callable[[], float] = time.monotonic,
        sections: Sequence[PromptSection] = (),
        resumed_mark: RequestRecord | None = None,
        last_use: tuple[str, float] | None = None,
    ) -> None:
        """`sections`: the sections of the system prompt. `resumed_mark`: the last request of a resumed session.
        `last_use`: the model that received that request, and how many seconds ago."""
        self.rewrite_count = 0
        """Number of rewrites so far."""
        self._emit = emit
        self._debug = debug or DebugLog()
        self._now = now
        self._digester = RequestDigester()
        self._part_counter, self._chain, self._min_message_tokens = PartCounter(), MessagesDigester(), 0
        self._static_part: tuple[str, tuple[ToolSpec, ...], int] = ("", (), 0)
        """The last system prompt and tools, and their size in tokens."""
        self._sent_part_count = self._settled_part_count = 0
        """Number of parts in the last request, and how many of them the next masking will probably leave unchanged."""
        self._last_fingerprint: RequestFingerprint | None = None
        self._is_rewritten = self._has_other_tools = False
        self._is_reloaded = False
        self._unchanged_count = 0
        """Number of messages left unchanged by all rewrites since the last request."""
        self._sections = tuple(sections)
        self._resumed_mark = resumed_mark
        self._cached_request: CachedRequest | None = None
        self._last_request: Request | None = None
        self._cache_used_at = 0.0
        """When a request last used the cache. The cache's lifetime may be counted from this time."""
        self._renewal_count = 0
        self.has_given_up_renewal = False
        """Whether keeping the cache alive has failed, so that it is not tried again."""
        self._is_first_of_turn = False
        self._last_cache_use = (last_use[0], now() - last_use[1]) if last_use else None
        """The model whose cache was used last, and the time of that use."""
        self._cache_ttl = 0.0
        self.miss_count = resumed_mark.misses if resumed_mark else 0
        """Same as `RequestMark.misses`."""

    @property
    def is_uncached(self) -> bool:
        """Whether the provider has turned out not to cache this session's requests."""
        return self.miss_count is not None and self.miss_count >= MAX_CACHE_MISSES

    @property
    def mark(self) -> RequestRecord | None:
        """Record of the last request or, before the first request, the resumed session's last request."""
        if self._last_fingerprint is None:
            return self._mark_before_restart()
        return create_request_record(
            self._last_fingerprint, self._sections, is_rewritten=self._is_rewritten, digester=self._chain
        )

    @property
    def has_sent(self) -> bool:
        """Whether a request has been sent since the program was started."""
        return self._last_fingerprint is not None

    @property
    def unchanged_message_count(self) -> int | None:
        """Number of messages in the last request that no rewrite has changed since. None if there has been no
        rewrite."""
        return self._unchanged_count if self._is_rewritten else None

    def allow_rewrite(self, unchanged_count: int = 0) -> None:
        """Allow the next request to differ from the last one, after a deliberate change to the view or a setting. The
        system prompt, the tools and the first `unchanged_count` messages must stay the same."""
        self.rewrite_count += 1
        self._unchanged_count = min(unchanged_count, self._unchanged_count) if self._is_rewritten else unchanged_count
        self._is_rewritten = True
        # Messages that a mask leaves unchanged stay cached, up to the breakpoint where the mask begins.
        self._sent_part_count = self._settled_part_count if unchanged_count else 0

    def record_reload(self) -> None:
        """Record that the view was reloaded from disk. If the last messages were not stored, the next request may lack
        them. An event then reports the difference."""
        self._is_reloaded = True
        self._unchanged_count = 0

    def allow_tool_change(self) -> None:
        """After a rewrite, allow the next request to offer different tools as well."""
        self._has_other_tools = True

    def has_same_prefix(self, system: str, tools: Sequence[ToolSpec]) -> bool:
        """Whether a resumed session's last request had this system prompt and these tools. True if that request is
        unknown."""
        resumed_mark = self._mark_before_restart()
        if resumed_mark is None:
            return True
        return resumed_mark.has_system_prompt(system) and resumed_mark.tools == self._digester.tools_digest(tools)

    def is_cache_cold(self, facts: ModelFacts) -> bool:
        """Whether the provider's cache for this model probably contains nothing from this session."""
        if self._last_cache_use is None:
            return True
        model, used_at = self._last_cache_use
        return model != facts.id or self._now() - used_at > facts.cache_ttl

    def renewable_request(self, facts: ModelFacts) -> RenewableRequest | None:
        """Return the last request if its cache probably still exists and the next request can use it."""
        cached, request, now = self._cached_request, self._last_request, self._now()
        is_last = (
            cached is not None
            and cached.fingerprint is self._last_fingerprint
            and not self._is_rewritten
            and not self._is_reloaded
        )
        if cached is None or request is None or not is_last or now - self._cache_used_at > facts.cache_ttl:
            return None
        if cached.fingerprint.model != facts.id or self.has_given_up_renewal:
            return None
        return RenewableRequest(
            request, cached.usage, now - cached.answered_at, now - self._cache_used_at, self._renewal_count
        )

    def record_renewal(self) -> None:
        """Record that the cache of the last request was renewed."""
        self._cache_used_at, self._renewal_count = self._now(), self._renewal_count + 1
        self._last_cache_use = (self._last_cache_use[0], self._cache_used_at) if self._last_cache_use else None

    def plan_cache_breakpoints(self, prompt: Prompt, tools: tuple[ToolSpec, ...], facts: ModelFacts) -> Breakpoints:
        """Plan the cache breakpoints of the next request."""
        if self._static_part[:2] != (prompt.system, tools):
            self._static_part = prompt.system, tools, estimate_text(prompt.system) + estimate_tools(tools)
        min_message_tokens = facts.cache_min_tokens - self._static_part[2]
        if self._min_message_tokens != min_message_tokens:
            self._min_message_tokens, self._part_counter = min_message_tokens, PartCounter(min_message_tokens)
        part_counts = self._part_counter.counts_for(prompt.messages)
        self._settled_part_count = part_counts.settled_part_count or 0
        return plan_breakpoints(
            prompt.messages,
            self._sent_part_count,
            facts.cache_min_tokens,
            system=prompt.system,
            shared_system_chars=prompt.shared_prefix_chars,
            static_tokens=self._static_part[2],
            settled_part_count=self._settled_part_count,
            part_counts=part_counts,
        )

    def record_request(self, request: Request, facts: ModelFacts) -> Request:
        """Record a request that is about to be sent, and return it. Reports any change of the prefix that was not
        allowed."""
        settings = request.effort or ""
        fingerprint = create_fingerprint(
            request.system, request.tools, request.messages, model=facts.id, settings=settings, digester=self._digester
        )
        difference = self._check_prefix(fingerprint)
        if difference:
            self._emit(PrefixDrifted(difference))
            self._debug.log("context/prefix-drift", where=difference, model=facts.id)
        self._last_fingerprint, self._sent_part_count = (
            fingerprint,
            self._part_counter.counts_for(request.messages).part_count,
        )
        self._last_request, self._cache_used_at, self._renewal_count = request, self._now(), 0
        self._is_rewritten = self._has_other_tools = self._is_reloaded = False
        self._is_first_of_turn = bool(request.messages) and bool(getattr(request.messages[-1], "text", ""))
        self._cache_ttl = facts.cache_ttl
        return request

    def _check_prefix(self, fingerprint: RequestFingerprint) -> str | None:
        """Find where a request unexpectedly differs from the last one. None if it does not. After a restart,
        differences are only emitted as events."""
        if self._last_fingerprint is not None and self._is_rewritten:
            previous = (
                replace(self._last_fingerprint, tools=fingerprint.tools)
                if self._has_other_tools
                else self._last_fingerprint
            )
            return difference_after_rewrite(previous, fingerprint, self._unchanged_count)
        if self._last_fingerprint is not None:
            difference = first_difference(self._last_fingerprint, fingerprint)
            if difference is None or not self._is_reloaded or not difference.startswith("message"):
                return difference
            self.rewrite_count += 1
            self._emit(PrefixRenewed(("messages",)))
            return None
        resumed_mark = self._mark_before_restart()
        changed = changes_since(resumed_mark, fingerprint, self._sections) if resumed_mark else ()
        if changed:
            self._emit(PrefixRenewed(changed))
        return None

    def _mark_before_restart(self) -> RequestRecord | None:
        """Return the record of the last request before the program was started, without the parts that a rewrite has
        invalidated."""
        if self._resumed_mark is None or not self._is_rewritten:
            return self._resumed_mark
        return replace(self._resumed_mark, messages="", count=0)

    def record_reply(self, usage: Usage) -> None:
        """Compare the reported cache read with the tokens that should have been cached, and report a cache break. An
        unexplained break at a turn's first reply is ignored, because providers drop the previous turn's thinking."""
        previously_cached, now = self._cached_request, self._now()
        idle_seconds = now - self._last_cache_use[1] if self._last_cache_use else 0.0
        if self._last_fingerprint is not None:
            self._last_cache_use = self._last_fingerprint.model, now
        if self._last_fingerprint is None or usage.prompt == 0:
            return
        if self._last_fingerprint.model != (
            previously_cached.fingerprint.model
            if previously_cached
            else self._resumed_mark.model
            if self._resumed_mark
            else ""
        ):
            self.miss_count = 0
        if usage.cache_read or usage.cache_write:
            self.miss_count = None
        elif (
            self.miss_count is not None
            and previously_cached is not None
            and previously_cached.rewrite_count == self.rewrite_count
        ):
            self.miss_count += usage.prompt >= MIN_MISS_TOKENS and idle_seconds <= self._cache_ttl
        if (
            previously_cached is not None
            and previously_cached.rewrite_count == self.rewrite_count
            and is_cache_miss(previously_cached.cached_tokens, usage)
        ):
            cause = cache_break_cause(
                previously_cached.fingerprint, self._last_fingerprint, idle_seconds, self._cache_ttl
            )
            if cause != "unknown" or not self._is_first_of_turn:
                self._emit(CacheBroken(cause, previously_cached.cached_tokens, usage.cache_read))
                self._debug.log(
                    "context/cache-break",
                    cause=cause,
                    expectedTokens=previously_cached.cached_tokens,
                    readTokens=usage.cache_read,
                    model=self._last_fingerprint.model,
                )
        self._cached_request = CachedRequest(self._last_fingerprint, usage, now, self.rewrite_count)
