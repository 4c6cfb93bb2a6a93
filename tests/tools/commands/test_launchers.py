"""Which commands are calls of a tool that they do not begin with."""

import pytest

from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.launchers import find_tool_launch


def tool_of(line: str) -> str:
    (command,) = parse_command_line(line).commands
    launch = find_tool_launch(command.words)
    return " ".join(word.text for word in launch.words) if launch is not None else ""


@pytest.mark.parametrize(
    ("line", "tool"),
    [
        ("python -m pytest -q", "pytest -q"),
        ("python3.12 -u -m unittest discover", "unittest discover"),
        (".venv/bin/pytest tests", "pytest tests"),
        ("./venv/bin/python -m mypy src", "mypy src"),
        (".venv/bin/python manage.py test", "python manage.py test"),
        ("node_modules/.bin/eslint .", "eslint ."),
        ("uv run pytest", "pytest"),
        ("uv run --frozen --extra dev -p 3.12 pytest -x", "pytest -x"),
        ("uv run -m pytest", "pytest"),
        ("poetry run python -m pytest", "pytest"),
        ("pdm run ruff check", "ruff check"),
        ("hatch run mypy src", "mypy src"),
        ("bundle exec rspec", "rspec"),
        ("npx --no-install jest", "jest"),
        ("npx eslint .", "eslint ."),
        ("npm exec -- vitest run", "vitest run"),
        ("pnpm exec tsc --noEmit", "tsc --noEmit"),
        ("pnpm vitest", "vitest"),
        ("yarn jest", "jest"),
        ("npm run test", "npm test"),
        ("npm -s run test", "npm test -s"),
        ("npm t", "npm test"),
        ("yarn run test", "yarn test"),
        ("cargo -q test", "cargo test -q"),
        ("make -j4 -s test", "make test -j4 -s"),
        ("CI=1 TZ=Europe/Berlin pytest", "pytest"),
        ("PYTHONPATH=src:. pytest", "pytest"),
        ("PYTHONWARNINGS=error::DeprecationWarning pytest", "pytest"),
        ("env LC_ALL=C.UTF-8 pytest", "pytest"),
        ("GOFLAGS=-mod=vendor go test ./...", "go test ./..."),  # anomalyco/opencode#14110
        ("timeout 60 pytest", "pytest"),
        ("timeout -k 5 --signal=KILL 2m nice -n 5 stdbuf -oL pytest", "pytest"),
        ("RUST_BACKTRACE=1 timeout 60 cargo test", "cargo test"),
    ],
)
def test_a_tool_is_found_behind_what_starts_it(line: str, tool: str) -> None:
    assert tool_of(line) == tool


@pytest.mark.parametrize(
    "line",
    [
        "pytest", "npm test", "make test", "python x.py", "python -c pass", "./pytest", "bin/pytest",
        "/tmp/.venv/bin/pytest",
        ".venv/bin/../../x/pytest", "../.venv/bin/pytest", "sub/.venv/bin/pytest", "~/.venv/bin/pytest",
        "PATH=. pytest", "LD_PRELOAD=./x pytest", "LD_LIBRARY_PATH=. pytest", "PYTHONSTARTUP=x pytest",
        "PYTHONHOME=. pytest",
        "PYTHONPATH=/tmp pytest", "PYTHONPATH=src:../x pytest", "PYTHONPATH=~/x pytest", "PYTHONPATH=$X pytest",
        "PYTEST_ADDOPTS=-pevil pytest", "PYTEST_PLUGINS=evil pytest", "PYTHONBREAKPOINT=a.b pytest",
        "BASH_ENV=x pytest",
        "PYTHONWARNINGS=error::evil.X pytest", "NODE_OPTIONS=--require=./x jest", "RUSTFLAGS=-Clinker=./x cargo test",
        "GOFLAGS=-toolexec=./x go test", "CC=./x make", "HOME=. pytest", "GIT_SSH_COMMAND=x pytest", "CI=../x pytest",
        "DEBUG=a/b pytest", "CI=1", "env pytest", "env -i pytest", "env -S 'rm x'", "env -u PATH pytest",
        "uv run --with evil pytest", "uv run --script x.py", "uv run --python ./evil pytest", "uv run -p /x pytest",
        "uv run --project /x pytest", "uv run --env-file x pytest", "uv run pytest.py", "uv run ./x", "uv run --extra",
        "uvx pytest", "pipx run pytest", "poetry -C /x run pytest", "poetry run bash -c x", "uv run sudo pytest",
        "hatch run test:cov", "hatch -e x run pytest", "npx -p evil jest", "npx --package=evil jest", "npx -c 'rm x'",
        "npx ./x", "npx jest@1", "npm --prefix /x test", "npm install", "yarn add x", "yarn dlx jest", "pnpm dlx jest",
        "python -m evil", "python -m pytest.x", "python -i -m pytest", "python -X importtime -m pytest", "python -m",
        "make -C x test", "make -f x test", "cargo +nightly test", "cargo --config x test", "timeout pytest",
        "timeout -x 5 pytest", "xargs pytest", "sudo pytest", "nohup pytest", "watch pytest", "uv run cat a",
        "uv run git status", "timeout 5 grep -r x .", "LC_ALL=C sort a", "uv run $x", "uv run pyt*", "$x run pytest",
        "python -m $x", "CI=$x pytest", "yarn x", "pnpm run jest:x",
    ],
)  # fmt: skip
def test_what_could_start_something_else_is_no_call_of_the_tool(line: str) -> None:
    assert tool_of(line) == ""
