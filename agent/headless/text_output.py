"""Prints the answer as text on standard output."""

import os
import shlex
from collections.abc import Callable
from typing import TextIO

from ebbtide.agent.headless.printing import escape_for_log
from ebbtide.agent.headless.progress import Progress
from ebbtide.agent.headless.result import RunOutcome
from ebbtide.agent.headless.stream_events import OutputEvent
from ebbtide.agent.view.sources import sources_text
from ebbtide.tools.outputs.plain_text import terminal_text

_MAX_SUGGESTED_RULES = 5
"""Maximum number of rules suggested for denied calls."""


class TextOutput:
    """Prints the answer at the end of the run, and reports its sources, denied calls and errors on stderr."""

    def __init__(self, out: TextIO, progress: Progress, sanitise: Callable[[str], str] = str) -> None:
        """`sanitise` makes text safe for a terminal."""
        self._out = out
        self._progress = progress
        self._sanitise = sanitise

    def show(self, event: OutputEvent) -> None:
        self._progress.show(event)

    def end_turn(self, outcome: RunOutcome) -> None:
        """Do nothing: a run with text output has one turn."""

    def end_run(self, outcome: RunOutcome) -> None:
        self._progress.close()
        if outcome.result:
            # A terminal would interpret escape sequences; a pipe only passes them on.
            answer = self._sanitise(terminal_text(outcome.result)) if self._out.isatty() else outcome.result
            self._out.write(escape_for_log(answer.rstrip("\n"), os.environ) + "\n")
            self._out.flush()
        if outcome.sources:
            self._progress.print_line(sources_text(outcome.sources))
        for call in outcome.denied:
            self._progress.print_line(f"denied {call.tool}: {call.rule}")
        rules = list(dict.fromkeys(call.allow for call in outcome.denied if call.allow))
        if rules:
            flags = " ".join(f"--allow {shlex.quote(rule)}" for rule in rules[:_MAX_SUGGESTED_RULES])
            mode_hint = "" if outcome.mode == "auto" else ", or `--permission-mode auto`"
            self._progress.print_line(f"to allow {'it' if len(rules) == 1 else 'them'}: `{flags}`{mode_hint}")
        for host, rule in outcome.refused_hosts.items():
            self._progress.print_line(f"network access to `{host}` denied: {rule}")
        if outcome.error is not None:
            self._progress.print_line(outcome.error.message)
