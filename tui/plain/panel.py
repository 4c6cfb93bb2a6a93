"""A panel in line mode, with numbers and words instead of keys."""

from collections.abc import Callable, Sequence

from ebbtide.agent.errors import AgentError
from ebbtide.tui.plain.lines import Lines
from ebbtide.tui.plain.print_events import plain_lines
from ebbtide.tui.plain.questions import diff_words
from ebbtide.tui.text.sanitise import sanitised_line
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
    about_row,
    action_of,
    matching_rows,
    row_words,
)

PAGE = 40
"""Lines printed at once."""
MAX_PRINTED_ROWS = 20
"""Rows printed at once."""


async def show_panel(context: Lines, panel: Panel) -> RowChosen | None:
    """Show a panel and return what was chosen; None if nothing was."""
    words = panel.words
    panel = await _search_panel(panel, words)
    head, *besides = plain_lines(panel.head)
    if not panel.rows:
        context.print_lines(panel.plain_head.split("\n") if panel.about else (*besides, panel.empty or head))
        return None
    context.print_lines(besides)
    rows = matching_rows(panel, words) or panel.rows
    row = next((row for row in rows if row.value == words and not row.is_heading), None)
    if row is None:
        row, action = await _choose(context, panel, rows[::-1] if panel.is_newest_last else rows, head)
    else:
        action = None
    if row is None:
        return None
    if action is None:
        if panel.looks:
            await _print_row(context, row)
        action = await _action(context, panel, row)
    return await _do(context, panel, action, row) if action is not None else None


async def _search_panel(panel: Panel, words: str) -> Panel:
    """The panel with all search results."""
    if panel.find is not None:
        async for better in panel.find(words):
            panel = better
    return panel


async def _choose(
    context: Lines, panel: Panel, rows: Sequence[PanelRow], head: str
) -> tuple[PanelRow | None, PanelAction | None]:
    """Let the user choose a row by number and, optionally, an action; None if cancelled. Other words search. If all
    actions are on the whole list, a row is only shown."""
    whole = {action.word: action for action in panel.actions if action.word and not action.needs_row}
    only_reads = bool(whole) and all(action.word in whole for action in panel.actions if action.word)
    named = f" {' or '.join(f'`{word}`' for word in whole)} for all of it;" if whole else ""
    shown = numbered = {row.value: row for row in rows if not row.is_heading}
    while True:
        numbers = {value: number for number, value in enumerate(numbered, 1)}
        context.print_lines(
            list_of(panel.plain_head or head, [(numbers[value], row_words(row)) for value, row in shown.items()])
        )
        answer = (await context.ask(f"Number, or words to find;{named} an empty line closes: ")).strip()
        if not answer:
            return None, None
        if answer.lower() in whole:
            return NO_ROW, whole[answer.lower()]
        word, _, number = answer.rpartition(" ")
        row = next((numbered[value] for value, at in numbers.items() if str(at) == number), None)
        action = next((action for action in panel.actions if action.word and action.word == word.lower()), None)
        if row is not None and not word and only_reads:
            await _print_row(context, row)
            continue
        if row is not None and (not word or (action is not None and action.can(row))):
            return row, action
        better = matching_rows(await _search_panel(panel, answer), answer)
        some = {row.value: numbered.get(row.value, row) for row in better if not row.is_heading}
        if not some:
            context.print_lines((f"Nothing in the list matches {answer!r}.",))
        numbered, shown = {**numbered, **some}, some or shown


def list_of(heading: str, rows: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    """A numbered list, cut if long."""
    left = len(rows) - MAX_PRINTED_ROWS
    more = (f"{left} more: type words to find them.",) if left > 0 else ()
    return (heading, *(f"{number}: {sanitised_line(words)}" for number, words in rows[:MAX_PRINTED_ROWS]), *more)


async def _print_row(context: Lines, row: PanelRow) -> None:
    """Print the content of a row, page by page."""
    match row.content:
        case PagedText():
            await _print_pages(context, row.content)
        case DiffText(diff):
            context.print_lines((row_words(row), *diff_words(diff)))
        case LoadedText(load, of):
            context.print_lines(plain_lines(await load(*of)))
        case None:
            context.print_lines((row_words(row), *plain_lines(about_row(row))))


async def _print_pages(context: Lines, text: PagedText) -> None:
    first = 1
    while True:
        try:
            page = await text.texts.page(text.ref, first, PAGE)
        except AgentError as error:
            return context.controller.fail(error)
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


async def _action(context: Lines, panel: Panel, row: PanelRow) -> PanelAction | None:
    """The action on the row: that of Enter, or else the one that the user names."""
    enter = action_of(panel, "enter", row)
    if enter is not None:
        agreed = enter.confirm is None or (await context.ask(enter.confirm(row))).strip().lower() == "y"
        return enter if agreed else None
    actions = {action.word: action for action in panel.actions if action.word and action.can(row)}
    if not actions:
        return None
    *others, last = actions
    question = f"{', '.join(others)} or {last}; an empty line closes: "
    return actions.get((await context.ask(question)).strip().lower())


async def _do(context: Lines, panel: Panel, action: PanelAction, row: PanelRow) -> RowChosen | None:
    words = ""
    if action.asks is not None:
        hidden = action.asks.is_hidden
        words = (await (context.ask_hidden if hidden else context.ask)(action.asks.question)).strip()
        if not words:
            return None
        words = "" if words == action.asks.nothing else words
    if action.do is None:
        return RowChosen(row.value, action.word)
    if panel.watch is not None and panel.now is not None:
        panel.watch(_heads(context, panel, panel.now))
    if action.asks is not None and action.asks.meanwhile:
        context.print_lines((action.asks.meanwhile,))
    try:
        outcome = await action.do(row, words)
    except AgentError as error:
        context.controller.fail(error)
        is_asked_again = action.asks is not None and action.asks.is_hidden
        return await _do(context, panel, action, row) if is_asked_again else None
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
            context.print_lines(plain_lines(about_row(now)) if outcome.tail else (row_words(now),))
        case "whole" | None:
            pass
    return None


def _heads(context: Lines, panel: Panel, now: Callable[[], Panel]) -> Callable[[], None]:
    """Print heading lines that changed, e.g. a login URL."""
    told = set(plain_lines(panel.head)[1:])

    def changed() -> None:
        lines = [line for line in plain_lines(now().head)[1:] if line not in told]
        told.update(lines)
        context.print_lines(lines)

    return changed
