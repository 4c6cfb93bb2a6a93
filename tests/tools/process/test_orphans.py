"""No zombie stays behind a command in a sandbox where process 1 reaps nothing, as in a container without an init."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ebbtide.tools.base import Workspace
from tests.kit.commands import ROOT
from tests.tools.sandbox.test_sandbox import boxed, home, place, pytestmark

__all__ = ["boxed", "home", "place", "pytestmark"]

RUNS = """
import asyncio, os, subprocess, sys
from contextlib import suppress
from pathlib import Path
from ebbtide.tools.base import Workspace
from ebbtide.tools.bash import Bash
from ebbtide.tools.process.child import run_with_input
from ebbtide.tools.process.shell import shell_launch
from ebbtide.tools.sandbox.sandbox import Sandbox

def children():
    found = dict()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            state, parent = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) in (1, os.getpid()) and int(name) != os.getpid():
                found[int(name)] = state
    return found

async def settled(count):
    while sorted(children().values()).count("Z") != count:
        await asyncio.sleep(0.01)

async def main(place):
    root = place / "project"
    boxed = Workspace(root, place / "outputs", sandbox=Sandbox(root, place / "outputs/tmp", visible_paths=(root,)))
    run = lambda command, **more: Bash().run({"command": command, **more}, boxed)
    others = [subprocess.Popen(["/bin/sh", "-c", "exit 7"], start_new_session=leads) for leads in (False, True)]
    asyncs = await asyncio.create_subprocess_exec("/bin/sh", "-c", "exit 8")
    await run("true")
    await run("(sleep 0.3; echo late) > late 2>&1 < /dev/null &")
    await run("sleep 600 > /dev/null 2>&1 &")
    await run("sleep 600", timeout=1)
    await run("sleep 600", background=True)
    await run("true", background=True)
    await run("kill -9 $$; sleep 600")
    stopped = asyncio.create_task(run("sleep 600"))
    await asyncio.sleep(0)
    stopped.cancel()
    with suppress(asyncio.CancelledError):
        await stopped
    await run_with_input(boxed.sandbox.wrap(shell_launch("echo x"), root), b"", root, 60, 100)
    await run_with_input(boxed.sandbox.wrap(shell_launch("sleep 600"), root), b"", root, 0.2, 100)
    await boxed.jobs.close()
    await settled(2)  # those that others started and did not wait for yet
    print(*(each.wait() for each in others), await asyncs.wait(), *sorted(children().values()).count("Z") * "Z")

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="process 1 is another one with `unshare` alone")
@pytest.mark.parametrize("is_first", [True, False])
def test_no_zombie_is_left_and_no_child_of_others_is_reaped(is_first: bool, boxed: Workspace, place: Path) -> None:
    python = (sys.executable, "-c", RUNS, str(place))
    reaps_nothing = (sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))")
    ran = subprocess.run(
        ("unshare", "-rpf", "--mount-proc", *(() if is_first else reaps_nothing), *python),
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("7 7 8\n", "")
