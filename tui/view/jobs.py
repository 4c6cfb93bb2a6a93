"""What is said of background jobs. Pure."""

from agent.events.session import JobEnded
from tools.outputs.extent import shortened
from tui.text.sanitise import visible_line

_LONGEST_COMMAND, _LAST_LINES = 120, 3
"""Characters of a command that are shown, and lines of what a job printed last."""


def ended_job(event: JobEnded) -> str:
    """How a job ended, and its last lines below that."""
    command = visible_line(shortened(event.command, _LONGEST_COMMAND))
    lines = [f"  {visible_line(line)}" for line in event.last_lines[-_LAST_LINES:]]
    return "\n".join((f"{event.job} ended, {event.how}: {command}", *lines))
