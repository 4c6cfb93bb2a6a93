"""`ebb usage`: the tokens and cost of requests, as a bar chart or JSON."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console, OverflowMethod
from rich.table import Table
from rich.text import Text

from ebbtide.agent.archive.usage_report import USAGE_GROUPS, UsageLine, UsageReport, fill_missing_days, usage_report
from ebbtide.agent.headless.printing import print_json
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.cli.arguments import create_subcommand_parser, parse_subcommand_args, read_settings_with_warnings
from ebbtide.tui.cli.time_arguments import parse_time_argument
from ebbtide.tui.text.locale import is_ascii_locale
from ebbtide.tui.text.numbers import format_dollars, format_tokens
from ebbtide.tui.text.sanitise import sanitise_line

MAX_VISIBLE_ROWS = 62
"""Maximum number of lines shown."""
_BAR_EIGHTHS = " ▏▎▍▌▋▊▉"


def visible_lines(report: UsageReport) -> tuple[tuple[UsageLine, ...], int]:
    """Select the lines to show, including days without requests. If there are too many, the oldest days or months, or
    the smallest values, are omitted. Also returns how many were omitted."""
    lines = fill_missing_days(report.lines, MAX_VISIBLE_ROWS) if report.group_by == "day" else report.lines
    visible = lines[-MAX_VISIBLE_ROWS:] if report.group_by in ("day", "month") else lines[:MAX_VISIBLE_ROWS]
    return visible, len(lines) - len(visible)


def bar_measure(report: UsageReport) -> str:
    """Decide what the bars measure: `cost`, or `tokens` if no price is known."""
    return "cost" if report.total.cost else "tokens"


def draw_bar(value: float, largest: float, width: int, *, ascii_only: bool) -> str:
    """Draw a bar in proportion to the largest value. Any value above 0 is visible. `ascii_only`: draw with `#`."""
    if value <= 0 or largest <= 0:
        return ""
    if ascii_only:
        return "#" * max(1, round(width * value / largest))
    eighths = max(1, round(8 * width * value / largest))
    return "█" * (eighths // 8) + (_BAR_EIGHTHS[eighths % 8] if eighths % 8 else "")


def line_name(line: UsageLine) -> str:
    return sanitise_line(line.key) or "(unknown)"


def cost_text(line: UsageLine) -> str:
    """Format the cost, followed by `+` if the price of some requests is unknown."""
    if not line.requests:
        return ""
    return format_dollars(line.cost) + ("+" if line.cost is not None and line.unpriced else "")


def tokens_text(line: UsageLine) -> str:
    return format_tokens(line.tokens) if line.requests else ""


def cached_share(line: UsageLine) -> str:
    """Format the share of input tokens that was read from a cache."""
    sent_tokens = line.input + line.cache_read + line.cache_write
    return f"{line.cache_read / sent_tokens:.0%}" if sent_tokens else ""


def total_lines(report: UsageReport, omitted_count: int) -> list[str]:
    """Write the totals as a sentence, with notes about unknown prices and omitted lines."""
    total = report.total
    group = {"day": "day", "month": "month", "model": "model", "project": "project"}[report.group_by]
    notes = [
        f"{format_dollars(total.cost) if total.requests else '$0.00'} for {pluralize(total.requests, 'request')} in "
        f"{pluralize(total.sessions, 'session')}: {format_tokens(total.cache_read)} tokens read from the cache, "
        f"{format_tokens(total.cache_write)} written to it, {format_tokens(total.input)} fresh, "
        f"{format_tokens(total.output)} output"
    ]
    if total.unpriced:
        cost_note = "" if total.cost is None else "; costs marked `+` are higher"
        notes.append(f"price unknown for {pluralize(total.unpriced, 'request')}{cost_note}")
    if omitted_count:
        adjective = "earlier" if report.group_by in ("day", "month") else "smaller"
        notes.append(f"{pluralize(omitted_count, f'{adjective} {group}')} not shown; `--json` lists all")
    return notes


DEFAULT_PERIOD = "30d"
"""Default period when grouping by day."""
_COLUMNS: Sequence[tuple[str, Callable[[UsageLine], str]]] = (
    ("cost", cost_text),
    ("tokens", tokens_text),
    ("cached", cached_share),
    ("requests", lambda line: f"{line.requests:,}" if line.requests else ""),
    ("sessions", lambda line: f"{line.sessions:,}" if line.requests else ""),
)
_OPTIONAL_COLUMNS = ("cached", "sessions", "requests")
"""Columns to drop on a narrow terminal, in this order."""
_MIN_NAMES_WIDTH = 36
"""Minimum width of names and bars together, in cells. If there is less space, columns are dropped."""


def run(arguments: Sequence[str]) -> int:
    """Run `ebb usage`; return the exit code."""
    parser = create_subcommand_parser(
        "usage",
        "Show the tokens and cost of all stored sessions, including sub-agents and summaries. Deleted sessions are "
        "not counted.",
    )
    parser.add_argument(
        "--by", choices=USAGE_GROUPS, default="day", help="group by day, model or project (default: day)"
    )
    since_help = (
        f"count from WHEN: `7d`, `6mo`, or a day such as `2026-01-31` (default: {DEFAULT_PERIOD} by day, otherwise all)"
    )
    parser.add_argument("--since", metavar="WHEN", help=since_help)
    parser.add_argument("--project", metavar="DIR", help="count only the sessions of this folder")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    _, config = read_settings_with_warnings(options)
    since_text = options.since or (DEFAULT_PERIOD if options.by == "day" else "")
    since = parse_time_argument(since_text) if since_text else None
    project = str(Path(options.project).expanduser().resolve()) if options.project else None
    report = usage_report(config, options.by, since, project)
    if options.json:
        print_json(sys.stdout, _fields(report, since, project))
        return 0
    _print_report(report, _heading(report, since, project))
    return 0


def _heading(report: UsageReport, since: float | None, project: str | None) -> str:
    scope = project or "all projects"
    period = time.strftime("since %Y-%m-%d", time.localtime(since)) if since is not None else "all time"
    return sanitise_line(f"Usage by {report.group_by}, {scope}, {period}")


def _fields(report: UsageReport, since: float | None, project: str | None) -> dict[str, object]:
    def line_fields(line: UsageLine) -> dict[str, object]:
        values: dict[str, object] = line._asdict()
        del values["key"]
        return values

    line_dicts = [{report.group_by: line.key, **line_fields(line)} for line in report.lines]
    return {
        "by": report.group_by,
        "since": since,
        "project": project,
        "lines": line_dicts,
        "total": line_fields(report.total),
    }


def _print_report(report: UsageReport, heading: str) -> None:
    """Print each line with its bar, in the terminal's colours. Uses only ASCII if the locale requires it."""
    rows, omitted_count = visible_lines(report)
    ascii_only = is_ascii_locale(os.environ) or "utf" not in (sys.stdout.encoding or "").lower()
    console_width = shutil.get_terminal_size((100, 24)).columns
    console = Console(width=console_width, highlight=False, emoji=False, markup=False)
    console.print(Text(heading, "bold"))
    if not report.total.requests:
        console.print("no model requests")
        return
    measure = bar_measure(report)
    values = [_bar_value(line, measure) for line in rows]
    columns = [
        (title, [_without_dashes(format_cell(line), ascii_only=ascii_only) for line in rows])
        for title, format_cell in _COLUMNS
    ]
    widths = {title: max(map(len, (title, *cells))) + 2 for title, cells in columns}
    for title in _OPTIONAL_COLUMNS:
        if console_width - sum(widths.values()) < _MIN_NAMES_WIDTH:
            del widths[title]
    name_and_bar_width = max(console_width - sum(widths.values()), 12)
    name_width = min(max(len(line_name(line)) for line in rows), max(10, name_and_bar_width - 10))
    bar_width = max(0, min(40, name_and_bar_width - name_width - 4))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    overflow: OverflowMethod = "crop" if ascii_only else "ellipsis"
    table.add_column(report.group_by, width=name_width, no_wrap=True, overflow=overflow)
    table.add_column("", width=bar_width, no_wrap=True, overflow=overflow)
    visible_columns = [(title, cells) for title, cells in columns if title in widths]
    for title, _ in visible_columns:
        table.add_column(title, justify="right", no_wrap=True, overflow=overflow)
    for index, (line, value) in enumerate(zip(rows, values, strict=True)):
        bar_text = Text(draw_bar(value, max(values), bar_width, ascii_only=ascii_only), "cyan")
        table.add_row(Text(line_name(line)), bar_text, *(cells[index] for _, cells in visible_columns))
    console.print(table)
    console.print(Text(f"bars: {measure}", "dim"))
    for note in total_lines(report, omitted_count):
        console.print(Text(_without_dashes(note, ascii_only=ascii_only)))


def _without_dashes(text: str, *, ascii_only: bool) -> str:
    return text.replace("—", "-") if ascii_only else text


def _bar_value(line: UsageLine, measure: str) -> float:
    return (line.cost or 0.0) if measure == "cost" else float(line.tokens)
