"""Panels in line mode, operated with numbers and words instead of keys, and the base class of the line mode context."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ebbtide.agent.config.settings import Settings
from ebbtide.agent.errors import AgentError
from ebbtide.tui.commands.command_context import Send
from ebbtide.tui.plain.print_events import plain_line, plain_lines
from ebbtide.tui.plain.questions import diff_in_words
from ebbtide.tui.plain.reader import PromptReader, read_hidden
from ebbtide.tui.prompt.history import History
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.session.greeter import Greeter
from ebbtide.tui.slash_commands import Invocation
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.panel import (
    NO_ROW,
    AskForText,
    CopyText,
    DiffText,
    LoadedText,
    PagedText,
    Panel,
    PanelAction,
    PanelRow,
    RowChosen,
    ShowMessage,
    action_for_key,
    matching_rows,
    panel_headline,
    row_details,
    row_text,
)


class PutText(Protocol):
    """Puts text into the prompt. If that is impossible, `unsent` messages remain queued."""

    def __call__(self, text: str, unsent: bool = False) -> None: ...


@dataclass(frozen=True, slots=True)
class LineContextBase:
    """The session, output and input that commands in line mode work with."""

    controller: SessionController
    history: History
    print_lines: Callable[[Sequence[str]], None]
    """Prints lines."""
    ask: Callable[[str], Awaitable[str]]
    """Returns the user's next line; empty to cancel."""
    set_prompt_text: PutText
    model: str | None
    send: Send
    invoke: Callable[[Invocation], None]
    settings: Settings | None
    close: Callable[[], None]
    greeter: Greeter
    reader: Callable[[], PromptReader]
    """Returns the current reader."""

    async def ask_hidden(self, question: str) -> str:
        """Ask for a line with hidden input; empty if cancelled or impossible."""
        return await self.reader().lend_terminal(lambda: read_hidden(question))


PAGE_LINES = 40
"""Lines printed at once."""
MAX_PRINTED_ROWS = 20
"""Rows printed at once."""
EMPTY_TEXT_WORD = "none"
"""The word to type for empty text, because an empty line cancels."""


async def show_panel(context: LineContextBase, panel: Panel) -> RowChosen | None:
    """Show a panel and return the chosen row; None if none was chosen."""
    words = panel.search_text
    panel = await _search_panel(panel, words)
    head, *details = panel_headline(panel, len(panel.rows), is_searched=False)
    if not panel.rows:
        explains_empty = panel.empty_message and not panel.empty_details
        context.print_lines(
            (*plain_lines(details), panel.empty_message)
            if explains_empty
            else (_title_text(head), *plain_lines(panel.empty_details))
        )
        return None
    context.print_lines(plain_lines(details))
    rows = matching_rows(panel, words) or panel.rows
    if panel.is_printed_whole:
        context.print_lines((_title_text(head), *map(_row_text, rows)))
        return None
    row = next((row for row in rows if row.value == words and not row.is_heading), None)
    if row is None:
        row, action = await _choose_row(context, panel, rows[::-1] if panel.is_newest_last else rows, _title_text(head))
    else:
        action = None
    if row is None:
        return None
    if action is None:
        if panel.previews_before_action:
            await _print_row(context, row)
        action = await _action_for_row(context, panel, row)
    return await _run_action(context, panel, action, row) if action is not None else None


async def _search_panel(panel: Panel, words: str) -> Panel:
    """Return the panel with all search results."""
    if panel.find_rows is not None:
        async for better in panel.find_rows(words):
            panel = better
    return panel


def _title_text(line: Line) -> str:
    """Return the first line of a panel: its name and the columns that follow it."""
    name, *rest = re.split(r" {2,}", plain_line(line).strip())
    return f"{name}: {', '.join(rest)}" if rest else name


def _row_text(row: PanelRow) -> str:
    return f"{row_text(row)}:" if row.is_heading else sanitised_line(row_text(row))


async def _choose_row(
    context: LineContextBase, panel: Panel, rows: Sequence[PanelRow], head: str
) -> tuple[PanelRow | None, PanelAction | None]:
    """Let the user choose a row by number and, optionally, an action; None if cancelled. Other input starts a search.
    If every action applies to the whole list, a chosen row is only printed."""
    list_actions = {
        action.command_word: action for action in panel.actions if action.command_word and not action.needs_row
    }
    only_reads = bool(list_actions) and all(
        action.command_word in list_actions for action in panel.actions if action.command_word
    )
    list_hint = f" {' or '.join(f'`{word}`' for word in list_actions)} for all of it;" if list_actions else ""
    numbered = {row.value: row for row in rows if row.value}
    visible = rows
    while True:
        numbers = {value: number for number, value in enumerate(numbered, 1)}
        context.print_lines(
            (*numbered_list(head, visible, numbers), *_usage(panel, [row for row in rows if row.value]))
        )
        answer = (await context.ask(f"Number, or words to find;{list_hint} an empty line closes: ")).strip()
        if not answer:
            return None, None
        list_action = next(
            (each for each in list_actions.values() if answer.lower() in (each.command_word, *each.keys)), None
        )
        if list_action is not None:
            return NO_ROW, list_action
        word, _, number = answer.rpartition(" ")
        row = next((numbered[value] for value, at in numbers.items() if str(at) == number), None)
        action = next(
            (each for each in panel.actions if each.command_word and word.lower() in (each.command_word, *each.keys)),
            None,
        )
        if row is not None and not word and only_reads:
            await _print_row(context, row)
            continue
        if row is not None and (not word or (action is not None and action.is_available(row))):
            return row, action
        better = matching_rows(await _search_panel(panel, answer), answer)
        new_rows = {row.value: numbered.get(row.value, row) for row in better if row.value}
        if not new_rows:
            context.print_lines((f"Nothing in the list matches {answer!r}.",))
        numbered, visible = {**numbered, **new_rows}, tuple(new_rows.values()) or visible


def numbered_list(head: str, rows: Sequence[PanelRow], numbers: Mapping[str, int]) -> tuple[str, ...]:
    """Return a numbered list, cut off if it is long."""
    lines, remaining = [head], sum(1 for row in rows if row.value)
    for row in rows[: len(rows) if remaining <= MAX_PRINTED_ROWS else _printed_row_count(rows)]:
        lines.append(f"{numbers[row.value]}: {_row_text(row)}" if row.value else _row_text(row))
        remaining -= bool(row.value)
    return (*lines, *((f"{remaining} more; type words to find them.",) if remaining else ()))


def _printed_row_count(rows: Sequence[PanelRow]) -> int:
    """Return the index after the last row to be printed at once. Only rows with a value count towards the limit."""
    return [at for at, row in enumerate(rows, 1) if row.value][MAX_PRINTED_ROWS - 1]


def _usage(panel: Panel, rows: Sequence[PanelRow]) -> tuple[str, ...]:
    """Return a line about what typing a number does; empty if there is only one action."""
    actions = [
        each for each in panel.actions if each.command_word and each.needs_row and any(map(each.is_available, rows))
    ]
    enter = next((each for row in rows if (each := action_for_key(panel, "enter", row)) is not None), None)
    others = dict.fromkeys(f"`{each.command_word} 1`" for each in actions if "enter" not in each.keys)
    does = "read" if panel.previews_before_action else enter.command_word if enter is not None else ""
    return (f"{f'A number: {does}; also ' if does else ''}{', '.join(others)}.",) if others else ()


async def _print_row(context: LineContextBase, row: PanelRow) -> None:
    """Print the content of a row, page by page."""
    match row.content:
        case PagedText():
            await _print_pages(context, row.content)
        case DiffText(diff):
            context.print_lines((row_text(row), *diff_in_words(diff)))
        case LoadedText(load, of):
            context.print_lines(plain_lines(await load(*of)))
        case None:
            context.print_lines((row_text(row), *plain_lines(row_details(row))))


async def _print_pages(context: LineContextBase, text: PagedText) -> None:
    first = 1
    while True:
        try:
            page = await text.texts.page(text.ref, first, PAGE_LINES)
        except AgentError as error:
            return context.controller.show_failure(error)
        last = page.first + len(page.lines) - 1
        context.print_lines(
            (f"{text.ref}, lines {page.first} to {last} of {page.total}:", *map(sanitised_line, page.lines))
        )
        if last >= page.total or not page.lines:
            return None
        answer = (await context.ask("Enter for more, a line number, or q: ")).strip().lower()
        if answer and not answer.isdecimal():
            return None
        first = int(answer) if answer else last + 1


async def _action_for_row(context: LineContextBase, panel: Panel, row: PanelRow) -> PanelAction | None:
    """Return the action to run on the row. This is the action of Enter if it asks for text or if choosing a row of this
    panel does not print it; if not, the user is asked for an action."""
    enter = action_for_key(panel, "enter", row)
    if enter is not None and (enter.text_request is not None or not panel.previews_before_action):
        return enter
    actions = {
        action.command_word: action for action in panel.actions if action.command_word and action.is_available(row)
    }
    if not actions:
        return None
    *others, last = actions
    named = f"{', '.join(others)} or {last}" if others else f"y to {last}"
    answer = (await context.ask(f"{named}; an empty line closes: ")).strip().lower()
    return actions.get(last if answer == "y" and not others else answer)


async def _run_action(context: LineContextBase, panel: Panel, action: PanelAction, row: PanelRow) -> RowChosen | None:
    typed = ""
    if action.text_request is not None:
        typed = (await _ask_for_text(context, action.text_request, row)).strip()
        if not typed:
            return None
        typed = "" if typed == EMPTY_TEXT_WORD and action.text_request.may_be_empty else typed
    if action.run is None:
        return RowChosen(row.value, action.command_word)
    if panel.watch is not None and panel.rebuild is not None:
        panel.watch(_heading_printer(context, panel, panel.rebuild))
    if action.text_request is not None and action.text_request.progress_message:
        context.print_lines((action.text_request.progress_message,))
    try:
        outcome = await action.run(row, typed)
    except AgentError as error:
        context.controller.show_failure(error)
        is_asked_again = action.text_request is not None and action.text_request.is_hidden
        return await _run_action(context, panel, action, row) if is_asked_again else None
    finally:
        if panel.watch is not None:
            panel.watch(None)
    match outcome:
        case RowChosen():
            return outcome
        case ShowMessage(text) | CopyText(text):
            context.print_lines((text,))
        case Panel(message=ShowMessage(text)):
            context.print_lines((text,))
        case Panel():
            now = next((each for each in outcome.rows if each.value == row.value), row)
            context.print_lines(plain_lines(row_details(now)) if outcome.starts_at_end else (row_text(now),))
        case "whole" | None:
            pass
    return None


async def _ask_for_text(context: LineContextBase, text_request: AskForText, row: PanelRow) -> str:
    notes = ["hidden"] if text_request.is_hidden else []
    notes += [f"`{EMPTY_TEXT_WORD}` empties it"] if text_request.may_be_empty else []
    question = f"{text_request.label} ({', '.join((*notes, 'an empty line cancels'))}): "
    if text_request.is_hidden:
        return await context.ask_hidden(question)
    if not text_request.replaces:
        context.reader().prefill(text_request.initial_text(row), question)
    return await context.ask(question)


def _heading_printer(context: LineContextBase, panel: Panel, now: Callable[[], Panel]) -> Callable[[], None]:
    """Return a function that prints the heading lines that have changed, e.g. a login URL."""
    printed = set(plain_lines(panel.head)[1:])

    def changed() -> None:
        lines = [line for line in plain_lines(now().head)[1:] if line not in printed]
        printed.update(lines)
        context.print_lines(lines)

    return changed
