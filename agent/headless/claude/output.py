"""The output format `claude-stream-json`: Claude Code's messages, one per line."""

import time
from typing import TextIO

from ebbtide.agent.events.session import TurnStarted
from ebbtide.agent.headless.claude.messages import ClaudeMessages
from ebbtide.agent.headless.json_line import print_json
from ebbtide.agent.headless.progress import Progress
from ebbtide.agent.headless.result import RunOutcome
from ebbtide.agent.headless.stream_events import OutputEvent


class ClaudeOutput:
    """Prints messages as events happen, and a result at the end of each turn."""

    def __init__(self, out: TextIO, progress: Progress | None = None, *, tells_parts: bool = False) -> None:
        """See `ClaudeMessages`."""
        self._out = out
        self._progress = progress
        self._messages = ClaudeMessages(time.monotonic, tells_parts=tells_parts)
        self._is_told = False
        """Whether the result of the latest turn was printed."""

    def show(self, event: OutputEvent) -> None:
        if isinstance(event, TurnStarted):
            self._is_told = False
        for message in self._messages.take(event):
            print_json(self._out, message)
        if self._progress is not None:
            self._progress.show(event)

    def end_turn(self, outcome: RunOutcome) -> None:
        for message in self._messages.end_turn(outcome):
            print_json(self._out, message)
        self._is_told = True

    def end(self, outcome: RunOutcome) -> None:
        """Print a result even if no turn could begin."""
        if not self._is_told:
            self.end_turn(outcome)
