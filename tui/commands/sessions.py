"""Commands that switch the session or model, or end the session."""

from collections.abc import Iterator, Sequence
from functools import partial
from time import time
from typing import TYPE_CHECKING

from rich.cells import cell_len

from ebbtide.agent.archive.tree import MessagePreview, SessionTree, TreeRow, files_changed_since, tree_rows
from ebbtide.agent.checkpoints.undo_points import UndoPoint, turns_since
from ebbtide.agent.config.options import PERMISSION_MODES, PermissionMode
from ebbtide.agent.errors import AgentError
from ebbtide.agent.prompt.reminder_notes import MODE_DESCRIPTIONS
from ebbtide.tools.outputs.extent import join_limited, pluralize
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.commands.undo import confirm_restore, run_restore
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.session.session_list import SessionList
from ebbtide.tui.text.cells import fit_width
from ebbtide.tui.text.numbers import format_age
from ebbtide.tui.text.sanitise import sanitise, sanitise_line
from ebbtide.tui.text.spans import Line, TextStyle
from ebbtide.tui.view.blocks import UserText
from ebbtide.tui.view.panel import Panel, PanelAction, PanelRow
from ebbtide.tui.view.sessions import deleted_message

if TYPE_CHECKING:
    from ebbtide.agent.archive.library import Library


REWIND_KEY_HINTS = "Enter go back before it  f restore files  b both  o open that branch  Esc close"
FILES_NOTE = "Files are not changed unless you press f or b."
MAX_LISTED_FILES, MAX_MESSAGE_LINES, MAX_MESSAGE_CHARS = 8, 6, 200


def build_tree_panel(tree: SessionTree, rows: Sequence[TreeRow], now: float) -> Panel:
    """Build the panel of the user's messages in a session and its forks. `now` is in Unix seconds."""
    fork_count = len(tree.branches) - 1
    counts_text = pluralize(len(rows), "message") + (f", {pluralize(fork_count, 'fork')}" if fork_count else "")
    return Panel(
        "rewind",
        ((("Rewind  ", "strong"), (counts_text, "dim")),),
        tuple(
            PanelRow(
                str(index),
                partial(tree_line, row, now=now),
                plain_tree_line(row, now),
                details=partial(message_details, tree, row),
            )
            for index, row in enumerate(rows)
        ),
        REWIND_KEY_HINTS,
        actions=(
            PanelAction(("enter",), "rewind"),
            PanelAction(("f",), "files"),
            PanelAction(("b",), "both"),
            PanelAction(("o",), "open"),
        ),
        search_placeholder="",
        initial_value=str(max((index for index, row in enumerate(rows) if row.is_on_path), default=0)),
        is_newest_last=True,
        is_guarded=True,
    )


def tree_line(row: TreeRow, width: int, now: float) -> Line:
    """Format a row of the tree as one line. `now` is in Unix seconds."""
    age_column = f"  {format_age(now - row.message.sent_at).removesuffix(' ago'):>7}"
    fork_mark = "↳ " if row.is_first else "  "
    depth = min(row.depth, max(0, width // 8))
    indent = f"{'│ ' * depth}{fork_mark}"
    text_width = max(4, width - cell_len(indent) - len(age_column) - 2)
    text = " ".join(sanitise_line(row.message.text[: 4 * width]).split())
    style: TextStyle = "text" if row.is_on_path else "dim"
    mark: tuple[str, TextStyle] = ("● ", "good") if row.is_on_path else ("○ ", "dim")
    return ((indent, "accent"), mark, (fit_width(text, text_width), style), (age_column, "dim"))


def plain_tree_line(row: TreeRow, now: float) -> str:
    """Format a row as one line for line mode."""
    text = " ".join(sanitise_line(row.message.text[:MAX_MESSAGE_CHARS]).split())
    return f"{text}, {format_age(now - row.message.sent_at)}{'' if row.is_on_path else ', in another branch'}"


def message_details(tree: SessionTree, row: TreeRow) -> tuple[Line, ...]:
    """Format the message and the files changed since then, which a rewind does not revert."""
    return tuple(_detail_lines(tree, row))


def _detail_lines(tree: SessionTree, row: TreeRow) -> Iterator[Line]:
    lines = sanitise(row.message.text).splitlines()
    for line in lines[:MAX_MESSAGE_LINES]:
        yield ((line, "text"),)
    if len(lines) > MAX_MESSAGE_LINES:
        yield ((f"… {pluralize(len(lines) - MAX_MESSAGE_LINES, 'more line')}", "dim"),)
    yield ()
    yield from changed_file_lines(files_changed_since(tree, row.message))


def changed_file_lines(files: Sequence[str]) -> Iterator[Line]:
    yield ((FILES_NOTE, "warn"),)
    if not files:
        yield (("No edits since then (changes made by commands are not tracked).", "dim"),)
        return
    yield ((f"{pluralize(len(files), 'file')} changed since then (changes made by commands are not tracked):", "dim"),)
    for path in files[:MAX_LISTED_FILES]:
        yield ((f"  {sanitise_line(path)}", "text"),)
    if len(files) > MAX_LISTED_FILES:
        yield ((f"  … {len(files) - MAX_LISTED_FILES} more", "dim"),)


def rewind_notice(files: Sequence[str]) -> str:
    """Build the message to show after rewinding."""
    message = "your message is back in the prompt, to continue from there; `/rewind` shows the other branch"
    if not files:
        return message
    return f"{message}. Files not restored: {join_limited([*map(sanitise_line, files)], MAX_LISTED_FILES)}"


async def resume(context: CommandContext, session_id: str) -> None:
    current_id = context.controller.session.id if context.controller.session is not None else ""
    session_id = session_id or await pick_session(context)
    if session_id and session_id != current_id and await context.controller.open(session_id=session_id):
        context.show_session()


async def resume_session(context: CommandContext, _: str) -> None:
    await resume(context, "")


async def pick_session(context: CommandContext) -> str:
    """Let the user choose a session. Returns its id, or an empty string if none was chosen. Sessions that the user
    marked for deletion in the list are deleted."""
    current_id = context.controller.session.id if context.controller.session is not None else ""
    library = await context.controller.sessions.open_library()
    session_list = SessionList(library, current_id, time())
    choice = await context.show(session_list.build_panel())
    for session_id in session_list.ids_to_delete:
        try:
            context.controller.show_notice(deleted_message(await library.delete(session_id)))
        except AgentError as error:
            context.controller.show_failure(error)
    return choice.value if choice is not None else ""


async def rewind(context: CommandContext, _: str) -> None:
    """Let the user choose one of their messages and go back to just before it. They can fork the conversation there
    with the message back in the prompt, restore the files as they were, or both. The original session is not
    changed."""
    library, session = await context.controller.sessions.open_library(), context.controller.session
    tree = await _load_tree(context.controller, library)
    if tree is None or session is None:
        return
    rows = tree_rows(tree, session.id)
    choice = await context.show(build_tree_panel(tree, rows, time()))
    if choice is None:
        return
    message = rows[int(choice.value)].message
    if choice.action == "open":
        if message.session != session.id and await context.controller.open(session_id=message.session):
            context.show_session()
        return
    confirmed_restore = None
    if choice.action in ("files", "both"):
        points = await _undo_points_since(context, tree, message)
        confirmed_restore = await confirm_restore(context, points, "rewind") if points else None
        if confirmed_restore is None and (points or choice.action == "files"):
            return
    if choice.action != "files":
        if not await _switch_to_fork(
            context.controller, library, tree, message, restores_files=confirmed_restore is not None
        ):
            return
        context.show_session()
        context.set_prompt_text(message.text)
    if confirmed_restore is not None:
        await run_restore(context, confirmed_restore, "rewind")


async def _load_tree(controller: "SessionController", library: "Library") -> SessionTree | None:
    """Load the user's messages in the session and its forks. If there are none, show a notice and return None."""
    tree = await library.tree(controller.session.id) if controller.session is not None else None
    if tree is None or not any(branch.own_messages for branch in tree.branches):
        controller.show_notice("nothing to go back to: no messages yet")
        return None
    return tree


async def _switch_to_fork(
    controller: "SessionController",
    library: "Library",
    tree: SessionTree,
    message: MessagePreview,
    *,
    restores_files: bool = False,
) -> bool:
    """Switch to a fork that ends before the message. Returns whether the fork could be opened. The original session is
    not changed. `restores_files`: whether the files are restored too; if so, the notice need not list them."""
    forked_session = await library.fork(message.session, message.position, is_draft=True)
    if is_open := await controller.open(session_id=forked_session.id):
        controller.show_notice(rewind_notice(() if restores_files else files_changed_since(tree, message)))
    return is_open


async def _undo_points_since(
    context: CommandContext, tree: SessionTree, message: MessagePreview
) -> tuple[UndoPoint, ...]:
    """Get the undo points of all turns since that message. If no turn changed files, show a notice."""
    session = context.controller.session
    if session is None:
        return ()
    await session.checkpoints.run(lambda project: project.finish_interrupted_turns(session.id))
    points = await session.checkpoints.run(lambda project: project.points())
    sessions = [branch.session for branch in tree.branches]
    points_since = turns_since(points, sessions, message.sent_at, message.session, message.position)
    if not points_since:
        context.controller.show_notice("no recorded file changes since then")
    return points_since


def has_messages(context: CommandContext) -> bool:
    """Whether the session has messages, and so is stored."""
    return any(isinstance(block, UserText) for block in context.controller.view.blocks)


async def rename(context: CommandContext, title: str) -> None:
    session = context.controller.session
    if session is None:
        return
    if not title or not has_messages(context):
        context.controller.show_notice(
            "type a title after `/rename`" if not title else "Send a message first: an empty session has no title."
        )
        return
    library = await context.controller.sessions.open_library()
    context.show_hint(f"session renamed to {sanitise_line((await library.rename(session.id, title)).title)}")


async def fork(context: CommandContext, _: str) -> None:
    """Switch to a copy of the session."""
    session = context.controller.session
    if session is None or not has_messages(context):
        return context.controller.show_notice("nothing to fork: no messages yet")
    copied_session = await (await context.controller.sessions.open_library()).fork(session.id)
    if await context.controller.open(session_id=copied_session.id, model=session.model):
        context.show_session()
        context.controller.show_notice(f"this is a copy; `/resume {session.id}` returns to the original")
    return None


async def change_mode(context: CommandContext, name: str) -> None:
    if description := await switch_mode(context.controller, name):
        context.show_hint(description)


async def switch_mode(controller: SessionController, name: str) -> str:
    """Switch to a permission mode or, without a name, to the next one; return its description. If the name is unknown,
    say so and return an empty string."""
    if controller.session is None:
        return ""
    mode = (
        next_mode(controller.session.mode)
        if not name
        else next((mode for mode in PERMISSION_MODES if mode == name), None)
    )
    if mode is None:
        controller.show_notice(f"unknown mode `{name}`. Modes: {', '.join(f'`{mode}`' for mode in PERMISSION_MODES)}")
        return ""
    answered_count = await controller.change_mode(mode)
    return f"{mode}{', and the open question is approved' if answered_count else ''}: {MODE_DESCRIPTIONS[mode]}"


def next_mode(mode: str) -> PermissionMode:
    """Get the next mode in the cycle. `auto` is not in the cycle; it can only be set by name."""
    cycle: tuple[PermissionMode, ...] = ("ask", "accept-edits", "plan")
    return cycle[(cycle.index(mode) + 1) % len(cycle)] if mode in cycle else "ask"


async def start_new_session(context: CommandContext, _: str) -> None:
    if await context.controller.open(
        model=context.controller.session.model if context.controller.session is not None else context.model
    ):
        context.show_session()
