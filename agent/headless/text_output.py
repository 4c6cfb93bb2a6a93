"""The answer as text on standard output, and what is worth knowing beside it on standard error."""

import errno
import json
import os
from collections.abc import Callable
from typing import TextIO

from agent.events.session import Event, ModelSwitched, Noticed, Resumed, RetryScheduled, ToolStarted
from agent.events.view import CompactionFailed, ContextCompacted
from agent.headless.result import RunOutcome
from agent.records.situation import news_for_user
from tools.outputs.plain_text import plain


class TextOutput:
    """Tells on standard error what happens, and prints the answer when the run is over."""

    def __init__(self, out: TextIO, err: TextIO, visible: Callable[[str], str], *, is_quiet: bool) -> None:
        """`visible`: what a terminal is given of a text, so that nothing in it steers the terminal. `is_quiet`:
        rewrites of the view are not told."""
        self.out = out
        self._err = err
        self._visible = visible
        self._is_quiet = is_quiet
        self._is_watched = err.isatty()

    def show(self, event: Event) -> None:
        match event:
            case RetryScheduled(attempt=attempt, attempts=attempts, delay=delay, reason=reason, left=left):
                of = f" of {attempts}" if attempts else ""
                end = f", given up {left:.0f} s later" if left is not None and not attempts else ""
                self._tell(f"{reason.rstrip('.')}; attempt {attempt}{of} in {delay:.1f} s{end}")
            case Noticed(text=text):
                self._tell(text)
            case ContextCompacted() if not self._is_quiet:
                from agent.context.announcement import announcement  # noqa: PLC0415  # deferred: most runs rewrite nothing

                self._tell(announcement(event))
            case CompactionFailed(model=model, reason=reason):
                self._tell(f"the summary by {model} is not used: {reason}")
            case ModelSwitched(after=after, why=why):
                self._tell(f"the model is now {after}: {why}")
            case Resumed():
                for text in news_for_user(event):
                    self._tell(text)
            case ToolStarted(name=name, arguments=arguments) if self._is_watched:
                self._tell(f"{name} {json.dumps(arguments, ensure_ascii=False)[:200]}")
            case _:
                pass

    def end(self, outcome: RunOutcome) -> None:
        if outcome.result:
            # A terminal obeys what a pipe only carries.
            answer = self._visible(plain(outcome.result)) if self.out.isatty() else outcome.result
            self.out.write(answer.rstrip("\n") + "\n")
            self.out.flush()
        for call in outcome.denied:
            self._tell(f"denied {call.tool}: {call.rule}")
        if outcome.denied:
            other = "" if outcome.mode == "auto" else "`--permission-mode auto` or "
            self._tell(f"allow it with {other}a rule such as `--allow 'bash(pytest)'`")
        for host, rule in outcome.refused_hosts.items():
            self._tell(f"`{host}` was kept from a command: {rule}")
        if outcome.error is not None:
            self._tell(outcome.error.message)

    def _tell(self, text: str) -> None:
        """Prints a line beside the answer. Where a full disk takes none, the run and its exit code stay as they are."""
        try:
            print("ebb: " + (self._visible(text) if self._is_watched else text), file=self._err)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._err.fileno())
