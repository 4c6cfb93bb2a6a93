"""One thing that was looked at, and how whoever looks tells how far it is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

CheckState: TypeAlias = Literal["well", "note", "broken"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that was looked at."""

    subject: str
    state: CheckState
    text: str
    advice: str = ""
    """What to do."""


ReportProgress: TypeAlias = Callable[[str, int, int], None]
"""Is told what is being looked at, how much of it is done, and of how much."""
