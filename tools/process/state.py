"""How it stands with a program that a call has run, started or looked at."""

from signal import Signals

from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class ProgramState:
    """What stays the same whatever words the output has for it."""

    told: str = ""
    """All that the call says of the program: the words behind what was printed."""
    code: int | None = None
    """What it gave back, where it came to its own end."""
    signal: int | None = None
    """The number of the signal that ended it."""
    limit: int | None = None
    """The seconds it had, where earlier versions ended it for not being finished."""
    job: str = ""
    """Its name among the session's jobs, where it runs in the background."""
    is_silent: bool = False
    """It has printed nothing, or nothing since the last look; what stands before `told` says so."""

    @property
    def is_running(self) -> bool:
        return self.code is None and self.signal is None and self.limit is None

    @property
    def how(self) -> str:
        """How it ended, or that it runs, in a few words."""
        if self.limit is not None:
            return f"not finished after {self.limit} s"
        if self.signal is not None:
            return f"killed by {_name_of(self.signal)}"
        return "still running" if self.code is None else f"exit code {self.code}"

    def printed_in(self, text: str) -> str:
        """What of an output's text the program has printed. What hooks say stands behind `told`."""
        end = text.rfind(self.told) if self.told else -1
        return "" if self.is_silent else text if end < 0 else text[:end].removesuffix("\n")


def state_of(code: int | None, job: str = "") -> ProgramState:
    """Of a program by its exit code: negative for the signal that ended it, None while it runs."""
    if code is None or code >= 0:
        return ProgramState(code=code, job=job)
    return ProgramState(signal=-code, job=job)


def _name_of(signal: int) -> str:
    try:
        return Signals(signal).name
    except ValueError:
        return f"signal {signal}"
