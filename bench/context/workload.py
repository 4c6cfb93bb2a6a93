"""Statistical models of coding sessions: request times, message lengths and output sizes.

The sizes follow measured distributions. LIGHT is a session of edits and short commands: half of its outputs are below
150 bytes, a few reach tens of kilobytes. HEAVY includes logs and responses of remote tools. REAL is fitted to 188
recorded sessions of four coding agents, including turns and pauses. CODEX is fitted to the sessions whose agent uses
almost only a shell.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

TOKENS_PER_BYTE = 0.325
MIN_OUTPUT_BYTES = 20
"""Bytes."""


@dataclass(frozen=True, slots=True)
class ToolSizes:
    """The outputs of one tool: the tool's share of all calls, and the distribution of sizes."""

    share: float
    mu: float
    sigma: float
    """Mean and standard deviation of the logarithm of the size in bytes."""
    max_bytes: int


Lognormal: TypeAlias = tuple[float, float]
"""Mean and standard deviation of the logarithm of a quantity."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The rhythm of a session: user messages, their lengths, and pauses."""

    turn: Lognormal | None = None
    """Number of requests in a turn. If None, a user message precedes each request with equal probability."""
    message_tokens: Lognormal = (3.9, 1.0)
    """Tokens of a user message."""
    pasted: Lognormal | None = None
    """Tokens of a message with pasted text, which every fifth message is; None if there are none."""
    max_message_tokens: int = 6_000
    reply: Lognormal = (5.0, 1.05)
    """Tokens."""
    pause: Lognormal = (3.9, 1.2)
    """Seconds before a user message."""
    gap: Lognormal = (1.75, 1.1)
    """Seconds between the requests of a turn."""
    waits: float = 0.0
    """Share of a turn's requests that come after a wait of at least 300 seconds."""


USER_MESSAGE_SHARE, PASTED_SHARE = 0.11, 0.2
LONG_WAIT_SECONDS = 300.0
"""Seconds."""


@dataclass(frozen=True, slots=True)
class WorkloadMix:
    tools: Mapping[str, ToolSizes]
    rhythm: Rhythm = Rhythm()  # a frozen value


LIGHT = WorkloadMix(
    {
        "read": ToolSizes(0.19, 7.3, 1.6, 51_200),
        "bash": ToolSizes(0.48, 4.9, 1.75, 51_200),
        "edit": ToolSizes(0.31, 4.7, 0.35, 4_000),
        "mcp": ToolSizes(0.02, 7.0, 1.5, 102_400),
    }
)
HEAVY = WorkloadMix(
    {
        "read": ToolSizes(0.25, 8.0, 1.4, 51_200),
        "bash": ToolSizes(0.45, 6.6, 1.9, 204_800),
        "edit": ToolSizes(0.18, 4.7, 0.35, 4_000),
        "mcp": ToolSizes(0.12, 8.3, 1.6, 204_800),
    }
)
RECORDED_RHYTHM = Rhythm(
    turn=(1.6, 1.45),
    message_tokens=(3.5, 1.0),
    pasted=(7.0, 1.0),
    max_message_tokens=20_000,
    reply=(4.86, 1.32),
    pause=(4.81, 1.58),
    gap=(1.95, 1.09),
    waits=0.01,
)
REAL = WorkloadMix(
    {
        "bash": ToolSizes(0.40, 5.72, 1.77, 41_000),
        "read": ToolSizes(0.21, 7.89, 1.22, 51_000),
        "edit": ToolSizes(0.19, 5.05, 0.85, 33_000),
        "grep": ToolSizes(0.11, 5.82, 1.90, 20_000),
        "other": ToolSizes(0.08, 4.18, 1.27, 35_000),
        "task": ToolSizes(0.01, 8.02, 1.39, 33_000),
    },
    RECORDED_RHYTHM,
)
CODEX = WorkloadMix(
    {
        "bash": ToolSizes(0.95, 6.91, 1.79, 41_000),
        "edit": ToolSizes(0.03, 5.05, 0.85, 33_000),
        "other": ToolSizes(0.02, 4.18, 1.27, 35_000),
    },
    RECORDED_RHYTHM,
)


@dataclass(frozen=True, slots=True)
class PlannedOutput:
    tool: str
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A planned request with its reply and the outputs of that reply's calls."""

    gap: float
    """Seconds since the previous request."""
    message_tokens: int
    """Tokens of the user message before the request; 0 if the turn continues."""
    reply: int
    """Tokens of the reply."""
    outputs: tuple[PlannedOutput, ...]
    """Empty for a reply that ends its turn."""


def plan_session(seed: int, count: int, mix: WorkloadMix) -> tuple[PlannedRequest, ...]:
    """Return the plan of a session of `count` requests. If a reply ends a turn, its outputs are moved to the next
    reply, so that the total size is preserved."""
    rng = random.Random(seed)
    drawn = [_draw_request(rng, mix, speaks) for speaks in islice(_user_message_flags(rng, mix.rhythm), count)]
    planned: list[PlannedRequest] = []
    moved: tuple[PlannedOutput, ...] = ()
    for number, request in enumerate(drawn):
        is_last = number + 1 == count or drawn[number + 1].message_tokens > 0
        outputs = moved + request.outputs
        moved = outputs if is_last else ()
        planned.append(replace(request, outputs=() if is_last else outputs))
    return tuple(planned)


def _user_message_flags(rng: random.Random, rhythm: Rhythm) -> Iterator[bool]:
    """Yield for each request whether a user message precedes it."""
    yield True
    while rhythm.turn is None:
        yield rng.random() < USER_MESSAGE_SHARE
    while True:
        for _ in range(1, round(rng.lognormvariate(*rhythm.turn))):
            yield False
        yield True


def _draw_request(rng: random.Random, mix: WorkloadMix, has_message: bool) -> PlannedRequest:
    rhythm = mix.rhythm
    message_tokens = (
        max(1, int(min(rhythm.max_message_tokens, rng.lognormvariate(*_message_length(rng, rhythm)))))
        if has_message
        else 0
    )
    gap = rng.lognormvariate(*rhythm.pause) if has_message else _draw_gap(rng, rhythm)
    reply = int(min(8_000, max(20, rng.lognormvariate(*rhythm.reply))))
    calls = 1 + (rng.random() < 0.12) + (rng.random() < 0.04)
    return PlannedRequest(gap, message_tokens, reply, tuple(_draw_output(rng, mix.tools) for _ in range(calls)))


def _message_length(rng: random.Random, rhythm: Rhythm) -> Lognormal:
    return rhythm.pasted if rhythm.pasted is not None and rng.random() < PASTED_SHARE else rhythm.message_tokens


def _draw_gap(rng: random.Random, rhythm: Rhythm) -> float:
    if rhythm.waits and rng.random() < rhythm.waits:
        return LONG_WAIT_SECONDS * (1 + rng.expovariate(1.0))
    return rng.lognormvariate(*rhythm.gap)


def _draw_output(rng: random.Random, tools: Mapping[str, ToolSizes]) -> PlannedOutput:
    (tool,) = rng.choices(list(tools), [sizes.share for sizes in tools.values()])
    sizes = tools[tool]
    drawn = int(rng.lognormvariate(sizes.mu, sizes.sigma))
    return PlannedOutput(tool, min(sizes.max_bytes, max(MIN_OUTPUT_BYTES, drawn)))


_WORDS = """
the parser reads each line of its input and returns a token for every symbol that it knows or an error with the place
where it stopped so that callers can show what went wrong def return import self value index result None assert test
path name error open close key count start end
""".split()  # noqa: SIM905  # more readable as text


def prose(seed: int, size: int) -> str:
    """Return `size` bytes of text, always the same for a seed."""
    return "".join(_lines(random.Random(seed), size))[:size]


def _lines(rng: random.Random, size: int) -> Iterator[str]:
    written = 0
    while written < size:
        line = f"{rng.randrange(10_000)} {' '.join(rng.choices(_WORDS, k=9))}\n"
        written += len(line)
        yield line
