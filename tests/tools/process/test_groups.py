"""Groups that end with whoever started them, however that is."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.running import ROOT
from tests.tui.test_ended import is_gone

STARTS = """
import subprocess, sys, time
from tools.process.groups import GUARDIAN

started = [subprocess.Popen(["sh", "-c", "sleep 600; :"], start_new_session=True) for _ in range(3)]
for each in started:
    GUARDIAN.guard(each.pid)
GUARDIAN.leave(started[1].pid)
print(*(each.pid for each in started), GUARDIAN._process.pid, flush=True)
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
            *groups, guardian = map(int, process.stdout.readline().split())
            if how == "killed":
                process.kill()
            process.wait()
        assert [is_gone(group) for group in (groups[0], groups[2], guardian)] == [True] * 3
        assert Path(f"/proc/{groups[1]}").exists()
        os.killpg(groups[1], signal.SIGKILL)
