"""Probability that an old output is needed again beyond what its stub says. Pure.

The curves are maximum-likelihood fits to 31 recorded sessions, for outputs longer than their stub, beyond the names
that stubs list. They depend on content, size, later changes of the file, and idle time in requests: since the output
was added, or since a name that occurs in few other outputs was last mentioned (`python -m bench.context.reread_rates
FOLDER`). A session whose model recalls more of some content uses higher curves.
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
"""What an output shows: a file read by a tool, files shown by a command, search results, another agent's report, a
confirmed change, a program's output, anything else."""


@dataclass(frozen=True, slots=True)
class ReuseCurve:
    """Probability that an output is needed again: `level · e^(-idle / fades)`."""

    level: float
    fades: float
    """In requests."""

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
"""Curves of unchanged files, by the number of tokens up to which each applies."""
STALE = ReuseCurve(0.13, 12)
"""Curve of files that were changed or read again since."""

MIN_AGE_REQUESTS = 3
"""Requests for which an output always stays; the curves were fitted to greater ages."""
EXPECTED_RECALL_SHARE = 0.1
"""Share of the outputs removed, in full or in part, that are recalled if the curves hold."""
PRIOR = 1.0
"""Weight of the curves in recalled outputs: a session's own recalls outweigh them from the second on."""
MAX_REUSE_FACTOR = 4.0
"""Maximum factor over the curves, whatever the session has recalled."""
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
    """Return what the output of a call shows."""
    command = call.arguments.get("command") if call.name == "bash" else None
    if isinstance(command, str) and shows_files(command):
        return "view"
    return _CONTENTS.get(call.name, "other")


def reread_probability(content: OutputContent, tokens: int, idle: int, *, is_stale: bool) -> float:
    """Probability that an output of `tokens` is needed again after `idle` requests. `is_stale`: its file was changed or
    read again since."""
    if content != "file":
        return CURVES[content].at(idle)
    if is_stale:
        return STALE.at(idle)
    return next(curve for most, curve in FILES if tokens <= most).at(idle)


def reuse_factors(recalls: Recalls) -> Mapping[str, float]:
    """Return the factors over the curves for this session, above 1 and up to `MAX_REUSE_FACTOR`. Contents recalled no
    more often than expected are omitted."""
    found = {
        content: (back + PRIOR) / (EXPECTED_RECALL_SHARE * recalls.left.get(content, 0) + PRIOR)
        for content, back in Counter(recalls.back.values()).items()
    }
    return {content: min(times, MAX_REUSE_FACTOR) for content, times in found.items() if times > 1}


def with_departed(recalls: Recalls, contents: Iterable[str]) -> Recalls:
    """Record that outputs with these contents were removed, in full or in part."""
    more = Counter(contents)
    return replace(recalls, left={**recalls.left, **(more + Counter(recalls.left))}) if more else recalls
