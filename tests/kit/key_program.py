"""A program that prints an API key: another one in each run."""

import shlex
from pathlib import Path


class KeyProgram:
    """The program in a file, and how often it has run."""

    def __init__(self, folder: Path) -> None:
        self._path, self._runs = folder / "print-key", folder / "key-runs"
        self._path.write_text(
            f"#!/bin/sh\necho run >> {shlex.quote(str(self._runs))}\n"
            f"printf 'sk-printed-000000000%d\\n' $(wc -l < {shlex.quote(str(self._runs))})\n"
        )
        self._path.chmod(0o755)

    @property
    def command(self) -> str:
        """The command line of the program."""
        return shlex.quote(str(self._path))

    @property
    def runs(self) -> int:
        return len(self._runs.read_text().splitlines()) if self._runs.exists() else 0

    def key(self, run: int) -> str:
        """The key that a run prints; the first run is 1."""
        return f"sk-printed-000000000{run}"
