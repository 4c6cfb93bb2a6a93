"""The final turn of a session whose window is full: the model hands in its report instead of going on. Pure."""

from agent.context.meanwhile import joins_turn
from agent.messages import Assistant, Conversation, Note, ToolOutput, User

REPORT = "final_report"
FINAL = (
    "The context window is full, so this is the final turn. No other tool runs any more: call `final_report` with your "
    "whole answer, what is done and what is left open, or write it as plain text."
)
FULL = "not run: the context window is full. Call `final_report` now, or answer in plain text"
LAST = "not run: the turn had reached its limit of steps"


def was_told_to_report(conversation: Conversation) -> bool:
    """Whether the model has been told since the turn began that this is the final one."""
    for message in reversed(conversation.messages):
        if isinstance(message, User) and Note(FINAL) in message.parts:
            return True
        if isinstance(message, User) and message.text and not joins_turn(message):
            return False
    return False


def report_in(reply: Assistant) -> str | None:
    """The report that the model hands in, or None when it does not."""
    reports = [call.arguments.get("report") for call in reply.calls if call.name == REPORT and not call.problem]
    return next((report for report in reports if isinstance(report, str)), None)


def answer_in(reply: Assistant) -> str:
    """What the reply answers: its report, or else its text."""
    return report_in(reply) or reply.text


def not_run(reply: Assistant, why: str) -> tuple[ToolOutput, ...]:
    """Outputs for calls that come too late; a report is taken all the same."""
    return tuple(
        ToolOutput(call.id, "the report is taken")
        if call.name == REPORT
        else ToolOutput(call.id, why, "failed" if why == FULL else "interrupted")
        for call in reply.calls
    )
