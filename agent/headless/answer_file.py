"""Writes the answer of a run to a file, in addition to printing it."""

from pathlib import Path
from typing import IO, Self

from ebbtide.agent.errors import UsageError
from ebbtide.agent.headless.result import RunOutcome
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """An answer file, opened before the run begins. Its previous content stays until the run is over."""

    path: Path
    file: IO[str]

    @classmethod
    def open_path(cls, path: Path) -> Self:
        """Open the file for writing. Raises `UsageError`."""
        try:
            return cls(path, path.open("a", encoding="utf-8", errors="backslashreplace"))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise UsageError(f"cannot write the answer to `{path}`: {why}; choose another file") from error

    def write(self, outcome: RunOutcome) -> None:
        """Replace the content of the file with the answer, or with as much of it as there is. A write error makes the
        run fail."""
        try:
            with self.file as file:
                if self.path.is_file():  # a pipe or a device cannot be truncated
                    file.truncate(0)
                file.write(outcome.result.rstrip("\n") + "\n" if outcome.result else "")
        except OSError as error:
            outcome.fail("answer_file", f"the answer could not be written to `{self.path}`: {error.strerror}", 1)
