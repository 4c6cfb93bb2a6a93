"""A submitted plan and its answers. Pure."""

from collections.abc import Mapping, Sequence

from ebbtide.agent.context.control_calls import PLAN
from ebbtide.agent.events.plan import PlanDecision, PlanSubmitted
from ebbtide.tui.text.sanitise import sanitised
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.blocks import Block, Call
from ebbtide.tui.view.outcomes import outcome_of
from ebbtide.tui.view.panel import Panel
from ebbtide.tui.view.question import Choice, QuestionSpec, Subject, Writing

FILE = "plan.md"
"""Name of the file in which a plan is edited."""
HEADLINE = "Carry out this plan?"
_MODES: Mapping[str, str] = {
    "ask": "yes, asking before each change",
    "accept-edits": "yes, changing files without asking",
    "auto": "yes, doing everything without asking",
}


def panel_of_plan(question: PlanSubmitted) -> QuestionSpec:
    """Return the question for a plan."""
    accepted = (
        Choice(
            _MODES[mode].capitalize(),
            "y" if not number else "",
            PlanDecision("accept", mode),
            is_lasting=mode == "auto",
            rule_text=f"mode {mode}",
            brief=f"Yes, {mode}",
        )
        for number, mode in enumerate(question.modes)
    )
    note = Writing("words", _rejection, "what to do instead; Enter rejects the plan, Esc goes back")
    edit = Writing("editor", lambda text: _edited_plan(question, text), before=question.plan, file=FILE)
    choices = (
        *accepted,
        Choice("Change the plan first", "e", writes=edit, brief="Change it"),
        Choice("No", "n", PlanDecision("reject")),
        Choice("No, and say what to do instead", "d", writes=note, brief="No, because"),
    )
    return QuestionSpec(headline_of(question), Subject("markdown", question.plan), choices)


def _rejection(words: str) -> PlanDecision:
    return PlanDecision("reject", note=sanitised(words.strip()))


def _edited_plan(question: PlanSubmitted, text: str) -> PlanDecision | None:
    return PlanDecision("edit", plan=text) if text.strip() and text != question.plan else None


def headline_of(question: PlanSubmitted) -> Line:
    """The headline."""
    changed: Line = (("  as you changed it", "warn"),) if question.is_edited else ()
    return (("? ", "warn"), (HEADLINE, "strong"), *changed)


def plan_in(blocks: Sequence[Block]) -> Call | None:
    """The newest submitted plan, or None."""
    calls = (block for block in reversed(blocks) if isinstance(block, Call) and block.name == PLAN)
    return next((call for call in calls if call.status != "failed" and text_of(call)), None)


def plan_panel(call: Call) -> Panel:
    """The plan, to read."""
    plan = sanitised(text_of(call)).expandtabs(4).strip("\n")
    head: Line = (("Plan  ", "strong"), (outcome_of(call, ""), "dim"))
    lines: tuple[Line, ...] = tuple(((line, "text"),) for line in plan.split("\n"))
    return Panel("plan", (head,), (), "Up, Down   Esc closes", plain_head=plan, about=lines, search="", reads=True)


def text_of(call: Call) -> str:
    """The text of a submitted plan; empty if there is none."""
    plan = call.arguments.get("plan")
    return plan if isinstance(plan, str) else ""
