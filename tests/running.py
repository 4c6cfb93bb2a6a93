"""`ebb` run as a user runs it: a process of its own, with a home of its own."""

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
_FORK_SERVER = ROOT / "tests" / "kit" / "fork_server.py"


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
    """The environment of a user with nothing configured: no keys, no proxies. It has no sandbox and no language
    servers, as not every machine does: these have tests of their own."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "EBB_HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "EBB_SANDBOX": "off",
        "EBB_LSP_ENABLED": "false",
        **(extra or {}),
    }


def command(*arguments: str, first: str = "") -> list[str]:
    """`first`: a statement that the process executes before it is `ebb`."""
    start = ["-c", f"import sys; {first}; from tui.cli.main import main; sys.exit(main(sys.argv[1:]))"]
    return [sys.executable, *(start if first else ["-m", "tui.cli.main"]), *arguments]


@cache
def _forked() -> list[str]:
    """What begins the command line of a run that imports nothing; the server for it ends with this process."""
    folder = tempfile.TemporaryDirectory(prefix="ebb-fork-", ignore_cleanup_errors=True)
    address = f"{folder.name}/s"
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.kit.fork_server", address], cwd=ROOT, env=environment(Path(folder.name)),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert server.stdout
    assert server.stdout.readline() == b"ready\n"

    def end() -> None:
        server.communicate()
        folder.cleanup()

    atexit.register(end)
    return [sys.executable, "-I", "-S", str(_FORK_SERVER), address]


def ebb(
    *arguments: str, home: Path, env: Mapping[str, str] | None = None, stdin: str | bytes | None = None,
    first: str = "", fresh: bool = False,
) -> Run:  # fmt: skip
    """Runs `ebb` to its end. Without `stdin` there is none to read. `fresh`: in an interpreter of its own, which most
    runs do without (`tests/kit/fork_server.py`); so has one for which something is done `first` or the locale is set.
    """
    typed = stdin.encode() if isinstance(stdin, str) else stdin
    given: dict[str, Any] = {"input": typed} if typed is not None else {"stdin": subprocess.DEVNULL}
    alone = fresh or bool(first) or any(name.startswith(("PYTHON", "LC_", "LANG")) for name in env or {})
    done = subprocess.run(
        command(*arguments, first=first) if alone else [*_forked(), *arguments], env=environment(home, env),
        capture_output=True, timeout=120, check=False, **given,
    )  # fmt: skip
    return Run(done.returncode, lines_in(done.stdout), lines_in(done.stderr))


def lines_in(printed: bytes) -> str:
    """Text of which every line ends alike."""
    return printed.decode().replace("\r\n", "\n").replace("\r", "\n")
