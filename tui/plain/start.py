"""Starts line mode on any kind of terminal."""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic

from ebbtide.tui import plain
from ebbtide.tui.plain.app import LineModeApp
from ebbtide.tui.plain.capability import is_dumb_terminal
from ebbtide.tui.plain.reader import PROMPT, KeyCallbacks, PromptReader
from ebbtide.tui.prompt.history import History
from ebbtide.tui.prompt.key_arrivals import KeyArrival
from ebbtide.tui.terminal.signals import shut_down_on_signals


async def run_line_mode(
    app: LineModeApp, history: History, environment: Mapping[str, str], *, is_interactive: bool = True
) -> tuple[str | None, int]:
    """Run a session in line mode. Returns its id, if it has messages, and the exit code. The session ends when the user
    exits or the terminal closes. If there is no user, it ends when all input has been answered."""
    if not is_interactive:
        return await app.run(NonInteractiveReader(app.wait_for_piped_input)), int(app.has_failed)
    with shut_down_on_signals(app.exit) as shutdown:
        session_id = await app.run(_create_reader(app, history, environment))
    return session_id, shutdown.exit_code


def _create_reader(app: LineModeApp, history: History, environment: Mapping[str, str]) -> PromptReader:
    keys = KeyCallbacks(app.interrupt, app.handle_ctrl_d, history.add)
    if is_dumb_terminal(environment):
        return plain.dumb_terminal.DumbTerminalReader(sys.stdin.fileno(), sys.stdout.fileno(), keys)
    return plain.line_editor.LineEditorReader(
        history.entries()[::-1], plain.line_editor.SessionLineCompleter(lambda: app.controller.session), keys
    )


class NonInteractiveReader:
    """Prints to stdout and never reads anything."""

    def __init__(self, wait_until_done: Callable[[], Awaitable[None]]) -> None:
        """`wait_until_done` returns once all input has been answered."""
        self._wait_until_done = wait_until_done
        self._arrival = KeyArrival(monotonic())

    async def read(self) -> str:
        await self._wait_until_done()
        raise EOFError

    @property
    def arrival(self) -> KeyArrival:
        return self._arrival

    def print_lines(self, lines: Sequence[str]) -> None:
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()

    async def wait_until_printed(self) -> None:
        """Do nothing: lines are printed immediately."""

    def set_prompt(self, prompt: str) -> None:
        """Do nothing: there is no user to ask."""

    def prefill(self, text: str, prompt: str = PROMPT) -> bool:
        return False

    async def run_with_terminal(self, work: Callable[[], str]) -> str:
        return ""

    @property
    def has_line_editing(self) -> bool:
        return False

    @property
    def draft(self) -> str:
        return ""

    def close(self) -> None:
        """Do nothing: reading ends on its own."""
