"""The list that a command shows, as one value: its rows, what there is to say of each, and what may be done with them.
A screen draws it, and lines print it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, Union

from rich.cells import cell_len, set_cell_size

from ebbtide.tools.lazy import dataclass
from ebbtide.tui.text.fuzzy import rank_matches
from ebbtide.tui.text.spans import Line, Span, TextStyle

if TYPE_CHECKING:  # a type only: loaded with what it reads
    from ebbtide.agent.archive.listing import ContentPage


class PagedTexts(Protocol):
    """Texts that are read a page at a time. Methods raise `AgentError`."""

    async def page(self, ref: str, first: int, count: int) -> "ContentPage":
        """Lines of what a reference stands for."""

    async def line_of(self, ref: str, text: str) -> int:
        """The number of the line at which it holds a text; 1 when it holds none."""


@dataclass(frozen=True, slots=True)
class PagedText:
    """What a reference stands for."""

    texts: PagedTexts
    ref: str
    holding: str = ""
    """It is read from where it holds this."""


@dataclass(frozen=True, slots=True)
class DiffText:
    diff: str
    otherwise: str = ""
    """What is said where nothing differs."""


@dataclass(frozen=True, slots=True)
class LoadedText:
    """Lines that are read when they are to be seen."""

    load: Callable[..., Awaitable[Sequence[Line]]]
    """Raises `AgentError`."""
    of: tuple[object, ...]
    """What it is called with."""


PanelContent: TypeAlias = PagedText | DiffText | LoadedText | None
"""What there is to read of a row besides what is told of it."""


@dataclass(frozen=True, slots=True)
class PanelRow:
    value: str
    """What it stands for."""
    line: Line | Callable[[int], Line]
    """As it is drawn, or what draws it so many columns wide."""
    words: str = ""
    """As it is read where there are no columns; its line unless given."""
    searched: str = ""
    """The words by which it is found; `words` unless given."""
    about: tuple[Line, ...] | Callable[[], tuple[Line, ...]] = ()
    """What is told of it while it is marked, or what tells it then."""
    content: PanelContent = None
    title: str = ""
    """What it is called, where that can be changed."""
    at_end: Span | None = None
    """Stands at the right end of its line, and gives way to nothing."""
    is_heading: bool = False
    """It only says what follows: it is never marked, and not there once words are typed."""


NO_ROW = PanelRow("", ())
WHOLE_KEYS = "Up, Down, PgUp, PgDn read  Esc goes back to the list"


def heading(words: str) -> PanelRow:
    return PanelRow("", ((words, "strong"),), is_heading=True)


@dataclass(frozen=True, slots=True)
class RowChosen:
    """The list is left: somebody has chosen a row."""

    value: str
    action: str = ""


@dataclass(frozen=True, slots=True)
class ShowMessage:
    """The list stays, and this is said."""

    text: str
    ink: TextStyle = "dim"


@dataclass(frozen=True, slots=True)
class CopyText:
    """The list stays, and this goes into the clipboard."""

    text: str


Outcome: TypeAlias = Union[RowChosen, ShowMessage, CopyText, Literal["whole"], "Panel", None]
"""What became of an action: `whole` gives what is read the room of the list, or gives it back."""


@dataclass(frozen=True, slots=True)
class AskForText:
    """Words that an action needs."""

    begin: Callable[[PanelRow], str]
    """What there is of them."""
    keys: str
    question: str
    """What is asked where there are no keys."""
    replaces: bool = False
    """What is written first stands in the place of what there is."""
    placeholder: Callable[[PanelRow], str] = lambda row: ""
    nothing: str = ""
    """What is typed for no words where there are no keys: an empty line leaves."""
    is_hidden: bool = False
    """What is written is not shown."""
    meanwhile: str = ""
    """What is said while something is done with the words."""


def any_row(row: PanelRow) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class PanelAction:
    """What may be done with a row. The first one of a panel is done by Enter and by the row's number."""

    keys: tuple[str, ...]
    """Letters mean it only while nothing is searched."""
    word: str = ""
    """What is typed for it where there are no keys; empty where it is for keys only."""
    do: Callable[[PanelRow, str], Awaitable[Outcome]] | None = None
    """Raises `AgentError`. The words are those that it asks for. None: the row is taken."""
    can: Callable[[PanelRow], bool] = any_row
    asks: AskForText | None = None
    confirm: Callable[[PanelRow], str] | None = None
    """What is asked before it is done where there are no keys."""
    needs_row: bool = True


TAKE = PanelAction(("enter",), "take")


@dataclass(frozen=True, slots=True)
class Panel:
    name: str
    """That of its command."""
    head: tuple[Line, ...]
    rows: tuple[PanelRow, ...] = ()
    keys: str | Callable[[PanelRow], str] = ""
    """Which keys there are, in phrases that two blanks divide."""
    list_keys: str = ""
    """Which there are while the list has the keys, if others."""
    empty: str = ""
    """What is said where there are no rows."""
    not_found: str = ""
    """What is said where no row has the words; `empty` unless given."""
    plain_head: str = ""
    """What is said above the rows where they are numbered; the head unless given."""
    actions: tuple[PanelAction, ...] = (TAKE,)
    about: tuple[Line, ...] = ()
    """What is told where there are no rows to mark."""
    search: str = "type to find"
    """What stands in the box for words; empty: there is none."""
    words: str = ""
    """What is in it at first."""
    unit: str = ""
    """What the rows are: how many were found is told behind the head."""
    mark: str = ""
    """The value of the row that is marked at first."""
    reads: bool = False
    """Pages are turned of what is told of a row, not of the list."""
    looks: bool = False
    """Where there are no keys, what is told of a row is read before something is done with it."""
    min_width_beside: int = 0
    """Columns from which on what is told of a row stands beside the list; 0: it never does."""
    most: int = 0
    """Lines of the list where it stands above; 0: as many as there is room for."""
    tail: bool = False
    """What is told of a row is shown from its end."""
    is_newest_last: bool = False
    """Where rows are numbered, the last one comes first."""
    is_guarded: bool = False
    """Keys that were typed before it was seen are not for it."""
    is_alone: bool = False
    """It is shown over no other screen."""
    message: ShowMessage | None = None
    """What is said when it is shown in the place of another."""
    marked: Callable[[PanelRow], None] | None = None
    """Is called with the row that is marked now."""
    besides: Callable[[str], Sequence[PanelRow]] | None = None
    """Rows that words bring, behind those that are found by them."""
    find: "Callable[[str], AsyncIterator[Panel]] | None" = None
    """Finds rows by words in place of the words of rows: one panel after the other, as more is found. Raises
    `AgentError`."""
    more: "Callable[[], Awaitable[Panel]] | None" = None
    """It with the next rows. Raises `AgentError`."""
    watch: "Callable[[Callable[[], None] | None], None] | None" = None
    """Says whom to call when it has become another, or nobody any more."""
    now: "Callable[[], Panel] | None" = None
    """What it has become."""


def report_panel(name: str, head: Line, lines: Sequence[Line], said: Sequence[str]) -> Panel:
    """Lines to look at, of which nothing is chosen. `plain_head`: as they are read where there are no columns."""
    keys = "Up, Down   Esc closes"
    return Panel(name, (head,), (), keys, plain_head="\n".join(said), about=tuple(lines), search="", reads=True)


def matching_rows(panel: Panel, words: str) -> tuple[PanelRow, ...]:
    """The rows that have the words, the nearest first; all of them without words."""
    if not words.strip() or panel.find is not None:
        return panel.rows
    rows = [row for row in panel.rows if not row.is_heading]
    besides = panel.besides(words.strip()) if panel.besides is not None else ()
    return (*(rows[index] for index in rank_matches(words, [searchable_text(row) for row in rows])), *besides)


def searchable_text(row: PanelRow) -> str:
    return row.searched or row_words(row)


def row_words(row: PanelRow) -> str:
    """The row in a line that is read aloud."""
    return row.words or "".join(text for text, _ in row_line(row, 0)).strip()


def about_row(row: PanelRow) -> tuple[Line, ...]:
    """What is told of a row while it is marked."""
    return row.about() if callable(row.about) else row.about


def action_of(panel: Panel, key: str, row: PanelRow | None) -> PanelAction | None:
    """What a key means at a row."""
    for action in panel.actions:
        if key in action.keys and (not action.needs_row or (row is not None and action.can(row))):
            return action
    return None


def hints(panel: Panel, row: PanelRow, *, in_list: bool, is_whole: bool = False) -> str:
    """The keys that are named at a row. `is_whole`: what is read of it has the room of the list."""
    named = panel.keys if isinstance(panel.keys, str) else panel.keys(row)
    named = panel.list_keys if in_list and panel.list_keys else named
    if not is_whole:
        return named
    return f"{named.partition('  ')[0]}  {WHOLE_KEYS}" if named.startswith("Enter") else WHOLE_KEYS


def headline(panel: Panel, count: int, *, is_searched: bool) -> list[Line]:
    """The head, with how many rows were found."""
    first, *others = panel.head
    of_all = f" of {len(panel.rows):,}" if is_searched else ""
    return [(*first, (f"  {count:,}{of_all} {panel.unit}", "dim")) if panel.unit else first, *others]


def keys_of(panel: Panel) -> frozenset[str]:
    """All that mean something."""
    return frozenset(key for action in panel.actions for key in action.keys)


def is_letter(key: str) -> bool:
    return len(key) == 1 or key in ("space", "delete")


def row_line(row: PanelRow, width: int) -> Line:
    """The line of a row, as wide as its place where something stands at its end."""
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
