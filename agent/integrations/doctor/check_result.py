"""The result of one check, and the progress callback of checks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

CheckState: TypeAlias = Literal["well", "note", "broken"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check."""

    subject: str
    state: CheckState
    text: str
    advice: str = ""
    """What to do about it."""


ReportProgress: TypeAlias = Callable[[str, int, int], None]
"""Called with the subject of a check, the work done, and the total."""
