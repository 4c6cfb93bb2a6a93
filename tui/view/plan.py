"""A plan as it is shown, and what it may be answered with. Plain values: it knows no screen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.context.control_calls import PLAN
from agent.plan_events import PlanDecision, PlanSubmitted
from tui.text.inks import Line
from tui.text.sanitise import visible
from tui.view.blocks import Block, Call
from tui.view.outcomes import outcome_of
from tui.view.panel import Panel

FILE = "plan.md"
"""How the name of the file ends in which a plan is changed."""
HEADLINE = "Carry out this plan?"
_MODES: Mapping[str, str] = {
    "ask": "yes, asking before each change",
    "accept-edits": "yes, changing files without asking",
    "auto": "yes, doing everything without asking",
}


@dataclass(frozen=True, slots=True)
class PlanChoice:
    """One of the answers."""

    key: str
    says: str
    brief: str
    """The same in a word or two."""
    decision: PlanDecision | None = None
    """None where something has to be written first."""

    def row(self, width: int) -> Line:
        """Key and meaning, in so many columns."""
        says = self.says if len(self.says) + 3 <= width else self.brief
        return ((f"{self.key}  ", "accent"), (says, "text"))


def choices_in(question: PlanSubmitted) -> tuple[PlanChoice, ...]:
    """All answers, each with its key."""
    accepted = (
        PlanChoice(str(number), _MODES[mode], mode, PlanDecision("accept", mode))
        for number, mode in enumerate(question.modes, 1)
    )
    return (
        *accepted,
        PlanChoice("e", "change the plan first", "edit"),
        PlanChoice("d", "no, and say what to do instead", "why not"),
        PlanChoice("n", "no", "no", PlanDecision("reject")),
    )


def choice_for(key: str, question: PlanSubmitted) -> PlanChoice | None:
    """What a key chooses; None when it chooses nothing. `y` is the yes that allows the least."""
    return next((choice for choice in choices_in(question) if choice.key == ("1" if key == "y" else key)), None)


def headline_of(question: PlanSubmitted) -> Line:
    """What is asked, in a line."""
    changed: Line = (("  as you changed it", "warn"),) if question.is_edited else ()
    return (("? ", "warn"), (HEADLINE, "strong"), *changed)


def brief_keys(question: PlanSubmitted, width: int) -> str:
    """The answers in a line, for a screen that has no room for more; only the keys where that is too long."""
    choices = choices_in(question)
    said = "  ".join(f"{choice.key} {choice.brief}" for choice in choices)
    keys = " ".join(choice.key for choice in choices)
    return next((line for line in (f"{said}  Esc stop", said) if len(line) <= width), keys)


def plan_in(blocks: Sequence[Block]) -> Call | None:
    """The newest plan that was put to the user, or handed in where nobody was there; None where none was."""
    calls = (block for block in reversed(blocks) if isinstance(block, Call) and block.name == PLAN)
    return next((call for call in calls if call.status != "failed" and text_of(call)), None)


def plan_panel(call: Call) -> Panel:
    """The plan, as it was written, to look at."""
    plan = visible(text_of(call)).expandtabs(4).strip("\n")
    head: Line = (("Plan  ", "strong"), (outcome_of(call, ""), "dim"))
    lines: tuple[Line, ...] = tuple(((line, "text"),) for line in plan.split("\n"))
    return Panel("plan", (head,), (), "Up, Down   Esc closes", said=plan, about=lines, search="", reads=True)


def text_of(call: Call) -> str:
    """The plan of a call that hands one in, as it was written; empty where it has none."""
    plan = call.arguments.get("plan")
    return plan if isinstance(plan, str) else ""
