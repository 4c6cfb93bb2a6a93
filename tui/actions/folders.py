"""The command that takes further folders in, lists them and takes them out again."""

from dataclasses import replace

from agent.errors import AgentError
from tui.actions.command_context import CommandContext
from tui.view.folders import folders_panel
from tui.view.panel import Outcome, PanelRow, Told


async def add_folder(context: CommandContext, written: str) -> None:
    session = context.controller.session
    if session is None:
        return context.controller.notice("there is no session yet to work in a further folder")
    boundary = session.boundary
    if written.strip():
        try:
            added = boundary.add(written)
            context.controller.notice(f"`{added}` is worked in as the working folder is, until you leave")
        except AgentError as error:
            context.controller.notice(str(error))
        return None

    async def remove(row: PanelRow, _: str) -> Outcome:
        removed = boundary.remove(row.value)
        return replace(folders_panel(boundary.folders, remove), told=Told(f"{removed} is worked in no longer"))

    await context.show(folders_panel(boundary.folders, remove))
    return None
