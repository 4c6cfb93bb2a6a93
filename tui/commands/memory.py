"""Commands for instructions and notes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ebbtide.agent.config.settings import Settings
from ebbtide.agent.errors import AgentError, UsageError
from ebbtide.agent.events.session import Remembered
from ebbtide.agent.input.instruction_files import find_instruction_files
from ebbtide.agent.input.instruction_updates import instruction_notes
from ebbtide.agent.input.memory import (
    Memory,
    MemoryFile,
    announce_memory,
    append_memory,
    delete_memory,
    list_memories,
    list_memory_files,
    undo_append,
)
from ebbtide.agent.session import Session
from ebbtide.tools.files.bounded import read_prefix
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.text.numbers import format_size
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.blocks import Notice
from ebbtide.tui.view.panel import ActionOutcome, Panel, PanelAction, PanelRow, ShowMessage, heading_row


async def save_note(controller: SessionController, text: str, path: Path) -> None:
    """Append a note to the instruction file `path` and tell the model. Errors are shown."""
    try:
        saved_note = append_memory(text, path)
    except AgentError as error:
        return controller.show_failure(error)
    await controller.run_with_activity(
        "remembering", lambda session: session.change_conversation(announce_memory, saved_note.entry, saved_note.path)
    )
    return controller.show_event(saved_note)


async def announce_removal(controller: SessionController, text: str, path: str) -> None:
    """Tell the model that a note was removed. `path`: the file that contained it."""
    await controller.run_with_activity(
        "forgetting", lambda session: session.change_conversation(announce_memory, text, path, is_removed=True)
    )


async def undo_last_note(controller: SessionController) -> bool:
    """If the last block of the conversation reports a saved note, remove the note from its file or show why this is
    impossible. Returns whether there was such a note."""
    match controller.view.blocks[-1:]:
        case (Notice(saved_note=Remembered() as saved_note),):
            try:
                undo_append(saved_note)
            except AgentError as error:
                controller.show_notice(str(error))
                return True
            await announce_removal(controller, saved_note.entry, saved_note.path)
            controller.show_notice(f"removed from `{saved_note.path}`")
            return True
        case _:
            return False


def build_note_target_panel(files: Sequence[MemoryFile]) -> Panel:
    return Panel(
        "remember",
        ((("Save this note in", "strong"),),),
        tuple(
            PanelRow(
                str(file.path),
                ((f"  {file.label}", "text"), (f"  {sanitise_line(str(file.path))}", "dim")),
            )
            for file in files
        ),
        "Up, Down   Enter select   Esc cancel",
        empty_message="no place to save it",
        max_list_lines=16,
    )


FILE_VALUE_PREFIX = "file:"
"""Prefix of row values for instruction files. The other values are indexes of notes."""


def build_memory_panel(
    files: Sequence[tuple[Path, int]],
    notes: Sequence[Memory],
    root: Path,
    forget: Callable[[PanelRow, str], Awaitable[ActionOutcome]],
) -> Panel:
    """Build the panel of instruction files and notes. `files`: instruction files with their sizes in bytes. `forget`
    removes the note in a row."""
    file_rows = [_file_row(path, byte_count, root) for path, byte_count in files]
    note_rows = [_note_row(index, note) for index, note in enumerate(notes)]
    groups = (("Instructions", file_rows), ("Notes", note_rows))
    return Panel(
        "memory",
        ((("Memory", "strong"), ("  # TEXT saves a note, /init proposes instructions", "dim")),),
        tuple(row for title, rows in groups if rows for row in (heading_row(title), *rows)),
        "Up, Down   Enter open in your editor   x forget   Esc close",
        empty_message="No notes and no instructions yet.",
        actions=(
            PanelAction(("enter",), "open"),
            PanelAction(("x",), "forget", forget, is_available=lambda row: not row.value.startswith(FILE_VALUE_PREFIX)),
        ),
        search_placeholder="",
        max_list_lines=20,
    )


def _file_row(path: Path, byte_count: int, root: Path) -> PanelRow:
    name = sanitise_line(str(path.relative_to(root) if path.is_relative_to(root) else path))
    return PanelRow(f"{FILE_VALUE_PREFIX}{path}", ((f"  {name}", "text"), (f"  {format_size(byte_count)}", "dim")))


def _note_row(index: int, note: Memory) -> PanelRow:
    first_line, *more_lines = note.text.strip().split("\n")
    text = sanitise_line(f"{first_line} …" if more_lines else first_line)
    details: tuple[Line, ...] = (
        ((sanitise_line(str(note.path)), "dim"),),
        *(((sanitise_line(line), "text"),) for line in note.text.split("\n")),
    )
    return PanelRow(
        str(index),
        ((f"  {text}", "text"), (f"  {sanitise_line(note.label)}", "dim")),
        details=details,
    )


async def remember(context: CommandContext, text: str) -> None:
    if not text or context.settings is None:
        return context.controller.show_notice("type a note after `#`, such as `# tests run with tox`")
    files_by_path = {str(file.path): file for file in list_memory_files(context.settings.config)}
    choice = await context.show(build_note_target_panel(tuple(files_by_path.values())))
    if choice is not None:
        return await save_note(context.controller, text, files_by_path[choice.value].path)
    return context.set_prompt_text(f"# {text}")


async def show_memory(context: CommandContext, _: str) -> None:
    """List instruction files and notes. The user can open them in the editor and remove notes."""
    settings, session = context.settings, context.controller.session
    if settings is None or session is None:
        return context.controller.show_notice("No session yet. This lists the instructions and notes of a session.")
    files, notes = await asyncio.to_thread(_files_and_notes, settings, session)

    async def remove_note(row: PanelRow, _: str) -> ActionOutcome:
        note = notes[int(row.value)]
        await asyncio.to_thread(delete_memory, note)
        await announce_removal(context.controller, note.text, str(note.path))
        return replace(await reload_panel(), message=ShowMessage("note removed"))

    async def reload_panel() -> Panel:
        nonlocal files, notes
        files, notes = await asyncio.to_thread(_files_and_notes, settings, session)
        return build_memory_panel(files, notes, session.working_folder, remove_note)

    choice = await context.show(build_memory_panel(files, notes, session.working_folder, remove_note))
    if choice is not None:
        path = (
            Path(choice.value.removeprefix(FILE_VALUE_PREFIX))
            if choice.value.startswith(FILE_VALUE_PREFIX)
            else notes[int(choice.value)].path
        )
        try:
            message = await edit_file(path, partial(context.edit_text, name=path.name))
        except AgentError as error:
            message = str(error)
        context.controller.show_notice(message)
    return None


def _files_and_notes(settings: Settings, session: Session) -> tuple[tuple[tuple[Path, int], ...], tuple[Memory, ...]]:
    """Get the notes, and the instruction files with their sizes. Files read later in the session are included."""
    config = settings.config
    initial_files = find_instruction_files(
        session.working_folder, config.project_folder, config.folders.config, config.folders.home
    )
    paths = dict.fromkeys((*initial_files, *(Path(note.name) for note in instruction_notes(session.history))))
    return tuple((path, path.stat().st_size) for path in paths if path.is_file()), list_memories(config)


_MAX_FILE_BYTES = 4_000_000
"""Maximum size, in bytes, of a file to edit."""


async def edit_file(path: Path, run_editor: Callable[[str], Awaitable[str]]) -> str:
    """Let the user edit a file. Returns a sentence about the outcome. `run_editor` opens text in the editor and returns
    the edited text. Nothing is saved if another program changes the file in the meantime. Raises `UsageError`."""
    try:
        previous_content = _read_limited(path)
        text = previous_content.decode("utf-8", "surrogateescape")
        new_content = (await run_editor(text)).encode("utf-8", "surrogateescape")
        if new_content == previous_content:
            return f"`{path}` is unchanged"
        _write_in_place(path, previous_content, new_content)
    except OSError as error:
        raise UsageError(f"`{path}` cannot be edited: {error.strerror or error}") from error
    return f"`{path}` was changed; the model is informed with your next message"


def _write_in_place(path: Path, previous_content: bytes, new_content: bytes) -> None:
    """Replace a file's content in place, to preserve hard links and symbolic links. Raises `UsageError` if it no longer
    has the previous content."""
    with open(path, "r+b") as file:
        if file.read(_MAX_FILE_BYTES + 1) != previous_content:
            raise UsageError(f"`{path}` was changed by another program meanwhile, so nothing was saved")
        file.seek(0)
        file.write(new_content)
        file.truncate(len(new_content))


def _read_limited(path: Path) -> bytes:
    content = read_prefix(path, _MAX_FILE_BYTES + 1)
    if len(content) > _MAX_FILE_BYTES:
        raise UsageError(f"`{path}` is too large to edit here")
    return content
