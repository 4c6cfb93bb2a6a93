"""Ctrl-C while the program starts or ends: no traceback, wherever it is at that moment."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.commands import ROOT, environment

START = """
import importlib.util, os, signal, sys

class PressCtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == {where!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, PressCtrlC())
for name in [name for name in sys.modules if name == {where!r}]:
    del sys.modules[name]
spec = importlib.util.spec_from_file_location("ebbtide", {entry!r})
entry = importlib.util.module_from_spec(spec)
spec.loader.exec_module(entry)
sys.argv[1:] = {arguments!r}
code = entry.main()
if {where!r} == "the end":
    os.kill(os.getpid(), signal.SIGINT)
sys.exit(code)
"""


def started(home: Path, where: str, *arguments: str) -> tuple[int, str]:
    """How it ends, and what it says on standard error, when Ctrl-C is pressed as the module is about to be loaded."""
    code = START.format(where=where, entry=str(ROOT / "ebbtide" / "__main__.py"), arguments=list(arguments))
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=home, env=environment(home), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("where", "arguments"),
    [
        ("pathlib", ["--help"]),
        ("argparse", ["--help"]),
        ("ebbtide.agent.errors", ["config"]),
        ("ebbtide.agent.headless.run", ["-p", "hi", "-m", "scripted/none.json"]),
        ("ebbtide.agent.compose.composer", ["-p", "hi", "-m", "scripted/none.json"]),
        ("ebbtide.tui.cli.start", []),
        ("ebbtide.tui.cli.subcommands", ["sessions"]),
        ("the end", ["config"]),
    ],
)  # fmt: skip
def test_ctrl_c_ends_it_without_a_word(tmp_path: Path, where: str, arguments: list[str]) -> None:
    assert started(tmp_path, where, *arguments) == (-signal.SIGINT, "")


@pytest.mark.parametrize(
    ("where", "arguments"),
    [
        ("ebbtide.store.sessions", ["sessions"]),
        ("ebbtide.agent.archive.session_listing", ["sessions"]),
        ("ebbtide.agent.archive.library", ["sessions", "fork", "ab"]),
        ("ebbtide.tui.integrations.mcp.command", ["mcp", "list"]),
        ("ebbtide.tui.integrations.doctor.subcommand", []),
    ],
)
def test_a_command_that_has_begun_puts_in_order_what_it_has(tmp_path: Path, where: str, arguments: list[str]) -> None:
    assert started(tmp_path, where, *(arguments or ["doctor"])) in ((130, ""), (-signal.SIGINT, ""))
