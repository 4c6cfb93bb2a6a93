"""The command that exports the conversation to a file."""

import asyncio
import os
from pathlib import Path

from ebbtide.agent.archive.export_file import written_file
from ebbtide.agent.archive.readable_export import READABLE_FORMS, ReadableForm, of_messages, readable_pieces
from ebbtide.agent.archive.transcript_entries import SessionAbout
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.actions.command_context import CommandContext
from ebbtide.tui.actions.sessions import has_messages
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.view.timeline import rewrites_in


def _path(root: Path, file: str) -> Path:
    return root / Path(file).expanduser()


async def export(context: CommandContext, file: str) -> None:
    """Export to the working folder unless the name contains a folder, as Markdown unless it ends in `.html` or
    `.json`. Existing files are not overwritten."""
    session = context.controller.session
    if session is None or not has_messages(context):
        return context.controller.notice("there is nothing to write down: nothing was said yet")
    path = await asyncio.to_thread(_path, session.root, file or f"ebb-session-{session.id}.md")
    log = await context.controller.sessions.log(session.id)
    environment = context.settings.environment if context.settings is not None else os.environ
    form: ReadableForm = next((form for form in READABLE_FORMS if path.suffix.lower() == f".{form}"), "md")
    overview = await context.controller.sessions.overview(session.id) if form != "md" else None
    about = SessionAbout(session.id, session.title, session.model, str(session.root), len(log.messages), session.cost)
    requests, rewrites = (overview.requests, rewrites_in(overview)) if overview is not None else ((), ())
    readable = of_messages(about, log.messages, requests, rewrites)

    def write() -> None:
        with written_file(path, force=False) as file:
            for piece in readable_pieces(form, readable, environment):
                file.write(piece.encode("utf-8", "replace"))

    await asyncio.to_thread(write)  # of a long session that takes a while
    count = pluralize(len(log.messages), "message")
    told = f"{count} are in {sanitised_line(str(path))}; keys and passwords are taken out"
    context.controller.notice("; ".join(filter(None, (told, log.problem))))
    return None
