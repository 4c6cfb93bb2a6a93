"""How often outputs are needed again in recorded sessions, by kind, age and what has happened since.

python -m bench.context.wanted FOLDER [--joined] [--least 345]

An output is needed by a later reply that uses something distinctive (see `bench.context.regrets`) which stands in it
and in no later output, and which nobody has said before: not the user, not the model in what it said or called, since
that stays in view when an output is masked. Its age is the number of replies since it came in: 0 at the very next one.
The share at an age is that of the outputs needed then or later, among those after which the session went on for as
long. An output is *stale* when a later call has named the same file, or has repeated the call, where it names none.
The curve `level · e^(−age / fades)` is the likeliest one at these shares from the age of 3 on.
"""

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from agent.context.mask import paths_of
from agent.messages import ToolCall
from bench.context.recordings import KINDS, Kind, RecordedCall, Recording, joined, read_folder
from bench.context.regrets import held_by, names_in, used_in

AGES = (0, 1, 3, 6, 10, 15, 20, 30, 40, 60, 80, 120)
FITTED_FROM = 3
LEAST = 345
"""Bytes of an output below which it is never masked: the line that would stand for it is hardly shorter."""
SIZES = ((600, "under 600 B"), (2_000, "to 2 kB"), (8_000, "to 8 kB"), (20_000, "to 20 kB"), (10**12, "over 20 kB"))
LEVELS = [round(0.005 * step, 3) for step in range(1, 201)]
FADES = [*range(2, 40), *range(40, 100, 2), *range(100, 400, 10)]

State: TypeAlias = Literal["untouched", "stale"]
STATES: tuple[State, ...] = ("untouched", "stale")


@dataclass(slots=True)
class Past:
    """What became of an output."""

    kind: Kind
    size: int
    """Bytes."""
    left: int
    """Replies that came after it."""
    stale_at: int | None = None
    """The age from which on it was stale."""
    needed_at: list[int] = field(default_factory=list)
    """The ages at which it was needed."""

    def state(self, age: int) -> State:
        return "stale" if self.stale_at is not None and self.stale_at <= age else "untouched"

    def is_needed_from(self, age: int) -> bool:
        return any(at >= age for at in self.needed_at)


def subjects_of(call: RecordedCall) -> tuple[str, ...]:
    """The files that a call names; the call itself where it names none."""
    paths = paths_of(ToolCall(call.id, call.tool, call.arguments)) if call.kind in ("read", "edit") else ()
    return paths or (f"{call.tool} {json.dumps(dict(call.arguments), sort_keys=True, default=str)}",)


def pasts_of(recording: Recording) -> list[Past]:
    """What became of each output of a recording, in the order in which they came."""
    pasts: list[Past] = []
    holder: dict[str, tuple[int, int]] = {}
    """By what is distinctive: the newest output in which it stands, and at which step that came in."""
    about: dict[str, list[tuple[int, int]]] = {}
    said: set[str] = set()
    for at, step in enumerate(recording.steps):
        for text in step.said:
            said |= names_in(text)
        used = used_in(step.text, step.calls)
        for number, came in {holder[found] for found in used - said if found in holder}:
            pasts[number].needed_at.append(at - came)
        said |= used
        for call in step.calls:
            for subject in subjects_of(call):
                for number, came in about.pop(subject, ()):
                    pasts[number].stale_at = at - came + 1  # seen by the replies after this one
        for call in step.calls:
            number = len(pasts)
            left = len(recording.steps) - at - 1
            pasts.append(Past(call.kind, len(call.output.encode("utf-8", "replace")), left))
            for subject in subjects_of(call):
                about.setdefault(subject, []).append((number, at + 1))
            for found in held_by(call.output):
                holder[found] = (number, at + 1)
    return pasts


@dataclass(frozen=True, slots=True)
class Share:
    needed: int
    of: int

    def __str__(self) -> str:
        return f"{100 * self.needed / self.of:.1f}" if self.of else ""


def shares(pasts: Iterable[Past], state: State | None = None) -> dict[int, Share]:
    """By age, of the outputs that were in that state then; None: in any."""
    needed, of = Counter[int](), Counter[int]()
    for past in pasts:
        for age in AGES:
            if age < past.left and (state is None or past.state(age) == state):
                of[age] += 1
                needed[age] += past.is_needed_from(age)
    return {age: Share(needed[age], of[age]) for age in AGES}


def fitted(found: dict[int, Share]) -> tuple[float, int] | None:
    """Level and fading of the likeliest curve; None where nothing was needed."""
    seen = [(age, share) for age, share in found.items() if age >= FITTED_FROM and share.of]
    if not any(share.needed for _, share in seen):
        return None

    def likelihood(level: float, fades: int) -> float:
        total = 0.0
        for age, share in seen:
            chance = min(level * math.exp(-age / fades), 0.999)
            total += share.needed * math.log(chance) + (share.of - share.needed) * math.log1p(-chance)
        return total

    return max(((level, fades) for level in LEVELS for fades in FADES), key=lambda one: likelihood(*one))


def row(name: str, pasts: Sequence[Past], state: State | None = None) -> str:
    found = shares(pasts, state)
    curve = fitted(found)
    said = f"{curve[0]:.3f} · e^(−age / {curve[1]})" if curve else "never needed"
    cells = "".join(f"{found[age]!s:>7}" for age in AGES)
    return f"{name:24}{found[FITTED_FROM].of:7}{cells}   {said}"


def rows(pasts: Sequence[Past], least: int) -> Iterator[str]:
    large = [past for past in pasts if past.size >= least]
    yield f"{'% needed from an age on':24}{'of':>7}{''.join(f'{age:>7}' for age in AGES)}   likeliest curve"
    for kind in KINDS:
        of_kind = [past for past in large if past.kind == kind]
        for state in STATES:
            yield row(f"{kind}, {state}", of_kind, state)
    yield row("all", large)
    for most, name in SIZES:
        least_of = max([0, *(size for size, _ in SIZES if size < most)])
        yield row(f"read, {name}", [past for past in pasts if past.kind == "read" and least_of <= past.size < most])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.context.wanted")
    parser.add_argument("folder", type=Path, help="where the recordings are, one `.jsonl` each")
    parser.add_argument("--joined", action="store_true", help="all sessions of a project as one")
    parser.add_argument("--least", type=int, default=LEAST, help="bytes of the smallest outputs that count")
    options = parser.parse_args()
    if not options.folder.is_dir():
        parser.error(f"`{options.folder}` is no folder")
    recordings, skipped = read_folder(options.folder)
    if not recordings:
        parser.error(f"`{options.folder}` holds no recording that can be replayed")
    for one in skipped:
        print(f"skipped {one.name}: {one.why}")
    pasts = [past for one in (joined(recordings) if options.joined else recordings) for past in pasts_of(one)]
    print("\n".join(rows(pasts, options.least)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
