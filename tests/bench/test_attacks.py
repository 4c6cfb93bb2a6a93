"""A few attacks of each kind: what the policy decides about them, and the program itself behind walls."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.attacks import isolation
from bench.attacks.decisions import judge_rows
from tests.kit.programs import needs_ripgrep

FILE = Path(__file__).with_name("attacks") / "rows.jsonl"
_NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--mount-proc", "ip", "link", "set", "lo", "up")


def _walls_can_be_had() -> bool:
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    try:
        return not subprocess.run(["unshare", *user, *_NAMESPACES], capture_output=True, check=False).returncode
    except FileNotFoundError:
        return False


def test_nothing_harmful_is_allowed_and_nothing_harmless_is_held_up() -> None:
    assert {row.id: row.decided for row in judge_rows(FILE)} == {
        "shell-write": "ask",
        "shell-outside": "ask",
        "shell-monitor": "allow",
        "shell-deny": "deny",
        "shell-harmless": "allow",
        "path-link": "ask",
        "path-hook": "ask",
        "web-metadata": "deny",
    }


ASKED_WITHOUT_A_SANDBOX = {"harmless-look-1": "ask", "harmless-look-10": "ask"}
"""Programs of awk that no proof covers: they are tried where a sandbox can hold them to looking."""


@needs_ripgrep
def test_a_hostile_repository_gets_nothing_by_rules_that_let_commands_look() -> None:
    rows = list(judge_rows(FILE.with_name("hostile.jsonl")))
    assert [row.call_text for row in rows if row.is_wrongly_allowed] == []
    assert {row.id: row.decided for row in rows if row.is_wrongly_blocked} == ASKED_WITHOUT_A_SANDBOX
    assert len(rows) > 80


LOOKS = """
import os, sys
from bench.attacks.isolation import run_isolated, is_isolated

if not is_isolated():
    sys.exit(run_isolated(sys.argv[1:]))
is_written = os.access(__file__, os.W_OK) and os.environ["AS_ROOT"] == "1"  # without root its files stay the user's
print(os.access(__file__, os.R_OK), is_written, os.path.exists(sys.argv[1]))
"""


@pytest.mark.skipif(not _walls_can_be_had(), reason="namespaces of its own are not to be had here")
def test_the_walls_hide_temporary_files_but_no_checkout_that_lies_among_them(tmp_path: Path) -> None:
    package, other = tmp_path / "clone" / "bench" / "attacks", tmp_path / "other"
    package.mkdir(parents=True)
    other.touch()
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(LOOKS)
    shutil.copy(isolation.__file__, package)
    done = subprocess.run(
        [sys.executable, "-m", "bench.attacks", str(other)],
        cwd=tmp_path / "clone", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "True False False\n", "")


def carried_out(file: Path, *rows: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "bench.attacks", str(file), "run", *rows, "--each"],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False,
    )  # fmt: skip


OF_EACH_KIND = (
    "mcp-poisoned-schema", "mcp-asks", "mcp-token-handed-over", "http-redirect", "secret-forms", "token-forged",
    "hook-allows-itself", "trust-links-trusted", "serve-once",
)  # fmt: skip
"""A run of the program takes a second: by night it is all of them."""


@pytest.mark.timeout(300)  # some thirty runs of the program by night
@pytest.mark.skipif(not _walls_can_be_had(), reason="namespaces of its own are not to be had here")
def test_servers_folders_hooks_and_browsers_get_nothing_that_is_not_theirs() -> None:
    is_night = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
    run = carried_out(FILE.with_name("servers.jsonl"), *(() if is_night else OF_EACH_KIND))
    assert (run.returncode, run.stderr) == (0, ""), run.stdout
    counts = (25, 4) if is_night else (len(OF_EACH_KIND) - 1, 1)
    assert run.stdout.splitlines()[-2:] == [
        f"played, as it says: {counts[0]} held",
        f"served, to a browser: {counts[1]} held",
    ]


@pytest.mark.timeout(300)  # some forty runs of the program
@pytest.mark.skipif(not _walls_can_be_had(), reason="namespaces of its own are not to be had here")
def test_what_is_carried_out_comes_to_nothing() -> None:
    run = carried_out(FILE)
    each = [line.split("  ") for line in run.stdout.splitlines() if line.startswith("  ")]
    happened = {(row, way.partition(": happened")[0]) for _, row, way, *_ in each if ": happened" in way}
    assert (run.returncode, run.stderr) == (0, "")
    assert happened == {("shell-write", "control: nothing holds"), ("shell-deny", "control: nothing holds")}
    assert {row for _, row, *_ in each} == {line.split('"')[3] for line in FILE.read_text().splitlines()}
