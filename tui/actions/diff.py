"""Commands that show file changes."""

import asyncio

from ebbtide.agent.records.file_change import ChangeScope
from ebbtide.tui.actions.command_context import CommandContext
from ebbtide.tui.view.file_changes import changes_panel
from ebbtide.tui.view.panel import Panel


async def show_turn(context: CommandContext, argument: str) -> None:
    """Show the changes of the last turn, or with `session` those of the whole session."""
    await _show(context, "session" if argument.strip().lower() == "session" else "turn")


async def show_session(context: CommandContext, name: str) -> None:
    """Show the changes of the session, starting at the file of that name."""
    await _show(context, "session", name.strip())


async def _show(context: CommandContext, scope: ChangeScope, name: str = "") -> None:
    if context.controller.session is None:
        return
    files = context.controller.session.files

    async def panel(scope: ChangeScope) -> Panel:
        return await asyncio.to_thread(changes_panel, await files.changes(scope), panel, name)

    await context.show(await panel(scope))
