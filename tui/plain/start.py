"""Starts the terminal in lines, on whatever kind of terminal there is."""

import sys
from collections.abc import Mapping

from tui.plain.app import PlainFront
from tui.plain.capability import is_unable
from tui.plain.reader import PromptReader
from tui.plain.unattended import Unattended
from tui.prompt.history import History
from tui.terminal.signals import ended_by_signals


async def run_plain(
    front: PlainFront, history: History, environment: Mapping[str, str], *, is_there: bool = True
) -> tuple[str | None, int]:
    """Runs a session in lines until the user leaves or the terminal is gone; with nobody there, until all is answered.
    Its id, if anything was said in it, and the exit code."""
    if not is_there:
        return await front.run(Unattended(front.finished)), int(front.has_failed)
    with ended_by_signals(front.leave) as ending:
        left = await front.run(_reader(front, history, environment))
    return left, ending.code


def _reader(front: PlainFront, history: History, environment: Mapping[str, str]) -> PromptReader:
    if is_unable(environment):
        from tui.plain.dumb_terminal import CookedReader  # noqa: PLC0415  # deferred: one of the two is needed

        return CookedReader(sys.stdin.fileno(), sys.stdout.fileno(), front.interrupt)
    from tui.plain.completion import PlainOffering  # noqa: PLC0415  # deferred: as above
    from tui.plain.line_editor import EditedReader  # noqa: PLC0415  # deferred: one of the two is needed

    return EditedReader(history.entries()[::-1], PlainOffering(lambda: front.controller.session), front.interrupt)
