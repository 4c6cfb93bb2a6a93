"""The context overview as lines: the budget with bars, the epochs and the requests."""

from collections import Counter
from collections.abc import Sequence

from ebbtide.agent.context.reread_model import reuse_factors
from ebbtide.agent.messages import Recalls, Usage
from ebbtide.agent.overview import Epoch, Overview, ServerShare, SourcedNumber
from ebbtide.agent.records.usage import RequestUsage, Rewrite
from ebbtide.tools.outputs.extent import ellipsize, pluralize
from ebbtide.tui.text.numbers import dollars, tokens
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, TextStyle, parse_inline_code
from ebbtide.tui.view.context_tree import NAMES, component_line, component_table, head_line
from ebbtide.tui.view.receipts import names_of

MAX_LISTED_REQUESTS = 200
"""Maximum requests listed, newest first."""

WHY = {
    "full": "window full",
    "background": "window full, between two turns",
    "asked": "asked for",
    "overflow": "too large for the provider",
    "rent": "paid for itself",
    "budget": "outputs over their budget",
    "pictures": "picture refused",
    "cold": "cache had run out",
}
"""Reasons for rewrites, in words."""

RECALLED_NOUNS = {
    "file": "file",
    "view": "file",
    "search": "search",
    "report": "report",
    "change": "edit",
    "program": "command",
    "other": "other call",
}
"""Kinds of recalled outputs, in words."""

ASKS = {"summary", "chunks"}
"""Strategies that call a model."""

_PARTS_OF_A_CELL = " ▏▎▍▌▋▊▉"


def overview_lines(overview: Overview, width: int) -> tuple[Line, ...]:
    """The whole overview, for a width in cells."""
    title: list[Line] = [((sanitised_line(overview.title), "text"),)] if overview.title else []
    return (
        (("Context", "strong"), (f"  {overview.session}  {sanitised_line(overview.model)}", "dim")),
        *title,
        (),
        *budget_lines(overview, width),
        (),
        *content_lines(overview, width),
        (),
        *epoch_lines(overview.epochs),
        *recall_lines(overview.recalls),
        (),
        *request_lines(overview.requests),
    )


def budget_lines(overview: Overview, width: int) -> list[Line]:
    """A row for each component with its share of the budget, then how the budget is made up."""
    room = max(overview.effective, 1)
    cells = max(8, min(30, width - 46))
    lines: list[Line] = []
    for component in overview.components:
        share = component.tokens / room
        name = NAMES.get(component.name, component.name)
        row = f"  {name:<13}{tokens(component.tokens):>8}{share:>8.1%}  "
        lines.append(((row, "text"), (f"{component.source:<11}", "dim"), (bar(share, cells), "accent")))
        if component.name == "instructions":
            lines += [_file_line(file, room) for file in overview.instructions]
        if component.name == "tools":
            lines += [_server_line(server, room) for server in overview.servers]
    used, free = overview.used_tokens, overview.effective - overview.used_tokens
    ink: TextStyle = "warn" if free < 0.05 * room else "strong"
    row = f"  {'used':<13}{tokens(used):>8}{used / room:>8.1%}  "
    lines.append(((row, ink), (" " * 11, "dim"), (bar(used / room, cells), "warn" if ink == "warn" else "accent")))
    lines.append(((f"  {'free':<13}{tokens(max(free, 0)):>8}{max(free, 0) / room:>8.1%}", "text"),))
    if overview.held_back.tools:
        row = f"  {'held back':<13}{tokens(overview.held_back.tokens):>8}{'':>8}  "
        lines.append(((row, "text"), (f"{pluralize(overview.held_back.tools, 'tool')}, found by tool_search", "dim")))
    lines.append(())
    lines.append(((f"  {'window':<13}{overview.window.tokens:>8,}  ", "text"), (overview.window.source, "dim")))
    for reserve in overview.reserves:
        lines.append(((f"  − {reserve.name:<11}{reserve.tokens:>8,}  ", "text"), (reserve.source, "dim")))
    lines.append(((f"  {'= usable':<13}{overview.effective:>8,}", "text"),))
    return lines


def _file_line(file: SourcedNumber, room: int) -> Line:
    """The share of one instructions file."""
    named = f"  ↳ {ellipsize(sanitised_line(file.name.rpartition('/')[2]), 11):<11}"
    return ((f"{named}{tokens(file.tokens):>8}{file.tokens / room:>8.1%}  ", "dim"), (sanitised_line(file.name), "dim"))


def _server_line(server: ServerShare, room: int) -> Line:
    """The share of one server's tools."""
    named = f"  ↳ {ellipsize(sanitised_line(server.name.removeprefix('mcp__')), 11):<11}"
    how_many = pluralize(server.tools, "tool")
    if server.offered < server.tools:
        how_many = f"{server.offered} of {how_many}"
    return ((f"{named}{tokens(server.tokens):>8}{server.tokens / room:>8.1%}  ", "dim"), (how_many, "dim"))


def content_lines(overview: Overview, width: int) -> list[Line]:
    """A row for each component of the next request, with its large parts below."""
    room = max(width - 2, 1)
    table = component_table(overview)
    rows = [component_line(row, room, overview.effective, table.columns) for row in table.rows()]
    head: Line = (("Contents", "strong"),)
    return [head, *((("  ", "dim"), *line) for line in (head_line(room, table.columns), *rows))]


def bar(share: float, cells: int) -> str:
    """A bar of at most `cells` cells, to an eighth of a cell; a share above 0 is always visible."""
    eighths = min(round(max(share, 0.0) * cells * 8), cells * 8)
    if share > 0:
        eighths = max(eighths, 1)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + _PARTS_OF_A_CELL[rest]).rstrip()


def epoch_lines(epochs: Sequence[Epoch]) -> list[Line]:
    """A row for each stretch between two rewrites, and what each rewrite changed and cost."""
    lines: list[Line] = [(("Epochs", "strong"), (f"  {_columns('requests')}", "dim"))]
    for number, epoch in enumerate(epochs, 1):
        row = f"  {number:<5}{len(epoch.requests):>9}{_counts(epoch.usage)}{dollars(epoch.cost):>10}"
        lines.append(((row, "text"),))
        if epoch.rewrite is not None:
            lines.append(((f"    ↳ {rewrite_text(epoch.rewrite)}", "dim"),))
    return lines


def rewrite_text(rewrite: Rewrite) -> str:
    """Reason, strategies, sizes and cost of a rewrite. Without strategies nothing was removed, but the prefix
    changed."""
    if not rewrite.strategies:
        return sanitised_line(f"changed: {rewrite.reason}")
    how = ", ".join(names_of(rewrite.strategies))
    why = f" ({WHY.get(rewrite.reason, rewrite.reason)})" if rewrite.reason else ""
    saved = f"{tokens(rewrite.before)} → {tokens(rewrite.after)} tokens"
    price = dollars(rewrite.cost) if rewrite.cost != 0 or ASKS & set(rewrite.strategies) else "no model asked"
    return sanitised_line(f"{how}{why}: {saved}, {price}")


def recall_lines(recalls: Recalls) -> list[Line]:
    """What the model has recalled and what follows from it, in one line; empty if nothing."""
    if not recalls.back:
        return []
    kinds, more = (
        Counter(RECALLED_NOUNS.get(content, "other call") for content in recalls.back.values()),
        reuse_factors(recalls),
    )
    named = ", ".join(pluralize(count, kind) for kind, count in kinds.most_common())
    longer = list(dict.fromkeys(kind for content, kind in RECALLED_NOUNS.items() if content in more))
    which = "such outputs stay" if len(longer) == len(kinds) else f"{' and '.join(longer)} outputs stay"
    told = f"; {which} longer now" if longer else ""
    return [(("Brought back", "strong"), (f" so far: {pluralize(len(recalls.back), 'output')} ({named}){told}", "dim"))]


def request_lines(requests: Sequence[RequestUsage]) -> list[Line]:
    """The usage of each request, newest first."""
    lines: list[Line] = [(("Requests", "strong"), (_columns("hit"), "dim"))]
    if not requests:
        lines.append((("  none yet", "dim"),))
    for number in range(len(requests), max(0, len(requests) - MAX_LISTED_REQUESTS), -1):
        asked = requests[number - 1]
        hit = asked.usage.cache_read / asked.usage.prompt if asked.usage.prompt else 0.0
        row = f"  {number:<5}{hit:>9.0%}{_counts(asked.usage)}{dollars(asked.cost):>10}"
        what = sanitised_line(f"  {asked.purpose} by {asked.model}") if asked.purpose != "step" else ""
        lines.append(((row, "text"), (what, "dim")))
    if len(requests) > MAX_LISTED_REQUESTS:
        lines.append(
            parse_inline_code(
                f"  {len(requests) - MAX_LISTED_REQUESTS} earlier ones: `ebb context --json` prints them", "dim"
            )
        )
    return lines


def _counts(usage: Usage) -> str:
    return "".join(f"{tokens(n):>8}" for n in (usage.input, usage.cache_read, usage.cache_write, usage.output))


def _columns(first: str) -> str:
    return f"{first:>8}" + "".join(f"{name:>8}" for name in ("fresh", "read", "written", "output")) + f"{'cost':>10}"
