"""Common prefix of consecutive requests, and cache breakpoints. Pure.

A provider bills what a request shares with an earlier one at a fraction of the price, but only up to the first byte
that differs. So each request is compared with the previous one by digests; each part is hashed once.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from hashlib import blake2b
from operator import is_
from typing import TypeAlias

from ebbtide.agent.context.estimate import estimate_message
from ebbtide.agent.context.incremental import IncrementalFold, is_prefix, memoized
from ebbtide.agent.context.mask import is_worth_a_line
from ebbtide.agent.context.tool_selection import ToolSpec
from ebbtide.agent.events.view import BreakCause
from ebbtide.agent.messages import (
    AssistantPart,
    Image,
    Message,
    ToolOutput,
    Usage,
    User,
    UserPart,
    digest_name,
    extend_tuple,
)
from ebbtide.tools.lazy import dataclass

MOST_BREAKPOINTS = 4
"""Maximum number of breakpoints in one request."""
LOOKBACK = 18
"""Parts between two breakpoints; a provider looks for cached content 20 blocks back from each."""

DIGEST_SIZE = 12
"""Size of a digest, in bytes."""

PromptPart: TypeAlias = UserPart | AssistantPart


@dataclass(frozen=True, slots=True)
class Breakpoints:
    """Where a provider may set cache breakpoints, in ascending order."""

    system: tuple[int, ...] = ()
    """Offsets in the system prompt, in characters."""
    parts: tuple[int, ...] = ()
    """Numbers of parts of the messages, in the order they are sent: 3 is after the third part."""

    @property
    def count(self) -> int:
        return len(self.system) + len(self.parts)


def plan_breakpoints(
    messages: Sequence[Message],
    previous_length: int,
    minimum: int,
    *,
    system: str = "",
    stable: int = 0,
    static_tokens: int = 0,
    settled: int = 0,
    known: "Length | None" = None,
) -> Breakpoints:
    """Plan at most four breakpoints: at the end of the system prompt; after the newest part; after the newest part of
    the previous request, which had `previous_length` parts; after the `settled` parts, which the next mask will leave
    unchanged; and spare ones before the newest if it is far from the others. A remaining one goes to the `stable`
    beginning of the system prompt, which other sessions share. None is set where the request so far takes fewer than
    `minimum` tokens, `static_tokens` of which are system prompt and tools. `known`: the length of the messages, if it
    is cached."""
    whole = known or Lengths(minimum - static_tokens).of(tuple(messages))
    length, first = whole.parts, whole.first
    ends: tuple[int, ...] = (len(system),) if system and static_tokens >= minimum else ()
    lowest = max(first, 1)
    parts = {place for place in (length, min(previous_length, length), min(settled, length)) if place >= lowest}
    spares = range(length - LOOKBACK, max(previous_length, lowest - 1), -LOOKBACK)
    parts |= set(spares[: MOST_BREAKPOINTS - len(parts) - len(ends)])
    if ends and 0 < stable < len(system) and len(parts) + 1 < MOST_BREAKPOINTS and static_tokens >= 2 * minimum:
        ends = (stable, *ends)
    return Breakpoints(ends, tuple(sorted(parts)))


@dataclass(slots=True)
class Length:
    """Number of parts of the messages, and how many of them are sent before the first output that masking would
    change."""

    parts: int = 0
    settled: int | None = None
    """None if there is no such output so far."""
    least: int = 0
    """Tokens that the messages must take before a breakpoint is allowed."""
    tokens: int = 0
    """Tokens of the messages, as far as `allowed` depends on them."""
    allowed: int | None = None
    """Number of parts that reach `least`; None if they all do not."""

    def plus(self, message: Message) -> "Length":
        if self.settled is None and isinstance(message, User):
            worth = (index for index, output in enumerate(message.outputs) if is_worth_a_line(output))
            first = next(worth, None)
            self.settled = None if first is None else self.parts + first
        self.parts += len(message.parts)
        if self.allowed is None and self.tokens < self.least:
            self.tokens += estimate_message(message)
            self.allowed = self.parts if self.tokens >= self.least else None
        return self

    @property
    def first(self) -> int:
        """The first position where a breakpoint is allowed; beyond all parts if there is none."""
        return 0 if self.least <= 0 else self.parts + 1 if self.allowed is None else self.allowed


class Lengths:
    """Lengths of one session's requests; each message is measured once."""

    def __init__(self, least: int = 0) -> None:
        self._length: IncrementalFold[Length, Message] = IncrementalFold(lambda: Length(least=least), Length.plus)

    def of(self, messages: tuple[Message, ...]) -> Length:
        return replace(self._length.of(messages))


def in_sent_order(message: Message) -> tuple[PromptPart, ...]:
    """Return a message's parts in the order they are sent: outputs before the user's text."""
    if not isinstance(message, User):
        return message.parts
    return (*message.outputs, *(part for part in message.parts if not isinstance(part, ToolOutput)))


@dataclass(slots=True)
class Digests:
    """Digests of one session's requests. Content of the last request is recognised by identity and not hashed again."""

    _tools: tuple[tuple[ToolSpec, ...], str] = ((), "")
    _last: tuple[tuple[Message, ...], tuple[tuple[str, ...], ...]] = ((), ())

    def of_tools(self, tools: Sequence[ToolSpec]) -> str:
        known, found = self._tools
        if len(known) != len(tools) or not found or not all(map(is_, known, tools)):
            found = digest(" ".join(digest(canonical(spec)) for spec in tools).encode())
            self._tools = tuple(tools), found
        return found

    def of_messages(self, messages: tuple[Message, ...]) -> tuple[tuple[str, ...], ...]:
        """Return the role and part digests of each message."""
        said, known = self._last if is_prefix(self._last[0], messages) else ((), ())
        made = extend_tuple(known, *map(digests_of, messages[len(said) :]))
        self._last = messages, made
        return made


@memoized
def digests_of(message: Message) -> tuple[str, ...]:
    """Return a message's role and part digests; cached for the lifetime of the message."""
    return (type(message).__name__, *(digest(canonical(part)) for part in in_sent_order(message)))


_UNSENT_FIELDS = ("whole", "stored", "pictures", "files", "digest", "tools", "note")
"""Fields about storage, or about other fields. They are never sent."""


def canonical(value: PromptPart | ToolSpec) -> bytes:
    """Serialise everything of a value that can reach a provider: equal results are sent as equal bytes."""
    shown = {name: content for name, content in _fields(value).items() if content not in (None, "")}
    return json.dumps([digest_name(value), shown], default=_plain, separators=(",", ":")).encode()


def _fields(value: object) -> dict[str, object]:
    return {name: getattr(value, name) for name in _sent_fields(type(value))}  # type: ignore[arg-type]  # a class


@cache
def _sent_fields(kind: type) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind) if item.name not in _UNSENT_FIELDS)


def _plain(value: object) -> object:
    if isinstance(value, Image):
        return _fields(value)
    if isinstance(value, Mapping):
        return dict(value)
    return f"{digest_name(value)}{repr(value).removeprefix(type(value).__name__)}"


def digest(content: bytes) -> str:
    return blake2b(content, digest_size=DIGEST_SIZE).hexdigest()


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A request as digests."""

    model: str
    settings: str
    """Other things that the provider's cache depends on: the thinking effort."""
    system: str
    tools: str
    messages: tuple[tuple[str, ...], ...]
    """Role and part digests of each message."""

    @property
    def short(self) -> str:
        """One digest of everything, to be compared with that of a restored session."""
        said = (self.system, self.tools, *(part for message in self.messages for part in message))
        return digest(" ".join(said).encode())


def fingerprint(
    system: str,
    tools: Sequence[ToolSpec],
    messages: tuple[Message, ...],
    *,
    model: str = "",
    settings: str = "",
    digests: Digests | None = None,
) -> Fingerprint:
    """Return the fingerprint of a request. With the session's `digests` the work is proportional to the growth of the
    request."""
    known = digests if digests is not None else Digests()
    said = digest(system.encode("utf-8", "surrogatepass"))
    return Fingerprint(model, settings, said, known.of_tools(tools), known.of_messages(messages))


def diff(previous: Fingerprint, current: Fingerprint) -> str | None:
    """Return where a request first differs from the previous one: `model`, `settings`, `system`, `tools` or `message
    N`. None if the previous one is a prefix of it. Its last message may have grown, since adjacent messages of one role
    are merged."""
    for where in ("model", "settings", "system", "tools"):
        if getattr(previous, where) != getattr(current, where):
            return where
    if is_prefix(previous.messages, current.messages):
        return None
    for index, before in enumerate(previous.messages):
        is_last = index == len(previous.messages) - 1
        now = current.messages[index] if index < len(current.messages) else ()
        if (now[: len(before)] if is_last else now) != before:
            return f"message {index + 1}"
    return None


def diff_after_rewrite(previous: Fingerprint, current: Fingerprint, kept: int) -> str | None:
    """Return where the first request after a rewrite differs in what no rewrite may change: `system`, `tools`, or one
    of the first `kept` messages. Model and settings may change."""
    stays = replace(previous, model=current.model, settings=current.settings, messages=previous.messages[:kept])
    return diff(stays, current)


LEAST_DROP = 2_000
LEAST_SHARE = 0.05


def is_broken(cached: int, usage: Usage) -> bool:
    """Whether a reply read far less from the cache than the previous request had left there."""
    drop = cached - usage.cache_read
    return drop > LEAST_DROP and drop > LEAST_SHARE * cached


def left_in_cache(usage: Usage) -> int:
    """Tokens that a request is known to have left in the cache. If a provider does not report cache writes, only its
    reads count."""
    return usage.cache_read + usage.cache_write


def cause_of_break(previous: Fingerprint, current: Fingerprint, gap: float, ttl: float) -> BreakCause:
    """Return the likely reason for a cache miss. `gap`: seconds since the cache was last used."""
    match diff(previous, current):
        case "model":
            return "model switched"
        case "tools":
            return "tools changed"
        case "system":
            return "system changed"
        case _:
            return "ttl expired" if gap > ttl else "unknown"
