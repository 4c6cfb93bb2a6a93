"""Coding sessions as numbers: when requests come, how much is said, how large the outputs of tools are.

The sizes follow two measured mixtures. LIGHT is what a session of edits and short commands brings: half of its outputs
stay below 150 bytes, a few reach tens of kilobytes. HEAVY has logs and answers of remote tools in it.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

TOKENS_PER_BYTE = 0.325
LEAST_OUTPUT = 20
"""Bytes."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The outputs of one tool: how often it is called, and the distribution of their bytes."""

    share: float
    mu: float
    sigma: float
    """Mean and deviation of the logarithm of the bytes."""
    most: int


Mix: TypeAlias = Mapping[str, Sizes]

LIGHT: Mix = {
    "read": Sizes(0.19, 7.3, 1.6, 51_200),
    "bash": Sizes(0.48, 4.9, 1.75, 51_200),
    "edit": Sizes(0.31, 4.7, 0.35, 4_000),
    "mcp": Sizes(0.02, 7.0, 1.5, 102_400),
}
HEAVY: Mix = {
    "read": Sizes(0.25, 8.0, 1.4, 51_200),
    "bash": Sizes(0.45, 6.6, 1.9, 204_800),
    "edit": Sizes(0.18, 4.7, 0.35, 4_000),
    "mcp": Sizes(0.12, 8.3, 1.6, 204_800),
}


@dataclass(frozen=True, slots=True)
class Output:
    tool: str
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One request of the plan, with the reply to it and what the calls of that reply bring."""

    gap: float
    """Seconds since the request before."""
    said: int
    """Tokens of a user message that comes before the request; 0 when the turn goes on."""
    reply: int
    """Tokens of the reply."""
    outputs: tuple[Output, ...]
    """Empty in a reply that ends its turn."""


def plan(seed: int, count: int, mix: Mix) -> tuple[Planned, ...]:
    """A session of that many requests. Outputs of a reply that ends a turn are moved to the next one, so that a plan
    has all the bytes that its mixture brings."""
    rng = random.Random(seed)
    drawn = [_draw(rng, mix, first=number == 0) for number in range(count)]
    planned: list[Planned] = []
    moved: tuple[Output, ...] = ()
    for number, request in enumerate(drawn):
        is_last = number + 1 == count or drawn[number + 1].said > 0
        outputs = moved + request.outputs
        moved = outputs if is_last else ()
        planned.append(replace(request, outputs=() if is_last else outputs))
    return tuple(planned)


def _draw(rng: random.Random, mix: Mix, *, first: bool) -> Planned:
    speaks = first or rng.random() < 0.11
    said = max(1, int(min(6_000, rng.lognormvariate(3.9, 1.0)))) if speaks else 0
    gap = rng.lognormvariate(3.9, 1.2) if speaks else rng.lognormvariate(1.75, 1.1)
    reply = int(min(8_000, max(20, rng.lognormvariate(5.0, 1.05))))
    calls = 1 + (rng.random() < 0.12) + (rng.random() < 0.04)
    return Planned(gap, said, reply, tuple(_output(rng, mix) for _ in range(calls)))


def _output(rng: random.Random, mix: Mix) -> Output:
    (tool,) = rng.choices(list(mix), [sizes.share for sizes in mix.values()])
    sizes = mix[tool]
    drawn = int(rng.lognormvariate(sizes.mu, sizes.sigma))
    return Output(tool, min(sizes.most, max(LEAST_OUTPUT, drawn)))


_WORDS = """
the parser reads each line of its input and returns a token for every symbol that it knows or an error with the place
where it stopped so that callers can show what went wrong def return import self value index result None assert test
path name error open close key count start end
""".split()  # noqa: SIM905  # words read better as a text


def prose(seed: int, size: int) -> str:
    """That many bytes of text, the same for the same seed."""
    return "".join(_lines(random.Random(seed), size))[:size]


def _lines(rng: random.Random, size: int) -> Iterator[str]:
    written = 0
    while written < size:
        line = f"{rng.randrange(10_000)} {' '.join(rng.choices(_WORDS, k=9))}\n"
        written += len(line)
        yield line
