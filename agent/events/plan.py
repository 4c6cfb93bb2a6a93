"""A plan that the model submits: the question that it puts to the user, and the answer."""

from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class PlanDecision:
    """What the user answers to a `PlanSubmitted`. Not an event, but plain data all the same."""

    verdict: Literal["accept", "reject", "edit"]
    """`edit`: the question is put again, about `plan`."""
    mode: str = ""
    """The permission mode to go on in with an accepted plan, one of the question's `modes`."""
    plan: str = ""
    """The plan as the user changed it."""
    note: str = ""
    """A word to the model, told with a rejection."""


@dataclass(frozen=True, slots=True)
class PlanSubmitted:
    """The model submits a plan, and the user is asked whether it is to be carried out."""

    id: str
    call_id: str
    plan: str
    """Markdown."""
    modes: tuple[str, ...]
    """The permission modes in which an accepted plan may be carried out."""
    is_edited: bool = False
    """The user has changed the plan."""


@dataclass(frozen=True, slots=True)
class PlanAnswered:
    """The user has decided about that plan."""

    id: str
    verdict: Literal["accept", "reject", "edit"]
    mode: str = ""
    """The permission mode in which the session goes on, where the plan is accepted."""


PlanEvent: TypeAlias = PlanSubmitted | PlanAnswered
