"""Commands that print what was changed in files."""

import asyncio

from agent.records.file_change import Scope
from tui.plain.desk import LineContext, choose


async def show_turn(desk: LineContext, argument: str) -> None:
    """What the last turn changed; with `session` behind the command, what the whole session did."""
    await _show(desk, "session" if argument.strip().lower() == "session" else "turn")


async def show_session(desk: LineContext, _: str) -> None:
    await _show(desk, "session")


async def _show(desk: LineContext, scope: Scope) -> None:
    from tui.plain.print_events import plain_lines  # noqa: PLC0415  # deferred: as above
    from tui.plain.questions import diff_words  # noqa: PLC0415  # deferred: as above
    from tui.view.file_changes import change_text, headline_of, rows_of  # noqa: PLC0415  # deferred: loaded when it is first shown

    if desk.talk.session is None:
        return
    changes = await desk.talk.session.files.changes(scope)
    rows = await asyncio.to_thread(rows_of, changes)
    first, *told = plain_lines(headline_of(scope, rows, changes.told))
    if told:
        desk.say(told)
    if not rows:
        return desk.say((first,))
    index = await choose(desk, first, [change_text(row) for row in rows])
    if index is not None:
        desk.say((change_text(rows[index]), *diff_words(rows[index].diff)))
    return None
