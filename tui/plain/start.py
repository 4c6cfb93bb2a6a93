"""Starts the terminal in lines, on whatever kind of terminal there is."""

import asyncio
import signal
import sys
from collections.abc import Mapping

from tui.history import History
from tui.plain.ability import is_unable
from tui.plain.front import PlainFront
from tui.plain.reading import Offered, Reader


async def run_plain(front: PlainFront, history: History, environment: Mapping[str, str]) -> tuple[str | None, int]:
    """Runs a session in lines until the user leaves or the terminal is gone. Its id, if anything was said in it, and
    the exit code."""
    loop, ended_by = asyncio.get_running_loop(), list[int]()

    def end(number: int) -> None:
        ended_by.append(number)
        front.leave()

    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, end, number)
    reader = _reader(front, history, environment)
    try:
        left = await front.run(reader)
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)
    return left, 128 + ended_by[0] if ended_by else 0


def _reader(front: PlainFront, history: History, environment: Mapping[str, str]) -> Reader:
    if is_unable(environment):
        from tui.plain.cooked import CookedReader  # noqa: PLC0415  # deferred: one of the two is needed

        return CookedReader(sys.stdin.fileno(), sys.stdout.fileno(), front.interrupt)
    from tui.plain.edited import EditedReader  # noqa: PLC0415  # deferred: one of the two is needed

    return EditedReader(history.entries()[::-1], _offered, front.interrupt)


def _offered(text: str) -> tuple[Offered, ...]:
    from tui.commands import completions  # noqa: PLC0415  # deferred: loaded with the first Tab

    return tuple(
        (f"/{command.name} " if command.hint else f"/{command.name}", command.usage) for command in completions(text)
    )
