"""Watches the prefix of a session's requests: whether it stays the same, and whether the provider's cache is read. The
comparison is in `ebbtide.agent.context.prefix`."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from ebbtide.agent.context.estimate import estimate_text, estimate_tools
from ebbtide.agent.context.last_request import RequestChain, RequestMark, changes_since, mark_of
from ebbtide.agent.context.prefix import (
    Breakpoints,
    Digests,
    Fingerprint,
    Lengths,
    cause_of_break,
    diff,
    diff_after_rewrite,
    fingerprint,
    is_broken,
    left_in_cache,
    plan_breakpoints,
)
from ebbtide.agent.context.prompt import Prompt, Section
from ebbtide.agent.context.tool_selection import ToolSpec
from ebbtide.agent.debug import Debug
from ebbtide.agent.events.session import Event
from ebbtide.agent.events.view import CacheBroken, PrefixDrifted, PrefixRenewed
from ebbtide.agent.messages import Usage
from ebbtide.agent.providers.base import ModelFacts, Request
from ebbtide.tools.lazy import dataclass

MISSES, MISSABLE = 3, 4_096
"""Number of requests, and minimum tokens of each, without a cache read after which the provider counts as uncached."""


@dataclass(frozen=True, slots=True)
class CachedRequest:
    """What an answered request left in the cache."""

    sent: Fingerprint
    usage: Usage
    at: float
    epoch: int

    @property
    def tokens(self) -> int:
        return left_in_cache(self.usage)


@dataclass(frozen=True, slots=True)
class RenewableRequest:
    """The last request, which is the prefix of the next one, and the state of its cache."""

    request: Request
    usage: Usage
    """As reported for the request."""
    answered: float
    """Seconds since its reply was complete."""
    age: float
    """Seconds since the cache was last used, renewals included."""
    renewals: int
    """Number of renewals since the reply."""

    @property
    def cached_tokens(self) -> int:
        """Tokens known to be in the cache."""
        return left_in_cache(self.usage)


class PrefixWatch:
    """Tracks one session's requests in the order they are sent."""

    def __init__(
        self,
        emit: Callable[[Event], None] = lambda _: None,
        debug: Debug | None = None,
        now: Callable[[], float] = time.monotonic,
        sections: Sequence[Section] = (),
        earlier: RequestMark | None = None,
        used: tuple[str, float] | None = None,
    ) -> None:
        """`sections`: those of the system prompt; `earlier`: the last request of a resumed session; `used`: the model
        that it went to, and how many seconds ago."""
        self.epoch = 0
        """Number of rewrites so far."""
        self._emit = emit
        self._debug = debug or Debug()
        self._now = now
        self._digests = Digests()
        self._lengths, self._chain, self._least = Lengths(), RequestChain(), 0
        self._static: tuple[str, tuple[ToolSpec, ...], int] = ("", (), 0)
        """A system prompt and tools, with their size in tokens."""
        self._length = self._settled = 0
        """Number of parts of the last request, and of those that the next mask will leave unchanged."""
        self._sent: Fingerprint | None = None
        self._rewritten = self._retooled = False
        self._is_read_again = False
        self._kept = 0
        """Number of messages that the rewrites since the last request have left unchanged."""
        self._sections = tuple(sections)
        self._earlier = earlier
        self._cached: CachedRequest | None = None
        self._request: Request | None = None
        self._read_at = 0.0
        """When the last request that used the cache was sent; the cache's lifetime may count from then."""
        self._renewals = 0
        self.gives_up_cache = False
        """Whether keeping the cache alive has failed."""
        self._opens_turn = False
        self._used = (used[0], now() - used[1]) if used else None
        """The model whose cache was used last, and when."""
        self._ttl = 0.0
        self.misses = earlier.misses if earlier else 0
        """As in `RequestMark`."""

    @property
    def is_uncached(self) -> bool:
        """Whether the provider has turned out to bill every request as fresh input."""
        return self.misses is not None and self.misses >= MISSES

    @property
    def mark(self) -> RequestMark | None:
        """The mark of the last request; before the first one, that of the resumed session."""
        if self._sent is None:
            return self._earlier_mark()
        return mark_of(self._sent, self._sections, is_rewritten=self._rewritten, chain=self._chain)

    @property
    def has_sent(self) -> bool:
        """Whether a request was sent since the program was started."""
        return self._sent is not None

    @property
    def unchanged_messages(self) -> int | None:
        """Number of messages of the last request that the rewrites since have left unchanged; None without a
        rewrite."""
        return self._kept if self._rewritten else None

    def note_rewrite(self, kept: int = 0) -> None:
        """Allow the next request to begin differently: the view or a setting was changed on purpose. Its system prompt,
        its tools and the first `kept` messages must stay the same."""
        self.epoch += 1
        self._kept = min(kept, self._kept) if self._rewritten else kept
        self._rewritten = True
        # What a mask leaves unchanged is still cached, up to the breakpoint where the mask begins.
        self._length = self._settled if kept else 0

    def note_reload(self) -> None:
        """Record that the view was read from disk again. If the last messages were not stored, the next request may
        begin differently, which is reported."""
        self._is_read_again = True
        self._kept = 0

    def note_tool_change(self) -> None:
        """Allow the next request to offer other tools as well, if the view was rewritten."""
        self._retooled = True

    def has_same_prefix(self, system: str, tools: Sequence[ToolSpec]) -> bool:
        """Whether the last request of a resumed session had this system prompt and these tools. True if none is
        known."""
        earlier = self._earlier_mark()
        if earlier is None:
            return True
        return earlier.begins_with(system) and earlier.tools == self._digests.of_tools(tools)

    def is_cold(self, facts: ModelFacts) -> bool:
        """Whether the model's provider has nothing of the session in its cache, as far as one can know."""
        if self._used is None:
            return True
        model, at = self._used
        return model != facts.id or self._now() - at > facts.cache_ttl

    def renewable(self, facts: ModelFacts) -> RenewableRequest | None:
        """Return the last request if its cache exists and will be used by the next one, as far as one can know."""
        cached, request, now = self._cached, self._request, self._now()
        is_last = cached is not None and cached.sent is self._sent and not self._rewritten and not self._is_read_again
        if cached is None or request is None or not is_last or now - self._read_at > facts.cache_ttl:
            return None
        if cached.sent.model != facts.id or self.gives_up_cache:
            return None
        return RenewableRequest(request, cached.usage, now - cached.at, now - self._read_at, self._renewals)

    def note_renewal(self) -> None:
        """Record that the cache of the last request was used once more."""
        self._read_at, self._renewals = self._now(), self._renewals + 1
        self._used = (self._used[0], self._read_at) if self._used else None

    def plan(self, prompt: Prompt, tools: tuple[ToolSpec, ...], facts: ModelFacts) -> Breakpoints:
        """Plan the cache breakpoints of the next request."""
        if self._static[:2] != (prompt.system, tools):
            self._static = prompt.system, tools, estimate_text(prompt.system) + estimate_tools(tools)
        least = facts.cache_min_tokens - self._static[2]
        if self._least != least:
            self._least, self._lengths = least, Lengths(least)
        length = self._lengths.of(prompt.messages)
        self._settled = length.settled or 0
        return plan_breakpoints(
            prompt.messages,
            self._length,
            facts.cache_min_tokens,
            system=prompt.system,
            stable=prompt.stable,
            static_tokens=self._static[2],
            settled=self._settled,
            known=length,
        )

    def note_request(self, request: Request, facts: ModelFacts) -> Request:
        """Compare the request's prefix with that of the last one, and return the request."""
        settings = request.effort or ""
        sent = fingerprint(
            request.system, request.tools, request.messages, model=facts.id, settings=settings, digests=self._digests
        )
        where = self._difference(sent)
        if where:
            self._emit(PrefixDrifted(where))
            self._debug.log("context/prefix-drift", where=where, model=facts.id)
        self._sent, self._length = sent, self._lengths.of(request.messages).parts
        self._request, self._read_at, self._renewals = request, self._now(), 0
        self._rewritten = self._retooled = self._is_read_again = False
        self._opens_turn, self._ttl = (
            bool(request.messages) and bool(getattr(request.messages[-1], "text", "")),
            facts.cache_ttl,
        )
        return request

    def _difference(self, sent: Fingerprint) -> str | None:
        """Return where a request differs from the last one although it should not. Changes by a restart are not
        errors."""
        if self._sent is not None and self._rewritten:
            before = replace(self._sent, tools=sent.tools) if self._retooled else self._sent
            return diff_after_rewrite(before, sent, self._kept)
        if self._sent is not None:
            where = diff(self._sent, sent)
            if where is None or not self._is_read_again or not where.startswith("message"):
                return where
            self.epoch += 1
            self._emit(PrefixRenewed(("messages",)))
            return None
        earlier = self._earlier_mark()
        changed = changes_since(earlier, sent, self._sections) if earlier else ()
        if changed:
            self._emit(PrefixRenewed(changed))
        return None

    def _earlier_mark(self) -> RequestMark | None:
        """Return what is known about the last request before the program was started, unless a rewrite invalidated
        it."""
        if self._earlier is None or not self._rewritten:
            return self._earlier
        return replace(self._earlier, messages="", count=0)

    def note_reply(self, usage: Usage) -> None:
        """Compare the cache read that the provider reports with what it should have cached. The first reply of a turn
        is ignored unless its cache has expired: providers drop the previous turn's thinking."""
        before, now = self._cached, self._now()
        gap = now - self._used[1] if self._used else 0.0
        if self._sent is not None:
            self._used = self._sent.model, now
        if self._sent is None or usage.prompt == 0:
            return
        if self._sent.model != (before.sent.model if before else self._earlier.model if self._earlier else ""):
            self.misses = 0
        if usage.cache_read or usage.cache_write:
            self.misses = None
        elif self.misses is not None and before is not None and before.epoch == self.epoch:
            self.misses += usage.prompt >= MISSABLE and gap <= self._ttl
        if before is not None and before.epoch == self.epoch and is_broken(before.tokens, usage):
            cause = cause_of_break(before.sent, self._sent, gap, self._ttl)
            if cause != "unknown" or not self._opens_turn:
                self._emit(CacheBroken(cause, before.tokens, usage.cache_read))
                self._debug.log(
                    "context/cache-break",
                    cause=cause,
                    expectedTokens=before.tokens,
                    readTokens=usage.cache_read,
                    model=self._sent.model,
                )
        self._cached = CachedRequest(self._sent, usage, now, self.epoch)
