"""What a change of files has brought, told with the change. Pure."""

from ebbtide.tools.lazy import dataclass

NEW_PROBLEMS = "New problems since this change:"


@dataclass(frozen=True, slots=True)
class NewProblems:
    """The problems that were not there before."""

    count: int
    lines: tuple[str, ...]
    """One each, and at the end how many more there are."""

    @property
    def text(self) -> str:
        """For the model, behind what was done."""
        return "\n".join((NEW_PROBLEMS, *self.lines))
