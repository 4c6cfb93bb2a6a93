"""Panels in line mode, operated with numbers and words instead of keys."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from ebbtide.agent.errors import AgentError
from ebbtide.tui.plain.questions import diff_in_words
from ebbtide.tui.plain.reader import PromptReader, read_hidden
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.panel import (
    NO_ROW,
    CopyText,
    DiffText,
    LoadedText,
    PagedText,
    Panel,
    PanelAction,
    PanelRow,
    RowChosen,
    ShowMessage,
    TextRequest,
    action_for_key,
    matching_rows,
    panel_headline,
    row_details,
    row_text,
)
from ebbtide.tui.view.plain_lines import plain_line, plain_lines


class PanelConsole(Protocol):
    """The console functions that a panel needs in line mode."""

    @property
    def controller(self) -> SessionController: ...
    @property
    def print_lines(self) -> Callable[[Sequence[str]], None]: ...
    @property
    def ask(self) -> Callable[[str], Awaitable[str]]:
        """Asks a question and returns the user's next line; empty to cancel."""

    @property
    def get_reader(self) -> Callable[[], PromptReader]: ...


PAGE_LINES = 40
"""Number of lines printed at once."""
MAX_PRINTED_ROWS = 20
"""Maximum number of rows printed at once."""
EMPTY_TEXT_WORD = "none"
"""What to type for empty text, because an empty line cancels."""


async def show_panel(console: PanelConsole, panel: Panel) -> RowChosen | None:
    """Show a panel and return the chosen row; None if none was chosen."""
    query = panel.search_text
    panel = await _build_search_panel(panel, query)
    headline, *details = panel_headline(panel, len(panel.rows), is_searched=False)
    if not panel.rows:
        explains_empty = panel.empty_message and not panel.empty_details
        console.print_lines(
            (*plain_lines(details), panel.empty_message)
            if explains_empty
            else (_title_text(headline), *plain_lines(panel.empty_details))
        )
        return None
    console.print_lines(plain_lines(details))
    rows = matching_rows(panel, query) or panel.rows
    if panel.is_printed_in_full:
        console.print_lines((_title_text(headline), *map(_row_text, rows)))
        return None
    row = next((row for row in rows if row.value == query and not row.is_heading), None)
    if row is None:
        row, action = await _choose_row(
            console, panel, rows[::-1] if panel.is_newest_last else rows, _title_text(headline)
        )
    else:
        action = None
    if row is None:
        return None
    if action is None:
        if panel.previews_before_action:
            await _print_row(console, row)
        action = await _action_for_row(console, panel, row)
    return await _run_action(console, panel, action, row) if action is not None else None


async def _build_search_panel(panel: Panel, query: str) -> Panel:
    """Add all search results to a panel."""
    if panel.find_rows is not None:
        async for updated_panel in panel.find_rows(query):
            panel = updated_panel
    return panel


def _title_text(line: Line) -> str:
    """Get the first line of a panel: its name and the columns after it."""
    name, *columns = re.split(r" {2,}", plain_line(line).strip())
    return f"{name}: {', '.join(columns)}" if columns else name


def _row_text(row: PanelRow) -> str:
    return f"{row_text(row)}:" if row.is_heading else sanitise_line(row_text(row))


async def _choose_row(
    console: PanelConsole, panel: Panel, rows: Sequence[PanelRow], title: str
) -> tuple[PanelRow | None, PanelAction | None]:
    """Let the user choose a row by number and, optionally, an action; None if cancelled. Any other input starts a
    search. If every action applies to the whole list, choosing a row just prints it."""
    list_actions = {
        action.command_word: action for action in panel.actions if action.command_word and not action.needs_row
    }
    prints_rows = bool(list_actions) and all(
        action.command_word in list_actions for action in panel.actions if action.command_word
    )
    list_hint = f" {' or '.join(f'`{word}`' for word in list_actions)} for all of it;" if list_actions else ""
    rows_by_value = {row.value: row for row in rows if row.value}
    visible_rows = rows
    while True:
        numbers_by_value = {value: number for number, value in enumerate(rows_by_value, 1)}
        console.print_lines(
            (
                *numbered_list(title, visible_rows, numbers_by_value),
                *_usage_lines(panel, [row for row in rows if row.value]),
            )
        )
        answer = (await console.ask(f"Number, or words to find;{list_hint} an empty line closes: ")).strip()
        if not answer:
            return None, None
        list_action = next(
            (
                candidate
                for candidate in list_actions.values()
                if answer.lower() in (candidate.command_word, *candidate.keys)
            ),
            None,
        )
        if list_action is not None:
            return NO_ROW, list_action
        word, _, number = answer.rpartition(" ")
        row = next(
            (rows_by_value[value] for value, row_number in numbers_by_value.items() if str(row_number) == number), None
        )
        action = next(
            (
                candidate
                for candidate in panel.actions
                if candidate.command_word and word.lower() in (candidate.command_word, *candidate.keys)
            ),
            None,
        )
        if row is not None and not word and prints_rows:
            await _print_row(console, row)
            continue
        if row is not None and (not word or (action is not None and action.is_available(row))):
            return row, action
        found_rows = matching_rows(await _build_search_panel(panel, answer), answer)
        new_rows = {row.value: rows_by_value.get(row.value, row) for row in found_rows if row.value}
        if not new_rows:
            console.print_lines((f"Nothing in the list matches {answer!r}.",))
        rows_by_value, visible_rows = {**rows_by_value, **new_rows}, tuple(new_rows.values()) or visible_rows


def numbered_list(title: str, rows: Sequence[PanelRow], number_by_value: Mapping[str, int]) -> tuple[str, ...]:
    """Format a numbered list. Long lists are cut off."""
    lines, remaining_count = [title], sum(1 for row in rows if row.value)
    for row in rows[: len(rows) if remaining_count <= MAX_PRINTED_ROWS else _printed_row_count(rows)]:
        lines.append(f"{number_by_value[row.value]}: {_row_text(row)}" if row.value else _row_text(row))
        remaining_count -= bool(row.value)
    return (*lines, *((f"{remaining_count} more; type words to find them.",) if remaining_count else ()))


def _printed_row_count(rows: Sequence[PanelRow]) -> int:
    """Count the rows to print at once. Rows without a value do not count towards the limit."""
    return [end_index for end_index, row in enumerate(rows, 1) if row.value][MAX_PRINTED_ROWS - 1]


def _usage_lines(panel: Panel, rows: Sequence[PanelRow]) -> tuple[str, ...]:
    """Explain what typing a number does; empty if there is only one action."""
    actions = [
        action
        for action in panel.actions
        if action.command_word and action.needs_row and any(map(action.is_available, rows))
    ]
    enter_action = next((action for row in rows if (action := action_for_key(panel, "enter", row)) is not None), None)
    other_words = dict.fromkeys(f"`{action.command_word} 1`" for action in actions if "enter" not in action.keys)
    enter_text = (
        "read" if panel.previews_before_action else enter_action.command_word if enter_action is not None else ""
    )
    return (
        (f"{f'A number: {enter_text}; also ' if enter_text else ''}{', '.join(other_words)}.",) if other_words else ()
    )


async def _print_row(console: PanelConsole, row: PanelRow) -> None:
    """Print the content of a row, page by page."""
    match row.content:
        case PagedText():
            await _print_pages(console, row.content)
        case DiffText(diff):
            console.print_lines((row_text(row), *diff_in_words(diff)))
        case LoadedText(load, arguments):
            console.print_lines(plain_lines(await load(*arguments)))
        case None:
            console.print_lines((row_text(row), *plain_lines(row_details(row))))


async def _print_pages(console: PanelConsole, paged_text: PagedText) -> None:
    first_line = 1
    while True:
        try:
            page = await paged_text.source.page(paged_text.ref, first_line, PAGE_LINES)
        except AgentError as error:
            return console.controller.show_failure(error)
        last_line = page.first_line + len(page.lines) - 1
        console.print_lines(
            (
                f"{paged_text.ref}, lines {page.first_line} to {last_line} of {page.line_count}:",
                *map(sanitise_line, page.lines),
            )
        )
        if last_line >= page.line_count or not page.lines:
            return None
        answer = (await console.ask("Enter for more, a line number, or q: ")).strip().lower()
        if answer and not answer.isdecimal():
            return None
        first_line = int(answer) if answer else last_line + 1


async def _action_for_row(console: PanelConsole, panel: Panel, row: PanelRow) -> PanelAction | None:
    """Choose the action to run on a row. Enter's action is used if it asks for text, or if the panel does not preview
    rows. Otherwise the user chooses; None if they cancel."""
    enter_action = action_for_key(panel, "enter", row)
    if enter_action is not None and (enter_action.text_request is not None or not panel.previews_before_action):
        return enter_action
    actions = {
        action.command_word: action for action in panel.actions if action.command_word and action.is_available(row)
    }
    if not actions:
        return None
    *other_words, last_word = actions
    choices_text = f"{', '.join(other_words)} or {last_word}" if other_words else f"y to {last_word}"
    answer = (await console.ask(f"{choices_text}; an empty line closes: ")).strip().lower()
    return actions.get(last_word if answer == "y" and not other_words else answer)


async def _run_action(console: PanelConsole, panel: Panel, action: PanelAction, row: PanelRow) -> RowChosen | None:
    typed_text = ""
    if action.text_request is not None:
        typed_text = (await _ask_for_text(console, action.text_request, row)).strip()
        if not typed_text:
            return None
        typed_text = "" if typed_text == EMPTY_TEXT_WORD and action.text_request.may_be_empty else typed_text
    if action.run is None:
        return RowChosen(row.value, action.command_word)
    if panel.set_watcher is not None and panel.rebuild is not None:
        panel.set_watcher(_create_heading_printer(console, panel, panel.rebuild))
    if action.text_request is not None and action.text_request.progress_message:
        console.print_lines((action.text_request.progress_message,))
    try:
        outcome = await action.run(row, typed_text)
    except AgentError as error:
        console.controller.show_failure(error)
        is_asked_again = action.text_request is not None and action.text_request.is_hidden
        return await _run_action(console, panel, action, row) if is_asked_again else None
    finally:
        if panel.set_watcher is not None:
            panel.set_watcher(None)
    match outcome:
        case RowChosen():
            return outcome
        case ShowMessage(text) | CopyText(text):
            console.print_lines((text,))
        case Panel(message=ShowMessage(text)):
            console.print_lines((text,))
        case Panel():
            updated_row = next((candidate for candidate in outcome.rows if candidate.value == row.value), row)
            console.print_lines(
                plain_lines(row_details(updated_row)) if outcome.starts_at_end else (row_text(updated_row),)
            )
        case "toggle details" | None:
            pass
    return None


async def _ask_for_text(console: PanelConsole, text_request: TextRequest, row: PanelRow) -> str:
    notes = ["hidden"] if text_request.is_hidden else []
    notes += [f"`{EMPTY_TEXT_WORD}` empties it"] if text_request.may_be_empty else []
    question = f"{text_request.label} ({', '.join((*notes, 'an empty line cancels'))}): "
    if text_request.is_hidden:
        return await console.get_reader().run_with_terminal(lambda: read_hidden(question))
    if not text_request.replaces_initial_text:
        console.get_reader().prefill(text_request.initial_text(row), question)
    return await console.ask(question)


def _create_heading_printer(
    console: PanelConsole, panel: Panel, build_panel: Callable[[], Panel]
) -> Callable[[], None]:
    """Create a function that prints the heading lines that have changed, such as a login URL."""
    printed_lines = set(plain_lines(panel.headline)[1:])

    def print_changes() -> None:
        lines = [line for line in plain_lines(build_panel().headline)[1:] if line not in printed_lines]
        printed_lines.update(lines)
        console.print_lines(lines)

    return print_changes
