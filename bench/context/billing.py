"""Computes the cost of requests with prompt caching. Pure except for `Cache`.

By Anthropic's rules, a prefix is written at each breakpoint. A later request reads the longest unexpired prefix that
ends at one of its own breakpoints or within 20 blocks before it and is identical byte for byte. Other providers cache
automatically: a request reads the longest unexpired prefix that it shares with an earlier one, in whole blocks."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.context.workload import TOKENS_PER_BYTE
from ebbtide.agent.messages import Usage

LOOK_BACK_BLOCKS = 20
FRAME_TOKENS = 12
"""Tokens that frame a call or an output."""
_FRAMED_PREFIXES = ('{"role": "assistant", "type": "tool_use"', '{"role": "user", "type": "tool_result"')
MIN_CACHED_TOKENS = 1024
"""Minimum tokens of a cached prefix."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices relative to one token of fresh input."""

    read: float = 0.1
    write: float = 1.25
    output: float = 5.0
    ttl: float = 300.0
    """Cache lifetime after the last use, in seconds."""
    is_automatic: bool = False
    """Whether every prefix is cached without breakpoints. The provider then does not guarantee the lifetime."""

    def cost(self, usage: Usage) -> float:
        return usage.input + self.read * usage.cache_read + self.write * usage.cache_write + self.output * usage.output


RATES: Mapping[str, Rates] = {
    "anthropic": Rates(),
    "anthropic-1h": Rates(write=2.0, ttl=3600.0),
    "openai": Rates(write=1.0, output=6.0, is_automatic=True),
    "openai-5.6": Rates(ttl=1800.0),
    "gemini": Rates(write=1.0, output=6.0, is_automatic=True),
    "local": Rates(read=0.0, write=1.0, ttl=float("inf"), is_automatic=True),
}
"""Prices by name. `anthropic`: five minutes, the default of the API; `anthropic-1h`: an hour, as subscribers of Claude
Code have it. `openai`: GPT-5.4 and 5.5; `openai-5.6`: GPT-5.6 and later, which charge for writing and guarantee 30
minutes. `gemini`: implicit caching. Long-context surcharges are left out. `local`: time in place of money, in
milliseconds of a server that reads 1,000 and writes 200 tokens a second and keeps its cache."""


@dataclass(frozen=True, slots=True)
class RequestBlock:
    """A block of a request: a tool, or a block of the system text or a message."""

    text: str
    """The block as JSON without the breakpoint, for the comparison of prefixes."""
    has_breakpoint: bool
    """Whether a cache breakpoint follows the block."""
    visible_text: str | None = None
    """The text that the model reads, if it is not the JSON."""
    tokens: int = field(init=False)

    def __post_init__(self) -> None:
        read = self.text if self.visible_text is None else self.visible_text
        size = round(len(read.encode("utf-8", "surrogatepass")) * TOKENS_PER_BYTE)
        object.__setattr__(self, "tokens", size + (FRAME_TOKENS if self.is_framed else 0))

    @property
    def is_framed(self) -> bool:
        """Whether the block is a call or an output."""
        return self.text.startswith(_FRAMED_PREFIXES)


@dataclass(slots=True)
class BlockReader:
    """Splits request bodies into blocks. Blocks of objects that several requests of a session share are cached."""

    _known: dict[tuple[str, int], tuple[Mapping[str, Any], RequestBlock]] = field(default_factory=dict)
    """Blocks by role and object id. The object itself is stored as well, so that its id stays valid."""

    def blocks_of(self, body: Mapping[str, Any]) -> tuple[RequestBlock, ...]:
        """Return the blocks of a request body in cache order: tools, system prompt, messages."""
        before = (*body.get("tools", ()), *body.get("system", ()))
        parts = ((message["role"], block) for message in body["messages"] for block in message["content"])
        return (*map(_request_block, before), *(self._block(role, block) for role, block in parts))

    def _block(self, role: str, block: Mapping[str, Any]) -> RequestBlock:
        known = self._known.get((role, id(block)))
        if known is None:
            known = self._known[role, id(block)] = (block, _request_block({"role": role, **block}))
        return known[1]


def _request_block(value: Mapping[str, Any]) -> RequestBlock:
    plain = {key: inner for key, inner in value.items() if key != "cache_control"}
    return RequestBlock(json.dumps(plain, ensure_ascii=False), "cache_control" in value, _visible_text(plain))


def _visible_text(block: Mapping[str, Any]) -> str | None:
    """Return the text of a block without the surrounding JSON, which belongs to the wire format; None for other
    types."""
    match block.get("type"):
        case "text":
            return str(block["text"])
        case "tool_use":
            return f"{block['name']} {json.dumps(block['input'], ensure_ascii=False)}"
        case "tool_result":
            return "".join(str(part.get("text", "")) for part in block["content"])
        case _:
            return None


@dataclass(slots=True)
class Cache:
    """The provider's cached prefixes by digest, with their expiry times."""

    ttl: float
    is_automatic: bool = False
    prefixes: dict[str, float] = field(default_factory=dict)

    def bill(self, blocks: Sequence[RequestBlock], now: float, output: int = 0) -> Usage:
        """Bill a request and cache its marked prefixes."""
        digests, sizes = _prefix_digests(blocks)
        marks = [
            index
            for index, block in enumerate(blocks)
            if (self.is_automatic or block.has_breakpoint) and sizes[index] >= MIN_CACHED_TOKENS
        ]
        if not marks:
            return Usage(input=sizes[-1] if sizes else 0, output=output)
        hit = self._longest_hit(digests, marks, now)
        read = sizes[hit] if hit is not None else 0
        for index in (*marks, *([hit] if hit is not None else [])):
            self.prefixes[digests[index]] = now + self.ttl
        return Usage(sizes[-1] - sizes[marks[-1]], read, sizes[marks[-1]] - read, output)

    def _longest_hit(self, digests: Sequence[str], marks: Sequence[int], now: float) -> int | None:
        for mark in reversed(marks):
            for index in range(mark, max(mark - LOOK_BACK_BLOCKS, -1), -1):
                if self.prefixes.get(digests[index], 0.0) > now:
                    return index
        return None


def _prefix_digests(blocks: Sequence[RequestBlock]) -> tuple[list[str], list[int]]:
    """Return the digest and token count of everything up to the end of each block."""
    digests: list[str] = []
    sizes: list[int] = []
    running, total = hashlib.sha256(), 0
    for block in blocks:
        running.update(block.text.encode("utf-8", "surrogatepass") + b"\0")
        total += block.tokens
        digests.append(running.hexdigest())
        sizes.append(total)
    return digests, sizes


def common_prefix(one: Sequence[RequestBlock], other: Sequence[RequestBlock]) -> int:
    """Return the number of equal blocks at the start."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine.text != theirs.text:
            break
        count += 1
    return count
