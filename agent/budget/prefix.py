"""Common prefix of consecutive requests, and cache breakpoints.

Providers charge a fraction of the price for the prefix that a request shares with an earlier one, up to the first byte
that differs. So each request is compared with the previous one by digests. Each part is hashed only once.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from hashlib import blake2b
from operator import is_
from typing import TypeAlias

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
from ebbtide.agent.tokens.estimate import estimate_message
from ebbtide.agent.tokens.incremental import IncrementalFold, is_prefix, memoized
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.agent.view.stubs import is_worth_masking
from ebbtide.tools.lazy import dataclass

MAX_BREAKPOINTS = 4
"""Maximum number of breakpoints in one request."""
BREAKPOINT_SPACING_PARTS = 18
"""Number of parts between two breakpoints. It must be less than 20: providers look for cached content at most 20 blocks
before each breakpoint."""

DIGEST_BYTES = 12
"""Size of a digest, in bytes."""

PromptPart: TypeAlias = UserPart | AssistantPart


@dataclass(frozen=True, slots=True)
class Breakpoints:
    """Positions at which a provider may set cache breakpoints, in ascending order."""

    system: tuple[int, ...] = ()
    """Offsets in the system prompt, in characters."""
    parts: tuple[int, ...] = ()
    """Message parts after which a breakpoint is set, counted from 1 in the order they are sent."""

    @property
    def count(self) -> int:
        return len(self.system) + len(self.parts)


def plan_breakpoints(
    messages: Sequence[Message],
    previous_part_count: int,
    min_tokens: int,
    *,
    system: str = "",
    shared_system_chars: int = 0,
    static_tokens: int = 0,
    settled_part_count: int = 0,
    part_counts: "PartCounts | None" = None,
) -> Breakpoints:
    """Plan at most `MAX_BREAKPOINTS` breakpoints, none within the first `min_tokens` tokens. They are placed at the end
    of the system prompt; after the newest part; after the newest part of the previous request, which had
    `previous_part_count` parts; and after the first `settled_part_count` parts, which the next masking will not change.
    If the newest part is far from the other breakpoints, extra breakpoints are placed before it. If a breakpoint is
    still available, it is placed after the first `shared_system_chars` characters of the system prompt, which other
    sessions share. `static_tokens`: the size of system prompt and tools. `part_counts`: the part counts of the
    messages, if already computed."""
    counts = part_counts or PartCounter(min_tokens - static_tokens).counts_for(tuple(messages))
    part_count, min_position = counts.part_count, max(counts.first_allowed_position, 1)
    system_ends: tuple[int, ...] = (len(system),) if system and static_tokens >= min_tokens else ()
    parts = {
        position
        for position in (part_count, min(previous_part_count, part_count), min(settled_part_count, part_count))
        if position >= min_position
    }
    extra_positions = range(
        part_count - BREAKPOINT_SPACING_PARTS, max(previous_part_count, min_position - 1), -BREAKPOINT_SPACING_PARTS
    )
    parts |= set(extra_positions[: MAX_BREAKPOINTS - len(parts) - len(system_ends)])
    if (
        system_ends
        and 0 < shared_system_chars < len(system)
        and len(parts) + 1 < MAX_BREAKPOINTS
        and static_tokens >= 2 * min_tokens
    ):
        system_ends = (shared_system_chars, *system_ends)
    return Breakpoints(system_ends, tuple(sorted(parts)))


@dataclass(slots=True)
class PartCounts:
    """Number of message parts: in total, and before the first output that masking would change."""

    part_count: int = 0
    settled_part_count: int | None = None
    """Number of parts sent before the first output that masking would change; None if there is no such output yet."""
    min_tokens: int = 0
    """Minimum number of tokens before a breakpoint."""
    tokens: int = 0
    """Tokens of the messages. No longer updated once the minimum is reached."""
    parts_at_minimum: int | None = None
    """Number of leading parts that together reach the minimum; None if all parts together do not reach it."""

    def add(self, message: Message) -> "PartCounts":
        if self.settled_part_count is None and isinstance(message, User):
            maskable_indices = (index for index, output in enumerate(message.outputs) if is_worth_masking(output))
            first_index = next(maskable_indices, None)
            self.settled_part_count = None if first_index is None else self.part_count + first_index
        self.part_count += len(message.parts)
        if self.parts_at_minimum is None and self.tokens < self.min_tokens:
            self.tokens += estimate_message(message)
            self.parts_at_minimum = self.part_count if self.tokens >= self.min_tokens else None
        return self

    @property
    def first_allowed_position(self) -> int:
        """First position where a breakpoint is allowed; if there is none, a position after the last part."""
        return (
            0
            if self.min_tokens <= 0
            else self.part_count + 1
            if self.parts_at_minimum is None
            else self.parts_at_minimum
        )


class PartCounter:
    """Computes the part counts of a session's requests. Each message is measured once."""

    def __init__(self, min_tokens: int = 0) -> None:
        self._counts: IncrementalFold[PartCounts, Message] = IncrementalFold(
            lambda: PartCounts(min_tokens=min_tokens), PartCounts.add
        )

    def counts_for(self, messages: tuple[Message, ...]) -> PartCounts:
        return replace(self._counts.value_for(messages))


def parts_in_sent_order(message: Message) -> tuple[PromptPart, ...]:
    """Return a message's parts in the order they are sent: outputs before the user's text."""
    if not isinstance(message, User):
        return message.parts
    return (*message.outputs, *(part for part in message.parts if not isinstance(part, ToolOutput)))


@dataclass(slots=True)
class RequestDigester:
    """Computes digests of a session's requests. Content that is the same object as in the last request is not hashed
    again."""

    _tools: tuple[tuple[ToolSpec, ...], str] = ((), "")
    _last_message_digests: tuple[tuple[Message, ...], tuple[tuple[str, ...], ...]] = ((), ())

    def tools_digest(self, tools: Sequence[ToolSpec]) -> str:
        known_tools, known_digest = self._tools
        if len(known_tools) != len(tools) or not known_digest or not all(map(is_, known_tools, tools)):
            known_digest = digest(" ".join(digest(serialise_canonically(spec)) for spec in tools).encode())
            self._tools = tuple(tools), known_digest
        return known_digest

    def message_digests(self, messages: tuple[Message, ...]) -> tuple[tuple[str, ...], ...]:
        """Return the role and part digests of each message."""
        digested_messages, known_digests = (
            self._last_message_digests if is_prefix(self._last_message_digests[0], messages) else ((), ())
        )
        digests = extend_tuple(known_digests, *map(part_digests, messages[len(digested_messages) :]))
        self._last_message_digests = messages, digests
        return digests


@memoized
def part_digests(message: Message) -> tuple[str, ...]:
    """Return a message's role and part digests; cached for the lifetime of the message."""
    return (type(message).__name__, *(digest(serialise_canonically(part)) for part in parts_in_sent_order(message)))


_UNSENT_FIELDS = ("whole", "stored", "pictures", "files", "digest", "tools", "note")
"""Fields that are never sent. They concern storage, or describe other fields."""


def serialise_canonically(value: PromptPart | ToolSpec) -> bytes:
    """Serialise the fields of a value that can be sent to a provider. Equal results mean that equal bytes are sent."""
    sent_fields = {name: content for name, content in _sent_values(value).items() if content not in (None, "")}
    return json.dumps([digest_name(value), sent_fields], default=_json_default, separators=(",", ":")).encode()


def _sent_values(value: object) -> dict[str, object]:
    return {name: getattr(value, name) for name in _sent_fields(type(value))}  # type: ignore[arg-type]  # a class


@cache
def _sent_fields(value_type: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(value_type) if field.name not in _UNSENT_FIELDS)


def _json_default(value: object) -> object:
    if isinstance(value, Image):
        return _sent_values(value)
    if isinstance(value, Mapping):
        return dict(value)
    return f"{digest_name(value)}{repr(value).removeprefix(type(value).__name__)}"


def digest(content: bytes) -> str:
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


@dataclass(frozen=True, slots=True)
class RequestFingerprint:
    """A request as digests."""

    model: str
    settings: str
    """The reasoning effort, the only setting that the provider's cache depends on."""
    system: str
    tools: str
    messages: tuple[tuple[str, ...], ...]
    """Role and part digests of each message."""


def create_fingerprint(
    system: str,
    tools: Sequence[ToolSpec],
    messages: tuple[Message, ...],
    *,
    model: str = "",
    settings: str = "",
    digester: RequestDigester | None = None,
) -> RequestFingerprint:
    """Return the fingerprint of a request. With the session's `digester`, only new content is hashed."""
    digester = digester if digester is not None else RequestDigester()
    system_digest = digest(system.encode("utf-8", "surrogatepass"))
    return RequestFingerprint(
        model, settings, system_digest, digester.tools_digest(tools), digester.message_digests(messages)
    )


def first_difference(previous: RequestFingerprint, current: RequestFingerprint) -> str | None:
    """Return where a request first differs from the previous one: `model`, `settings`, `system`, `tools` or `message
    N`. None if the current request begins with the whole previous one. The previous request's last message can be
    longer in the current request, because adjacent messages of the same role are merged."""
    for section in ("model", "settings", "system", "tools"):
        if getattr(previous, section) != getattr(current, section):
            return section
    if is_prefix(previous.messages, current.messages):
        return None
    for index, previous_digests in enumerate(previous.messages):
        is_last = index == len(previous.messages) - 1
        current_digests = current.messages[index] if index < len(current.messages) else ()
        if (current_digests[: len(previous_digests)] if is_last else current_digests) != previous_digests:
            return f"message {index + 1}"
    return None


def difference_after_rewrite(
    previous: RequestFingerprint, current: RequestFingerprint, unchanged_count: int
) -> str | None:
    """Return where the first request after a rewrite differs in a part that a rewrite must not change: `system`,
    `tools`, or one of the first `unchanged_count` messages. Model and settings may differ."""
    expected = replace(
        previous, model=current.model, settings=current.settings, messages=previous.messages[:unchanged_count]
    )
    return first_difference(expected, current)


MIN_CACHE_DROP_TOKENS = 2_000
MIN_CACHE_DROP_SHARE = 0.05


def is_cache_miss(cached_tokens: int, usage: Usage) -> bool:
    """Whether a request read far fewer tokens from the cache than the previous request was certain to have left
    there."""
    drop = cached_tokens - usage.cache_read
    return drop > MIN_CACHE_DROP_TOKENS and drop > MIN_CACHE_DROP_SHARE * cached_tokens


def tokens_left_cached(usage: Usage) -> int:
    """Return the number of tokens that a request is certain to have left in the cache. If a provider does not report
    cache writes, only cache reads count."""
    return usage.cache_read + usage.cache_write


def cache_break_cause(
    previous: RequestFingerprint, current: RequestFingerprint, idle_seconds: float, ttl_seconds: float
) -> BreakCause:
    """Return the likely reason for a cache miss. `idle_seconds`: seconds since the cache was last used."""
    match first_difference(previous, current):
        case "model":
            return "model switched"
        case "tools":
            return "tools changed"
        case "system":
            return "system changed"
        case _:
            return "ttl expired" if idle_seconds > ttl_seconds else "unknown"
