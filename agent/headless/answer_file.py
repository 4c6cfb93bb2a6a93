"""A file that the answer of a run is written to, besides being printed."""

from pathlib import Path
from typing import IO, Self

from ebbtide.agent.errors import UsageError
from ebbtide.agent.headless.result import RunOutcome
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """One that can be written to, which was tried before the run began. What it held stays until the run is over."""

    path: Path
    file: IO[str]

    @classmethod
    def open_path(cls, path: Path) -> Self:
        """Raises `UsageError`."""
        try:
            return cls(path, path.open("a", encoding="utf-8", errors="backslashreplace"))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise UsageError(f"cannot write the answer to `{path}`: {why}; give another file") from error

    def write(self, outcome: RunOutcome) -> None:
        """The file holds the answer alone, or what there was of it. Where it cannot be written, the run has failed."""
        try:
            with self.file as file:
                if self.path.is_file():  # a pipe or a device has nothing that could go
                    file.truncate(0)
                file.write(outcome.result.rstrip("\n") + "\n" if outcome.result else "")
        except OSError as error:
            outcome.fail("answer_file", f"the answer could not be written to `{self.path}`: {error.strerror}", 1)
