"""Messages about background jobs. Pure."""

from ebbtide.agent.events.session import JobEnded
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tui.text.sanitise import sanitised_line

_MAX_COMMAND_CHARS, _LAST_LINES = 120, 3
"""Maximum characters of a command, and number of last output lines."""


def ended_job(event: JobEnded) -> str:
    """How a job ended, with its last output lines."""
    command = sanitised_line(ellipsize(event.command, _MAX_COMMAND_CHARS))
    lines = [f"  {sanitised_line(line)}" for line in event.last_lines[-_LAST_LINES:]]
    return "\n".join((f"{event.job} ended, {event.how}: {command}", *lines))
