"""How likely an old output is wanted again for more than its line tells, and when it may leave the view all the same.
Pure.

The curves are the likeliest ones for what 31 recorded sessions needed again of outputs that a line would be shorter
than, beyond the names that such lines tell, by kind, size, what happened to the file since, and for how many requests
the output has been idle: since it came in, or since something was last named that hardly another output holds
(`python -m bench.context.reread_rates FOLDER`). A session whose model brings more back of some kind goes by
higher ones.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from ebbtide.agent.messages import Recalls, ToolCall
from ebbtide.tools.commands.viewers import shows_files
from ebbtide.tools.lazy import dataclass

OutputContent: TypeAlias = Literal["file", "view", "search", "report", "change", "program", "other"]
"""What an output shows: a file by a tool that reads, files by a command, what a search found, what another agent
reports, that a file was changed, what a program printed, anything else."""


@dataclass(frozen=True, slots=True)
class ReuseCurve:
    """The chance that an output is needed again: `level · e^(-idle / fades)`."""

    level: float
    fades: float
    """Requests."""

    def at(self, idle: int) -> float:
        return self.level * math.exp(-idle / self.fades)


CURVES: dict[OutputContent, ReuseCurve] = {
    "view": ReuseCurve(0.035, 8),
    "search": ReuseCurve(0.105, 16),
    "report": ReuseCurve(0.065, 8),
    "change": ReuseCurve(0.0, 1),
    "program": ReuseCurve(0.025, 5),
    "other": ReuseCurve(0.105, 1),
}
FILES: tuple[tuple[int, ReuseCurve], ...] = (
    (600, ReuseCurve(0.3, 13)),
    (2_400, ReuseCurve(0.32, 22)),
    (6_000, ReuseCurve(0.51, 17)),
    (1 << 62, ReuseCurve(0.6, 27)),
)
"""Those of files that are as they were read, by the tokens up to which each holds."""
STALE = ReuseCurve(0.13, 12)
"""That of files which were changed or read again since."""

MIN_AGE_REQUESTS = 3
"""Requests for which an output stays whatever the curves say, which are of greater ages."""
EXPECTED_RECALL_SHARE = 0.1
"""Share of the outputs that leave the view, whole or in part, which are brought back where the curves hold."""
PRIOR = 1.0
"""Outputs brought back that the curves count for: those of one session weigh more from the second on."""
MAX_REUSE_FACTOR = 4.0
"""How many times as likely as by the curves something is at most, whatever the session has brought back."""
_CONTENTS: dict[str, OutputContent] = {
    "read": "file",
    "grep": "search",
    "glob": "search",
    "task": "report",
    "edit": "change",
    "write": "change",
    "apply_patch": "change",
    "bash": "program",
    "bash_output": "program",
}


def content_of(call: ToolCall) -> OutputContent:
    """What the output of a call shows."""
    command = call.arguments.get("command") if call.name == "bash" else None
    if isinstance(command, str) and shows_files(command):
        return "view"
    return _CONTENTS.get(call.name, "other")


def reread_probability(content: OutputContent, tokens: int, idle: int, *, is_stale: bool) -> float:
    """How likely an output of so many tokens is wanted again when it has been idle for so many requests. `is_stale`:
    the file that it shows was changed or read again since."""
    if content != "file":
        return CURVES[content].at(idle)
    if is_stale:
        return STALE.at(idle)
    return next(curve for most, curve in FILES if tokens <= most).at(idle)


def reuse_factors(recalls: Recalls) -> Mapping[str, float]:
    """How many times as likely as by its curve something is wanted again in a session, more than once and up to
    `MAX_REUSE_FACTOR`; contents of which it has brought back no more than was to be expected are not named."""
    found = {
        content: (back + PRIOR) / (EXPECTED_RECALL_SHARE * recalls.left.get(content, 0) + PRIOR)
        for content, back in Counter(recalls.back.values()).items()
    }
    return {content: min(times, MAX_REUSE_FACTOR) for content, times in found.items() if times > 1}


def with_departed(recalls: Recalls, contents: Iterable[str]) -> Recalls:
    """What is known with one more output that has left the view, whole or in part, for each of these contents."""
    more = Counter(contents)
    return replace(recalls, left={**recalls.left, **(more + Counter(recalls.left))}) if more else recalls
