"""Commands that show what was changed in files."""

import asyncio

from agent.records.file_change import Scope
from tui.actions.desk import CommandContext
from tui.view.panel import Panel


async def show_turn(desk: CommandContext, argument: str) -> None:
    """What the last turn changed; with `session` behind the command, what the whole session did."""
    await _show(desk, "session" if argument.strip().lower() == "session" else "turn")


async def show_session(desk: CommandContext, _: str) -> None:
    await _show(desk, "session")


async def _show(desk: CommandContext, scope: Scope) -> None:
    from tui.view.file_changes import changes_panel  # noqa: PLC0415  # deferred: loaded when it is first shown

    if desk.talk.session is None:
        return
    files = desk.talk.session.files

    async def panel(scope: Scope) -> Panel:
        return await asyncio.to_thread(changes_panel, await files.changes(scope), panel)

    await desk.show(await panel(scope))
