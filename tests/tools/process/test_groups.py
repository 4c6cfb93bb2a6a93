"""Groups that end with whoever started them, however that is."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ebbtide.tools.base import Workspace
from ebbtide.tools.process.groups import ProcessTree
from tests.kit.commands import ROOT
from tests.kit.polling import is_gone, soon
from tests.tools.test_bash import bash, is_running

STARTS = """
import subprocess, sys, time
from ebbtide.tools.process.groups import GUARDIAN

inside = "setsid -w sh -c 'echo \\$\\$; sleep 600; :'; :"
commands = ["sleep 600; :", "sleep 600; :", "timeout 600 sh -c 'echo $$; sleep 600; :'; :",
            f"setsid -w timeout 600 sh -c \\"{inside}\\"; :"]
started = [subprocess.Popen(["sh", "-c", command], start_new_session=True, stdout=-1) for command in commands]
for each in started:
    GUARDIAN.guard(each.pid)
GUARDIAN.release(started[1].pid)
inner = [int(each.stdout.readline()) for each in started[2:]]
print(*(each.pid for each in started), *inner, GUARDIAN._process.pid, flush=True)
if sys.argv[1] == "ends":
    sys.exit()
time.sleep(600)
"""


def test_what_is_guarded_ends_with_a_killed_process_and_nothing_else_does() -> None:
    for how in ("killed", "ends"):
        with subprocess.Popen(
            [sys.executable, "-c", STARTS, how], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            first, left, *others = map(int, process.stdout.readline().split())
            if how == "killed":
                process.kill()
            process.wait()
        assert [is_gone(process) for process in (first, *others)] == [True] * 6
        assert Path(f"/proc/{left}").exists()
        os.killpg(left, signal.SIGKILL)


OWN_GROUPS = {
    "a group": "timeout 600 sh -c 'echo $$ > pid.new; mv pid.new pid; sleep 600'; echo",
    "job control": "set -m; sh -c 'echo $$ > pid.new; mv pid.new pid; sleep 600' & wait",
    "a session": "setsid -w sh -c 'echo $$ > pid.new; mv pid.new pid; sleep 600; echo'; echo",
    "deaf": "setsid -w sh -c 'trap \"\" TERM; echo $$ > pid.new; mv pid.new pid; while :; do sleep 1; done'; echo",
}


@pytest.mark.parametrize("command", OWN_GROUPS.values(), ids=OWN_GROUPS)
async def test_what_made_itself_a_group_or_a_session_ends_with_its_program(command: str, workspace: Workspace) -> None:
    pid = workspace.root / "pid"
    task = asyncio.create_task(bash(workspace, command))
    await soon(pid.exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await soon(lambda: not is_running(pid))


async def test_what_makes_itself_a_session_as_its_parent_ends_is_still_of_the_family(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    leaves = "echo $$ > pid.new; mv pid.new pid; read -r go < go; exec setsid sh -c 'echo $$ > own; sleep 600; :'"
    command = ("sh", "-c", "trap '' TERM; sh -c \"$0\" & trap - TERM; wait", leaves)
    parent = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, start_new_session=True)
    await soon((tmp_path / "pid").exists)
    family = ProcessTree(parent.pid)
    family.signal(signal.SIGTERM, is_reaped=False)
    await parent.wait()
    (tmp_path / "go").write_text("now\n")
    await soon(lambda: (tmp_path / "own").exists() and bool((tmp_path / "own").read_text()))
    family.signal(signal.SIGKILL, is_reaped=True)
    assert is_gone(int((tmp_path / "own").read_text()))


async def test_what_runs_on_in_a_group_of_its_own_ends_with_the_session(workspace: Workspace) -> None:
    result = await bash(workspace, "timeout 600 sh -c 'echo $$ > pid; sleep 600; :' & while [ ! -s pid ]; do :; done")
    assert result.text.endswith("its background processes keep running until the session ends")
    assert is_running(workspace.root / "pid")
    await workspace.jobs.close()
    await soon(lambda: not is_running(workspace.root / "pid"))


async def test_what_has_detached_itself_lives_on(workspace: Workspace) -> None:
    daemon = "(setsid sh -c 'echo $$ > pid; exec sleep 600' >/dev/null 2>&1 &); while [ ! -s pid ]; do :; done"
    task = asyncio.create_task(bash(workspace, f"{daemon}; touch on; sleep 600"))
    await soon((workspace.root / "on").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert is_running(workspace.root / "pid")
    os.kill(int((workspace.root / "pid").read_text()), signal.SIGKILL)
