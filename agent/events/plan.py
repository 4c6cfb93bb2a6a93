"""Events about a plan that the model submits: the question to the user, and the answer."""

from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class PlanDecision:
    """The user's answer to a `PlanSubmitted`. Plain data, not an event."""

    verdict: Literal["accept", "reject", "edit"]
    """`edit`: the question is asked again for the edited `plan`."""
    mode: str = ""
    """With `accept`: the permission mode from then on, one of the question's `modes`."""
    plan: str = ""
    """The plan as edited by the user."""
    note: str = ""
    """A message to the model, sent with a rejection."""


@dataclass(frozen=True, slots=True)
class PlanSubmitted:
    """The model submits a plan, and the user is asked whether to carry it out."""

    id: str
    call_id: str
    plan: str
    """The plan as Markdown."""
    modes: tuple[str, ...]
    """The permission modes in which an accepted plan may be carried out."""
    is_edited: bool = False
    """Whether the user has edited the plan."""


@dataclass(frozen=True, slots=True)
class PlanAnswered:
    """The user has answered a `PlanSubmitted`."""

    id: str
    verdict: Literal["accept", "reject", "edit"]
    mode: str = ""
    """The permission mode from now on, if the plan is accepted."""


PlanEvent: TypeAlias = PlanSubmitted | PlanAnswered
