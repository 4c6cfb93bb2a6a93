"""A list shown by a command, as one value: rows, details and actions. The full-screen interface draws it, and line
mode prints it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, Union

from rich.cells import cell_len, set_cell_size

from ebbtide.tools.lazy import dataclass
from ebbtide.tui.text.fuzzy import rank_matches
from ebbtide.tui.text.spans import Line, Span, TextStyle

if TYPE_CHECKING:  # a type only: loaded with what it reads
    from ebbtide.agent.archive.listing import ContentPage


class PagedTexts(Protocol):
    """Texts that are read page by page. Methods raise `AgentError`."""

    async def page(self, ref: str, first: int, count: int) -> "ContentPage":
        """Lines of the referenced content."""

    async def line_of(self, ref: str, text: str) -> int:
        """The number of the line that contains a text, or 1."""


@dataclass(frozen=True, slots=True)
class PagedText:
    """The content of a reference."""

    texts: PagedTexts
    ref: str
    holding: str = ""
    """Start reading at the line that contains this."""


@dataclass(frozen=True, slots=True)
class DiffText:
    diff: str
    otherwise: str = ""
    """Text shown if there is no difference."""


@dataclass(frozen=True, slots=True)
class LoadedText:
    """Lines that are loaded when shown."""

    load: Callable[..., Awaitable[Sequence[Line]]]
    """Raises `AgentError`."""
    of: tuple[object, ...]
    """Its arguments."""


PanelContent: TypeAlias = PagedText | DiffText | LoadedText | None
"""Content of a row that can be read in addition to its details."""


@dataclass(frozen=True, slots=True)
class PanelRow:
    value: str
    """The value that the row stands for."""
    line: Line | Callable[[int], Line]
    """The line, or a function that draws it at a width."""
    words: str = ""
    """The text for line mode; the line unless given."""
    searched: str = ""
    """The text that is searched; `words` unless given."""
    about: tuple[Line, ...] | Callable[[], tuple[Line, ...]] = ()
    """Details shown while it is marked, or a function that returns them."""
    content: PanelContent = None
    title: str = ""
    """Its title, if that can be changed."""
    at_end: Span | None = None
    """Text at the right end of the line, never cut."""
    is_heading: bool = False
    """A heading: never marked, and hidden during a search."""


NO_ROW = PanelRow("", ())
WHOLE_KEYS = "Up, Down, PgUp, PgDn read  Esc goes back to the list"


def heading(words: str) -> PanelRow:
    return PanelRow("", ((words, "strong"),), is_heading=True)


@dataclass(frozen=True, slots=True)
class RowChosen:
    """The panel closes: a row was chosen."""

    value: str
    action: str = ""


@dataclass(frozen=True, slots=True)
class ShowMessage:
    """The panel stays open and shows this message."""

    text: str
    ink: TextStyle = "dim"


@dataclass(frozen=True, slots=True)
class CopyText:
    """The panel stays open and copies this text."""

    text: str


Outcome: TypeAlias = Union[RowChosen, ShowMessage, CopyText, Literal["whole"], "Panel", None]
"""The result of an action. `whole` toggles whether the details use the room of the list."""


@dataclass(frozen=True, slots=True)
class AskForText:
    """A text that an action asks for."""

    begin: Callable[[PanelRow], str]
    """The initial text."""
    keys: str
    question: str
    """The question, for line mode."""
    replaces: bool = False
    """Whether the first typed text replaces the initial text."""
    placeholder: Callable[[PanelRow], str] = lambda row: ""
    nothing: str = ""
    """What to type for an empty text in line mode, where an empty line cancels."""
    is_hidden: bool = False
    """Whether the input is hidden."""
    meanwhile: str = ""
    """Message shown while the action runs."""


def any_row(row: PanelRow) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class PanelAction:
    """An action on a row. The first one of a panel is run by Enter or the row's number."""

    keys: tuple[str, ...]
    """Its keys. Letters count only while nothing is being searched."""
    word: str = ""
    """The word for it in line mode; empty if it is for keys only."""
    do: Callable[[PanelRow, str], Awaitable[Outcome]] | None = None
    """Runs the action with the text that it asks for. Raises `AgentError`. None: choose the row."""
    can: Callable[[PanelRow], bool] = any_row
    asks: AskForText | None = None
    confirm: Callable[[PanelRow], str] | None = None
    """A confirmation question for line mode."""
    needs_row: bool = True


TAKE = PanelAction(("enter",), "take")


@dataclass(frozen=True, slots=True)
class Panel:
    name: str
    """The name of its command."""
    head: tuple[Line, ...]
    rows: tuple[PanelRow, ...] = ()
    keys: str | Callable[[PanelRow], str] = ""
    """Key hints, separated by two spaces."""
    list_keys: str = ""
    """Key hints while the list has the focus, if different."""
    empty: str = ""
    """Message if there are no rows."""
    not_found: str = ""
    """Message if no row matches; `empty` unless given."""
    plain_head: str = ""
    """Heading in line mode; the head unless given."""
    actions: tuple[PanelAction, ...] = (TAKE,)
    about: tuple[Line, ...] = ()
    """Details if there are no rows."""
    search: str = "type to find"
    """Placeholder of the search field; empty for no search field."""
    words: str = ""
    """The initial search text."""
    unit: str = ""
    """Noun for the rows, for the number of matches in the head."""
    mark: str = ""
    """The value of the row marked first."""
    reads: bool = False
    """Whether PgUp and PgDn scroll the details instead of the list."""
    looks: bool = False
    """Whether line mode shows the details before an action."""
    min_width_beside: int = 0
    """Minimum columns to show the details beside the list; 0: never."""
    most: int = 0
    """Maximum lines of the list above the details; 0: as many as fit."""
    tail: bool = False
    """Whether the details are shown from their end."""
    is_newest_last: bool = False
    """Whether line mode lists the last row first."""
    is_guarded: bool = False
    """Whether keys typed before the panel appeared are ignored."""
    is_alone: bool = False
    """Whether it replaces other screens instead of covering them."""
    message: ShowMessage | None = None
    """Message shown when it replaces another panel."""
    marked: Callable[[PanelRow], None] | None = None
    """Called with the marked row."""
    besides: Callable[[str], Sequence[PanelRow]] | None = None
    """Extra rows for the search text, after the matches."""
    find: "Callable[[str], AsyncIterator[Panel]] | None" = None
    """Searches rows by words itself: yields a panel whenever more is found. Raises `AgentError`."""
    more: "Callable[[], Awaitable[Panel]] | None" = None
    """Returns the panel with the next rows. Raises `AgentError`."""
    watch: "Callable[[Callable[[], None] | None], None] | None" = None
    """Registers a callback for changes, or removes it."""
    now: "Callable[[], Panel] | None" = None
    """Returns the current panel."""


def report_panel(name: str, head: Line, lines: Sequence[Line], said: Sequence[str]) -> Panel:
    """A panel of lines without choices. `plain_head`: the head in line mode."""
    keys = "Up, Down   Esc closes"
    return Panel(name, (head,), (), keys, plain_head="\n".join(said), about=tuple(lines), search="", reads=True)


def matching_rows(panel: Panel, words: str) -> tuple[PanelRow, ...]:
    """The rows that match the words, best first; all of them without words."""
    if not words.strip() or panel.find is not None:
        return panel.rows
    rows = [row for row in panel.rows if not row.is_heading]
    besides = panel.besides(words.strip()) if panel.besides is not None else ()
    return (*(rows[index] for index in rank_matches(words, [searchable_text(row) for row in rows])), *besides)


def searchable_text(row: PanelRow) -> str:
    return row.searched or row_words(row)


def row_words(row: PanelRow) -> str:
    """The row in one line, for line mode."""
    return row.words or "".join(text for text, _ in row_line(row, 0)).strip()


def about_row(row: PanelRow) -> tuple[Line, ...]:
    """The details of a row."""
    return row.about() if callable(row.about) else row.about


def action_of(panel: Panel, key: str, row: PanelRow | None) -> PanelAction | None:
    """The action of a key on a row."""
    for action in panel.actions:
        if key in action.keys and (not action.needs_row or (row is not None and action.can(row))):
            return action
    return None


def hints(panel: Panel, row: PanelRow, *, in_list: bool, is_whole: bool = False) -> str:
    """The key hints for a row. `is_whole`: its content uses the room of the list."""
    named = panel.keys if isinstance(panel.keys, str) else panel.keys(row)
    named = panel.list_keys if in_list and panel.list_keys else named
    if not is_whole:
        return named
    return f"{named.partition('  ')[0]}  {WHOLE_KEYS}" if named.startswith("Enter") else WHOLE_KEYS


def headline(panel: Panel, count: int, *, is_searched: bool) -> list[Line]:
    """The head, with the number of matches."""
    first, *others = panel.head
    of_all = f" of {len(panel.rows):,}" if is_searched else ""
    return [(*first, (f"  {count:,}{of_all} {panel.unit}", "dim")) if panel.unit else first, *others]


def keys_of(panel: Panel) -> frozenset[str]:
    """All keys that have a meaning."""
    return frozenset(key for action in panel.actions for key in action.keys)


def is_letter(key: str) -> bool:
    return len(key) == 1 or key in ("space", "delete")


def row_line(row: PanelRow, width: int) -> Line:
    """The line of a row, filled to `width` if it has text at its end."""
    line = row.line(width) if callable(row.line) else row.line
    if row.at_end is None:
        return line
    room = max(0, width - cell_len(row.at_end[0]) - 2)
    spans: list[Span] = []
    for words, ink in line:
        if cell_len(words) > room:
            words = f"{set_cell_size(words, room - 1)}…" if room else ""
        spans.append((words, ink))
        room -= cell_len(words)
        if not room:
            break
    return (*spans, (" " * (room + 2), "dim"), row.at_end)
