"""Starts line mode on any kind of terminal."""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic

from ebbtide.tui.plain.app import PlainFront
from ebbtide.tui.plain.capability import is_unable
from ebbtide.tui.plain.reader import LineKeys, PromptReader
from ebbtide.tui.prompt.history import History
from ebbtide.tui.prompt.key_arrivals import Arrival
from ebbtide.tui.terminal.signals import shut_down_on_signals


async def run_plain(
    front: PlainFront, history: History, environment: Mapping[str, str], *, is_there: bool = True
) -> tuple[str | None, int]:
    """Run a session in line mode until the user exits or the terminal is gone; without a user until all input is
    answered. Returns its id if it has messages, and the exit code."""
    if not is_there:
        return await front.run(NonInteractiveReader(front.wait_until_answered)), int(front.has_failed)
    with shut_down_on_signals(front.leave) as ending:
        left = await front.run(_reader(front, history, environment))
    return left, ending.code


def _reader(front: PlainFront, history: History, environment: Mapping[str, str]) -> PromptReader:
    keys = LineKeys(front.interrupt, front.may_end, history.add)
    if is_unable(environment):
        from ebbtide.tui.plain.dumb_terminal import CookedReader  # noqa: PLC0415  # deferred: one of the two is needed

        return CookedReader(sys.stdin.fileno(), sys.stdout.fileno(), keys)
    from ebbtide.tui.plain.line_editor import EditedReader, SessionLineCompleter  # noqa: PLC0415  # deferred: as above

    return EditedReader(history.entries()[::-1], SessionLineCompleter(lambda: front.controller.session), keys)


class NonInteractiveReader:
    """Prints to stdout and reads nothing."""

    def __init__(self, finished: Callable[[], Awaitable[None]]) -> None:
        """`finished`: waits until nothing is left to do."""
        self._finished = finished
        self._arrival = Arrival(monotonic())

    async def read(self) -> str:
        await self._finished()
        raise EOFError

    @property
    def arrival(self) -> Arrival:
        return self._arrival

    def show(self, lines: Sequence[str]) -> None:
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()

    async def wait_until_printed(self) -> None:
        """Return at once: lines are printed immediately."""

    def ask(self, prompt: str) -> None:
        """Do nothing: there is no user to read it."""

    def prefill(self, text: str) -> bool:
        return False

    def prefill_answer(self, prompt: str, text: str) -> bool:
        return False

    async def lend_terminal(self, work: Callable[[], str]) -> str:
        return ""

    @property
    def has_line_editing(self) -> bool:
        return False

    @property
    def draft(self) -> str:
        return ""

    def close(self) -> None:
        """Do nothing: it ends by itself."""
