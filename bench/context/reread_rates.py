"""Measures how often outputs are needed again in recorded sessions, by kind, state and idle time.

    python -m bench.context.reread_rates FOLDER [--joined] [--least 345]

An output is needed by a later reply that uses something distinctive (see `bench.context.regrets`) which it contains,
which no later output contains, which neither the user nor the model has written before (that stays in context when an
output is masked), and which the line that replaces a masked output would not show. Its age is the number of replies
since it arrived, 0 for the next one. The share at an age counts outputs needed then or later, among those after which
the session continued that long. An output is *stale* if a later call has named the same file, or repeated the call if
it names none. The curve `level · e^(−age / fades)` is the most likely one for the shares from age 3 on."""

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from bench.context.recordings import RecordedCall, RecordedStep, Recording, join_recordings, read_folder
from bench.context.regrets import distinctive_parts, names_in, used_in
from ebbtide.agent.context.mask import paths_of
from ebbtide.agent.context.named_outputs import NamedOutputs
from ebbtide.agent.context.reread_model import OutputContent, content_of
from ebbtide.agent.context.stub_identifiers import StubIdentifiers
from ebbtide.agent.messages import Assistant, Text, ToolCall, ToolOutput, User

AGES = (3, 6, 10, 15, 20, 30, 40, 60, 80, 120)
"""Ages at which outputs are examined; younger ones never leave."""
IDLE = (3, 6, 11, 16, 21, 31, 41, 61, 81, 10**9)
"""Bounds of the groups for which shares are printed."""
MIN_OUTPUT_BYTES = 345
"""Size in bytes below which an output is never masked, since its replacement line is hardly shorter."""
SIZES = ((1_800, "to 1.8k"), (7_200, "to 7.2k"), (18_000, "to 18k"), (10**12, "more"))
"""Bytes."""
CONTENTS: tuple[OutputContent, ...] = get_args(OutputContent)
LEVELS = [round(0.005 * step, 3) for step in range(1, 201)]
FADES = [*range(1, 40), *range(40, 100, 2), *range(100, 400, 10)]

State: TypeAlias = Literal["untouched", "stale"]
STATES: tuple[State, ...] = ("untouched", "stale")


@dataclass(slots=True)
class OutputHistory:
    """The history of an output."""

    content: OutputContent
    size: int
    """Bytes."""
    left: int
    """Number of replies after it."""
    stale_at: int | None = None
    """Age from which it is stale."""
    needed_at: list[int] = field(default_factory=list)
    """Ages at which it was needed."""
    named_at: list[int] = field(default_factory=list)
    """Ages from which something in it was named, in order."""

    def idle(self, age: int) -> int:
        """Number of replies since it was named or arrived."""
        return age - max((at for at in self.named_at if at <= age), default=0)

    def state(self, age: int) -> State:
        return "stale" if self.stale_at is not None and self.stale_at <= age else "untouched"

    def is_needed_from(self, age: int) -> bool:
        return any(at >= age for at in self.needed_at)


def subjects_of(call: RecordedCall) -> tuple[str, ...]:
    """The files that a call names, or the call itself if it names none."""
    paths = paths_of(ToolCall(call.id, call.tool, call.arguments)) if call.kind in ("read", "edit") else ()
    return paths or (f"{call.tool} {json.dumps(dict(call.arguments), sort_keys=True, default=str)}",)


def output_histories(recording: Recording) -> list[OutputHistory]:
    """The history of each output of a recording, in order of arrival."""
    pasts: list[OutputHistory] = []
    holder: dict[str, tuple[int, int]] = {}
    """The newest output with each distinctive text, and the step in which it arrived."""
    about: dict[str, list[tuple[int, int]]] = {}
    said: set[str] = set()
    told: set[str] = set()
    named, lines = NamedOutputs(), StubIdentifiers()
    for at, step in enumerate(recording.steps):
        for text in step.user_texts:
            said |= names_in(text)
        used = used_in(step.text, step.calls)
        for number, came in {holder[found] for found in used - said - told if found in holder}:
            pasts[number].needed_at.append(at - came)
        said |= used
        _note_named(step, at + 1, named)
        for past in (pasts[int(key)] for key, reply in named.last.items() if reply == at + 1):
            past.named_at.append(at + 1 - (len(recording.steps) - past.left))
        for call in step.calls:
            for subject in subjects_of(call):
                for number, came in about.pop(subject, ()):
                    pasts[number].stale_at = at - came + 1  # visible to the replies after this one
        for call in step.calls:
            number = len(pasts)
            left = len(recording.steps) - at - 1
            content = content_of(ToolCall(call.id, call.tool, call.arguments))
            pasts.append(OutputHistory(content, len(call.output.encode("utf-8", "replace")), left))
            for subject in subjects_of(call):
                about.setdefault(subject, []).append((number, at + 1))
            for found in distinctive_parts(call.output):
                holder[found] = (number, at + 1)
            output = ToolOutput(call.id, call.output)
            named.add(str(number), output)
            told.update(lines.suffix_for(output).split())
    return pasts


def _note_named(step: RecordedStep, reply: int, named: NamedOutputs) -> None:
    """Record what the user and the reply of a step name; `reply` is the number of replies including this one."""
    calls = [ToolCall(call.id, call.tool, call.arguments) for call in step.calls]
    for message in (User(tuple(map(Text, step.user_texts))), Assistant((Text(step.text), *calls))):
        named.record_mentions(message, reply)


@dataclass(frozen=True, slots=True)
class NeedRate:
    needed: int
    of: int

    def __str__(self) -> str:
        return f"{100 * self.needed / self.of:.1f}" if self.of else ""


def shares(pasts: Iterable[OutputHistory], state: State | None = None) -> dict[int, NeedRate]:
    """Need rates by idle time, of the outputs in this state when examined, or in any."""
    needed, of = Counter[int](), Counter[int]()
    for past in pasts:
        for age in AGES:
            if age < past.left and (state is None or past.state(age) == state):
                of[past.idle(age)] += 1
                needed[past.idle(age)] += past.is_needed_from(age)
    return {idle: NeedRate(needed[idle], of[idle]) for idle in sorted(of)}


def group_by_idle(found: Mapping[int, NeedRate]) -> list[NeedRate]:
    """The need rates, grouped by `IDLE`."""
    return [
        NeedRate(sum(found[idle].needed for idle in group), sum(found[idle].of for idle in group))
        for least, most in pairwise((0, *IDLE))
        for group in [[idle for idle in found if least <= idle < most]]
    ]


def fit_curve(found: Mapping[int, NeedRate]) -> tuple[float, int] | None:
    """Level and decay of the most likely curve; None if nothing was needed."""
    if not any(share.needed for share in found.values()):
        return None

    def likelihood(level: float, fades: int) -> float:
        total = 0.0
        for idle, share in found.items():
            chance = min(level * math.exp(-idle / fades), 0.999)
            total += share.needed * math.log(max(chance, 1e-300)) + (share.of - share.needed) * math.log1p(-chance)
        return total

    return max(((level, fades) for level in LEVELS for fades in FADES), key=lambda one: likelihood(*one))


def row(name: str, pasts: Sequence[OutputHistory], state: State | None = None) -> str:
    found = shares(pasts, state)
    curve = fit_curve(found)
    said = f"{curve[0]:.3f} · e^(−idle / {curve[1]})" if curve else "never needed"
    cells = "".join(f"{share!s:>7}" for share in group_by_idle(found))
    return f"{name:24}{sum(share.of for share in found.values()):7}{cells}   {said}"


def rows(pasts: Sequence[OutputHistory], least: int) -> Iterator[str]:
    large = [past for past in pasts if past.size >= least]
    heads = [f"{most - 1 if most - 1 == below else f'{below}-{most - 1}'}" for below, most in pairwise((0, *IDLE[:-1]))]
    idle = "".join(f"{head:>7}" for head in (*heads, f"{IDLE[-2]}-"))
    yield f"{'% needed again, idle for':24}{'of':>7}{idle}   likeliest curve"
    for content in CONTENTS:
        for state in STATES if content == "file" else (None,):
            yield row(
                f"{content}, {state}" if state else content, [past for past in large if past.content == content], state
            )
    yield row("all", large)
    for most, name in SIZES:
        least_of = max([0, *(size for size, _ in SIZES if size < most)])
        of_size = [past for past in large if past.content == "file" and least_of <= past.size < most]
        yield row(f"file untouched, {name}", of_size, "untouched")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.context.reread_rates")
    parser.add_argument("folder", type=Path, help="folder with the recordings, one `.jsonl` file each")
    parser.add_argument("--joined", action="store_true", help="join all sessions of a project")
    parser.add_argument("--least", type=int, default=MIN_OUTPUT_BYTES, help="bytes of the smallest outputs that count")
    options = parser.parse_args()
    if not options.folder.is_dir():
        parser.error(f"`{options.folder}` is not a folder")
    recordings, skipped = read_folder(options.folder)
    if not recordings:
        parser.error(f"`{options.folder}` contains no recording that can be replayed")
    for one in skipped:
        print(f"skipped {one.name}: {one.why}")
    pasts = [
        past
        for one in (join_recordings(recordings) if options.joined else recordings)
        for past in output_histories(one)
    ]
    print("\n".join(rows(pasts, options.least)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
