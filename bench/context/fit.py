"""Fits the odds of `agent/view/recalls.py`: how likely an output is needed again, by what it shows, size and idle time.

    python -m bench.context.fit FOLDER [--all] [--joined]

Only the recordings that `split.json` in the folder lists for fitting are read, so that the others remain for an
independent check; `--all` reads all. Printed are the measured rates beside the rates that the fitted odds expect, the
fitted odds as code, and for each project the log-likelihood of its rows by the odds that were fitted on all projects,
by those that were fitted without it (the larger the difference, the more the odds describe these projects alone), by
constant rates from the other projects, and by the odds of the program.

An output is needed by a later reply that uses something distinctive (by names or by content, see
`bench.context.regrets`) which it contains, which no later output contains, which neither the user nor the model has
written before (that stays in context when an output is masked), and which no stub lists. Its age is the number of
replies since it arrived, 0 for the next one. Each output gives a row for each examined age before the end of its
session: its kind, size and idle time, and whether it was needed at that age or later."""

import argparse
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import mul
from pathlib import Path
from statistics import fmean
from typing import get_args

from bench.context.recordings import RecordedCall, RecordedStep, Recording, join_recordings, read_folder
from bench.context.regrets import distinctive_parts, reply_content, reply_parts, without_line_numbers
from bench.context.split import BadSplitError, read_split
from ebbtide.agent.eviction.inventory import NamedOutputs
from ebbtide.agent.messages import Assistant, Text, ToolCall, ToolOutput, User
from ebbtide.agent.tokens.estimate import estimate_text
from ebbtide.agent.view.recalls import REUSE_ODDS, TYPICAL_OUTPUT_TOKENS, ReuseOdds, content_kind
from ebbtide.agent.view.stub_identifiers import StubNameLists
from ebbtide.agent.view.stubs import MIN_MASKED_TOKENS
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.tool_traits import OutputContent

EXAMINED_AGES = (3, 5, 8, 12, 17, 25, 35, 50, 70, 100, 140, 200)
"""Ages at which outputs are examined. Younger outputs are never masked."""
IDLE_BOUNDS = (3, 6, 11, 16, 21, 31, 41, 61, 81)
"""Lower bounds of the groups of idle times for which rates are printed, except the first group, which starts at 0."""
PENALTIES = (0.001, 5.0, 5.0, 5.0, 5.0)
"""Ridge penalties of the coefficients: the logarithm of the `other` level, those of the `file` and `search` levels
relative to it, and the exponents. They keep the fit finite if no output of a group, or none at all, was needed."""
MAX_NEWTON_STEPS = 100
MIN_GAIN = 1e-9
"""The fit ends when a step raises the penalised log-likelihood by less than this."""
MIN_PROBABILITY = 0.001
"""Minimum probability when odds are judged. Otherwise a single output could count for more than all others."""
_FILE_LEVEL, _SEARCH_LEVEL = (ReuseOdds(file, 1 - file, 0, 0, 0) for file in (1, 0))
"""Odds whose level is 1 for the kinds that share a level, and 0 for others."""


@dataclass(slots=True)
class OutputHistory:
    """The history of one output in a recording."""

    content: OutputContent
    tokens: int
    later_replies: int
    """Number of replies after the output."""
    needed_at: list[int] = field(default_factory=list)
    """Ages at which the output was needed."""
    named_at: list[int] = field(default_factory=list)
    """Ages at which something in the output was named, in order."""

    def idle(self, age: int) -> int:
        """Return the number of replies since the output was last named, or since it arrived."""
        return age - max((at for at in self.named_at if at <= age), default=0)


def output_histories(recording: Recording) -> list[OutputHistory]:
    """Return the history of each output of a recording, in order of arrival."""
    histories: list[OutputHistory] = []
    newest_holder: dict[int, tuple[int, int]] = {}
    """The newest output that contains a distinctive text, by hash of the text, and the step in which it arrived."""
    known: set[int] = set()
    """Hashes of the texts that the user or the model has written, or that a stub lists."""
    named, stubs = NamedOutputs(), StubNameLists()
    for at, step in enumerate(recording.steps):
        known.update(*(_written_parts(text) for text in step.user_texts))
        used = _written_parts(step.text, step.calls)
        for number, arrived_at in {newest_holder[part] for part in used - known if part in newest_holder}:
            histories[number].needed_at.append(at - arrived_at)
        known |= used
        _note_named(step, at + 1, named)
        for past in (histories[int(key)] for key, reply in named.last_mentions.items() if reply == at + 1):
            past.named_at.append(at + 1 - (len(recording.steps) - past.later_replies))
        for call in step.calls:
            number, left = len(histories), len(recording.steps) - at - 1
            content = content_kind(ToolCall(call.id, call.tool, call.arguments))
            histories.append(OutputHistory(content, estimate_text(call.output), left))
            newest_holder.update(dict.fromkeys(_output_parts(call.output), (number, at + 1)))
            output = ToolOutput(call.id, call.output)
            named.add(str(number), output)
            known.update(map(hash, stubs.suffix_for(output).split()))
    return histories


def _written_parts(text: str, calls: Sequence[RecordedCall] = ()) -> set[int]:
    """Return the hashes of everything distinctive in a reply or a user's text."""
    return {hash(part) for part in reply_parts(text, calls) | reply_content(text, calls)}


def _output_parts(output: str) -> set[int]:
    return {hash(part) for part in distinctive_parts(output) | reply_content(without_line_numbers(output), ())}


def _note_named(step: RecordedStep, reply: int, named: NamedOutputs) -> None:
    """Record the names that the user and the reply mention in a step. `reply`: the number of replies including this
    one."""
    calls = [ToolCall(call.id, call.tool, call.arguments) for call in step.calls]
    for message in (User(tuple(map(Text, step.user_texts))), Assistant((Text(step.text), *calls))):
        named.record_mentions(message, reply)


@dataclass(frozen=True, slots=True)
class ReuseRow:
    """An output at an examined age."""

    content: OutputContent
    tokens: int
    idle: int
    is_needed: bool
    """Whether the output is needed at that age or later."""

    def probability(self, odds: ReuseOdds) -> float:
        return odds.probability(self.content, self.tokens, self.idle)

    @property
    def features(self) -> tuple[float, ...]:
        """The values that the coefficients are multiplied with, in the order of `PENALTIES`."""
        return (
            1.0,
            _FILE_LEVEL.level_of(self.content),
            _SEARCH_LEVEL.level_of(self.content),
            math.log(self.tokens / TYPICAL_OUTPUT_TOKENS),
            -math.log1p(self.idle),
        )


def reuse_rows(histories: Iterable[OutputHistory]) -> list[ReuseRow]:
    """Return the rows of all outputs that are large enough to be masked."""
    return [
        ReuseRow(past.content, past.tokens, past.idle(age), any(at >= age for at in past.needed_at))
        for past in histories
        for age in EXAMINED_AGES
        if past.tokens > MIN_MASKED_TOKENS and age < past.later_replies
    ]


def fit_odds(histories: Iterable[OutputHistory]) -> ReuseOdds:
    """Return the most likely odds, found with Newton's method."""
    rows = reuse_rows(histories)
    features, needed = [row.features for row in rows], [float(row.is_needed) for row in rows]
    coefficients = [0.0] * len(PENALTIES)
    likelihood = _penalised_likelihood(coefficients, features, needed)
    for _ in range(MAX_NEWTON_STEPS):
        step, gain = _newton_step(coefficients, features, needed), -math.inf
        while gain < 0:  # a step that goes too far is halved
            stepped = [old + change for old, change in zip(coefficients, step, strict=True)]
            gain = _penalised_likelihood(stepped, features, needed) - likelihood
            step = [change / 2 for change in step]
            if max(map(abs, step)) < MIN_GAIN:
                break
        if gain < MIN_GAIN:
            break
        coefficients, likelihood = stepped, likelihood + gain
    other, file, search, size_exponent, idle_exponent = coefficients
    return ReuseOdds(math.exp(other + file), math.exp(other + search), math.exp(other), size_exponent, idle_exponent)


def _log_odds(coefficients: Sequence[float], features: Sequence[Sequence[float]]) -> list[float]:
    return [sum(map(mul, coefficients, values)) for values in features]


def _penalised_likelihood(
    coefficients: Sequence[float], features: Sequence[Sequence[float]], needed: Sequence[float]
) -> float:
    """Return the log-likelihood minus the penalties, which Newton's method maximises."""
    log_odds = _log_odds(coefficients, features)
    penalty = sum(weight * value * value / 2 for weight, value in zip(PENALTIES, coefficients, strict=True))
    normaliser = sum(max(value, 0.0) + math.log1p(math.exp(-abs(value))) for value in log_odds)
    likelihood: float = sum(map(mul, needed, log_odds)) - normaliser
    return likelihood - penalty


def _newton_step(
    coefficients: Sequence[float], features: Sequence[Sequence[float]], needed: Sequence[float]
) -> list[float]:
    """Return the change of the coefficients that would reach the maximum if the likelihood were quadratic."""
    probabilities = [(1 + math.tanh(value / 2)) / 2 for value in _log_odds(coefficients, features)]
    residuals = [is_needed - probability for is_needed, probability in zip(needed, probabilities, strict=True)]
    variances = [probability * (1 - probability) for probability in probabilities]
    system: list[list[float]] = []
    """The second derivatives with the gradient as last column, solved by Gauss-Jordan elimination."""
    columns = list(zip(*features, strict=True)) or [()] * len(PENALTIES)
    for index, column in enumerate(columns):
        weighted = list(map(mul, column, variances))
        system.append([sum(map(mul, weighted, other)) for other in columns])
        system[index][index] += PENALTIES[index]
        system[index].append(sum(map(mul, column, residuals)) - PENALTIES[index] * coefficients[index])
    for index in range(len(system)):
        pivot = system[index] = [value / system[index][index] for value in system[index]]
        for other, row in enumerate(system):
            if other != index:
                system[other] = [value - row[index] * above for value, above in zip(row, pivot, strict=True)]
    return [row[-1] for row in system]


def constant_odds(histories: Iterable[OutputHistory]) -> ReuseOdds:
    """Return odds that depend only on what an output shows, for comparison."""
    rows = reuse_rows(histories)

    def level(features: tuple[float, ...]) -> float:
        needed = [row.is_needed for row in rows if row.features[1:3] == features]
        return (sum(needed) + 0.5) / (len(needed) - sum(needed) + 0.5)

    return ReuseOdds(level((1, 0)), level((0, 1)), level((0, 0)), 0.0, 0.0)


def log_likelihood(odds: ReuseOdds, rows: Sequence[ReuseRow]) -> float:
    """Return the log-likelihood per 1,000 rows; 0 if there are none."""
    total = 0.0
    for row in rows:
        probability = min(max(row.probability(odds), MIN_PROBABILITY), 1 - MIN_PROBABILITY)
        total += math.log(probability if row.is_needed else 1 - probability)
    return 1000 * total / max(len(rows), 1)


def format_projects(by_project: Mapping[str, Sequence[OutputHistory]]) -> Iterator[str]:
    """Yield a table of the log-likelihood of each project's rows, by different odds."""
    fitted = fit_odds(past for pasts in by_project.values() for past in pasts)
    titles = ("fitted on all", "on the others", "constant rates", "current")
    yield f"{'log-likelihood per 1,000':28}{''.join(f'{title:>16}' for title in titles)}"
    for project, pasts in by_project.items():
        others = [past for other, of_other in by_project.items() if other != project for past in of_other]
        without = (fit_odds(others), constant_odds(others)) if others else (None, None)
        rows = reuse_rows(pasts)
        cells = (f"{log_likelihood(odds, rows):.1f}" if odds else "" for odds in (fitted, *without, REUSE_ODDS))
        yield f"{project:28}{''.join(f'{cell:>16}' for cell in cells)}"


def format_odds(odds: ReuseOdds) -> str:
    """Return the odds as the code of `agent/view/recalls.py`."""
    values = ", ".join(f"{name}={getattr(odds, name):.3f}" for name in ReuseOdds.__slots__)
    return f"REUSE_ODDS = ReuseOdds({values})"


def format_rates(rows: Sequence[ReuseRow], odds: ReuseOdds) -> Iterator[str]:
    """Yield a table of the need rates by kind and idle time, each kind with the rate that the odds expect."""
    groups = list(pairwise((0, *IDLE_BOUNDS, sys.maxsize)))
    heads = [f"{least}-{'' if most == sys.maxsize else most - 1}" for least, most in groups]
    yield f"{'% needed again':16}{'of':>7}{'needed':>9}{'expected':>9}   idle{''.join(f'{head:>7}' for head in heads)}"
    for kind in (*get_args(OutputContent), "all"):
        of_kind = [row for row in rows if kind in (row.content, "all")]
        needed = _percent([row.is_needed for row in of_kind])
        expected = _percent([row.probability(odds) for row in of_kind])
        cells = (_percent([row.is_needed for row in of_kind if least <= row.idle < most]) for least, most in groups)
        yield f"{kind:16}{len(of_kind):7}{needed:>9}{expected:>9}{'':7}{''.join(f'{cell:>7}' for cell in cells)}"


def _percent(shares: Sequence[float]) -> str:
    return f"{100 * fmean(shares):.1f}" if shares else ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.context.fit")
    parser.add_argument("folder", type=Path, help="folder with the recordings, one `.jsonl` file each")
    parser.add_argument("--all", action="store_true", help="also read the recordings that are not for fitting")
    parser.add_argument("--joined", action="store_true", help="join all sessions of a project")
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
        by_project.setdefault(recording.project, []).extend(output_histories(recording))
    pasts = [past for of_project in by_project.values() for past in of_project]
    rows = reuse_rows(pasts)
    if not rows:
        parser.error(f"no output in `{options.folder}` is old and large enough to be masked")
    part = "all recordings" if options.all else "the recordings for fitting"
    print(f"{part}: {pluralize(len(recordings), 'session')} of {pluralize(len(by_project), 'project')}")
    fitted = fit_odds(pasts)
    for lines in (format_rates(rows, fitted), format_projects(by_project), (format_odds(fitted),)):
        print("\n".join(["", *lines]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
