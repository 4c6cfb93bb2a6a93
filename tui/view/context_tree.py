"""What fills the context window, as rows: the components of a request with their large parts."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rich.cells import cell_len

from ebbtide.agent.calls.policy import server_prefix
from ebbtide.agent.overview import MESSAGE_COMPONENTS, Overview, ServerShare, SourcedNumber, ToolShare
from ebbtide.agent.view.items import ItemKind, ViewItem, ViewState
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.cells import fit_width
from ebbtide.tui.text.numbers import format_dollars, tokens
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, Span, TextStyle

SortOrder: TypeAlias = Literal["order", "tokens"]
"""Sort order: as in the request, or largest first."""

ComponentColumn: TypeAlias = Literal["tokens", "share", "steps", "state", "keeping", "source"]
_MIN_NAME_WIDTH, _MAX_NAME_WIDTH = 40, 72
"""Minimum and maximum number of columns for names."""

MIN_ROW_TOKENS = 250
"""Minimum number of tokens of a part that gets its own row."""

COMPONENT_NAMES = {
    "system": "system prompt",
    "instructions": "instructions",
    "memories": "memories",
    "skills": "skills",
    "tools": "tools",
    "retain": "retained",
    "summary": "summary",
}
ITEM_KIND_NAMES: dict[ItemKind, str] = {
    "you": "your messages",
    "reply": "replies and calls",
    "output": "outputs",
    "picture": "pictures",
    "note": "program notes",
    "instructions": "later instructions",
    "pin": "pinned",
}
_BAR_STYLES: Mapping[str, TextStyle] = {
    COMPONENT_NAMES["system"]: "accent",
    COMPONENT_NAMES["tools"]: "code",
    ITEM_KIND_NAMES["you"]: "strong",
    ITEM_KIND_NAMES["reply"]: "dim",
    ITEM_KIND_NAMES["output"]: "warn",
}
STATE_NAMES: dict[ViewState, str] = {
    "visible": "visible",
    "preview": "preview",
    "summarised": "summarised",
    "masked": "one line",
}


@dataclass(frozen=True, slots=True)
class ComponentRow:
    """A row of the list of components."""

    name: str
    tokens: int
    level: int = 0
    """Depth: 0 for a component, more for its parts."""
    source: str = ""
    """How the number was found, e.g. counted or estimated."""
    key: str = ""
    """The key for context actions; empty if none apply."""
    ref: str = ""
    """The reference under which the whole content can be read."""
    is_tool: bool = False
    """Whether the row is a tool, which can be disabled."""
    age: int | None = None
    """Steps since the content was added; None if not applicable."""
    state: str = ""
    is_pinned: bool = False
    carrying_cost: float | None = None
    """US dollars spent so far on resending the content; None if unknown or not applicable."""


@dataclass(frozen=True, slots=True)
class ComponentTable:
    """The rows of an overview. They are computed only once, because that is slow for a long session."""

    overview: Overview
    groups: tuple[tuple[ComponentRow, Sequence[ComponentRow]], ...]
    """Each component with its large parts; see `MIN_ROW_TOKENS`."""
    columns: tuple[ComponentColumn, ...]
    """The columns to show, i.e. those with a value in at least one row."""
    width: int
    """Width at which no row is cut, in terminal columns, up to a maximum."""

    def rows(self, order: SortOrder = "order", words: str = "") -> tuple[ComponentRow, ...]:
        """Return every component with its large parts. The rows of level 0 add up to the next request. `words`:
        words that a row or its component must contain."""
        groups: Sequence[tuple[ComponentRow, Sequence[ComponentRow]]] = self.groups
        if order == "tokens":
            groups = sorted(
                ((head, _largest_first(parts)) for head, parts in groups), key=lambda group: -group[0].tokens
            )
        search_words = words.lower().split()
        rows = list[ComponentRow]()
        for head, parts in groups:
            is_found = _matches_words(head, search_words)
            found = parts if is_found else [row for row in parts if _matches_words(row, search_words)]
            if found or is_found:
                rows += [head, *found]
        return tuple(rows)


def component_table(overview: Overview) -> ComponentTable:
    groups = tuple(
        (head, parts)
        for head, parts in _component_groups(overview)
        if head.tokens or parts or head.name == COMPONENT_NAMES["tools"]
    )
    rows = [row for head, parts in groups for row in (head, *parts)]
    columns = _columns_for(rows)
    return ComponentTable(overview, groups, columns, _table_width(rows, columns))


def stacked_bar(table: ComponentTable, cells: int) -> Line:
    """Return the context window as one line of cells: the share of each component in its colour, then the free part."""
    room, summed_tokens, filled_cells = max(table.overview.effective, 1), 0, 0
    spans: list[Span] = []
    for head, _ in table.groups:
        summed_tokens += head.tokens
        end = min(max(round(cells * summed_tokens / room), 1 if summed_tokens else 0), cells)
        if end > filled_cells:
            spans.append(("█" * (end - filled_cells), component_style(head)))
        filled_cells = max(filled_cells, end)
    return (*spans, ("░" * (cells - filled_cells), "dim"))


def component_style(component: ComponentRow) -> TextStyle:
    """Return the colour of a component in the bar and before its name."""
    return _BAR_STYLES.get(component.name, "good")


def _matches_words(row: ComponentRow, search_words: Sequence[str]) -> bool:
    if not search_words:
        return True
    searched = f"{row.name} {row.ref} {row.state} {'pinned' if row.is_pinned else ''}".lower()
    return all(word in searched for word in search_words)


def _largest_first(rows: Sequence[ComponentRow]) -> list[ComponentRow]:
    """Return the rows by size, with nested rows below their parents and the row for the remaining parts last."""
    blocks: list[list[ComponentRow]] = []
    for row in rows:
        if row.level > 1 and blocks:
            blocks[-1].append(row)
        else:
            blocks.append([row])
    is_rest = [not block[0].key and not block[0].source for block in blocks]
    order = sorted(range(len(blocks)), key=lambda place: (is_rest[place], -blocks[place][0].tokens))
    return [row for place in order for row in blocks[place]]


def _component_groups(overview: Overview) -> Iterator[tuple[ComponentRow, list[ComponentRow]]]:
    for component in overview.components:
        if component.name in MESSAGE_COMPONENTS:
            continue
        head = ComponentRow(
            sanitised_line(COMPONENT_NAMES.get(component.name, component.name)),
            component.tokens,
            source=component.source,
        )
        match component.name:
            case "tools":
                yield head, list(_tool_rows(component, overview))
            case "instructions":
                yield head, [_file_row(number) for number in overview.instructions]
            case "summary":
                yield head, [_item_row(item, overview, "estimated", is_shared=False) for item in overview.pins]
            case _:
                yield head, []
    yield from _message_groups(overview)


def _file_row(number: SourcedNumber) -> ComponentRow:
    return ComponentRow(sanitised_line(number.name), number.tokens, 1, "estimated")


def _tool_rows(component: SourcedNumber, overview: Overview) -> Iterator[ComponentRow]:
    """Yield the rows of the built-in tools and of each server's tools."""
    server_tokens = sum(server.tokens for server in overview.servers)
    if overview.servers:
        yield ComponentRow("built-in tools", max(component.tokens - server_tokens, 0), 1, "estimated")
    for server in overview.servers:
        server_tools = [tool for tool in overview.tools if server_prefix(tool.name) == server.name]
        yield _server_row(server, server_tools)
        for tool in server_tools:
            if tool.tokens >= MIN_ROW_TOKENS or (tool.is_excluded and not all(one.is_excluded for one in server_tools)):
                yield _tool_row(tool, server)
    if overview.deferred.tools:
        deferred = overview.deferred
        yield ComponentRow(
            f"deferred: {pluralize(deferred.tools, 'tool')}, {tokens(deferred.tokens)} not sent", 0, 1, "estimated"
        )


def _server_row(server: ServerShare, server_tools: Sequence[ToolShare]) -> ComponentRow:
    is_disabled = bool(server_tools) and all(tool.is_excluded for tool in server_tools)
    tool_count = pluralize(server.tools, "tool")
    tool_count = f"{server.offered} of {tool_count}" if server.offered < server.tools else tool_count
    name = sanitised_line(f"{server.name.removeprefix('mcp__')}: {tool_count}")
    state = "disabled" if is_disabled else "deferred" if not server.offered else "visible"
    return ComponentRow(name, server.tokens, 1, "estimated", server.name, is_tool=True, state=state)


def _tool_row(tool: ToolShare, server: ServerShare) -> ComponentRow:
    state = "disabled" if tool.is_excluded else "visible" if tool.is_sent else "deferred"
    name = sanitised_line(tool.name.removeprefix(f"{server.name}__"))
    return ComponentRow(name, tool.tokens if tool.is_sent else 0, 2, "estimated", tool.name, is_tool=True, state=state)


def _message_groups(overview: Overview) -> Iterator[tuple[ComponentRow, list[ComponentRow]]]:
    components = {
        component.name: component for component in overview.components if component.name in MESSAGE_COMPONENTS
    }
    is_counted = any(component.source == "counted" and component.tokens for component in components.values())
    source = "counted" if is_counted else "estimated"
    unassigned_tokens = sum(component.tokens for component in components.values())
    for kind, name in ITEM_KIND_NAMES.items():
        items = [item for item in overview.items if item.kind == kind]
        if not items:
            continue
        kind_tokens = sum(item.tokens for item in items)
        unassigned_tokens -= kind_tokens
        large = [
            item
            for item in items
            if kind == "instructions" or item.tokens >= MIN_ROW_TOKENS or item.is_pinned or _is_partly_visible(item)
        ]
        rows = [_item_row(item, overview, source) for item in large]
        small_tokens = kind_tokens - sum(item.tokens for item in large)
        if large and len(large) < len(items):
            rows.append(ComponentRow(f"… {len(items) - len(large)} smaller", small_tokens, 1))
        yield ComponentRow(name, kind_tokens, source=source), rows
    if unassigned_tokens:
        yield ComponentRow("messages", unassigned_tokens, source=source), []


def _is_partly_visible(item: ViewItem) -> bool:
    """Whether only part of the item is in context."""
    return item.state in ("masked", "summarised")


def _item_row(item: ViewItem, overview: Overview, source: str, *, is_shared: bool = True) -> ComponentRow:
    carrying_cost = None
    if overview.prices_again is not None and is_shared:
        carrying_cost = item.tokens * sum(overview.prices_again[max(len(overview.prices_again) - item.age + 1, 0) :])
    description = sanitised_line(item.what) or ITEM_KIND_NAMES[item.kind]
    name = f"{item.ref}  {description}" if item.ref.startswith("r") else description
    return ComponentRow(
        name,
        item.tokens,
        1,
        source,
        item.key,
        item.ref,
        age=item.age if is_shared else None,
        state=STATE_NAMES[item.state],
        is_pinned=item.is_pinned,
        carrying_cost=carrying_cost,
    )


def component_line(row: ComponentRow, width: int, effective: int, columns: Sequence[ComponentColumn]) -> Line:
    """Return the row as a line, with as many columns as fit."""
    visible = [column for column in columns if width >= _COLUMNS[column].min_line_width]
    cells = [_COLUMNS[column].cell(row, effective) for column in visible]
    room = max(1, width - sum(len(text) for text, _ in cells))
    name = f"{'  ' * row.level}{row.name}"
    return ((fit_width(name, room), "strong" if row.level == 0 else "text"), *cells)


def _columns_for(rows: Iterable[ComponentRow]) -> tuple[ComponentColumn, ...]:
    """Return the columns that have values in these rows; `tokens`, `share` and `source` are always included."""
    columns: list[ComponentColumn] = ["tokens", "share"]
    rows = list(rows)
    if any(row.age is not None for row in rows):
        columns.append("steps")
    if any(row.state or row.is_pinned for row in rows):
        columns.append("state")
    if any(row.carrying_cost is not None for row in rows):
        columns.append("keeping")
    return (*columns, "source")


def _table_width(rows: Sequence[ComponentRow], columns: Sequence[ComponentColumn]) -> int:
    """Return the width at which all rows fit, up to a maximum, so that numbers stay close to their names."""
    names = _MIN_NAME_WIDTH
    for row in rows:
        names = max(names, 2 * row.level + cell_len(row.name))
        if names >= _MAX_NAME_WIDTH:  # the maximum is reached
            break
    return min(names, _MAX_NAME_WIDTH) + 2 + sum(len(_COLUMNS[column].heading) for column in columns)


def heading_line(width: int, columns: Sequence[ComponentColumn]) -> Line:
    """Return the column headings."""
    head = "".join(_COLUMNS[column].heading for column in columns if width >= _COLUMNS[column].min_line_width)
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
    return f"{'' if row.carrying_cost is None else format_dollars(row.carrying_cost):>8}", "dim"


def _source_cell(row: ComponentRow, _: int) -> Span:
    return f"  {row.source:<12}", "dim"


@dataclass(frozen=True, slots=True)
class _ColumnKind:
    heading: str
    cell: Callable[[ComponentRow, int], Span]
    min_line_width: int = 0
    """Minimum width of the line for this column to be shown."""


_COLUMNS: Mapping[ComponentColumn, _ColumnKind] = {
    "tokens": _ColumnKind(f"{'tokens':>7}", _tokens_cell),
    "share": _ColumnKind(f"{'share':>7}", _share_cell, 44),
    "steps": _ColumnKind(f"{'steps':>7}", _age_cell, 60),
    "state": _ColumnKind(f"  {'state':<12}", _state_cell, 52),
    "keeping": _ColumnKind(f"{'cost':>8}", _carrying_cost_cell, 72),
    "source": _ColumnKind(f"  {'source':<12}", _source_cell, 96),
}
"""The columns from left to right: tokens, share, age in steps, state, cost of resending so far, source."""
