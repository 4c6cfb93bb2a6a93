"""The state of a program that a call ran, started or looked at."""

from signal import Signals

from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class ProgramState:
    """The state, independent of the output's wording."""

    told: str = ""
    """The text on the program's state, after its output."""
    code: int | None = None
    """Exit code, if it exited."""
    signal: int | None = None
    """Number of the signal that ended it."""
    limit: int | None = None
    """The time limit in seconds. Earlier versions ended programs that exceeded it."""
    job: str = ""
    """Its job id, if it runs in the background."""
    is_silent: bool = False
    """Whether it printed nothing, or nothing since the last call. The text before `told` then says so."""

    @property
    def is_running(self) -> bool:
        return self.code is None and self.signal is None and self.limit is None

    @property
    def how(self) -> str:
        """How it ended, or that it is running, in a few words."""
        if self.limit is not None:
            return f"not finished after {self.limit} s"
        if self.signal is not None:
            return f"killed by {_name_of(self.signal)}"
        return "still running" if self.code is None else f"exit code {self.code}"

    def printed_in(self, text: str) -> str:
        """Return the part of an output's text that the program printed. Messages of hooks follow `told`."""
        end = text.rfind(self.told) if self.told else -1
        return "" if self.is_silent else text if end < 0 else text[:end].removesuffix("\n")


def state_of(code: int | None, job: str = "") -> ProgramState:
    """Return the state for an exit code: negative for a signal, None while running."""
    if code is None or code >= 0:
        return ProgramState(code=code, job=job)
    return ProgramState(signal=-code, job=job)


def _name_of(signal: int) -> str:
    try:
        return Signals(signal).name
    except ValueError:
        return f"signal {signal}"
