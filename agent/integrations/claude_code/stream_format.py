"""The format `claude-stream-json` of headless runs, for both input and output."""

import time
from collections.abc import Callable
from typing import TextIO

from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.events.session import TurnStarted
from ebbtide.agent.headless.printing import print_json
from ebbtide.agent.headless.progress import Progress
from ebbtide.agent.headless.result import RunOutcome
from ebbtide.agent.headless.stream_events import OutputEvent
from ebbtide.agent.integrations.claude_code.input import ClaudeInput
from ebbtide.agent.integrations.claude_code.messages import ClaudeMessageConverter
from ebbtide.agent.session import Session


class ClaudeOutput:
    """Prints messages as events happen, and a result at the end of each turn."""

    def __init__(self, out: TextIO, progress: Progress | None = None, *, includes_partials: bool = False) -> None:
        """See `ClaudeMessageConverter`."""
        self._out = out
        self._progress = progress
        self._converter = ClaudeMessageConverter(time.monotonic, includes_partials=includes_partials)
        self._has_printed_result = False
        """Whether the result of the latest turn was printed."""

    def show(self, event: OutputEvent) -> None:
        if isinstance(event, TurnStarted):
            self._has_printed_result = False
        for message in self._converter.convert(event):
            print_json(self._out, message)
        if self._progress is not None:
            self._progress.show(event)

    def end_turn(self, outcome: RunOutcome) -> None:
        for message in self._converter.end_turn(outcome):
            print_json(self._out, message)
        self._has_printed_result = True

    def end_run(self, outcome: RunOutcome) -> None:
        """Print a result if the latest turn has none, for example because the turn could not begin."""
        if not self._has_printed_result:
            self.end_turn(outcome)


class ClaudeFormat:
    """Claude Code's messages. See `ebbtide.agent.headless.run.StreamFormat`."""

    takes_hooks = True

    def create_output(self, out: TextIO, progress: Progress | None, *, includes_partials: bool) -> ClaudeOutput:
        return ClaudeOutput(out, progress, includes_partials=includes_partials)

    def create_input(
        self, sessions: ProjectSessions, session: Session, show: Callable[[OutputEvent], None]
    ) -> ClaudeInput:
        extensions = session.extensions.usable_by_user() if session.extensions is not None else ()
        return ClaudeInput(
            str(session.working_folder),
            show,
            tuple(extension.name for extension in extensions),
            sessions.available_models(),
        )

    def exit_code(self, outcome: RunOutcome) -> int:
        """Return the exit code. Clients of this format treat any code but 0 as a crash, so denied calls do not change
        it."""
        return 0 if outcome.stop_reason == "denied" else outcome.exit_code
