"""Measures the permission policy on commands of 10,000 characters, by shape, each seen for the first time.

python -m bench.decisions [TIMES]
python -m bench.decisions random [COUNT [SEED]]    random shapes of ten lengths: the best of five lines of each"""

import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from bench.decision_shapes import random_line_generator
from bench.measure import format_row
from ebbtide.agent.calls.permission_request import build_permission_request
from ebbtide.agent.calls.policy import Policy, Ruling, decide, parse_rule
from ebbtide.tools.base import Workspace
from ebbtide.tools.catalog import create_builtin_tools

LINE_CHARS = 10_000
MAX_DECISION_MS = 1.0
"""Limit in milliseconds."""
ALLOWED_COMMANDS = "ls cat rg grep find sed head tail wc sort uniq echo printf pwd jq pytest ruff"
DENIED_RULES = "bash(rm) bash(curl) bash(wget) bash(git push) read(secrets.env)"
_REPEATED_UNITS: Mapping[str, str] = {
    "words": "src/module_{}.py ",
    "commands": "ls src{}; ",
    "pipes": "cat a{} | ",
    "all of it joined": "true {} && ",
    "quoted words": "'some text {}' ",
    "texts with variables": '"some $text {}" ',
    "variables": "$HOME/{} ",
    "substitutions": "$(echo {}) ",
    "assignments": "name{}=value ",
    "redirections": ">/dev/null {} ",
    "patterns": "src{}/*.py ",
    "braces": "{{a,b{}}} ",
    "backslashes": "a\\ {}\\;b ",
    "lines": "echo line {}\n",
    "groups": "(ls {}); ",
    "tests": "[ -f a{} ] && ",
    "loops": "for x in {}; do ls; done; ",
    "signs that make no sense": "<<({}|&;> ",
    "letters of other scripts": "größe_日本{} ",
    "escapes": "$'\\x41{}' ",
    "brackets": "((( {} ",
}
_LONG_NAME = "{}_which_has_a_rather_long_name"
"""A long name to fill in, so that a line consists of fewer, longer pieces."""
_TEXT_SHAPES: Mapping[str, tuple[str, str, str]] = {
    "one long text": ("echo '", "word {} ", "'"),
    "one long word": ("echo ", "{}aaaaaaaa", ""),
    "a text behind an arrow": ("cat <<'E' > a.py\n", "print({})\nvalue = [1, 2]  # a 'comment'\n\n", "E\n"),
    "a text with variables behind an arrow": ("cat <<E > a.py\n", 'print($x {})\nvalue = "[1, 2, 3]"\n\n', "E\n"),
    "a program in a text": ("python3 -c '", 'for x in [{}, 2]: print(os.path.join("a", x))\n', "'"),
    "commands in a text": ("bash -c '", 'for x in a b; do echo {} "$x"; done; ', "'"),
    "harmless commands in short texts": ("bash -c 'ls'", " 'ls {} | wc; echo $x'", ""),
    "texts for eval": ("eval 'ls'", " 'ls {} | wc;'", ""),
    "commands in short texts": ("bash -c 'ls'", " 'ls {} | wc; rm -f $x'", ""),
    "base64": ("echo ", "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo{}", "= | base64 -d"),
    "words in base64": ("base64 -d <<< ", "cm0gLXJmIC90bXAv{}== ", ""),
}


def line_generators() -> Iterator[tuple[str, Callable[[int], str]]]:
    """Yield each shape's name and a function that generates lines of this shape, a different one for each number."""
    for name, unit in _REPEATED_UNITS.items():
        yield f"{name}, many", partial(_repeat_unit, "ls ", unit, "")
        yield f"{name}, long", partial(_repeat_unit, "ls ", unit.replace("{}", _LONG_NAME), "")
    for name, (before, unit, after) in _TEXT_SHAPES.items():
        yield name, partial(_repeat_unit, before, unit, after)


def _repeat_unit(before: str, unit: str, after: str, seed: int) -> str:
    count = (LINE_CHARS - len(before) - len(after)) // len(unit.format(seed * 1_000))
    return before + "".join(unit.format(seed * 1_000 + each) for each in range(count)) + after


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        decided = _make_decider(Path(folder).resolve())
        if arguments[:1] == ["random"]:
            return _measure_random_lines(decided, *map(int, arguments[1:]))
        return _measure_shapes(decided, int(arguments[0]) if arguments else 15)


def _make_decider(root: Path) -> Callable[[str], Ruling]:
    """Return a function that decides about commands in a folder, with rules of every kind."""
    bash = next(tool for tool in create_builtin_tools() if tool.name == "bash")
    policy = Policy(
        str(root),
        "ask",
        tuple(parse_rule(f"bash({name})") for name in ALLOWED_COMMANDS.split()),
        tuple(map(parse_rule, DENIED_RULES.replace("git push", "git_push").split())),
    )
    workspace = Workspace(root, root / "outputs")
    return lambda line: decide(build_permission_request(bash, {"command": line}, workspace, policy.mode), policy)


def _measure_shapes(decide_line: Callable[[str], Ruling], times: int) -> int:
    missed_limits = 0
    for name, line_of in line_generators():
        took = list[float]()
        for seed in range(100, 100 + times):
            line = line_of(seed)
            ruling, took_ms = _time_decision(decide_line, line)
            took.append(took_ms)
        missed_limits += statistics.median(took) > MAX_DECISION_MS
        print(format_row(f"{name} ({len(line):,}): {ruling.verdict}", took[1:], "ms", MAX_DECISION_MS))
    return int(bool(missed_limits))


def _time_decision(decide_line: Callable[[str], Ruling], line: str) -> tuple[Ruling, float]:
    """Return the decision and its processor time in milliseconds."""
    began = time.process_time()
    ruling = decide_line(line)
    return ruling, (time.process_time() - began) * 1000


def _measure_random_lines(decide_line: Callable[[str], Ruling], count: int = 2_000, first: int = 0) -> int:
    best, slow = defaultdict[int, list[float]](list), list[tuple[float, int, str]]()
    for seed in range(first, first + count):
        length = LINE_CHARS * (seed % 10 + 1) // 10
        line_of = random_line_generator(seed, length)
        # Take the best time of several lines, each decided about for the first time, to exclude other load.
        took = min(_time_decision(decide_line, line_of(number))[1] for number in range(1, 6))
        best[length].append(took)
        if took > MAX_DECISION_MS:
            slow.append((took, seed, line_of(0)[:60]))
    for took, seed, line in sorted(slow, reverse=True)[:10]:
        print(f"{took:.2f} ms  shape {seed}  {line!r}")
    for length, times in sorted(best.items()):
        slow_count = sum(one > MAX_DECISION_MS for one in times)
        print(
            format_row(
                f"{length:,} characters: {slow_count} of {len(times):,} above {MAX_DECISION_MS:g} ms",
                times,
                "ms",
                MAX_DECISION_MS,
            )
        )
    return int(bool(slow))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
