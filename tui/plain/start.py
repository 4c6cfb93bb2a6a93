"""Starts the terminal in lines, on whatever kind of terminal there is."""

import sys
from collections.abc import Mapping

from tui.ending import ended_by_signals
from tui.history import History
from tui.plain.ability import is_unable
from tui.plain.front import PlainFront
from tui.plain.reading import Reader
from tui.plain.unattended import Unattended


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


def _reader(front: PlainFront, history: History, environment: Mapping[str, str]) -> Reader:
    if is_unable(environment):
        from tui.plain.cooked import CookedReader  # noqa: PLC0415  # deferred: one of the two is needed

        return CookedReader(sys.stdin.fileno(), sys.stdout.fileno(), front.interrupt)
    from tui.plain.edited import EditedReader  # noqa: PLC0415  # deferred: one of the two is needed
    from tui.plain.offering import PlainOffering  # noqa: PLC0415  # deferred: as above

    return EditedReader(history.entries()[::-1], PlainOffering(lambda: front.talk.session), front.interrupt)
