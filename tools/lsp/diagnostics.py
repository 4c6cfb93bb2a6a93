"""What a language server finds wrong with a file: read out of its answers, compared with what was wrong before, written
for the model. Pure."""

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
"""Problems of one file that are read."""
MAX_MESSAGE_CHARS = 300
"""Characters of a message that are shown."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One diagnostic."""

    line: int
    """From 1."""
    column: int
    severity: Severity
    message: str
    """On one line."""
    rule: str
    """What the server calls it, such as `F401`; empty where it has no name."""
    server: str

    @property
    def kind(self) -> tuple[str, str, str, str]:
        """What it is, wherever it stands."""
        return self.server, self.severity, self.rule, self.message


def problems_in(answer: object, server: str) -> tuple[Problem, ...]:
    """The problems of an LSP list of diagnostics, in order of severity and place. What is none is left out."""
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
    """Line and column, both from 0, at which an LSP range begins; the beginning of the file where it says none."""
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
    """The problems that are there now and were not before the text changed. One that stands on a line that moved is the
    same one; of several alike in what was rewritten, as many are new as there are more than before."""
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
    """Where each line of the old text stands in the new one; 0 for one that is not there any more."""
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
    """Errors and warnings: what else servers say is for people who look at the text."""
    return tuple(one for one in problems if one.severity in ("error", "warning"))


def in_order(found: Mapping[str, Sequence[Problem]]) -> Sequence[tuple[str, Problem]]:
    """Each problem once, with its path, errors first. `found`: by path, as it is shown."""
    every = dict.fromkeys((path, one) for path, problems in found.items() for one in problems)
    return sorted(every, key=lambda item: _ORDER[item[1].severity])  # stable: files and places stay in their order


def lines_of(every: Sequence[tuple[str, Problem]], most: int) -> Iterator[str]:
    """At most so many problems as `PATH:LINE:COLUMN SEVERITY: MESSAGE`, and how many more there are."""
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
