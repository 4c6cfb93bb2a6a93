"""How much of what there is a tool has shown, in figures."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Unit: TypeAlias = Literal["lines", "matches", "files"]


@dataclass(frozen=True, slots=True)
class Extent:
    """What stands in an output. What says so in words beside it is not counted."""

    unit: Unit
    shown: int
    total: int | None = None
    """None when nobody has counted all there is, which is more than is shown."""
    first: int = 1
    """The number of the first of them, where they are numbered."""

    @property
    def is_all(self) -> bool:
        return self.shown == self.total
