"""What developers run daily gives in the bash tool what it gives in bash: real commands in real folders."""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.everyday.__main__ import outcomes_in
from bench.everyday.compare import run_differences
from bench.everyday.corpus import CommandFolders, CommandRow, read_rows, restore_folders
from bench.everyday.expected_differences import explain_difference
from bench.everyday.runs import CommandRun
from bench.everyday.setups import SETUPS, plain_setup
from ebbtide.tools.sandbox.system import NoSandbox, detect_sandbox
from tests.kit.commands import ROOT
from tests.kit.files import write_files

CORPUS = Path(__file__).with_name("everyday")
ROWS = tuple(read_rows(CORPUS))
FOUND = detect_sandbox()
SHARES = 6
"""Parts of the corpus that run side by side."""


@pytest.fixture
def base() -> Iterator[Path]:
    """Where the places are built: not in /tmp, which is another folder in a sandbox."""
    cache = ROOT / ".pytest_cache"
    cache.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=Path.home() if cache.is_relative_to("/tmp") else cache) as made:
        base = Path(made).resolve()
        subprocess.run(["bash", CORPUS / "places.sh", base], check=True, timeout=120)
        restore_folders(base)
        yield base


CASES = [("plain", share) for share in range(SHARES)] + [(name, 0) for name in SETUPS if name != "plain"]


@pytest.mark.timeout(300)  # dozens of commands, three times each
@pytest.mark.skipif(isinstance(FOUND, NoSandbox), reason="no sandbox works here")
@pytest.mark.parametrize(("setup", "share"), CASES, ids=[f"{name}-{share}" for name, share in CASES])
def test_commands_give_what_they_give_in_bash(setup: str, share: int, base: Path) -> None:
    chosen = ROWS[share::SHARES] if setup == "plain" else [row for row in ROWS if setup in row.setups]
    found = list(outcomes_in(SETUPS[setup](plain_setup(base)), CORPUS, [row.id for row in chosen]))
    commands = {row.id: row.command for row in ROWS}
    assert [(commands[each.row], each.sandboxed, each.why) for each in found if each.verdict == "fault"] == []
    assert len(found) == 2 * len(chosen)


def row(compare: str = "exit+output+files") -> CommandRow:
    return CommandRow("1", "app", "make", compare)


@pytest.mark.parametrize(
    ("compare", "plain", "tool", "again", "found"),
    [
        ("exit+output+files", CommandRun(0, "a", {"w/x": "file 0o644 1"}), CommandRun(0, "a", {"w/x": "file 0o644 1"}),
            None, []),
        ("exit+output+files", CommandRun(-9, ""), CommandRun(137, ""), None, []),
        ("exit+output+files", CommandRun(0, "a\nb"), CommandRun(1, "a\nc"), None, [
            "exit: 1 in place of 0", "output: line 2 is 'c' in place of 'b'",
        ]),
        ("exit", CommandRun(0, "a"), CommandRun(0, "b"), None, []),
        ("must end", CommandRun(None, "a"), CommandRun(1, "b"), None, []),
        ("exit+output+files", CommandRun(0, "pid 17"), CommandRun(0, "pid 4"), CommandRun(0, "pid 18"), []),
        ("exit+output+files", CommandRun(0, "pid 17"), CommandRun(0, "none"), CommandRun(0, "pid 18"), [
            "output: line 1 is 'none' in place of 'pid 17'",
        ]),
        ("exit+output+files", CommandRun(0, "b1\na1"), CommandRun(0, "a2\nb2"), CommandRun(0, "a3\nb3"), []),
        ("exit+output+files", CommandRun(0, "", {"w/a": "file 0o644 1"}), CommandRun(0, ""),
            CommandRun(0, "", {"w/a": "file 0o644 1"}), ["w/a: unchanged in place of file 0o644 1"]),
        ("exit+output+files", CommandRun(0, "", {"w/a": "file 0o644 1"}), CommandRun(0, "", {"w/a": "file 0o600 3"}),
            CommandRun(0, "", {"w/a": "file 0o644 2"}), ["w/a: file 0o600 3 in place of file 0o644 1"]),
        ("exit+output+files", CommandRun(0, "", {"w/log-1": "file 0o644 1"}),
            CommandRun(0, "", {"w/log-7": "file 0o644 3"}), CommandRun(0, "", {"w/log-2": "file 0o644 2"}), []),
        ("exit+output+files", CommandRun(0, "", {"w/a/.git/index": "file 0o644 1"}), CommandRun(0, ""), None, []),
    ],
)  # fmt: skip
def test_only_what_bash_repeats_is_compared(
    compare: str, plain: CommandRun, tool: CommandRun, again: CommandRun | None, found: list[str]
) -> None:
    assert run_differences(row(compare), plain, tool, again) == found


@pytest.mark.parametrize(
    ("output", "meant"),
    [
        ("", ("", "")),
        ("it ran in a sandbox, where it may not write `/opt/x`", ("files outside", "it does not say how to open it")),
        ("it may not write `/opt/x`: …\nthe user can start with `--allow 'outside(cp)'`", ("files outside", "")),
        ("`a.org:443` was not reached: nobody is there; `--allow 'network(a.org:443)'`", ("network", "")),
    ],
)
def test_a_difference_is_meant_where_the_output_says_why_and_how_to_open_it(
    output: str, meant: tuple[str, str]
) -> None:
    assert explain_difference(output) == meant


def test_each_command_starts_from_the_same_files(tmp_path: Path) -> None:
    for name in ("w/app/src", "w/web", "w/beside.git", "home"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "w/app/src/a.py").write_text("a")
    (tmp_path / "w/app/link").symlink_to("src")
    restore_folders(tmp_path)
    places = CommandFolders(tmp_path, {"app", "web"})
    assert places.changes("app") == {}
    (tmp_path / "w/app/src/a.py").unlink()
    (tmp_path / "w/app/src").rmdir()
    write_files(tmp_path, {"w/beside.git/new": "new", "w/web/other": "of another place"})
    found = places.changes("app")
    assert {path: what.split(" ")[0] for path, what in found.items()} == {
        "w/app/src": "removed", "w/app/src/a.py": "removed", "w/beside.git/new": "file",
    }  # fmt: skip
    places.reset(found)
    assert (places.changes("app"), (tmp_path / "w/app/src/a.py").read_text()) == ({}, "a")
    assert list(places.changes("web")) == ["w/web/other"]
