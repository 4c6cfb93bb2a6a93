"""The command that writes the conversation into a file for people to read."""

import asyncio
import os
from pathlib import Path

from agent.archive.markdown import markdown_of, write_markdown
from tools.outputs.extent import counted
from tui.actions.command_context import CommandContext
from tui.actions.sessions import was_said
from tui.text.numbers import dollars
from tui.text.sanitise import visible_line


def _path(root: Path, file: str) -> Path:
    return root / Path(file).expanduser()


async def export(context: CommandContext, file: str) -> None:
    """Into the working folder unless the file's name says otherwise; an existing one stays."""
    session = context.controller.session
    if session is None or not was_said(context):
        return context.controller.notice("there is nothing to write down: nothing was said yet")
    path = await asyncio.to_thread(_path, session.root, file or f"ebb-session-{session.id}.md")
    log = await context.controller.sessions.log(session.id)
    environment = context.settings.environment if context.settings is not None else os.environ
    about = (f"session {session.id}", f"model {session.model}", f"cost {dollars(session.cost)}")

    def write() -> None:
        write_markdown(path, markdown_of(session.title, about, log.messages, environment))

    await asyncio.to_thread(write)  # of a long session that takes a while
    told = f"{counted(len(log.messages), 'message')} are in {visible_line(str(path))}; keys and passwords are taken out"
    context.controller.notice("; ".join(filter(None, (told, log.told))))
    return None
