"""The command that exports the conversation to a file."""

import asyncio
import os
from pathlib import Path

from ebbtide.agent.integrations.export.atomic_file import atomic_file
from ebbtide.agent.integrations.export.readable_export import (
    READABLE_FORMATS,
    ReadableFormat,
    readable_session_from_messages,
    render_chunks,
)
from ebbtide.agent.integrations.export.transcript_entries import SessionDetails
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.commands.sessions import has_messages
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.view.timeline import list_rewrites


def _export_path(root: Path, file: str) -> Path:
    return root / Path(file).expanduser()


async def export(context: CommandContext, file: str) -> None:
    """Export the conversation to `file`, relative to the working folder. The format is Markdown unless the name ends in
    `.html` or `.json`. Existing files are not overwritten."""
    session = context.controller.session
    if session is None or not has_messages(context):
        return context.controller.show_notice("nothing to export: no messages yet")
    path = await asyncio.to_thread(_export_path, session.working_folder, file or f"ebb-session-{session.id}.md")
    log = await context.controller.sessions.all_messages(session.id)
    environment = context.settings.environment if context.settings is not None else os.environ
    export_format: ReadableFormat = next(
        (export_format for export_format in READABLE_FORMATS if path.suffix.lower() == f".{export_format}"), "md"
    )
    overview = await context.controller.sessions.overview(session.id) if export_format != "md" else None
    details = SessionDetails(
        session.id, session.title, session.model, str(session.working_folder), len(log.messages), session.cost
    )
    requests, rewrites = (overview.requests, list_rewrites(overview)) if overview is not None else ((), ())
    readable_session = readable_session_from_messages(details, log.messages, requests, rewrites)

    def write() -> None:
        with atomic_file(path, should_replace=False) as file:
            for chunk in render_chunks(export_format, readable_session, environment):
                file.write(chunk.encode("utf-8", "replace"))

    await asyncio.to_thread(write)  # slow for a long session
    count_text = pluralize(len(log.messages), "message")
    message = f"{count_text} exported to {sanitise_line(str(path))}; keys and passwords are removed"
    context.controller.show_notice("; ".join(filter(None, (message, log.problem))))
    return None
