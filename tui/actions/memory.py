"""Commands for instructions and notes."""

import asyncio
from dataclasses import replace
from pathlib import Path

from ebbtide.agent.config.settings import Settings
from ebbtide.agent.input.instruction_files import instruction_files
from ebbtide.agent.input.instruction_updates import instruction_notes
from ebbtide.agent.input.memory import MemoryNote, forget, memory_notes
from ebbtide.agent.input.memory import memory_files as places_for
from ebbtide.agent.session import Session
from ebbtide.tui.actions.command_context import CommandContext
from ebbtide.tui.session.memory import announce_forgotten, keep_note
from ebbtide.tui.view.memory import FILE, instructions_panel, memory_panel
from ebbtide.tui.view.panel import Outcome, Panel, PanelRow, ShowMessage


async def remember(context: CommandContext, text: str) -> None:
    if not text or context.settings is None:
        return context.controller.notice("write what to remember after `#`, such as `# tests run with tox`")
    places = {str(place.path): place for place in places_for(context.settings.config)}
    taken = await context.show(memory_panel(tuple(places.values())))
    if taken is not None:
        return await keep_note(context.controller, text, places[taken.value].path)
    return context.write(f"# {text}")


async def show_memory(context: CommandContext, _: str) -> None:
    """List the instructions and notes of sessions, open them in the editor, and remove notes."""
    settings, session = context.settings, context.controller.session
    if settings is None or session is None:
        return context.controller.notice("there is no session yet: this shows what one begins with")
    files, notes = await asyncio.to_thread(_files_and_notes, settings, session)

    async def take_out(row: PanelRow, _: str) -> Outcome:
        note = notes[int(row.value)]
        await asyncio.to_thread(forget, note)
        await announce_forgotten(context.controller, note)
        return replace(await shown(), message=ShowMessage("it is forgotten, and this session was told"))

    async def shown() -> Panel:
        nonlocal files, notes
        files, notes = await asyncio.to_thread(_files_and_notes, settings, session)
        return instructions_panel(files, notes, session.root, take_out)

    taken = await context.show(instructions_panel(files, notes, session.root, take_out))
    if taken is not None:
        path = Path(taken.value.removeprefix(FILE)) if taken.value.startswith(FILE) else notes[int(taken.value)].path
        await context.edit_file(path)
    return None


def _files_and_notes(
    settings: Settings, session: Session
) -> tuple[tuple[tuple[Path, int], ...], tuple[MemoryNote, ...]]:
    """The instruction files with their size, including those read later in the session; and the notes."""
    config = settings.config
    begun = instruction_files(session.root, config.project, config.folders.config, config.folders.home)
    paths = dict.fromkeys((*begun, *(Path(note.name) for note in instruction_notes(session.history))))
    return tuple((path, path.stat().st_size) for path in paths if path.is_file()), memory_notes(config)
