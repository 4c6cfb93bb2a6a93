"""What fills the context window, as rows: the components of a request and their large parts."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rich.cells import cell_len

from ebbtide.agent.calls.policy import server_prefix
from ebbtide.agent.view.items import ItemKind, ViewItem, ViewState
from ebbtide.agent.window.overview import MESSAGE_COMPONENTS, Overview, ServerShare, TokenCount, ToolShare
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.cells import fit_width
from ebbtide.tui.text.numbers import format_dollars, format_tokens
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, Span, TextStyle

SortOrder: TypeAlias = Literal["order", "tokens"]
"""Order of the rows: as in the request, or largest first."""

ComponentColumn: TypeAlias = Literal["tokens", "share", "steps", "state", "carrying cost", "source"]
_MIN_NAME_WIDTH, _MAX_NAME_WIDTH = 40, 72
"""Minimum and maximum number of columns for names."""

MIN_ROW_TOKENS = 250
"""Parts with fewer tokens than this do not get a row of their own."""

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
    "picture": "images",
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
    """A row in the list of components."""

    name: str
    tokens: int
    level: int = 0
    """Nesting depth: 0 for a component, more for its parts."""
    source: str = ""
    """Where the token count comes from, for example `counted` or `estimated`."""
    key: str = ""
    """The key for context actions; empty if there are none for this row."""
    ref: str = ""
    """The reference for reading the whole content."""
    is_tool: bool = False
    """Whether the row is a tool, which the user can disable."""
    age: int | None = None
    """Steps since the content was added; None if this does not apply."""
    state: str = ""
    is_pinned: bool = False
    carrying_cost: float | None = None
    """Cost of resending the content so far, in US dollars. None if unknown or if this does not apply."""


@dataclass(frozen=True, slots=True)
class ComponentTable:
    """The rows of an overview. They are computed once, because that is slow for a long session."""

    overview: Overview
    components: tuple[tuple[ComponentRow, Sequence[ComponentRow]], ...]
    """The components, each with its large parts (see `MIN_ROW_TOKENS`)."""
    columns: tuple[ComponentColumn, ...]
    """The columns to show, which are those with a value in any row."""
    width: int
    """The number of terminal columns at which no row is cut, up to a maximum."""

    def rows(self, order: SortOrder = "order", query: str = "") -> tuple[ComponentRow, ...]:
        """Get all components with their large parts. The rows of level 0 add up to the next request. `query`: words
        that must occur in a row or its component."""
        groups: Sequence[tuple[ComponentRow, Sequence[ComponentRow]]] = self.components
        if order == "tokens":
            groups = sorted(
                ((component, _largest_first(part_rows)) for component, part_rows in groups),
                key=lambda group: -group[0].tokens,
            )
        search_words = query.lower().split()
        rows = list[ComponentRow]()
        for component, part_rows in groups:
            component_matches = _matches_words(component, search_words)
            matching_rows = (
                part_rows if component_matches else [row for row in part_rows if _matches_words(row, search_words)]
            )
            if matching_rows or component_matches:
                rows += [component, *matching_rows]
        return tuple(rows)


def build_component_table(overview: Overview) -> ComponentTable:
    groups = tuple(
        (component, part_rows)
        for component, part_rows in _component_groups(overview)
        if component.tokens or part_rows or component.name == COMPONENT_NAMES["tools"]
    )
    rows = [row for component, part_rows in groups for row in (component, *part_rows)]
    columns = _columns_for(rows)
    return ComponentTable(overview, groups, columns, _table_width(rows, columns))


def stacked_bar(table: ComponentTable, width: int) -> Line:
    """Draw the context window as one line of cells: each component's share in its colour, then the free part."""
    window_tokens = max(table.overview.effective, 1)
    summed_tokens = 0
    filled_cells = 0
    spans: list[Span] = []
    for component, _ in table.components:
        summed_tokens += component.tokens
        end = min(max(round(width * summed_tokens / window_tokens), 1 if summed_tokens else 0), width)
        if end > filled_cells:
            spans.append(("█" * (end - filled_cells), component_style(component)))
        filled_cells = max(filled_cells, end)
    return (*spans, ("░" * (width - filled_cells), "dim"))


def component_style(component: ComponentRow) -> TextStyle:
    """Get a component's colour in the bar and before its name."""
    return _BAR_STYLES.get(component.name, "good")


def _matches_words(row: ComponentRow, search_words: Sequence[str]) -> bool:
    if not search_words:
        return True
    searchable_text = f"{row.name} {row.ref} {row.state} {'pinned' if row.is_pinned else ''}".lower()
    return all(word in searchable_text for word in search_words)


def _largest_first(rows: Sequence[ComponentRow]) -> list[ComponentRow]:
    """Sort rows by size. Nested rows stay below their parents, and the row for the remaining parts comes last."""
    blocks: list[list[ComponentRow]] = []
    for row in rows:
        if row.level > 1 and blocks:
            blocks[-1].append(row)
        else:
            blocks.append([row])
    is_remainder_by_block = [not block[0].key and not block[0].source for block in blocks]
    indices = sorted(range(len(blocks)), key=lambda index: (is_remainder_by_block[index], -blocks[index][0].tokens))
    return [row for index in indices for row in blocks[index]]


def _component_groups(overview: Overview) -> Iterator[tuple[ComponentRow, list[ComponentRow]]]:
    for component in overview.components:
        if component.name in MESSAGE_COMPONENTS:
            continue
        component_row = ComponentRow(
            sanitise_line(COMPONENT_NAMES.get(component.name, component.name)),
            component.tokens,
            source=component.source,
        )
        match component.name:
            case "tools":
                yield component_row, list(_tool_rows(component, overview))
            case "instructions":
                yield component_row, [_file_row(file) for file in overview.instructions]
            case "summary":
                yield (
                    component_row,
                    [_item_row(item, overview, "estimated", is_message=False) for item in overview.pins],
                )
            case _:
                yield component_row, []
    yield from _group_messages(overview)


def _file_row(file: TokenCount) -> ComponentRow:
    return ComponentRow(sanitise_line(file.name), file.tokens, 1, "estimated")


def _tool_rows(component: TokenCount, overview: Overview) -> Iterator[ComponentRow]:
    """Yield rows for the built-in tools and for each server's tools."""
    server_tokens = sum(server.tokens for server in overview.servers)
    if overview.servers:
        yield ComponentRow("built-in tools", max(component.tokens - server_tokens, 0), 1, "estimated")
    for server in overview.servers:
        server_tools = [tool for tool in overview.tools if server_prefix(tool.name) == server.name]
        yield _server_row(server, server_tools)
        for tool in server_tools:
            if tool.tokens >= MIN_ROW_TOKENS or (
                tool.is_excluded and not all(other_tool.is_excluded for other_tool in server_tools)
            ):
                yield _tool_row(tool, server)
    if overview.deferred.tools:
        deferred_tools = overview.deferred
        yield ComponentRow(
            f"deferred: {pluralize(deferred_tools.tools, 'tool')}, {format_tokens(deferred_tools.tokens)} not sent",
            0,
            1,
            "estimated",
        )


def _server_row(server: ServerShare, server_tools: Sequence[ToolShare]) -> ComponentRow:
    is_disabled = bool(server_tools) and all(tool.is_excluded for tool in server_tools)
    tool_count_text = pluralize(server.tools, "tool")
    tool_count_text = (
        f"{server.offered_count} of {tool_count_text}" if server.offered_count < server.tools else tool_count_text
    )
    name = sanitise_line(f"{server.name.removeprefix('mcp__')}: {tool_count_text}")
    state = "disabled" if is_disabled else "deferred" if not server.offered_count else "visible"
    return ComponentRow(name, server.tokens, 1, "estimated", server.name, is_tool=True, state=state)


def _tool_row(tool: ToolShare, server: ServerShare) -> ComponentRow:
    state = "disabled" if tool.is_excluded else "visible" if tool.is_sent else "deferred"
    name = sanitise_line(tool.name.removeprefix(f"{server.name}__"))
    return ComponentRow(name, tool.tokens if tool.is_sent else 0, 2, "estimated", tool.name, is_tool=True, state=state)


def _group_messages(overview: Overview) -> Iterator[tuple[ComponentRow, list[ComponentRow]]]:
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
        large_items = [
            item
            for item in items
            if kind == "instructions" or item.tokens >= MIN_ROW_TOKENS or item.is_pinned or _is_replaced(item)
        ]
        rows = [_item_row(item, overview, source) for item in large_items]
        small_tokens = kind_tokens - sum(item.tokens for item in large_items)
        if large_items and len(large_items) < len(items):
            rows.append(ComponentRow(f"… {len(items) - len(large_items)} smaller", small_tokens, 1))
        yield ComponentRow(name, kind_tokens, source=source), rows
    if unassigned_tokens:
        yield ComponentRow("messages", unassigned_tokens, source=source), []


def _is_replaced(item: ViewItem) -> bool:
    """Whether the context contains a summary or a single line in place of the item."""
    return item.state in ("masked", "summarised")


def _item_row(item: ViewItem, overview: Overview, source: str, *, is_message: bool = True) -> ComponentRow:
    carrying_cost = None
    if overview.prices_again is not None and is_message:
        carrying_cost = item.tokens * sum(overview.prices_again[max(len(overview.prices_again) - item.age + 1, 0) :])
    description = sanitise_line(item.what) or ITEM_KIND_NAMES[item.kind]
    name = f"{item.ref}  {description}" if item.ref.startswith("r") else description
    return ComponentRow(
        name,
        item.tokens,
        1,
        source,
        item.key,
        item.ref,
        age=item.age if is_message else None,
        state=STATE_NAMES[item.state],
        is_pinned=item.is_pinned,
        carrying_cost=carrying_cost,
    )


def component_row_line(row: ComponentRow, width: int, window_tokens: int, columns: Sequence[ComponentColumn]) -> Line:
    """Format a row as a line with as many columns as fit."""
    visible_columns = [column for column in columns if width >= _COLUMNS[column].min_line_width]
    cells = [_COLUMNS[column].cell(row, window_tokens) for column in visible_columns]
    name_width = max(1, width - sum(len(text) for text, _ in cells))
    name = f"{'  ' * row.level}{row.name}"
    return ((fit_width(name, name_width), "strong" if row.level == 0 else "text"), *cells)


def _columns_for(rows: Iterable[ComponentRow]) -> tuple[ComponentColumn, ...]:
    """Choose the columns that have values in these rows. `tokens`, `share` and `source` are always included."""
    columns: list[ComponentColumn] = ["tokens", "share"]
    rows = list(rows)
    if any(row.age is not None for row in rows):
        columns.append("steps")
    if any(row.state or row.is_pinned for row in rows):
        columns.append("state")
    if any(row.carrying_cost is not None for row in rows):
        columns.append("carrying cost")
    return (*columns, "source")


def _table_width(rows: Sequence[ComponentRow], columns: Sequence[ComponentColumn]) -> int:
    """Calculate the width at which all rows fit. It is limited, so that numbers stay close to their names."""
    name_width = _MIN_NAME_WIDTH
    for row in rows:
        name_width = max(name_width, 2 * row.level + cell_len(row.name))
        if name_width >= _MAX_NAME_WIDTH:  # the maximum is reached
            break
    return min(name_width, _MAX_NAME_WIDTH) + 2 + sum(len(_COLUMNS[column].heading) for column in columns)


def heading_line(width: int, columns: Sequence[ComponentColumn]) -> Line:
    """Format the column headings."""
    headings = "".join(_COLUMNS[column].heading for column in columns if width >= _COLUMNS[column].min_line_width)
    return ((" " * max(1, width - len(headings)), "dim"), (headings, "dim"))


def _tokens_cell(row: ComponentRow, _: int) -> Span:
    return f"{format_tokens(row.tokens):>7}", "strong" if row.level == 0 else "text"


def _share_cell(row: ComponentRow, window_tokens: int) -> Span:
    return f"{row.tokens / max(window_tokens, 1):>7.1%}", "dim"


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
class _Column:
    heading: str
    cell: Callable[[ComponentRow, int], Span]
    min_line_width: int = 0
    """Minimum width of the line at which this column is shown."""


_COLUMNS: Mapping[ComponentColumn, _Column] = {
    "tokens": _Column(f"{'tokens':>7}", _tokens_cell),
    "share": _Column(f"{'share':>7}", _share_cell, 44),
    "steps": _Column(f"{'steps':>7}", _age_cell, 60),
    "state": _Column(f"  {'state':<12}", _state_cell, 52),
    "carrying cost": _Column(f"{'cost':>8}", _carrying_cost_cell, 72),
    "source": _Column(f"  {'source':<12}", _source_cell, 96),
}
"""The columns from left to right: tokens, share, age in steps, state, cost of resending so far, source."""
