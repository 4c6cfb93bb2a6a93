"""The question about a submitted plan, and its possible answers."""

from collections.abc import Mapping, Sequence

from ebbtide.agent.control_calls import PLAN_TOOL
from ebbtide.agent.events.plan import PlanDecision, PlanSubmitted
from ebbtide.tui.text.sanitise import sanitise
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.blocks import Block, Call
from ebbtide.tui.view.outcomes import call_outcome
from ebbtide.tui.view.panel import Panel, build_report_panel
from ebbtide.tui.view.question import Choice, QuestionSpec, Subject, TextEntry

PLAN_FILE = "plan.md"
"""Name of the file in which the user edits a plan."""
HEADLINE = "Carry out this plan?"
_MODE_LABELS: Mapping[str, str] = {
    "ask": "yes, ask before each change",
    "accept-edits": "yes, edit files without asking",
    "auto": "yes, do everything without asking",
}


def build_plan_question(question: PlanSubmitted) -> QuestionSpec:
    """Build the question about a plan."""
    accept_choices = (
        Choice(
            _MODE_LABELS[mode].capitalize(),
            "y" if not index else "",
            PlanDecision("accept", mode),
            is_lasting=mode == "auto",
            rule_text=f"mode {mode}",
            short_label=f"Yes, {mode}",
        )
        for index, mode in enumerate(question.modes)
    )
    rejection_entry = TextEntry("text", _build_rejection, "what to do instead; Enter reject the plan, Esc back")
    edit_entry = TextEntry(
        "editor", lambda text: _build_edited_plan(question, text), initial_text=question.plan, file_suffix=PLAN_FILE
    )
    choices = (
        *accept_choices,
        Choice("Edit the plan first", "e", text_entry=edit_entry, short_label="Edit it"),
        Choice("No", "n", PlanDecision("reject")),
        Choice("No, tell it what to do instead", "d", text_entry=rejection_entry, short_label="No, because"),
    )
    return QuestionSpec(plan_headline(question), Subject("markdown", question.plan), choices)


def _build_rejection(text: str) -> PlanDecision:
    return PlanDecision("reject", note=sanitise(text.strip()))


def _build_edited_plan(question: PlanSubmitted, text: str) -> PlanDecision | None:
    return PlanDecision("edit", plan=text) if text.strip() and text != question.plan else None


def plan_headline(question: PlanSubmitted) -> Line:
    """Return the headline."""
    edited_note: Line = (("  edited by you", "warn"),) if question.is_edited else ()
    return (("? ", "warn"), (HEADLINE, "strong"), *edited_note)


def last_plan(blocks: Sequence[Block]) -> Call | None:
    """Find the call that submitted the newest plan; None if there is none."""
    calls = (block for block in reversed(blocks) if isinstance(block, Call) and block.name == PLAN_TOOL)
    return next((call for call in calls if call.status != "failed" and plan_text(call)), None)


def build_plan_panel(call: Call) -> Panel:
    """Build a panel for reading the plan."""
    plan = sanitise(plan_text(call)).expandtabs(4).strip("\n")
    head: Line = (("Plan  ", "strong"), (call_outcome(call, ""), "dim"))
    lines: tuple[Line, ...] = tuple(((line, "text"),) for line in plan.split("\n"))
    return build_report_panel("plan", head, lines)


def plan_text(call: Call) -> str:
    """Get the text of a submitted plan; empty if there is none."""
    plan = call.arguments.get("plan")
    return plan if isinstance(plan, str) else ""
