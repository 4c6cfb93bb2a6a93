"""Commands for additional folders and the sandbox."""

import asyncio
from dataclasses import replace
from pathlib import Path

from ebbtide.agent.errors import AgentError
from ebbtide.tui.actions.command_context import CommandContext
from ebbtide.tui.view.folders import folders_panel
from ebbtide.tui.view.panel import Outcome, PanelRow, ShowMessage
from ebbtide.tui.view.sandbox import sandbox_panel


async def add_folder(context: CommandContext, written: str) -> None:
    session = context.controller.session
    if session is None:
        return context.controller.notice("there is no session yet that a folder could be added to")
    boundary = session.boundary
    if written.strip():
        try:
            added = boundary.add(written)
            context.controller.notice(f"`{added}` belongs to the working folders now, until you leave")
        except AgentError as error:
            context.controller.notice(str(error))
        return None

    async def remove(row: PanelRow, _: str) -> Outcome:
        removed = boundary.remove(row.value)
        return replace(
            folders_panel(boundary.folders, remove),
            message=ShowMessage(f"{removed} is none of the working folders any more"),
        )

    await context.show(folders_panel(boundary.folders, remove))
    return None


async def show_sandbox(context: CommandContext, _: str) -> None:
    """Show the sandbox and its limits."""
    session = context.controller.session
    if session is None:
        return context.controller.notice("there is no session yet, and so no sandbox: say something first")
    boundary = session.boundary
    try:
        state, note, limits = await asyncio.to_thread(lambda: (boundary.state, boundary.note, boundary.limits()))
    except OSError as error:
        return context.controller.notice(f"what commands may do cannot be found out: {error}")
    await context.show(sandbox_panel(state, note, limits, str(Path.home())))
    return None
