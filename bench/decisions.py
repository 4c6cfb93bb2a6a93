"""How long the permission policy takes for a command of 10,000 characters, shape by shape: none of them seen before.

python -m bench.decisions [TIMES]
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from agent.calls.permission_request import request_for
from agent.calls.policy import Policy, decide, parse_rule
from bench.measure import row
from tools.base import Workspace
from tools.catalog import builtin_tools

LONG = 10_000
LIMIT = 1.0
"""Milliseconds."""
ALLOWED = "ls cat rg grep find sed head tail wc sort uniq echo printf pwd jq pytest ruff"
DENIED = "bash(rm) bash(curl) bash(wget) bash(git push) read(secrets.env)"
_UNITS: Mapping[str, str] = {
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
_WIDE = "{}_which_has_a_rather_long_name"
"""So that fewer pieces fill a line, and all of them are read."""
_TEXTS: Mapping[str, tuple[str, str, str]] = {
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


def lines() -> Iterator[tuple[str, Callable[[int], str]]]:
    """Each shape with what makes a line of it, another one for each number."""
    for name, unit in _UNITS.items():
        yield f"{name}, many", partial(_repeated, "ls ", unit, "")
        yield f"{name}, long", partial(_repeated, "ls ", unit.replace("{}", _WIDE), "")
    for name, (before, unit, after) in _TEXTS.items():
        yield name, partial(_repeated, before, unit, after)


def _repeated(before: str, unit: str, after: str, seed: int) -> str:
    count = (LONG - len(before) - len(after)) // len(unit.format(seed * 1_000))
    return before + "".join(unit.format(seed * 1_000 + each) for each in range(count)) + after


def main(arguments: list[str]) -> int:
    times = int(arguments[0]) if arguments else 15
    bash = next(tool for tool in builtin_tools() if tool.name == "bash")
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        policy = Policy(
            str(root),
            "ask",
            tuple(parse_rule(f"bash({name})") for name in ALLOWED.split()),
            tuple(map(parse_rule, DENIED.replace("git push", "git_push").split())),
        )
        workspace = Workspace(root, root / "outputs")
        for name, line_of in lines():
            took = list[float]()
            for seed in range(100, 100 + times):
                line = line_of(seed)
                began = time.process_time()
                ruling = decide(request_for(bash, {"command": line}, workspace, policy.mode), policy)
                took.append((time.process_time() - began) * 1000)
                assert ruling.verdict in ("allow", "ask", "deny")
            missed += statistics.median(took) > LIMIT
            print(row(f"{name} ({len(line):,}): {ruling.verdict}", took[1:], "ms", LIMIT))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
