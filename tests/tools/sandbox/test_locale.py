"""With a locale that is not installed, programs in a real sandbox warn as often as in a plain shell."""

import os
import subprocess
from pathlib import Path

import pytest

from ebbtide.tools.base import Workspace
from tests.tools.sandbox.test_sandbox import bash, boxed, fill, home, place, pytestmark

__all__ = ["boxed", "home", "place", "pytestmark"]

ABSENT = "xx_XX.UTF-8"
COMMAND = "echo x; perl -e 1; git status -s; bash -c 'echo in $LC_ALL $LANG $LC_CTYPE'; python3 -c 1"


@pytest.fixture(autouse=True)
def no_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("LC_", "LANG")):
            monkeypatch.delenv(name)


def lines_of_bash(root: Path) -> list[str]:
    ran = subprocess.run(("/bin/bash", "-c", COMMAND), cwd=root, capture_output=True, text=True, check=False)
    return sorted((ran.stderr + ran.stdout).replace("/bin/bash: ", "bash: ").splitlines())


@pytest.mark.parametrize("name", ["LC_ALL", "LANG", "LC_CTYPE", "LC_MESSAGES"])
async def test_nothing_more_is_said_of_it_than_in_a_shell(
    name: str, boxed: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bash warns of `LC_ALL`, perl and man of any; the sandbox of a repository starts shells and Python of its own."""
    fill(boxed.root)
    monkeypatch.setenv(name, ABSENT)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/absent")
    printed = (await bash(boxed, COMMAND)).text.removesuffix("\nexit code 0")
    assert sorted(printed.replace("/bin/bash: ", "bash: ").splitlines()) == lines_of_bash(boxed.root)
