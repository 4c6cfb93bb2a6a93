"""Diagnostics from a language server: parsed, compared with earlier ones, and formatted for the model. No I/O."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from ebbtide.tools.files.line_diff import find_differing_regions
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import ellipsize, pluralize
from ebbtide.tools.outputs.plain_text import printable_name, terminal_text

Severity: TypeAlias = Literal["error", "warning", "information", "hint"]

_SEVERITIES: Mapping[object, Severity] = {1: "error", 2: "warning", 3: "information", 4: "hint"}
_SEVERITY_ORDER: Mapping[Severity, int] = {"error": 0, "warning": 1, "information": 2, "hint": 3}
MAX_PROBLEMS_PER_FILE = 2000
"""Maximum number of problems read per file."""
MAX_MESSAGE_CHARS = 300
"""Maximum number of characters shown of a message."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One diagnostic."""

    line: int
    """The line number, counted from 1."""
    column: int
    severity: Severity
    message: str
    """The message on a single line."""
    rule: str
    """The server's code for the problem, such as `F401`; empty if there is none."""
    server: str

    @property
    def kind(self) -> tuple[str, str, str, str]:
        """What identifies the problem, regardless of its position."""
        return self.server, self.severity, self.rule, self.message


def parse_problems(items: object, server: str) -> tuple[Problem, ...]:
    """Parse an LSP list of diagnostics and sort it by severity and position. Invalid items are skipped."""
    problems = [
        problem
        for item in (items if isinstance(items, list) else [])[:MAX_PROBLEMS_PER_FILE]
        if (problem := _parse_problem(item, server))
    ]
    return tuple(
        sorted(problems, key=lambda problem: (_SEVERITY_ORDER[problem.severity], problem.line, problem.column))
    )


def _parse_problem(value: object, server: str) -> Problem | None:
    if not isinstance(value, dict) or not isinstance(message := value.get("message"), str):
        return None
    severity = _SEVERITIES.get(value.get("severity", 1), "error")
    code = value.get("code")
    rule = ellipsize(printable_name(str(code)), 60) if isinstance(code, str | int) else ""
    text = ellipsize(" ".join(terminal_text(message).split()), MAX_MESSAGE_CHARS)
    line, column = range_start(value.get("range"))
    return Problem(line + 1, column + 1, severity, text, rule, server)


def range_start(range_: object) -> tuple[int, int]:
    """Return the line and column, counted from 0, at which an LSP range starts. If the range is invalid, return the
    start of the file."""
    start = range_.get("start") if isinstance(range_, dict) else None
    if not isinstance(start, dict):
        return 0, 0
    line, column = start.get("line"), start.get("character")
    return _valid_index(line), _valid_index(column)


def _valid_index(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**31 else 0


def find_new_problems(
    previous_problems: Sequence[Problem], current_problems: Sequence[Problem], old_text: str, new_text: str
) -> tuple[Problem, ...]:
    """Return the problems that a change to the text introduced. Problems on lines that only moved are not new. If
    rewritten lines had equal problems before, only the additional ones are new."""
    if not previous_problems or not current_problems:
        return tuple(current_problems)
    map_line = _line_mapping(old_text, new_text)
    unmatched_previous = Counter((problem.kind, map_line(problem.line)) for problem in previous_problems)
    unmatched_current: list[Problem] = []
    for problem in current_problems:
        key = (problem.kind, problem.line)
        if unmatched_previous[key]:
            unmatched_previous[key] -= 1
        else:
            unmatched_current.append(problem)
    resolved = Counter(kind for (kind, _), count in unmatched_previous.items() for _ in range(count))
    introduced: list[Problem] = []
    for problem in unmatched_current:
        if resolved[problem.kind]:
            resolved[problem.kind] -= 1
        else:
            introduced.append(problem)
    return tuple(introduced)


def _line_mapping(old_text: str, new_text: str) -> Callable[[int], int]:
    """Return a function that maps old line numbers to new ones; deleted lines map to 0."""
    regions = [] if old_text == new_text else find_differing_regions(old_text.split("\n"), new_text.split("\n"))

    def map_line(line: int) -> int:
        shift = 0
        for region in regions:
            if line - 1 < region.old_start:
                break
            if line - 1 < region.old_end:
                return 0
            shift = region.new_end - region.old_end
        return line + shift

    return map_line


def errors_and_warnings(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return only errors and warnings. Other severities are hints for the user of an editor."""
    return tuple(problem for problem in problems if problem.severity in ("error", "warning"))


def ordered_problems(problems_by_path: Mapping[str, Sequence[Problem]]) -> Sequence[tuple[str, Problem]]:
    """Return each problem once, with its path, errors first. `problems_by_path`: problems by displayed path."""
    located_problems = dict.fromkeys(
        (path, problem) for path, problems in problems_by_path.items() for problem in problems
    )
    return sorted(
        located_problems, key=lambda item: _SEVERITY_ORDER[item[1].severity]
    )  # stable: keeps the order of positions


def problem_lines(located_problems: Sequence[tuple[str, Problem]], limit: int) -> Iterator[str]:
    """Yield up to `limit` problems as `PATH:LINE:COLUMN SEVERITY: MESSAGE`, then a line that says how many more there
    are."""
    for path, problem in located_problems[:limit]:
        rule = f" [{problem.server} {problem.rule}]" if problem.rule else f" [{problem.server}]"
        yield f"{path}:{problem.line}:{problem.column} {problem.severity}: {problem.message}{rule}"
    if len(located_problems) > limit:
        omitted_counts = Counter(problem.severity for _, problem in located_problems[limit:])
        kinds = " and ".join(
            pluralize(omitted_counts[name], noun) for name, noun in _NOUNS.items() if omitted_counts[name]
        )
        yield f"and {kinds} more"


_NOUNS: Mapping[Severity, str] = {
    "error": "error", "warning": "warning", "information": "remark", "hint": "hint",
}  # fmt: skip
