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
from bench.context.regrets import distinctive_names, distinctive_parts, reply_parts
from ebbtide.agent.eviction.inventory import NamedOutputs
from ebbtide.agent.messages import Assistant, Text, ToolCall, ToolOutput, User
from ebbtide.agent.view.recalls import content_kind
from ebbtide.agent.view.stub_identifiers import StubNameLists
from ebbtide.agent.view.stubs import call_paths
from ebbtide.tools.tool_traits import OutputContent

EXAMINED_AGES = (3, 6, 10, 15, 20, 30, 40, 60, 80, 120)
"""Ages at which outputs are examined. Younger outputs are never masked."""
IDLE_BOUNDS = (3, 6, 11, 16, 21, 31, 41, 61, 81, 10**9)
"""Upper bounds of the groups of idle times for which rates are printed."""
MIN_OUTPUT_BYTES = 345
"""Minimum size in bytes of outputs that are masked. For smaller ones, the replacement line is hardly shorter."""
SIZE_GROUPS = ((1_800, "to 1.8k"), (7_200, "to 7.2k"), (18_000, "to 18k"), (10**12, "more"))
"""Bytes."""
CONTENT_KINDS: tuple[OutputContent, ...] = get_args(OutputContent)
CURVE_LEVELS = [round(0.005 * step, 3) for step in range(1, 201)]
CURVE_DECAYS = [*range(1, 40), *range(40, 100, 2), *range(100, 400, 10)]

State: TypeAlias = Literal["untouched", "stale"]
STATES: tuple[State, ...] = ("untouched", "stale")


@dataclass(slots=True)
class OutputHistory:
    """The history of one output in a recording."""

    content: OutputContent
    size: int
    """Bytes."""
    later_replies: int
    """Number of replies after the output."""
    stale_at: int | None = None
    """Age from which the output is stale; None if it never is."""
    needed_at: list[int] = field(default_factory=list)
    """Ages at which the output was needed."""
    named_at: list[int] = field(default_factory=list)
    """Ages at which something in the output was named, in order."""

    def idle(self, age: int) -> int:
        """Return the number of replies since the output was last named, or since it arrived."""
        return age - max((at for at in self.named_at if at <= age), default=0)

    def state(self, age: int) -> State:
        return "stale" if self.stale_at is not None and self.stale_at <= age else "untouched"

    def is_needed_from(self, age: int) -> bool:
        return any(at >= age for at in self.needed_at)


def call_subjects(call: RecordedCall) -> tuple[str, ...]:
    """Return the files that a call names, or the call itself if it names none."""
    paths = call_paths(ToolCall(call.id, call.tool, call.arguments)) if call.kind in ("read", "edit") else ()
    return paths or (f"{call.tool} {json.dumps(dict(call.arguments), sort_keys=True, default=str)}",)


def output_histories(recording: Recording) -> list[OutputHistory]:
    """Return the history of each output of a recording, in order of arrival."""
    histories: list[OutputHistory] = []
    newest_holder: dict[str, tuple[int, int]] = {}
    """The newest output that contains each distinctive text, and the step in which it arrived."""
    outputs_by_subject: dict[str, list[tuple[int, int]]] = {}
    mentioned: set[str] = set()
    in_stubs: set[str] = set()
    named, lines = NamedOutputs(), StubNameLists()
    for at, step in enumerate(recording.steps):
        for text in step.user_texts:
            mentioned |= distinctive_names(text)
        used = reply_parts(step.text, step.calls)
        for number, arrived_at in {
            newest_holder[found] for found in used - mentioned - in_stubs if found in newest_holder
        }:
            histories[number].needed_at.append(at - arrived_at)
        mentioned |= used
        _note_named(step, at + 1, named)
        for past in (histories[int(key)] for key, reply in named.last_mentions.items() if reply == at + 1):
            past.named_at.append(at + 1 - (len(recording.steps) - past.later_replies))
        for call in step.calls:
            for subject in call_subjects(call):
                for number, arrived_at in outputs_by_subject.pop(subject, ()):
                    histories[number].stale_at = at - arrived_at + 1  # the new output is visible only to later replies
        for call in step.calls:
            number = len(histories)
            left = len(recording.steps) - at - 1
            content = content_kind(ToolCall(call.id, call.tool, call.arguments))
            histories.append(OutputHistory(content, len(call.output.encode("utf-8", "replace")), left))
            for subject in call_subjects(call):
                outputs_by_subject.setdefault(subject, []).append((number, at + 1))
            for found in distinctive_parts(call.output):
                newest_holder[found] = (number, at + 1)
            output = ToolOutput(call.id, call.output)
            named.add(str(number), output)
            in_stubs.update(lines.suffix_for(output).split())
    return histories


def _note_named(step: RecordedStep, reply: int, named: NamedOutputs) -> None:
    """Record the names that the user and the reply mention in a step. `reply`: the number of replies including this
    one."""
    calls = [ToolCall(call.id, call.tool, call.arguments) for call in step.calls]
    for message in (User(tuple(map(Text, step.user_texts))), Assistant((Text(step.text), *calls))):
        named.record_mentions(message, reply)


@dataclass(frozen=True, slots=True)
class NeedRate:
    needed: int
    examined: int

    def __str__(self) -> str:
        return f"{100 * self.needed / self.examined:.1f}" if self.examined else ""


def need_rates(histories: Iterable[OutputHistory], state: State | None = None) -> dict[int, NeedRate]:
    """Return the need rates by idle time, of the outputs that were in this state when examined; None for all
    outputs."""
    needed, of = Counter[int](), Counter[int]()
    for past in histories:
        for age in EXAMINED_AGES:
            if age < past.later_replies and (state is None or past.state(age) == state):
                of[past.idle(age)] += 1
                needed[past.idle(age)] += past.is_needed_from(age)
    return {idle: NeedRate(needed[idle], of[idle]) for idle in sorted(of)}


def group_by_idle(found: Mapping[int, NeedRate]) -> list[NeedRate]:
    """Return the need rates, grouped by `IDLE_BOUNDS`."""
    return [
        NeedRate(sum(found[idle].needed for idle in group), sum(found[idle].examined for idle in group))
        for least, most in pairwise((0, *IDLE_BOUNDS))
        for group in [[idle for idle in found if least <= idle < most]]
    ]


def fit_curve(rates: Mapping[int, NeedRate]) -> tuple[float, int] | None:
    """Return the level and decay of the most likely curve; None if no output was needed."""
    if not any(share.needed for share in rates.values()):
        return None

    def likelihood(level: float, fades: int) -> float:
        total = 0.0
        for idle, share in rates.items():
            chance = min(level * math.exp(-idle / fades), 0.999)
            total += share.needed * math.log(max(chance, 1e-300)) + (share.examined - share.needed) * math.log1p(
                -chance
            )
        return total

    return max(((level, fades) for level in CURVE_LEVELS for fades in CURVE_DECAYS), key=lambda one: likelihood(*one))


def format_row(name: str, pasts: Sequence[OutputHistory], state: State | None = None) -> str:
    found = need_rates(pasts, state)
    curve = fit_curve(found)
    formula = f"{curve[0]:.3f} · e^(−idle / {curve[1]})" if curve else "never needed"
    cells = "".join(f"{share!s:>7}" for share in group_by_idle(found))
    return f"{name:24}{sum(share.examined for share in found.values()):7}{cells}   {formula}"


def format_rows(pasts: Sequence[OutputHistory], min_bytes: int) -> Iterator[str]:
    large = [past for past in pasts if past.size >= min_bytes]
    heads = [
        f"{most - 1 if most - 1 == below else f'{below}-{most - 1}'}"
        for below, most in pairwise((0, *IDLE_BOUNDS[:-1]))
    ]
    idle = "".join(f"{head:>7}" for head in (*heads, f"{IDLE_BOUNDS[-2]}-"))
    yield f"{'% needed again, idle for':24}{'of':>7}{idle}   likeliest curve"
    for content in CONTENT_KINDS:
        for state in STATES if content == "file" else (None,):
            yield format_row(
                f"{content}, {state}" if state else content, [past for past in large if past.content == content], state
            )
    yield format_row("all", large)
    for most, name in SIZE_GROUPS:
        least_of = max([0, *(size for size, _ in SIZE_GROUPS if size < most)])
        of_size = [past for past in large if past.content == "file" and least_of <= past.size < most]
        yield format_row(f"file untouched, {name}", of_size, "untouched")


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
    print("\n".join(format_rows(pasts, options.least)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
