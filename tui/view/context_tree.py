"""What fills the context window, as rows: the components of a request with their large parts."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rich.cells import cell_len

from ebbtide.agent.calls.policy import server_of
from ebbtide.agent.context.view_items import ItemKind, ViewItem, ViewState
from ebbtide.agent.overview import MESSAGES, Overview, ServerShare, SourcedNumber, ToolShare
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.cells import fit_width
from ebbtide.tui.text.numbers import dollars, tokens
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, Span, TextStyle

Order: TypeAlias = Literal["order", "tokens"]
"""In request order, or largest first."""

ComponentColumn: TypeAlias = Literal["tokens", "share", "steps", "state", "keeping", "source"]
_MIN_NAME_WIDTH, _MAX_NAME_WIDTH = 40, 72
"""Minimum and maximum columns for names."""

MIN_ROW_TOKENS = 250
"""Tokens from which a part gets its own row."""

NAMES = {
    "system": "system text",
    "instructions": "instructions",
    "memories": "memories",
    "skills": "skills",
    "tools": "tools",
    "retain": "retained",
    "summary": "summary",
}
KINDS: dict[ItemKind, str] = {
    "you": "your messages",
    "reply": "replies and calls",
    "output": "outputs",
    "picture": "pictures",
    "note": "notes of the program",
    "instructions": "instructions read since",
    "pin": "pinned",
}
_BAR_INKS: Mapping[str, TextStyle] = {
    NAMES["system"]: "accent",
    NAMES["tools"]: "code",
    KINDS["you"]: "strong",
    KINDS["reply"]: "dim",
    KINDS["output"]: "warn",
}
STATES: dict[ViewState, str] = {
    "visible": "visible",
    "preview": "preview",
    "summarised": "summarised",
    "masked": "one line",
}


@dataclass(frozen=True, slots=True)
class ComponentRow:
    """One row of the list."""

    name: str
    tokens: int
    level: int = 0
    """Depth below a component."""
    source: str = ""
    """Source of the number."""
    key: str = ""
    """The key for context actions; empty if there are none."""
    ref: str = ""
    """The reference for reading all of it."""
    is_tool: bool = False
    """Whether it is a tool, which can be disabled."""
    age: int | None = None
    """Steps since it was added."""
    state: str = ""
    is_pinned: bool = False
    carrying_cost: float | None = None
    """US dollars spent so far on resending it; None if unknown or not applicable."""


@dataclass(frozen=True, slots=True)
class ComponentTable:
    """The rows of an overview, computed once: this takes a while for a long session."""

    overview: Overview
    groups: tuple[tuple[ComponentRow, Sequence[ComponentRow]], ...]
    """Each component with its large parts."""
    columns: tuple[ComponentColumn, ...]
    """Columns that have values."""
    width: int
    """Columns of the widest line."""

    def rows(self, order: Order = "order", words: str = "") -> tuple[ComponentRow, ...]:
        """Every component with its large parts; those of level 0 add up to the next request. `words`: filter that a
        row or its component must match."""
        groups: Sequence[tuple[ComponentRow, Sequence[ComponentRow]]] = self.groups
        if order == "tokens":
            groups = sorted(
                ((head, _largest_first(parts)) for head, parts in groups), key=lambda group: -group[0].tokens
            )
        wanted = words.lower().split()
        rows = list[ComponentRow]()
        for head, parts in groups:
            is_found = _holds(head, wanted)
            found = parts if is_found else [row for row in parts if _holds(row, wanted)]
            if found or is_found:
                rows += [head, *found]
        return tuple(rows)


def component_table(overview: Overview) -> ComponentTable:
    groups = tuple(
        (head, parts) for head, parts in _groups(overview) if head.tokens or parts or head.name == NAMES["tools"]
    )
    rows = [row for head, parts in groups for row in (head, *parts)]
    columns = _columns_for(rows)
    return ComponentTable(overview, groups, columns, _widest(rows, columns))


def stacked_bar(table: ComponentTable, cells: int) -> Line:
    """The window as one line of cells: the share of each component in its colour, and the free part."""
    room, taken, at = max(table.overview.effective, 1), 0, 0
    spans: list[Span] = []
    for head, _ in table.groups:
        taken += head.tokens
        end = min(max(round(cells * taken / room), 1 if taken else 0), cells)
        if end > at:
            spans.append(("█" * (end - at), ink_of(head)))
        at = max(at, end)
    return (*spans, ("░" * (cells - at), "dim"))


def ink_of(component: ComponentRow) -> TextStyle:
    """The colour of a component in the bar and before its name."""
    return _BAR_INKS.get(component.name, "good")


def _holds(row: ComponentRow, wanted: Sequence[str]) -> bool:
    if not wanted:
        return True
    searched = f"{row.name} {row.ref} {row.state} {'pinned' if row.is_pinned else ''}".lower()
    return all(word in searched for word in wanted)


def _largest_first(rows: Sequence[ComponentRow]) -> list[ComponentRow]:
    """The rows by size, with nested rows below their parents and the rest last."""
    blocks: list[list[ComponentRow]] = []
    for row in rows:
        if row.level > 1 and blocks:
            blocks[-1].append(row)
        else:
            blocks.append([row])
    is_rest = [not block[0].key and not block[0].source for block in blocks]
    order = sorted(range(len(blocks)), key=lambda place: (is_rest[place], -blocks[place][0].tokens))
    return [row for place in order for row in blocks[place]]


def _groups(overview: Overview) -> Iterator[tuple[ComponentRow, list[ComponentRow]]]:
    for component in overview.components:
        if component.name in MESSAGES:
            continue
        head = ComponentRow(
            sanitised_line(NAMES.get(component.name, component.name)), component.tokens, source=component.source
        )
        match component.name:
            case "tools":
                yield head, list(_tools(component, overview))
            case "instructions":
                yield head, [_file(number) for number in overview.instructions]
            case "summary":
                yield head, [_item(item, overview, "estimated", is_shared=False) for item in overview.pins]
            case _:
                yield head, []
    yield from _messages(overview)


def _file(number: SourcedNumber) -> ComponentRow:
    return ComponentRow(sanitised_line(number.name), number.tokens, 1, "estimated")


def _tools(component: SourcedNumber, overview: Overview) -> Iterator[ComponentRow]:
    """Built-in tools and the tools of each server."""
    served = sum(server.tokens for server in overview.servers)
    if overview.servers:
        yield ComponentRow("built in", max(component.tokens - served, 0), 1, "estimated")
    for server in overview.servers:
        own = [tool for tool in overview.tools if server_of(tool.name) == server.name]
        yield _server(server, own)
        for tool in own:
            if tool.tokens >= MIN_ROW_TOKENS or (tool.is_kept_out and not all(one.is_kept_out for one in own)):
                yield _tool(tool, server)
    if overview.held_back.tools:
        held = overview.held_back
        yield ComponentRow(
            f"held back: {pluralize(held.tools, 'tool')}, {tokens(held.tokens)} not sent", 0, 1, "estimated"
        )


def _server(server: ServerShare, own: Sequence[ToolShare]) -> ComponentRow:
    is_out = bool(own) and all(tool.is_kept_out for tool in own)
    many = pluralize(server.tools, "tool")
    many = f"{server.offered} of {many}" if server.offered < server.tools else many
    name = sanitised_line(f"{server.name.removeprefix('mcp__')}: {many}")
    state = "kept out" if is_out else "held back" if not server.offered else "visible"
    return ComponentRow(name, server.tokens, 1, "estimated", server.name, is_tool=True, state=state)


def _tool(tool: ToolShare, server: ServerShare) -> ComponentRow:
    state = "kept out" if tool.is_kept_out else "visible" if tool.is_shown else "held back"
    name = sanitised_line(tool.name.removeprefix(f"{server.name}__"))
    return ComponentRow(name, tool.tokens if tool.is_shown else 0, 2, "estimated", tool.name, is_tool=True, state=state)


def _messages(overview: Overview) -> Iterator[tuple[ComponentRow, list[ComponentRow]]]:
    whole = {component.name: component for component in overview.components if component.name in MESSAGES}
    is_counted = any(component.source == "counted" and component.tokens for component in whole.values())
    source = "counted" if is_counted else "estimated"
    left = sum(component.tokens for component in whole.values())
    for kind, name in KINDS.items():
        items = [item for item in overview.items if item.kind == kind]
        if not items:
            continue
        size = sum(item.tokens for item in items)
        left -= size
        large = [
            item
            for item in items
            if kind == "instructions" or item.tokens >= MIN_ROW_TOKENS or item.is_pinned or _is_shortened(item)
        ]
        rows = [_item(item, overview, source) for item in large]
        rest = size - sum(item.tokens for item in large)
        if large and len(large) < len(items):
            rows.append(ComponentRow(f"… {len(items) - len(large)} smaller", rest, 1))
        yield ComponentRow(name, size, source=source), rows
    if left:
        yield ComponentRow("messages", left, source=source), []


def _is_shortened(item: ViewItem) -> bool:
    """Whether the item is shown in part."""
    return item.state in ("masked", "summarised")


def _item(item: ViewItem, overview: Overview, source: str, *, is_shared: bool = True) -> ComponentRow:
    rent = None
    if overview.prices_again is not None and is_shared:
        rent = item.tokens * sum(overview.prices_again[max(len(overview.prices_again) - item.age + 1, 0) :])
    what = sanitised_line(item.what) or KINDS[item.kind]
    name = f"{item.ref}  {what}" if item.ref.startswith("r") else what
    return ComponentRow(
        name,
        item.tokens,
        1,
        source,
        item.key,
        item.ref,
        age=item.age if is_shared else None,
        state=STATES[item.state],
        is_pinned=item.is_pinned,
        carrying_cost=rent,
    )


def component_line(row: ComponentRow, width: int, effective: int, columns: Sequence[ComponentColumn]) -> Line:
    """The row, with as many columns as fit."""
    shown = [column for column in columns if width >= _COLUMNS[column].needed]
    cells = [_COLUMNS[column].cell(row, effective) for column in shown]
    room = max(1, width - sum(len(text) for text, _ in cells))
    name = f"{'  ' * row.level}{row.name}"
    return ((fit_width(name, room), "strong" if row.level == 0 else "text"), *cells)


def _columns_for(rows: Iterable[ComponentRow]) -> tuple[ComponentColumn, ...]:
    """The columns with values for these rows; common ones are always included."""
    columns: list[ComponentColumn] = ["tokens", "share"]
    rows = list(rows)
    if any(row.age is not None for row in rows):
        columns.append("steps")
    if any(row.state or row.is_pinned for row in rows):
        columns.append("state")
    if any(row.carrying_cost is not None for row in rows):
        columns.append("keeping")
    return (*columns, "source")


def _widest(rows: Sequence[ComponentRow], columns: Sequence[ComponentColumn]) -> int:
    """The width at which each row is whole, or nearly, so that numbers stay close to their names."""
    names = _MIN_NAME_WIDTH
    for row in rows:
        names = max(names, 2 * row.level + cell_len(row.name))
        if names >= _MAX_NAME_WIDTH:  # it gets no wider, however many follow
            break
    return min(names, _MAX_NAME_WIDTH) + 2 + sum(len(_COLUMNS[column].head) for column in columns)


def head_line(width: int, columns: Sequence[ComponentColumn]) -> Line:
    """The column headings."""
    head = "".join(_COLUMNS[column].head for column in columns if width >= _COLUMNS[column].needed)
    return ((" " * max(1, width - len(head)), "dim"), (head, "dim"))


def _tokens_cell(row: ComponentRow, _: int) -> Span:
    return f"{tokens(row.tokens):>7}", "strong" if row.level == 0 else "text"


def _share_cell(row: ComponentRow, effective: int) -> Span:
    return f"{row.tokens / max(effective, 1):>7.1%}", "dim"


def _age_cell(row: ComponentRow, _: int) -> Span:
    return f"{'' if row.age is None else row.age:>7}", "dim"


def _state_cell(row: ComponentRow, _: int) -> Span:
    state = "◆ pinned" if row.is_pinned and row.state == "visible" else f"{'◆ ' if row.is_pinned else ''}{row.state}"
    return f"  {state:<12}", "accent" if row.is_pinned or row.state not in ("", "visible") else "dim"


def _carrying_cost_cell(row: ComponentRow, _: int) -> Span:
    return f"{'' if row.carrying_cost is None else dollars(row.carrying_cost):>8}", "dim"


def _source_cell(row: ComponentRow, _: int) -> Span:
    return f"  {row.source:<12}", "dim"


@dataclass(frozen=True, slots=True)
class _ColumnKind:
    head: str
    cell: Callable[[ComponentRow, int], Span]
    needed: int = 0
    """Minimum line width for the column."""


_COLUMNS: Mapping[ComponentColumn, _ColumnKind] = {
    "tokens": _ColumnKind(f"{'tokens':>7}", _tokens_cell),
    "share": _ColumnKind(f"{'share':>7}", _share_cell, 44),
    "steps": _ColumnKind(f"{'steps':>7}", _age_cell, 60),
    "state": _ColumnKind(f"  {'state':<12}", _state_cell, 52),
    "keeping": _ColumnKind(f"{'keeping':>8}", _carrying_cost_cell, 72),
    "source": _ColumnKind(f"  {'source':<12}", _source_cell, 96),
}
"""From the left: tokens, share, steps since, state, cost of resending so far, and source."""
