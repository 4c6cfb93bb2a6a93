"""The documentation says what is so: its tables are those of the code, and its commands run where it is installed."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from docs.reference import GENERATED_FILES, PAGES, TABLES, fill_tables
from tests.kit.commands import ROOT, ebb
from tests.kit.files import write_files
from tests.kit.installation import Installation
from tests.kit.pty_terminal import started

ELSEWHERE = {
    "uv tool install .": "fetches packages; tests/packaging installs the wheel",
    "pipx install .": "fetches packages; tests/packaging installs the wheel",
    "ebb key set groq": "asks for a key: tests/test_key_command.py",
    "ebb -m groq/openai/gpt-oss-120b": "sends a request to a company",
    "pip install 'ebbtide[bedrock]'": "fetches packages; tests/packaging installs the wheel",
    "AWS_REGION=eu-west-1 ebb -m bedrock/eu.anthropic.claude-sonnet-5-5": "sends a request to a company",
    "make demo": "builds a virtual environment; `ebb demo`, which it runs, has tests of its own",
    "ebb serve": "wants a browser: tests/tui/integrations/browser",
    "ebb mcp test": "wants the servers of the example: tests/test_mcp_command.py",
    "ebb mcp import github cursor:files 7": "wants servers of other programs: tests/agent/integrations/imports",
    "ebb mcp import files --to project": "wants servers of other programs: tests/agent/integrations/imports",
    "ebb mcp login wiki": "wants the servers of the example: tests/test_mcp_command.py",
    "ebb mcp logs forge": "wants the servers of the example: tests/test_mcp_command.py",
    "ebb undo --dry-run": "wants changed files: tests/test_undo_command.py",
    "ebb undo": "wants changed files: tests/test_undo_command.py",
    "ebb undo 12 --json": "wants changed files: tests/test_undo_command.py",
    "ebb undo --redo": "wants changed files: tests/test_undo_command.py",
}
"""What is not run here, and why."""
TERMINAL = {
    "ebb": "keys and commands",
    'ebb "fix the tests"': "Done.",
    "ebb -c": "what is this project?",
    "ebb -r": "what is this project?",
    "ebb -r 4f2a": "what is this project?",
}
"""What opens the terminal, and what is on the screen then."""
READ = '[[reply]]\ncalls = [{ name = "read", arguments = { path = "build.log" } }]\n'
SCRIPT = READ + '[[reply]]\ntext = "Done."\n' * 20


def commands(page: Path) -> list[str]:
    """What is typed at a prompt on a page."""
    blocks = re.findall(r"^```console\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


WITH_COMMANDS = [page for page in PAGES if commands(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_tables_are_those_of_the_code(page: Path) -> None:
    text = page.read_text("utf-8")
    assert text == fill_tables(text), "run `make docs`"


@pytest.mark.parametrize("name", GENERATED_FILES)
def test_a_file_that_is_made_is_that_of_the_code(name: str) -> None:
    assert (ROOT / "docs" / name).read_text("utf-8") == GENERATED_FILES[name](), "run `make docs`"


def test_every_table_is_on_a_page() -> None:
    marked = [name for page in PAGES for name in re.findall(r"^<!-- ([a-z ]+) -->$", page.read_text("utf-8"), re.M)]
    assert sorted(set(marked) - {"end"}) == sorted(TABLES)


def test_no_link_leads_nowhere() -> None:
    links = [
        (page.name, target)
        for page in PAGES
        for target in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8"))
        if "://" not in target
    ]
    assert links
    assert [link for link in links if not (ROOT / link[1]).exists() and not (ROOT / "docs" / link[1]).exists()] == []


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one session, in which the model was asked what the project is, and read a file."""
    write_files(tmp_path, {"build.log": "error: no such file\n", "script.toml": SCRIPT})
    assert ebb("-C", str(tmp_path), "-p", "what is this project?", home=tmp_path, env=settings(tmp_path)).code == 0
    return tmp_path


def settings(home: Path) -> dict[str, str]:
    return {"EBB_MODEL": f"scripted/{home / 'script.toml'}"}


def session_of(home: Path) -> str:
    listed = ebb("sessions", "-C", str(home), "--json", home=home, env=settings(home))
    return str(listed.lines[-1]["id"])


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(page: Path, home: Path, installation: Installation) -> None:
    env = installation.environment(home, settings(home))
    id = session_of(home)
    for line in commands(page):
        if line in ELSEWHERE or line in TERMINAL or line == "ebb --plain":
            continue
        typed = line.replace("4f2a", id).replace("r12", "r1")
        done = subprocess.run(
            ["bash", "-c", typed], cwd=home, env=env, capture_output=True, text=True, timeout=60, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert (line, done.returncode, done.stderr) == (line, 0, done.stderr)


@pytest.mark.parametrize("line", TERMINAL)
def test_the_commands_that_open_the_terminal_open_it(line: str, home: Path, installation: Installation) -> None:
    command = shlex.split(line.replace("4f2a", session_of(home)))
    env = {**installation.environment(home, settings(home)), "TERM": "xterm-256color"}
    with started(command, env=env, cwd=home) as screen:
        screen.until(TERMINAL[line])


def test_the_commands_that_open_the_terminal_are_all_on_a_page() -> None:
    typed = {line for page in PAGES for line in commands(page)}
    assert sorted({*TERMINAL, *ELSEWHERE} - typed) == []


def test_plain_lines_answer_what_is_piped_into_them(home: Path, installation: Installation) -> None:
    run = installation.run(["ebb", "--plain"], cwd=home, home=home, env=settings(home), stdin="hello\n")
    assert (run.code, "Done." in run.out) == (0, True)
