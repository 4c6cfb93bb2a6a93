"""What `make` does on a fresh machine."""

import os
import subprocess

from tests.kit.commands import ROOT


def make(*arguments: str, **variables: str) -> str:
    """What is printed by `make`, that of another `make` around it aside."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")} | variables
    done = subprocess.run(["make", *arguments], cwd=ROOT, env=env, check=True, capture_output=True, text=True)
    return done.stdout


def test_the_demo_installs_what_running_needs_and_the_checks_add_the_rest() -> None:
    demo, check = (make("--dry-run", "--always-make", target) for target in ("demo", "check"))
    assert ("--editable .\n" in demo, ".[dev]" in demo) == (True, False)
    assert ("--editable .\n" in check, ".[dev]" in check) == (True, True)


def test_python_may_keep_what_it_has_compiled() -> None:
    shows = 'shows: ; @echo "[$$PYTHONDONTWRITEBYTECODE]"'
    assert make("--silent", f"--eval={shows}", "shows", PYTHONDONTWRITEBYTECODE="1") == "[]\n"
