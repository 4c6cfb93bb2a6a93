"""A list shown by a command, as data: rows, details and actions. The full-screen interface draws it, and line mode
prints it."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, Union

from rich.cells import cell_len, set_cell_size

from ebbtide.tools.lazy import dataclass
from ebbtide.tui.text.fuzzy import rank_matches
from ebbtide.tui.text.spans import Line, Span, TextStyle, line_text, parse_inline_code

if TYPE_CHECKING:  # this module would import too much
    from ebbtide.agent.archive.listing import ContentPage


class ContentSource(Protocol):
    """Content that can be read page by page. Methods raise `AgentError`."""

    async def page(self, ref: str, first_line: int, count: int) -> "ContentPage":
        """Read `count` lines of the referenced content, starting at `first_line`."""

    async def find_line(self, ref: str, text: str) -> int:
        """Find the number of the line that contains the text; 1 if there is none."""


@dataclass(frozen=True, slots=True)
class PagedText:
    """A reference's content, read page by page."""

    source: ContentSource
    ref: str
    contained_text: str = ""
    """Reading starts at the line with this text."""


@dataclass(frozen=True, slots=True)
class DiffText:
    diff: str
    no_difference_text: str = ""
    """Shown if there is no difference."""


@dataclass(frozen=True, slots=True)
class LoadedText:
    """Lines that are loaded when they are shown."""

    load: Callable[..., Awaitable[Sequence[Line]]]
    """Loads the lines. Raises `AgentError`."""
    arguments: tuple[object, ...]
    """The arguments of `load`."""


PanelContent: TypeAlias = PagedText | DiffText | LoadedText | None
"""Content of a row that can be read below its details."""


@dataclass(frozen=True, slots=True)
class PanelRow:
    value: str
    """The value returned when the row is chosen."""
    line: Line | Callable[[int], Line]
    """The line, or a function that formats it for a width."""
    plain_text: str = ""
    """Text for line mode, needed if `line` makes no sense without its columns or marks."""
    search_text: str = ""
    """The text that searches look at. Defaults to the text for line mode."""
    details: tuple[Line, ...] | Callable[[], tuple[Line, ...]] = ()
    """Details shown while the row is marked, or a function that returns them."""
    content: PanelContent = None
    title: str = ""
    """A title that the user can change; empty if there is none."""
    right_text: Span | None = None
    """Text at the right end of the line. It is never cut."""
    is_heading: bool = False
    """Whether this is a heading. Headings cannot be marked and are hidden during a search."""


NO_ROW = PanelRow("", ())
EXPANDED_KEY_HINTS = "Up, Down, PgUp, PgDn scroll  Esc back to the list"


def heading_row(text: str) -> PanelRow:
    return PanelRow("", ((text, "strong"),), is_heading=True)


@dataclass(frozen=True, slots=True)
class RowChosen:
    """Returned when a row was chosen. The panel closes."""

    value: str
    action: str = ""


@dataclass(frozen=True, slots=True)
class ShowMessage:
    """Shows a message. The panel stays open."""

    text: str
    style: TextStyle = "dim"


@dataclass(frozen=True, slots=True)
class CopyText:
    """Copies text. The panel stays open."""

    text: str


ActionOutcome: TypeAlias = Union[RowChosen, ShowMessage, CopyText, Literal["toggle details"], "Panel", None]
"""What an action results in. A `Panel` replaces the current one. `toggle details` switches between the list and the
full details."""


@dataclass(frozen=True, slots=True)
class TextRequest:
    """Asks the user for text that an action needs."""

    initial_text: Callable[[PanelRow], str]
    key_hints: str
    label: str
    """Label of the text field, such as `New title`."""
    replaces_initial_text: bool = False
    """Whether typing replaces the initial text."""
    placeholder: Callable[[PanelRow], str] = lambda row: ""
    may_be_empty: bool = False
    is_hidden: bool = False
    """Whether what the user types is hidden."""
    progress_message: str = ""
    """Shown while the action runs."""


def always_available(row: PanelRow) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class PanelAction:
    """An action on a row. A panel's first action is run by Enter or, in line mode, by the row's number."""

    keys: tuple[str, ...]
    """Keys that run the action. Letters do so only while the user is not typing search text."""
    command_word: str = ""
    """The word that runs the action in line mode; empty if only keys run it."""
    run: Callable[[PanelRow, str], Awaitable[ActionOutcome]] | None = None
    """Runs the action on a row with the text that the user entered. Raises `AgentError`. None if the action chooses the
    row."""
    is_available: Callable[[PanelRow], bool] = always_available
    text_request: TextRequest | None = None
    needs_row: bool = True


SELECT_ROW = PanelAction(("enter",), "select")
_TEXT_WIDTH = 200
"""Width in columns at which a row is formatted before it is converted to plain text."""


@dataclass(frozen=True, slots=True)
class Panel:
    name: str
    """The name of the command that shows the panel."""
    headline: tuple[Line, ...]
    rows: tuple[PanelRow, ...] = ()
    key_hints: str | Callable[[PanelRow], str] = ""
    """Key hints, separated by two spaces."""
    list_key_hints: str = ""
    """Key hints while the list has the focus. If empty, `key_hints` is shown."""
    empty_message: str = ""
    """Shown if there are no rows."""
    no_match_message: str = ""
    """Shown if no row matches. If empty, `empty_message` is shown."""
    actions: tuple[PanelAction, ...] = (SELECT_ROW,)
    empty_details: tuple[Line, ...] = ()
    """Details shown if there are no rows."""
    search_placeholder: str = "type to find"
    """Placeholder in the search field. If it is empty, there is no search field."""
    search_text: str = ""
    """The initial search text."""
    row_noun: str = ""
    """Noun for the rows, shown next to the number of matches in the heading."""
    initial_value: str = ""
    """Value of the row that is marked at first."""
    page_keys_scroll_details: bool = False
    """Whether PgUp and PgDn scroll the details instead of the list."""
    previews_before_action: bool = False
    """Whether line mode shows the details of a row before it runs an action."""
    has_tabs: bool = False
    """Whether each heading is a tab, whose rows are shown without the others unless the user searches."""
    min_side_by_side_width: int = 0
    """Minimum number of columns for showing the details beside the list. 0 for never."""
    max_list_lines: int = 0
    """Maximum number of list lines above the details. 0 for as many as fit."""
    starts_at_end: bool = False
    """Whether the details are scrolled to the end at first."""
    is_newest_last: bool = False
    """Whether line mode lists the rows in reverse."""
    is_guarded: bool = False
    """Whether to drop keys that were typed before the panel appeared."""
    waits_for_main_screen: bool = False
    """Whether the panel waits until no other screen covers the main screen."""
    is_printed_in_full: bool = False
    """Whether line mode prints the whole panel without asking the user to choose a row."""
    message: ShowMessage | None = None
    """Shown when this panel replaces another."""
    on_row_marked: Callable[[PanelRow], None] | None = None
    """Called with every row that the user marks."""
    extra_rows: Callable[[str], Sequence[PanelRow]] | None = None
    """Returns further rows for the search text. They are shown after the matches."""
    find_rows: "Callable[[str], AsyncIterator[Panel]] | None" = None
    """Replaces the built-in search. Yields a panel after each group of results. Raises `AgentError`."""
    load_more: "Callable[[], Awaitable[Panel]] | None" = None
    """Loads the next rows and returns the panel with them. Raises `AgentError`."""
    set_watcher: "Callable[[Callable[[], None] | None], None] | None" = None
    """Registers a callback to be called on changes, or unregisters it if given None."""
    rebuild: "Callable[[], Panel] | None" = None
    """Builds an up-to-date version of the panel."""


def build_report_panel(name: str, headline: Line, lines: Sequence[Line]) -> Panel:
    """Build a panel of lines with nothing to choose."""
    return Panel(
        name,
        (headline,),
        (),
        "Up, Down   Esc close",
        empty_details=tuple(lines),
        search_placeholder="",
        page_keys_scroll_details=True,
    )


def tab_titles(panel: Panel) -> tuple[str, ...]:
    """Return the titles of the tabs; empty if the panel has none."""
    return tuple(row_text(row) for row in panel.rows if row.is_heading) if panel.has_tabs else ()


def rows_of_tab(panel: Panel, tab_index: int) -> tuple[PanelRow, ...]:
    """Return the rows of a tab. A panel without tabs has one, with all rows."""
    if not panel.has_tabs:
        return panel.rows
    starts = [index for index, row in enumerate(panel.rows) if row.is_heading]
    end = starts[tab_index + 1] if tab_index + 1 < len(starts) else len(panel.rows)
    return panel.rows[starts[tab_index] + 1 : end]


def tab_line(titles: Sequence[str], tab_index: int | None) -> Line:
    """Format the titles of the tabs, with the current one marked. None: no tab is current, because all are searched."""
    spans: list[Span] = []
    for index, title in enumerate(titles):
        is_current = index == tab_index
        spans += [("  ", "dim")] if spans else []
        spans.append((f"[{title}]" if is_current else title, "accent" if is_current else "dim"))
    return tuple(spans)


def matching_rows(panel: Panel, search_text: str, tab_index: int | None = None) -> tuple[PanelRow, ...]:
    """Find the rows that match the search text, best first. If it is empty, all rows of the tab match, or all rows if
    that is None."""
    if not search_text.strip() or panel.find_rows is not None:
        return panel.rows if tab_index is None else rows_of_tab(panel, tab_index)
    rows = [row for row in panel.rows if not row.is_heading]
    extra_rows = panel.extra_rows(search_text.strip()) if panel.extra_rows is not None else ()
    return (*(rows[index] for index in rank_matches(search_text, [searchable_text(row) for row in rows])), *extra_rows)


def searchable_text(row: PanelRow) -> str:
    return row.search_text or row_text(row)


def row_text(row: PanelRow) -> str:
    """Format a row as one line for line mode, with commas between columns."""
    return row.plain_text or ", ".join(
        re.split(r" {2,}", line_text(row_line(row, _TEXT_WIDTH), code_delimiter="`").strip())
    )


def row_details(row: PanelRow) -> tuple[Line, ...]:
    """Return the details of a row."""
    return row.details() if callable(row.details) else row.details


def empty_row(panel: Panel, *, has_rows: bool, is_searched: bool) -> PanelRow:
    """Build a placeholder row, whose details are shown while no row is marked."""
    message = panel.no_match_message or panel.empty_message if is_searched else panel.empty_message
    message_lines = (parse_inline_code(message, "dim"),) if message and not has_rows else ()
    return PanelRow("", (), details=panel.empty_details or message_lines)


def action_for_key(panel: Panel, key: str, row: PanelRow | None) -> PanelAction | None:
    """Find the action that a key runs on a row; None if there is none."""
    for action in panel.actions:
        if key in action.keys and (not action.needs_row or (row is not None and action.is_available(row))):
            return action
    return None


def panel_key_hints(panel: Panel, row: PanelRow, *, is_in_list: bool, is_expanded: bool = False) -> str:
    """Get the key hints for a row. `is_expanded`: whether its content is shown instead of the list."""
    hints_text = panel.key_hints if isinstance(panel.key_hints, str) else panel.key_hints(row)
    hints_text = panel.list_key_hints if is_in_list and panel.list_key_hints else hints_text
    if not is_expanded:
        return hints_text
    return (
        f"{hints_text.partition('  ')[0]}  {EXPANDED_KEY_HINTS}"
        if hints_text.startswith("Enter")
        else EXPANDED_KEY_HINTS
    )


def panel_headline(panel: Panel, match_count: int, *, is_searched: bool, tab_index: int | None = None) -> list[Line]:
    """Build the heading with the number of matches, and with the tabs if there is a current one."""
    first_line, *other_lines = panel.headline
    if panel.has_tabs and tab_index is not None:
        other_lines = [*other_lines, tab_line(tab_titles(panel), None if is_searched else tab_index)]
    total_text = f" of {len(panel.rows):,}" if is_searched else ""
    return [
        (*first_line, (f"  {match_count:,}{total_text} {panel.row_noun}", "dim")) if panel.row_noun else first_line,
        *other_lines,
    ]


def action_keys(panel: Panel) -> frozenset[str]:
    """Get the keys of all actions."""
    return frozenset(key for action in panel.actions for key in action.keys)


def is_typing_key(key: str) -> bool:
    return len(key) == 1 or key in ("space", "delete")


def row_line(row: PanelRow, width: int) -> Line:
    """Format the line of a row. If the row has right-aligned text, the rest of the line is padded or cut so that it
    ends at `width`."""
    line = row.line(width) if callable(row.line) else row.line
    if row.right_text is None:
        return line
    remaining_width = max(0, width - cell_len(row.right_text[0]) - 2)
    spans: list[Span] = []
    for text, style in line:
        if cell_len(text) > remaining_width:
            text = f"{set_cell_size(text, remaining_width - 1)}…" if remaining_width else ""
        spans.append((text, style))
        remaining_width -= cell_len(text)
        if not remaining_width:
            break
    return (*spans, (" " * (remaining_width + 2), "dim"), row.right_text)
