"""New problems that are reported together with the change that caused them."""

from ebbtide.tools.lazy import dataclass

NEW_PROBLEMS = "New problems since this change:"


@dataclass(frozen=True, slots=True)
class NewProblems:
    """Problems that did not exist before a change."""

    count: int
    lines: tuple[str, ...]
    """One line per problem. If some are not listed, the last line says how many."""

    @property
    def text(self) -> str:
        """The text for the model, to be appended to the result."""
        return "\n".join((NEW_PROBLEMS, *self.lines))
