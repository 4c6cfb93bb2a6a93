"""What puts up the sandbox is steered neither by what runs in it nor by what happens around it meanwhile."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ebbtide.tools.base import Workspace
from ebbtide.tools.process.child import run_with_input
from ebbtide.tools.process.shell import Launch, shell_launch
from ebbtide.tools.sandbox import system
from ebbtide.tools.sandbox.system import NoSandbox, SandboxProgram, detect_sandbox
from tests.kit.commands import ROOT
from tests.tools.sandbox.test_sandbox import bash, boxed, home, place, pytestmark

__all__ = ["boxed", "home", "place", "pytestmark"]

LEAVES_A_TRACE = """
#include <fcntl.h>
#include <stdlib.h>
__attribute__((constructor)) static void begin(void) {
  open(TRACE, O_CREAT | O_WRONLY, 0600); setenv("LOADED", "yes", 1);
}
"""
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
FOUND = detect_sandbox()
needs_unshare = pytest.mark.skipif(
    isinstance(FOUND, NoSandbox) or not FOUND.prefix_argv, reason="what is mounted meanwhile cannot be kept away here"
)


@needs_compiler
async def test_what_programs_load_first_is_loaded_inside_alone(boxed: Workspace, place: Path) -> None:
    assert boxed.sandbox is not None
    library, trace = boxed.root / "trace.so", place / "trace"
    flags = ("-shared", "-fPIC", f'-DTRACE="{trace}"', "-x", "c", "-", "-o", str(library))
    built = await run_with_input(Launch(("cc", *flags), os.environ), LEAVES_A_TRACE.encode(), place, 60, 1000)
    assert built.code == 0, built.error_output
    boxed.sandbox.variables["LD_PRELOAD"] = str(library)  # as a hook of the project may say
    assert (await bash(boxed, "echo $LD_PRELOAD $LOADED")).text == f"{library} yes\nexit code 0"
    boxed.sandbox.variables.clear()
    launch = shell_launch("echo $LOADED", {"LD_PRELOAD": str(library)})  # as a server of the project may declare
    answer = await run_with_input(boxed.sandbox.wrap(launch, boxed.root), b"", boxed.root, 10, 100)
    assert (answer.output, trace.exists()) == (b"yes\n", False)


MOUNTS_MEANWHILE = """
import asyncio, subprocess, sys
from pathlib import Path
from ebbtide.tools.base import Workspace
from ebbtide.tools.bash import Bash
from ebbtide.tools.sandbox.sandbox import Sandbox

async def main(place):
    root, mounted = place / "project", place / "mounted"
    mounted.mkdir()
    boxed = Workspace(root, place / "outputs", sandbox=Sandbox(root, place / "outputs/tmp", visible_paths=(root,)))
    tries = "touch begun; until [ -e go ]; do sleep 0.01; done; echo changed > ../mounted/kept; cat ../mounted/kept"
    running = asyncio.create_task(Bash().run({"command": tries}, boxed))
    while not (root / "begun").exists():
        await asyncio.sleep(0.01)
    subprocess.run(["mount", "-t", "tmpfs", "none", str(mounted)], check=True)
    (mounted / "kept").write_text("kept")
    (root / "go").touch()
    await running
    print((mounted / "kept").read_text())

asyncio.run(main(Path(sys.argv[1])))
"""


@needs_unshare
def test_what_is_mounted_while_a_command_runs_is_not_written(boxed: Workspace, place: Path) -> None:
    around = ("unshare", "--user", "--map-root-user", "--mount", "--propagation", "shared")
    ran = subprocess.run(
        [*around, sys.executable, "-c", MOUNTS_MEANWHILE, str(place)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("kept\n", "")


def test_where_mounts_cannot_be_kept_away_commands_are_held_all_the_same_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert isinstance(FOUND, SandboxProgram)
    monkeypatch.setattr(system, "_UNSHARE", ())
    why = "a command can write to file systems mounted while it runs: `unshare` of util-linux is not installed"
    assert detect_sandbox.__wrapped__() == SandboxProgram("bubblewrap", FOUND.argv, why)
