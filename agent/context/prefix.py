"""What two requests of a session have in common from their beginning, and where a provider may cut its cache. Pure.

A provider bills what a request shares with an earlier one at a fraction of the price, but only up to the first byte
that differs. So the beginning of each request is compared with the one before it, as digests: an old part is hashed
once.
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
"""What a provider takes in one request."""
LOOKBACK = 18
"""Parts between two breakpoints; a provider looks 20 blocks back from each for what it has cached."""

DIGEST_SIZE = 12
"""Bytes of a digest."""

PromptPart: TypeAlias = UserPart | AssistantPart


@dataclass(frozen=True, slots=True)
class Breakpoints:
    """Where a provider may cut its cache, each list ascending."""

    system: tuple[int, ...] = ()
    """Characters of the system text."""
    parts: tuple[int, ...] = ()
    """Parts of the messages, counted from the first in the order they are sent: 3 is after the third."""

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
    """At most four: the end of the system text; the newest part; the newest of the previous request, which had
    `previous_length` parts; the `settled` parts, which the next masking will leave as they are, so that what stands
    before it is still in the cache then; spares behind the newest while it is far from the others. A place that is left
    goes to the `stable` beginning of the system text, which other sessions share. None stands where the request so far
    takes fewer than `minimum` tokens, `static_tokens` of which are its system text and tools. `known`: the length of
    the messages, where it was kept."""
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
    """How many parts messages have, and how many of them are sent before the first output that masking would change."""

    parts: int = 0
    settled: int | None = None
    """None when there is no such output so far."""
    least: int = 0
    """Tokens that the messages must take before a cache may be cut there."""
    tokens: int = 0
    """Tokens of the messages, as far as `allowed` depends on them."""
    allowed: int | None = None
    """The parts that take so many; None when all of them do not."""

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
        """The first place at which the cache may be cut; behind all parts when there is none."""
        return 0 if self.least <= 0 else self.parts + 1 if self.allowed is None else self.allowed


class Lengths:
    """The lengths of one session's requests. Each message is looked at once."""

    def __init__(self, least: int = 0) -> None:
        self._length: IncrementalFold[Length, Message] = IncrementalFold(lambda: Length(least=least), Length.plus)

    def of(self, messages: tuple[Message, ...]) -> Length:
        return replace(self._length.of(messages))


def in_sent_order(message: Message) -> tuple[PromptPart, ...]:
    """A message's parts as they are sent: outputs before what the user said."""
    if not isinstance(message, User):
        return message.parts
    return (*message.outputs, *(part for part in message.parts if not isinstance(part, ToolOutput)))


@dataclass(slots=True)
class Digests:
    """Digests of one session's requests. What was in the last request is known by identity, and is not hashed again."""

    _tools: tuple[tuple[ToolSpec, ...], str] = ((), "")
    _last: tuple[tuple[Message, ...], tuple[tuple[str, ...], ...]] = ((), ())

    def of_tools(self, tools: Sequence[ToolSpec]) -> str:
        known, found = self._tools
        if len(known) != len(tools) or not found or not all(map(is_, known, tools)):
            found = digest(" ".join(digest(canonical(spec)) for spec in tools).encode())
            self._tools = tuple(tools), found
        return found

    def of_messages(self, messages: tuple[Message, ...]) -> tuple[tuple[str, ...], ...]:
        """Of each message its role and its parts."""
        said, known = self._last if is_prefix(self._last[0], messages) else ((), ())
        made = extend_tuple(known, *map(digests_of, messages[len(said) :]))
        self._last = messages, made
        return made


@memoized
def digests_of(message: Message) -> tuple[str, ...]:
    """A message's role and its parts, which are hashed once as long as the message lives."""
    return (type(message).__name__, *(digest(canonical(part)) for part in in_sent_order(message)))


_UNSENT_FIELDS = ("whole", "stored", "pictures", "files", "digest", "tools", "note")
"""Fields that say where something is kept, or what is said in another. They are never sent."""


def canonical(value: PromptPart | ToolSpec) -> bytes:
    """All of a value that can reach a provider, as bytes: equal ones are sent as equal bytes."""
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
    """What a request says, as digests."""

    model: str
    settings: str
    """What else the provider's cache depends on: how hard to think."""
    system: str
    tools: str
    messages: tuple[tuple[str, ...], ...]
    """Of each message its role and its parts."""

    @property
    def short(self) -> str:
        """All of it in one digest, to be compared with that of a restored session."""
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
    """What a request says. With the session's `digests`, it costs as much as the request has grown."""
    known = digests if digests is not None else Digests()
    said = digest(system.encode("utf-8", "surrogatepass"))
    return Fingerprint(model, settings, said, known.of_tools(tools), known.of_messages(messages))


def diff(previous: Fingerprint, current: Fingerprint) -> str | None:
    """Where the beginning of a request differs from the whole of the one before it: `model`, `settings`, `system`,
    `tools` or `message N`. None when the earlier one is the beginning of the later one. Its last message may have
    grown: neighbours of one role are sent as one."""
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
    """Where the first request after a rewrite differs in what no rewrite may change: `system`, `tools`, or one of the
    first `kept` messages. The model and its settings may be others."""
    stays = replace(previous, model=current.model, settings=current.settings, messages=previous.messages[:kept])
    return diff(stays, current)


LEAST_DROP = 2_000
LEAST_SHARE = 0.05


def is_broken(cached: int, usage: Usage) -> bool:
    """Whether a reply read much less from the cache than the request before it had left there."""
    drop = cached - usage.cache_read
    return drop > LEAST_DROP and drop > LEAST_SHARE * cached


def left_in_cache(usage: Usage) -> int:
    """The tokens that a request is known to have left in the cache. A provider that does not count what it writes is
    only held to what it has read."""
    return usage.cache_read + usage.cache_write


def cause_of_break(previous: Fingerprint, current: Fingerprint, gap: float, ttl: float) -> BreakCause:
    """The likely reason for which a cache was not read. `gap`: seconds since it was last used."""
    match diff(previous, current):
        case "model":
            return "model switched"
        case "tools":
            return "tools changed"
        case "system":
            return "system changed"
        case _:
            return "ttl expired" if gap > ttl else "unknown"
