"""The question about a submitted plan, and its possible answers."""

from collections.abc import Mapping, Sequence

from ebbtide.agent.control_calls import PLAN_TOOL
from ebbtide.agent.events.plan import PlanDecision, PlanSubmitted
from ebbtide.tui.text.sanitise import sanitise
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.blocks import Block, Call
from ebbtide.tui.view.outcomes import call_outcome
from ebbtide.tui.view.panel import Panel, build_report_panel
from ebbtide.tui.view.question import Choice, QuestionSpec, Subject, TextEntry, build_denial_choice

PLAN_FILE = "plan.md"
"""Name of the file in which the user edits a plan."""
HEADLINE = "Carry out this plan?"
_MODE_LABELS: Mapping[str, str] = {
    "ask": "yes, ask before each change",
    "accept-edits": "yes, edit files without asking",
    "auto": "yes, do everything without asking",
}


_MODE_NUMBERS: Mapping[str, int] = {"ask": 1, "accept-edits": 2, "auto": 5}
"""As in the question about a call, 1 is yes, 2 is yes without further questions, 3 and 4 are editing and no."""
_MODE_KEYS: Mapping[str, str] = {"ask": "y", "accept-edits": "a"}


def build_plan_question(question: PlanSubmitted) -> QuestionSpec:
    """Build the question about a plan."""
    accept_choices = [
        Choice(
            _MODE_LABELS[mode].capitalize(),
            _MODE_KEYS.get(mode, ""),
            PlanDecision("accept", mode),
            is_lasting=mode == "auto",
            rule_text=f"mode {mode}",
            number=_MODE_NUMBERS[mode],
            short_label=f"Yes, {mode}",
        )
        for mode in question.modes
    ]
    edit_entry = TextEntry(
        "editor", lambda text: _build_edited_plan(question, text), initial_text=question.plan, file_suffix=PLAN_FILE
    )
    choices = (
        *(choice for choice in accept_choices if not choice.is_lasting),
        Choice("Edit the plan first", "e", text_entry=edit_entry, number=3, short_label="Edit it"),
        build_denial_choice(PlanDecision("reject"), _build_rejection),
        *(choice for choice in accept_choices if choice.is_lasting),
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
