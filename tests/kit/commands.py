"""`ebb` run as a user runs it: a process of its own, with a home of its own."""

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.kit.fork_server import request

ROOT = Path(__file__).parents[2]
_PATIENCE = 120
"""Seconds that a run may take."""


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
    variables = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {
        **variables,
        "HOME": str(home),
        "EBB_HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "EBB_SANDBOX": "off",
        "EBB_LSP_ENABLED": "false",
        **(extra or {}),
    }


def command(*arguments: str, first: str = "") -> list[str]:
    """`first`: a statement that the process executes before it is `ebb`."""
    start = ["-c", f"import sys; {first}; from ebbtide.tui.cli.main import main; sys.exit(main(sys.argv[1:]))"]
    return [sys.executable, *(start if first else ["-m", "ebbtide.tui.cli.main"]), *arguments]


@cache
def _fork_server() -> str:
    """The address of a process that has imported `ebb`; it ends with this one."""
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
    return address


def _forked(arguments: Sequence[str], env: Mapping[str, str], typed: bytes | None) -> tuple[int, bytes, bytes]:
    """Exit code, standard output and standard error of a run that imports nothing (`tests/kit/fork_server.py`)."""
    (stdin, typing), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as server, ThreadPoolExecutor(3) as threads:
        server.settimeout(_PATIENCE)
        server.connect(_fork_server())
        request(server, arguments, (nothing if typed is None else stdin, stdout, stderr), env)
        for ours in (stdin, stdout, stderr, nothing):
            os.close(ours)
        threads.submit(_write, typing, typed or b"")
        printed = [threads.submit(_read, each) for each in (out, err)]
        code = int(server.recv(16)) & 255
        return code, printed[0].result(), printed[1].result()


def _read(stream: int) -> bytes:
    with open(stream, "rb") as file:
        return file.read()


def _write(stream: int, text: bytes) -> None:
    with suppress(BrokenPipeError), open(stream, "wb") as file:  # who runs need not read all of it
        file.write(text)


def ebb(
    *arguments: str, home: Path, env: Mapping[str, str] | None = None, stdin: str | bytes | None = None,
    first: str = "", fresh: bool = False,
) -> Run:  # fmt: skip
    """Runs `ebb` to its end. Without `stdin` there is none to read. `fresh`: in an interpreter of its own, which most
    runs do without (`tests/kit/fork_server.py`); so has one for which something is done `first` or the locale is set.
    """
    typed = stdin.encode() if isinstance(stdin, str) else stdin
    if not (fresh or first or any(name.startswith(("PYTHON", "LC_", "LANG")) for name in env or {})):
        code, out, err = _forked(arguments, environment(home, env), typed)
        return Run(code, lines_in(out), lines_in(err))
    given: dict[str, Any] = {"input": typed} if typed is not None else {"stdin": subprocess.DEVNULL}
    done = subprocess.run(
        command(*arguments, first=first), env=environment(home, env), capture_output=True, timeout=_PATIENCE,
        check=False, **given,
    )  # fmt: skip
    return Run(done.returncode, lines_in(done.stdout), lines_in(done.stderr))


def lines_in(printed: bytes) -> str:
    """Text of which every line ends alike."""
    return printed.decode().replace("\r\n", "\n").replace("\r", "\n")
