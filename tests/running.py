"""`ebb` run as a user runs it: a process of its own, with a home of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Run:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def result(self) -> dict[str, Any]:
        """The last line of standard output, as the JSON object it is."""
        return self.lines[-1]


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a user with nothing configured: no keys, no proxies."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "HOME": str(home), "EBB_HOME": str(home), "PYTHONPATH": str(ROOT), **(extra or {})}


def command(*arguments: str, first: str = "") -> list[str]:
    """`first`: a statement that the process executes before it is `ebb`."""
    start = ["-c", f"import sys; {first}; from tui.cli.main import main; sys.exit(main(sys.argv[1:]))"]
    return [sys.executable, *(start if first else ["-m", "tui.cli.main"]), *arguments]


def ebb(
    *arguments: str, home: Path, env: Mapping[str, str] | None = None, stdin: str | None = None, first: str = ""
) -> Run:
    """Runs `ebb` to its end. Without `stdin` there is none to read."""
    given = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
    done = subprocess.run(
        command(*arguments, first=first), env=environment(home, env), capture_output=True, text=True, encoding="utf-8",
        timeout=120, check=False, **given,
    )  # fmt: skip
    return Run(done.returncode, done.stdout, done.stderr)
