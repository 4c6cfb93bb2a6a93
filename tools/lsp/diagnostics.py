"""Diagnostics of a language server: parsed, compared with earlier ones, and formatted for the model. Pure."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from ebbtide.tools.files.line_diff import differing
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import ellipsize, pluralize
from ebbtide.tools.outputs.plain_text import plain, printable

Severity: TypeAlias = Literal["error", "warning", "information", "hint"]

_SEVERITIES: Mapping[object, Severity] = {1: "error", 2: "warning", 3: "information", 4: "hint"}
_ORDER: Mapping[Severity, int] = {"error": 0, "warning": 1, "information": 2, "hint": 3}
MAX_PROBLEMS = 2000
"""Maximum number of problems read per file."""
MAX_MESSAGE_CHARS = 300
"""Maximum number of characters shown of a message."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One diagnostic."""

    line: int
    """Counted from 1."""
    column: int
    severity: Severity
    message: str
    """On one line."""
    rule: str
    """The server's code, such as `F401`, or empty."""
    server: str

    @property
    def kind(self) -> tuple[str, str, str, str]:
        """The problem's identity regardless of its position."""
        return self.server, self.severity, self.rule, self.message


def problems_in(answer: object, server: str) -> tuple[Problem, ...]:
    """Parse an LSP list of diagnostics, sorted by severity and position. Invalid items are skipped."""
    found = [
        problem
        for one in (answer if isinstance(answer, list) else [])[:MAX_PROBLEMS]
        if (problem := _problem(one, server))
    ]
    return tuple(sorted(found, key=lambda one: (_ORDER[one.severity], one.line, one.column)))


def _problem(value: object, server: str) -> Problem | None:
    if not isinstance(value, dict) or not isinstance(message := value.get("message"), str):
        return None
    severity = _SEVERITIES.get(value.get("severity", 1), "error")
    code = value.get("code")
    rule = ellipsize(printable(str(code)), 60) if isinstance(code, str | int) else ""
    text = ellipsize(" ".join(plain(message).split()), MAX_MESSAGE_CHARS)
    line, column = start_of(value.get("range"))
    return Problem(line + 1, column + 1, severity, text, rule, server)


def start_of(range_: object) -> tuple[int, int]:
    """Return line and column, from 0, where an LSP range starts. Defaults to the start of the file."""
    start = range_.get("start") if isinstance(range_, dict) else None
    if not isinstance(start, dict):
        return 0, 0
    line, column = start.get("line"), start.get("character")
    return _place(line), _place(column)


def _place(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**31 else 0


def new_problems(
    before: Sequence[Problem], after: Sequence[Problem], old_text: str, new_text: str
) -> tuple[Problem, ...]:
    """Return the problems that the change of text introduced. Problems on moved lines are not new. Of equal problems in
    rewritten lines, only the increase in number is new."""
    if not before or not after:
        return tuple(after)
    moved = _moves(old_text, new_text)
    there = Counter((one.kind, moved(one.line)) for one in before)
    unknown: list[Problem] = []
    for one in after:
        place = (one.kind, one.line)
        if there[place]:
            there[place] -= 1
        else:
            unknown.append(one)
    gone = Counter(kind for (kind, _), count in there.items() for _ in range(count))
    new: list[Problem] = []
    for one in unknown:
        if gone[one.kind]:
            gone[one.kind] -= 1
        else:
            new.append(one)
    return tuple(new)


def _moves(old_text: str, new_text: str) -> Callable[[int], int]:
    """Return a function that maps old line numbers to new ones, and to 0 for deleted lines."""
    regions = [] if old_text == new_text else differing(old_text.split("\n"), new_text.split("\n"))

    def moved(line: int) -> int:
        shift = 0
        for region in regions:
            if line - 1 < region.old_start:
                break
            if line - 1 < region.old_end:
                return 0
            shift = region.new_end - region.old_end
        return line + shift

    return moved


def worth_telling(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return only errors and warnings. Other severities are meant for people in an editor."""
    return tuple(one for one in problems if one.severity in ("error", "warning"))


def in_order(found: Mapping[str, Sequence[Problem]]) -> Sequence[tuple[str, Problem]]:
    """Return each problem once with its path, errors first. `found` maps displayed paths to problems."""
    every = dict.fromkeys((path, one) for path, problems in found.items() for one in problems)
    return sorted(every, key=lambda item: _ORDER[item[1].severity])  # stable, so files and positions stay in order


def lines_of(every: Sequence[tuple[str, Problem]], most: int) -> Iterator[str]:
    """Yield up to `most` problems as `PATH:LINE:COLUMN SEVERITY: MESSAGE`, then how many more there are."""
    for path, one in every[:most]:
        rule = f" [{one.server} {one.rule}]" if one.rule else f" [{one.server}]"
        yield f"{path}:{one.line}:{one.column} {one.severity}: {one.message}{rule}"
    if len(every) > most:
        rest = Counter(one.severity for _, one in every[most:])
        kinds = " and ".join(pluralize(rest[name], noun) for name, noun in _NOUNS.items() if rest[name])
        yield f"and {kinds} more"


_NOUNS: Mapping[Severity, str] = {
    "error": "error", "warning": "warning", "information": "remark", "hint": "hint",
}  # fmt: skip
