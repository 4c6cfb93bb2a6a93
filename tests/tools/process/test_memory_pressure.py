"""Where memory runs out, what was started ends before the program does."""

import sys
from pathlib import Path

import pytest

from ebbtide.tools.process.shell import shell_launch
from ebbtide.tools.process.start import start_program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux is told which process to end first")


def read(path: str | Path) -> str:
    return Path(path).read_text()


async def test_a_program_and_what_it_starts_are_the_first_to_go(tmp_path: Path) -> None:
    before = read("/proc/self/oom_score_adj")
    line = 'cat /proc/self/oom_score_adj; sh -c "cat /proc/self/oom_score_adj"'
    program = start_program(shell_launch(line), tmp_path, tmp_path / "log")
    try:
        assert await program.wait(60)
        assert read(tmp_path / "log") == "500\n500\n"
        assert read("/proc/self/oom_score_adj") == before
    finally:
        await program.close()
