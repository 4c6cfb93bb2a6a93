"""The state of a program that a tool call ran, started or inspected."""

from signal import Signals

from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class ProgramState:
    """The state of a program, independent of its wording in the output."""

    told: str = ""
    """The text about the program's state that follows the output."""
    code: int | None = None
    """Exit code, if the program exited."""
    signal: int | None = None
    """Number of the signal that ended it."""
    limit: int | None = None
    """The time limit in seconds, if the program was ended for exceeding it."""
    job: str = ""
    """The job id, if the program runs in the background."""
    is_silent: bool = False
    """Whether the program has printed nothing or, for a background job, nothing since the last call. The text before
    `told` is then only a note that says so."""

    @property
    def is_running(self) -> bool:
        return self.code is None and self.signal is None and self.limit is None

    @property
    def outcome_text(self) -> str:
        """Says in a few words how the program ended, or that it is running."""
        if self.limit is not None:
            return f"not finished after {self.limit} s"
        if self.signal is not None:
            return f"killed by {_signal_name(self.signal)}"
        return "still running" if self.code is None else f"exit code {self.code}"

    def printed_text(self, text: str) -> str:
        """Return the part of an output that the program printed, without `told` and the hook messages after it."""
        end = text.rfind(self.told) if self.told else -1
        return "" if self.is_silent else text if end < 0 else text[:end].removesuffix("\n")


def program_state(code: int | None, job: str = "") -> ProgramState:
    """Build the state for an exit code, which is negative for a signal and None while the program is running."""
    if code is None or code >= 0:
        return ProgramState(code=code, job=job)
    return ProgramState(signal=-code, job=job)


def _signal_name(signal: int) -> str:
    try:
        return Signals(signal).name
    except ValueError:
        return f"signal {signal}"
