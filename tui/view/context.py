"""The context overview as lines: the budget with bars, the epochs and the requests."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebbtide.agent.messages import Recalls, Usage
from ebbtide.agent.records.usage import RequestUsage, Rewrite
from ebbtide.agent.view.recalls import reuse_factors
from ebbtide.agent.window.overview import Epoch, Overview, ServerShare, TokenCount
from ebbtide.tools.outputs.extent import ellipsize, pluralize
from ebbtide.tui.text.numbers import format_dollars, format_tokens
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, TextStyle, parse_inline_code
from ebbtide.tui.view.component_table import COMPONENT_NAMES, build_component_table, component_row_line, heading_line
from ebbtide.tui.view.receipts import strategy_names
from ebbtide.tui.view.style_costs import style_lines
from ebbtide.tui.view.timeline import REWRITE_REASONS, RequestColumn, column_numbers_text, legend_line, plot_lines

if TYPE_CHECKING:  # types only: the estimates are made in a session
    from ebbtide.agent.compaction.style_costs import StyleCosts

MAX_LISTED_REQUESTS = 200
"""Maximum number of requests listed, newest first."""

RECALLED_NOUNS = {
    "file": "file",
    "view": "file",
    "search": "search",
    "report": "report",
    "change": "edit",
    "program": "command",
    "other": "other call",
}
"""Nouns for the kinds of outputs that can be recalled."""

MODEL_STRATEGIES = {"summary", "chunks"}
"""Compaction strategies that call a model."""

_CELL_EIGHTHS = " ▏▎▍▌▋▊▉"


def overview_lines(overview: Overview, width: int, style_costs: "StyleCosts | None" = None) -> tuple[Line, ...]:
    """Format the whole overview for a width in cells. `style_costs`: what other styles would have cost, if known."""
    how_to_change = "`/context style NAME` changes the style"
    styles = style_lines(style_costs, overview.recalls, how_to_change) if style_costs is not None else ()
    title: list[Line] = [((sanitise_line(overview.title), "text"),)] if overview.title else []
    return (
        (("Context", "strong"), (f"  {overview.session}  {sanitise_line(overview.model)}", "dim")),
        *title,
        (),
        *budget_lines(overview, width),
        (),
        *content_lines(overview, width),
        (),
        *styles,
        *([()] if styles else []),
        *epoch_lines(overview.epochs),
        *recall_lines(overview.recalls),
        (),
        *request_lines(overview.requests),
    )


def summary_line(overview: Overview) -> Line:
    """Return how full the context window is, its size and the model, in one line."""
    used_tokens, usable_tokens = overview.used_tokens, max(overview.effective, 1)
    usable_text = f"{format_tokens(overview.effective)} usable, {used_tokens / usable_tokens:.0%}"
    free_text = f"  {format_tokens(max(overview.effective - used_tokens, 0))} free"
    window_text = f"  window {format_tokens(overview.window.tokens)}{cache_text(overview)}  {overview.model}"
    style: TextStyle = "warn" if used_tokens > 0.95 * usable_tokens else "text"
    return (
        ("Context", "strong"),
        (f"  {format_tokens(used_tokens)} of {usable_text}", style),
        (free_text, style),
        (sanitise_line(window_text), "dim"),
    )


def budget_lines(overview: Overview, width: int) -> list[Line]:
    """Format each component with its share of the budget, followed by the window and the reserves that determine the
    budget."""
    usable_tokens = max(overview.effective, 1)
    bar_cells = max(8, min(30, width - 46))
    lines: list[Line] = []
    for component in overview.components:
        share = component.tokens / usable_tokens
        name = COMPONENT_NAMES.get(component.name, component.name)
        row = f"  {name:<13}{format_tokens(component.tokens):>8}{share:>8.1%}  "
        lines.append(((row, "text"), (f"{component.source:<11}", "dim"), (share_bar(share, bar_cells), "accent")))
        if component.name == "instructions":
            lines += [_file_line(file, usable_tokens) for file in overview.instructions]
        if component.name == "tools":
            lines += [_server_line(server, usable_tokens) for server in overview.servers]
    used_tokens, free_tokens = overview.used_tokens, overview.effective - overview.used_tokens
    style: TextStyle = "warn" if free_tokens < 0.05 * usable_tokens else "strong"
    row = f"  {'used':<13}{format_tokens(used_tokens):>8}{used_tokens / usable_tokens:>8.1%}  "
    lines.append(
        (
            (row, style),
            (" " * 11, "dim"),
            (share_bar(used_tokens / usable_tokens, bar_cells), "warn" if style == "warn" else "accent"),
        )
    )
    lines.append(
        ((f"  {'free':<13}{format_tokens(max(free_tokens, 0)):>8}{max(free_tokens, 0) / usable_tokens:>8.1%}", "text"),)
    )
    if overview.deferred.tools:
        row = f"  {'deferred':<13}{format_tokens(overview.deferred.tokens):>8}{'':>8}  "
        lines.append(((row, "text"), (f"{pluralize(overview.deferred.tools, 'tool')}, found by tool_search", "dim")))
    lines.append(())
    lines.append(((f"  {'window':<13}{overview.window.tokens:>8,}  ", "text"), (overview.window.source, "dim")))
    for reserve in overview.reserves:
        lines.append(((f"  − {reserve.name:<11}{reserve.tokens:>8,}  ", "text"), (reserve.source, "dim")))
    lines.append(((f"  {'= usable':<13}{overview.effective:>8,}", "text"),))
    if overview.cache_lifetime:
        lines.append(((f"  {'cache':<13}{overview.cache_lifetime:>8}  ", "text"), (_saving_text(overview), "dim")))
    return lines


def cache_text(overview: Overview) -> str:
    """Describe in a few words how long the cache lives and what it has saved; empty if the provider offers no choice of
    lifetime."""
    if not overview.cache_lifetime:
        return ""
    saving = overview.cache_saving
    effect = f" ({'saves' if saving > 0 else 'adds'} {abs(saving):.0%})" if round(saving, 2) else ""
    return f"  cache {overview.cache_lifetime}{effect}"


def _saving_text(overview: Overview) -> str:
    """Describe what the chosen cache lifetime has saved or cost so far."""
    saving = overview.cache_saving
    if round(saving, 2) == 0:
        return "its lifetime has changed no cost so far"
    return f"its lifetime has {'saved' if saving > 0 else 'added'} {abs(saving):.0%} of the input cost so far"


def _file_line(file: TokenCount, usable_tokens: int) -> Line:
    """Format the row of an instruction file, with its share."""
    name_column = f"  ↳ {ellipsize(sanitise_line(file.name.rpartition('/')[2]), 11):<11}"
    return (
        (f"{name_column}{format_tokens(file.tokens):>8}{file.tokens / usable_tokens:>8.1%}  ", "dim"),
        (sanitise_line(file.name), "dim"),
    )


def _server_line(server: ServerShare, usable_tokens: int) -> Line:
    """Format the row of a server's tools, with their share."""
    name_column = f"  ↳ {ellipsize(sanitise_line(server.name.removeprefix('mcp__')), 11):<11}"
    tool_count_text = pluralize(server.tools, "tool")
    if server.offered_count < server.tools:
        tool_count_text = f"{server.offered_count} of {tool_count_text}"
    return (
        (f"{name_column}{format_tokens(server.tokens):>8}{server.tokens / usable_tokens:>8.1%}  ", "dim"),
        (tool_count_text, "dim"),
    )


def content_lines(overview: Overview, width: int) -> list[Line]:
    """Format a row for each component of the next request, with its large parts below it."""
    row_width = max(width - 2, 1)
    table = build_component_table(overview)
    rows = [component_row_line(row, row_width, overview.effective, table.columns) for row in table.rows()]
    heading: Line = (("Contents", "strong"),)
    return [heading, *((("  ", "dim"), *line) for line in (heading_line(row_width, table.columns), *rows))]


def share_bar(share: float, cells: int) -> str:
    """Draw a bar of at most `cells` cells, in eighths of a cell. Any share above 0 is visible."""
    eighths = min(round(max(share, 0.0) * cells * 8), cells * 8)
    if share > 0:
        eighths = max(eighths, 1)
    full_cells, remainder = divmod(eighths, 8)
    return ("█" * full_cells + _CELL_EIGHTHS[remainder]).rstrip()


def epoch_lines(epochs: Sequence[Epoch]) -> list[Line]:
    """Format a row for each epoch (the requests between two rewrites) and a line about each rewrite."""
    lines: list[Line] = [(("Epochs", "strong"), (f"  {_column_headings('requests')}", "dim"))]
    for epoch_number, epoch in enumerate(epochs, 1):
        row = (
            f"  {epoch_number:<5}{len(epoch.requests):>9}{_token_columns(epoch.usage)}{format_dollars(epoch.cost):>10}"
        )
        lines.append(((row, "text"),))
        if epoch.rewrite is not None:
            lines.append(((f"    ↳ {rewrite_text(epoch.rewrite)}", "dim"),))
    return lines


def rewrite_text(rewrite: Rewrite) -> str:
    """Describe a rewrite: its strategies, reason, sizes and cost. A rewrite without strategies has removed nothing, but
    has changed the start of the request."""
    if not rewrite.strategies:
        return sanitise_line(f"changed: {rewrite.reason}")
    strategies = ", ".join(strategy_names(rewrite.strategies))
    reason_text = f" ({REWRITE_REASONS.get(rewrite.reason, rewrite.reason)})" if rewrite.reason else ""
    sizes_text = f"{format_tokens(rewrite.before)} → {format_tokens(rewrite.after)} tokens"
    price = (
        format_dollars(rewrite.cost)
        if rewrite.cost != 0 or MODEL_STRATEGIES & set(rewrite.strategies)
        else "no model used"
    )
    return sanitise_line(f"{strategies}{reason_text}: {sizes_text}, {price}")


def request_plot(columns: Sequence[RequestColumn], height: int, width: int, selected_index: int) -> list[Line]:
    """Return the chart of the requests with its legend, and the figures of the selected column."""
    if not columns:
        return [(("Requests ", "strong"), (" none yet", "dim"))]
    selected = columns[selected_index]
    return [
        legend_line(max(column.total_tokens for column in columns), width, columns),
        *plot_lines(columns, height, selected_index, width=width),
        ((column_numbers_text(selected), "text"),),
        *(((f"  before it: {rewrite_text(rewrite)}", "dim"),) for rewrite in selected.rewrites[-1:]),
    ]


def recall_lines(recalls: Recalls) -> list[Line]:
    """Say in one line what the model has recalled, and which kinds of output are therefore kept longer. Empty if
    nothing was recalled."""
    if not recalls.back:
        return []
    counts_by_noun = Counter(RECALLED_NOUNS.get(kind, "other call") for kind in recalls.back.values())
    factors = reuse_factors(recalls)
    counts_text = ", ".join(pluralize(count, noun) for noun, count in counts_by_noun.most_common())
    retained_nouns = list(dict.fromkeys(noun for kind, noun in RECALLED_NOUNS.items() if kind in factors))
    subject = (
        "these outputs" if len(retained_nouns) == len(counts_by_noun) else f"{' and '.join(retained_nouns)} outputs"
    )
    note = f"; {subject} are kept longer now" if retained_nouns else ""
    return [
        (("Recalled", "strong"), (f" so far: {pluralize(len(recalls.back), 'output')} ({counts_text}){note}", "dim"))
    ]


def request_lines(requests: Sequence[RequestUsage]) -> list[Line]:
    """Format the usage of each request, newest first."""
    lines: list[Line] = [(("Requests", "strong"), (_column_headings("hit"), "dim"))]
    if not requests:
        lines.append((("  none yet", "dim"),))
    for request_number in range(len(requests), max(0, len(requests) - MAX_LISTED_REQUESTS), -1):
        request = requests[request_number - 1]
        hit_rate = request.usage.cache_read / request.usage.prompt if request.usage.prompt else 0.0
        row = f"  {request_number:<5}{hit_rate:>9.0%}{_token_columns(request.usage)}{format_dollars(request.cost):>10}"
        description = sanitise_line(f"  {request.purpose} by {request.model}") if request.purpose != "step" else ""
        lines.append(((row, "text"), (description, "dim")))
    if len(requests) > MAX_LISTED_REQUESTS:
        lines.append(
            parse_inline_code(
                f"  {len(requests) - MAX_LISTED_REQUESTS} earlier requests: see `ebb context --json`", "dim"
            )
        )
    return lines


def _token_columns(usage: Usage) -> str:
    return "".join(
        f"{format_tokens(count):>8}" for count in (usage.input, usage.cache_read, usage.cache_write, usage.output)
    )


def _column_headings(first_heading: str) -> str:
    return (
        f"{first_heading:>8}"
        + "".join(f"{name:>8}" for name in ("fresh", "read", "written", "output"))
        + f"{'cost':>10}"
    )
