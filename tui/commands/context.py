"""Commands for the context: show, compact and undo; find text and bring it back; browse stored content."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import time

from ebbtide.agent.archive.listing import ArchiveItem
from ebbtide.agent.control_calls import last_todos
from ebbtide.agent.errors import AgentError
from ebbtide.agent.view.provenance import Occurrence, Occurrences, OccurrenceStatus
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.session.compaction import begin_compaction
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.session.view_edits import preview_undo, run_undo
from ebbtide.tui.text.cells import fit_width
from ebbtide.tui.text.numbers import format_age, format_size, format_tokens
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, TextStyle, parse_inline_code
from ebbtide.tui.view.call_titles import call_title
from ebbtide.tui.view.compaction_preview import undo_lines
from ebbtide.tui.view.panel import (
    ActionOutcome,
    ContentSource,
    CopyText,
    PagedText,
    Panel,
    PanelAction,
    PanelRow,
    RowChosen,
    ShowMessage,
)
from ebbtide.tui.view.plan import build_plan_panel, last_plan
from ebbtide.tui.view.todos import build_todos_panel, todos_from_blocks

OCCURRENCE_KEY_HINTS = "Enter put into context  o show all  PgUp, PgDn scroll  Esc close"
VISIBLE_OCCURRENCE_KEY_HINTS = "o show all  PgUp, PgDn scroll  Esc close"

STATUS_LABELS: dict[OccurrenceStatus, str] = {
    "visible": "visible",
    "masked": "one line",
    "stored": "preview",
    "summarised": "summarised",
    "dropped": "dropped",
}


def occurrence_count_text(text: str, count: int) -> str:
    return sanitise_line(f"`{text}` found in {pluralize(count, 'place')}")


def newest_first(occurrences: Sequence[Occurrence]) -> tuple[Occurrence, ...]:
    return tuple(reversed(occurrences))


def build_occurrences_panel(source: ContentSource, text: str, trace: Occurrences) -> Panel:
    """Build a panel of all occurrences of the text. Each shows what happened to it and can be brought back into
    context."""
    occurrences = newest_first(trace.occurrences)
    ref_width = max((len(occurrence.ref) for occurrence in occurrences), default=0)
    visible_refs = {occurrence.ref for occurrence in occurrences if occurrence.fate == "visible"}

    async def choose_or_warn(row: PanelRow, _: str) -> ActionOutcome:
        if row.value not in visible_refs:
            return RowChosen(row.value)
        return ShowMessage(f"`{row.value}` is already in context", "warn")

    async def show_all(row: PanelRow, _: str) -> ActionOutcome:
        return "toggle details"

    return Panel(
        "why",
        (
            (("Why  ", "strong"), *parse_inline_code(occurrence_count_text(text, len(occurrences)), "dim")),
            *(((sanitise_line(problem), "warn"),) for problem in trace.unsearched_notes),
        ),
        tuple(
            PanelRow(
                occurrence.ref,
                partial(occurrence_line, occurrence, ref_width=ref_width),
                details=(
                    ((sanitise_line(status_text(occurrence)), "text" if occurrence.fate == "visible" else "accent"),),
                ),
                content=PagedText(source, occurrence.ref, text),
            )
            for occurrence in occurrences
        ),
        lambda row: VISIBLE_OCCURRENCE_KEY_HINTS if row.value in visible_refs else OCCURRENCE_KEY_HINTS,
        actions=(PanelAction(("enter", "b"), "bring", choose_or_warn), PanelAction(("o",), run=show_all)),
        search_placeholder="",
        initial_value=next((occurrence.ref for occurrence in occurrences if occurrence.ref not in visible_refs), ""),
        page_keys_scroll_details=True,
    )


def occurrence_line(occurrence: Occurrence, width: int, ref_width: int) -> Line:
    """Format an occurrence as one line of `width` cells: its reference, what happened to it, and its content."""
    style: TextStyle = "dim" if occurrence.fate == "visible" else "warn"
    ref, status_column = f"{occurrence.ref:<{ref_width}}  ", f"{STATUS_LABELS[occurrence.fate]:<10}  "
    content_width = max(8, width - len(ref) - len(status_column))
    content = sanitise_line(occurrence.source)
    return ((ref, "accent"), (status_column, style), (fit_width(content, content_width), "text"))


def status_text(occurrence: Occurrence) -> str:
    """Say what happened to this occurrence of the text."""
    match occurrence.fate:
        case "visible":
            return "visible to the model"
        case "masked":
            return "one line: the full output is stored"
        case "stored":
            return "preview: only parts of it are visible"
        case "summarised":
            return f"summarised by {occurrence.summary_ref}"
        case "dropped":
            return (
                f"removed from context: {occurrence.summary_ref} has key facts only"
                if occurrence.summary_ref
                else "removed from context"
            )


ARCHIVE_KEY_HINTS = "Enter insert  Ctrl-Y copy  PgUp, PgDn scroll  Tab to list  Esc close"
ARCHIVE_LIST_KEY_HINTS = "Enter insert  y copy  PgUp, PgDn scroll  type to filter  Esc close"
STATE_LABELS = {"masked": "one line"}
"""Clearer names for some states."""
STATE_STYLES: dict[str, TextStyle] = {"one line": "accent", "summarised": "accent", "removed": "warn"}
"""Text styles by state."""


@dataclass(frozen=True, slots=True)
class ArchiveRow:
    """A row of the archive browser."""

    ref: str
    title: str
    line_count_text: str
    size_text: str
    age_text: str
    state: str
    recall_text: str = ""
    """How often and when the item was recalled; empty if never."""


def archive_rows(items: Sequence[ArchiveItem], now: float) -> tuple[ArchiveRow, ...]:
    """Build the rows of the archive browser. `now` is in Unix seconds."""
    return tuple(_archive_row(item, now) for item in items)


def _archive_row(item: ArchiveItem, now: float) -> ArchiveRow:
    if item.call is not None:
        title = call_title(item.call.name, item.call.arguments)
    else:
        title = sanitise_line(f"{item.role}: {item.preview}")
    return ArchiveRow(
        item.ref,
        title,
        f"{format_tokens(item.line_count)} {'line' if item.line_count == 1 else 'lines'}",
        format_size(item.size),
        format_age(now - item.created_at).removesuffix(" ago"),
        STATE_LABELS.get(item.state, item.state),
        _recall_text(item, now),
    )


def _recall_text(item: ArchiveItem, now: float) -> str:
    if not item.access_count or item.accessed_at is None:
        return ""
    return f"recalled {item.access_count}×, {format_age(now - item.accessed_at)}"


def build_archive_panel(source: ContentSource, rows: Sequence[ArchiveRow]) -> Panel:
    """Build a panel of stored items, which can be read or inserted into the prompt."""
    ref_width = max((len(row.ref) for row in rows), default=0)

    async def copy(row: PanelRow, _: str) -> CopyText:
        return CopyText(row.value)

    return Panel(
        "archive",
        ((("Archive", "strong"),),),
        tuple(
            PanelRow(
                row.ref,
                partial(archive_line, row, ref_width=ref_width),
                search_text=f"{row.ref} {row.title} {row.state}",
                content=PagedText(source, row.ref),
            )
            for row in rows
        ),
        ARCHIVE_KEY_HINTS,
        ARCHIVE_LIST_KEY_HINTS,
        empty_message="nothing stored yet",
        no_match_message="no match",
        actions=(PanelAction(("enter",), "insert"), PanelAction(("y", "ctrl+y"), run=copy)),
        row_noun="stored",
        page_keys_scroll_details=True,
        previews_before_action=True,
    )


def archive_line(row: ArchiveRow, width: int, ref_width: int) -> Line:
    """Format a row as a line of `width` cells. The title gets whatever width remains."""
    ref_column = f"{row.ref:<{ref_width}}  "
    recalled = f"  {row.recall_text}" if row.recall_text else ""
    right_columns = f"{recalled}  {row.line_count_text:>11} {row.size_text:>8}  {row.age_text:>6}  "
    title_width = max(8, width - len(ref_column) - len(right_columns) - len("summarised"))
    return (
        (ref_column, "accent"),
        (fit_width(row.title, title_width), "text"),
        (right_columns, "dim"),
        (f"{row.state:<10}", STATE_STYLES.get(row.state, "dim")),
    )


async def compact(context: CommandContext, focus: str) -> None:
    compaction = await begin_compaction(context.controller, focus)
    if compaction is not None:
        await context.compact(compaction)
        compaction.report_unused_cost()


async def undo_rewrite(context: CommandContext) -> None:
    """Undo the last context change, once the user has confirmed its cost."""
    controller = context.controller
    if controller.session is None:
        return
    try:
        preview = await preview_undo(controller)
        if await context.confirm("Undo the last context change?", undo_lines(preview), "undo it"):
            with controller.busy_with("undoing"):
                await run_undo(controller)
    except AgentError as error:
        controller.show_notice(str(error))


async def show_context(context: CommandContext, action_text: str) -> None:
    """Show the context, or run the action in `action_text`."""
    if not action_text.strip():
        return await context.show_context()
    if action_text.strip() == "undo":
        return await undo_rewrite(context)
    try:
        await context.edit_context(action_text)
    except AgentError as error:
        context.controller.show_notice(str(error))
    return None


async def show_occurrences(context: CommandContext, text: str) -> None:
    occurrences = await find_text(context.controller, text)
    if occurrences.occurrences and context.controller.session is not None:
        choice = await context.show(
            build_occurrences_panel(context.controller.session.archive_listing, text, occurrences)
        )
        if choice is not None:
            await put_back(context.controller, choice.value)


async def find_text(controller: SessionController, text: str) -> Occurrences:
    """Find where text is now, in the context or elsewhere in the session. If the model has never seen it, say so."""
    if not text:
        controller.show_notice("type some text after `/why`, such as `/why parse_date`")
        return Occurrences()
    trace = await controller.run_with_activity("searching", lambda session: session.trace_text(text))
    if trace is not None and not trace.occurrences:
        controller.show_notice(not_found_message(text, trace.unsearched_notes))
    return trace or Occurrences()


def not_found_message(text: str, notes: Sequence[str]) -> str:
    """Build the message for text that the model has never seen."""
    return "\n".join(map(sanitise_line, (f"the model has never seen `{text}` in this session", *notes)))


async def bring_back(context: CommandContext, ref: str) -> None:
    await put_back(context.controller, ref)


async def put_back(controller: SessionController, ref: str) -> None:
    """Put the content of a reference back into context, at the end of the conversation."""
    if not ref:
        controller.show_notice("type a reference after `/bring`, such as `r12`; `/why` lists them")
        return
    event = await controller.run_with_activity("adding to context", lambda session: session.bring_back(ref))
    if event is not None:
        controller.show_event(event)


async def show_archive(context: CommandContext, _: str) -> None:
    session = context.controller.session
    if session is not None:
        listing = session.archive_listing
        choice = await context.show(
            build_archive_panel(listing, archive_rows(await listing.items(session.history), time()))
        )
        if choice is not None:
            context.insert_in_prompt(f"{choice.value} ")


async def show_todos(context: CommandContext, _: str) -> None:
    session = context.controller.session
    items = todos_from_blocks(context.controller.view.blocks)
    if items is None and session is not None:
        items = last_todos(session.history.messages)
    if items:
        await context.show(build_todos_panel(items))
    else:
        context.controller.show_notice("No to-do list yet. The model writes one for tasks with several steps.")


async def show_plan(context: CommandContext, _: str) -> None:
    plan = last_plan(context.controller.view.blocks)
    if plan is not None:
        await context.show(build_plan_panel(plan))
    else:
        context.controller.show_notice("No plan yet. `/mode plan` makes the model plan first.")
