"""Fits the curves of `agent/view/recalls.py`: how likely an output is needed again, by kind, state, size and idle time.

    python -m bench.context.fit FOLDER [--all] [--joined] [--least 345]

Only the recordings that `split.json` in the folder lists for fitting are read, so that the others remain for an
independent check; `--all` reads all. Printed are the measured rates, the fitted curves as code, and for each project
the log-likelihood of its examined outputs by the curves that were fitted on all projects, by those that were fitted
without it (the larger the difference, the more the curves describe these projects alone), by constant rates from the
other projects, and by the curves of the program.

An output is needed by a later reply that uses something distinctive (see `bench.context.regrets`) which it contains,
which no later output contains, which neither the user nor the model has written before (that stays in context when an
output is masked), and which the line that replaces a masked output would not show. Its age is the number of replies
since it arrived, 0 for the next one. The share at an age counts outputs needed then or later, among those after which
the session continued that long. An output is *stale* if a later call has named the same file, or repeated the call if
it names none. The curve `level · e^(−idle / decay)` is the most likely one for the shares from age 3 on."""

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
from bench.context.split import BadSplitError, read_split
from ebbtide.agent.eviction.inventory import NamedOutputs
from ebbtide.agent.messages import Assistant, Text, ToolCall, ToolOutput, User
from ebbtide.agent.view.recalls import CONTENT_CURVES, FILE_CURVES, STALE_FILE_CURVE, ReuseCurve, content_kind
from ebbtide.agent.view.stub_identifiers import StubNameLists
from ebbtide.agent.view.stubs import call_paths
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.tool_traits import OutputContent

EXAMINED_AGES = (3, 6, 10, 15, 20, 30, 40, 60, 80, 120)
"""Ages at which outputs are examined. Younger outputs are never masked."""
IDLE_BOUNDS = (3, 6, 11, 16, 21, 31, 41, 61, 81, 10**9)
"""Upper bounds of the groups of idle times for which rates are printed."""
MIN_OUTPUT_BYTES = 345
"""Minimum size in bytes of outputs that are masked. For smaller ones, the replacement line is hardly shorter."""
SIZE_GROUPS = ((1_800, "to 1.8k"), (7_200, "to 7.2k"), (18_000, "to 18k"), (10**12, "more"))
"""Maximum bytes of the groups of files; one for each of `FILE_CURVES`."""
CONTENT_KINDS: tuple[OutputContent, ...] = get_args(OutputContent)
CURVE_LEVELS = [round(0.005 * step, 3) for step in range(1, 201)]
CURVE_DECAYS = [*range(1, 40), *range(40, 100, 2), *range(100, 400, 10)]
NEVER_NEEDED = ReuseCurve(0.0, 1)
MIN_PROBABILITY = 0.001
"""Minimum probability when curves are judged. Otherwise a single output that a curve excludes would count for more than
all others."""

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


def log_likelihood(curve: ReuseCurve, rates: Mapping[int, NeedRate], min_probability: float = 1e-300) -> float:
    """Return the logarithm of the probability of these rates, if outputs are needed as often as the curve says."""
    total = 0.0
    for idle, rate in rates.items():
        probability = min(max(curve.probability_after(idle), min_probability), 0.999)
        total += rate.needed * math.log(probability) + (rate.examined - rate.needed) * math.log1p(-probability)
    return total


def fit_curve(rates: Mapping[int, NeedRate]) -> ReuseCurve:
    """Return the most likely curve."""
    if not any(rate.needed for rate in rates.values()):
        return NEVER_NEEDED
    curves = (_fit_level(rates, decay) for decay in CURVE_DECAYS)
    return max(curves, key=lambda curve: log_likelihood(curve, rates))


def _fit_level(rates: Mapping[int, NeedRate], decay: int) -> ReuseCurve:
    """Return the most likely curve with this decay. The likelihood has one maximum, so it is found by bisection."""
    low, high = 0, len(CURVE_LEVELS) - 1
    while low < high:
        middle = (low + high) // 2
        here, next = (ReuseCurve(CURVE_LEVELS[at], decay) for at in (middle, middle + 1))
        if log_likelihood(here, rates) >= log_likelihood(next, rates):
            high = middle
        else:
            low = middle + 1
    return ReuseCurve(CURVE_LEVELS[low], decay)


def rates_by_curve(histories: Sequence[OutputHistory]) -> dict[str, dict[int, NeedRate]]:
    """Return the need rates that each curve describes."""
    found: dict[str, dict[int, NeedRate]] = {
        content: need_rates(past for past in histories if past.content == content)
        for content in CONTENT_KINDS
        if content != "file"
    }
    files = [past for past in histories if past.content == "file"]
    by_size = {f"file, {name}": need_rates(of_size, "untouched") for name, of_size in _group_by_size(files)}
    return {**found, **by_size, "file, stale": need_rates(files, "stale")}


def _group_by_size(histories: Sequence[OutputHistory]) -> Iterator[tuple[str, list[OutputHistory]]]:
    for least, (most, name) in zip((0, *(size for size, _ in SIZE_GROUPS)), SIZE_GROUPS, strict=False):
        yield name, [past for past in histories if least <= past.size < most]


def current_curves() -> dict[str, ReuseCurve]:
    """Return the curves of `agent/view/recalls.py`, under the names of `rates_by_curve`."""
    by_size = {f"file, {name}": curve for (_, name), (_, curve) in zip(SIZE_GROUPS, FILE_CURVES, strict=True)}
    contents = {str(content): curve for content, curve in CONTENT_CURVES.items()}
    return {**contents, **by_size, "file, stale": STALE_FILE_CURVE}


def fit_curves(histories: Sequence[OutputHistory]) -> dict[str, ReuseCurve]:
    return {name: fit_curve(rates) for name, rates in rates_by_curve(histories).items()}


def total_likelihood(curves: Mapping[str, ReuseCurve], histories: Sequence[OutputHistory]) -> float:
    """Return the log-likelihood of all rates per 1,000 examined outputs; 0 if none was examined."""
    found = rates_by_curve(histories)
    examined = sum(rate.examined for rates in found.values() for rate in rates.values())
    total = sum(log_likelihood(curves[name], rates, MIN_PROBABILITY) for name, rates in found.items())
    return 1000 * total / max(examined, 1)


def constant_rates(histories: Sequence[OutputHistory]) -> dict[str, ReuseCurve]:
    """Return curves that do not fall, for comparison."""
    totals = {
        name: (sum(rate.needed for rate in rates.values()), sum(rate.examined for rate in rates.values()))
        for name, rates in rates_by_curve(histories).items()
    }
    return {name: ReuseCurve(needed / max(examined, 1), math.inf) for name, (needed, examined) in totals.items()}


def format_projects(by_project: Mapping[str, Sequence[OutputHistory]]) -> Iterator[str]:
    """Yield a table of the log-likelihood of each project's outputs, by different curves."""
    fitted = fit_curves([past for pasts in by_project.values() for past in pasts])
    titles = ("fitted on all", "on the others", "constant rates", "current")
    yield f"{'log-likelihood per 1,000':28}{''.join(f'{title:>16}' for title in titles)}"
    for project, pasts in by_project.items():
        others = [past for other, of_other in by_project.items() if other != project for past in of_other]
        without = (fit_curves(others), constant_rates(others)) if others else (None, None)
        cells = (
            f"{total_likelihood(curves, pasts):.1f}" if curves else ""
            for curves in (fitted, *without, current_curves())
        )
        yield f"{project:28}{''.join(f'{cell:>16}' for cell in cells)}"


def format_curves(curves: Mapping[str, ReuseCurve]) -> Iterator[str]:
    """Yield the curves as the code of `agent/view/recalls.py`."""
    yield "CONTENT_CURVES: dict[OutputContent, ReuseCurve] = {"
    yield from (f'    "{content}": {_code_of(curves[content])},' for content in CONTENT_CURVES)
    yield "}"
    yield "FILE_CURVES: tuple[tuple[int, ReuseCurve], ...] = ("
    for (max_tokens, _), (_, name) in zip(FILE_CURVES, SIZE_GROUPS, strict=True):
        yield f"    ({max_tokens if max_tokens < 1 << 62 else '1 << 62'}, {_code_of(curves[f'file, {name}'])}),"
    yield ")"
    yield f"STALE_FILE_CURVE = {_code_of(curves['file, stale'])}"


def _code_of(curve: ReuseCurve) -> str:
    return f"ReuseCurve({curve.initial_probability}, {curve.decay_requests})"


def format_row(name: str, pasts: Sequence[OutputHistory], state: State | None = None) -> str:
    found = need_rates(pasts, state)
    curve = fit_curve(found)
    formula = f"{curve.initial_probability:.3f} · e^(−idle / {curve.decay_requests})"
    cells = "".join(f"{share!s:>7}" for share in group_by_idle(found))
    examined = sum(share.examined for share in found.values())
    return f"{name:24}{examined:7}{cells}   {'never needed' if curve == NEVER_NEEDED else formula}"


def format_rows(large: Sequence[OutputHistory]) -> Iterator[str]:
    """Yield a table of the need rates, by kind, state and size."""
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
    for name, of_size in _group_by_size([past for past in large if past.content == "file"]):
        yield format_row(f"file untouched, {name}", of_size, "untouched")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.context.fit")
    parser.add_argument("folder", type=Path, help="folder with the recordings, one `.jsonl` file each")
    parser.add_argument("--all", action="store_true", help="also read the recordings that are not for fitting")
    parser.add_argument("--joined", action="store_true", help="join all sessions of a project")
    parser.add_argument("--least", type=int, default=MIN_OUTPUT_BYTES, help="bytes of the smallest outputs that count")
    options = parser.parse_args()
    if not options.folder.is_dir():
        parser.error(f"`{options.folder}` is not a folder")
    try:
        names = None if options.all else read_split(options.folder)["fit"]
    except BadSplitError as error:
        parser.error(f"{error}; `--all` fits all recordings in the folder")
    recordings, skipped = read_folder(options.folder, names)
    if not recordings:
        parser.error(f"`{options.folder}` contains no recording that can be replayed")
    for one in skipped:
        print(f"skipped {one.name}: {one.why}")
    by_project: dict[str, list[OutputHistory]] = {}
    for recording in join_recordings(recordings) if options.joined else recordings:
        large = [past for past in output_histories(recording) if past.size >= options.least]
        by_project.setdefault(recording.project, []).extend(large)
    pasts = [past for of_project in by_project.values() for past in of_project]
    part = "all recordings" if options.all else "the recordings for fitting"
    print(f"{part}: {pluralize(len(recordings), 'session')} of {pluralize(len(by_project), 'project')}")
    for lines in (format_rows(pasts), format_projects(by_project), format_curves(fit_curves(pasts))):
        print("\n".join(["", *lines]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
