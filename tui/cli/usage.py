"""`ebb usage`: tokens and cost of requests, as a bar chart or JSON."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console, OverflowMethod
from rich.table import Table
from rich.text import Text

from ebbtide.agent.archive.usage_report import USAGE_GROUPS, UsageLine, UsageReport, usage_report
from ebbtide.agent.headless.json_line import print_json
from ebbtide.tui.cli.arguments import parse_subcommand_args, parser_of, read_settings_with_warnings
from ebbtide.tui.cli.time_arguments import moment_before
from ebbtide.tui.text.locale import draws_letters_only
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.view.usage import bar, cost_of, hit_of, measured_by, name_of, tokens_of, total_lines, usage_rows

USUAL = "30d"
"""Default period by day."""
_COLUMNS: Sequence[tuple[str, Callable[[UsageLine], str]]] = (
    ("cost", cost_of),
    ("tokens", tokens_of),
    ("cached", hit_of),
    ("requests", lambda line: f"{line.requests:,}" if line.requests else ""),
    ("sessions", lambda line: f"{line.sessions:,}" if line.requests else ""),
)
_DISPENSABLE = ("cached", "sessions", "requests")
"""Columns dropped on a narrow terminal, in this order."""
_MIN_NAMES_WIDTH = 36
"""Minimum width of names and bars before columns are dropped."""


def run(arguments: Sequence[str]) -> int:
    """Run `ebb usage`; return the exit code."""
    parser = parser_of(
        "usage",
        "What the requests of all stored sessions took and cost, those of their agents and of summaries among them. "
        "What was deleted is not counted any more.",
    )
    parser.add_argument("--by", choices=USAGE_GROUPS, default="day", help="what each line is; days unless you say")
    since = f"count from then on: `7d`, `6mo`, or a day, `2026-01-31`; without it {USUAL} by day, and all otherwise"
    parser.add_argument("--since", metavar="WHEN", help=since)
    parser.add_argument("--project", metavar="DIR", help="only the sessions of this folder")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    _, config = read_settings_with_warnings(options)
    when = options.since or (USUAL if options.by == "day" else "")
    moment = moment_before(when) if when else None
    project = str(Path(options.project).expanduser().resolve()) if options.project else None
    report = usage_report(config, options.by, moment, project)
    if options.json:
        print_json(sys.stdout, _fields(report, moment, project))
        return 0
    _print(report, _heading(report, moment, project))
    return 0


def _heading(report: UsageReport, since: float | None, project: str | None) -> str:
    whose = f"of {project}" if project else "of all projects"
    when = time.strftime("since %Y-%m-%d", time.localtime(since)) if since is not None else "ever"
    return sanitised_line(f"Usage by {report.by}, {whose}, {when}")


def _fields(report: UsageReport, since: float | None, project: str | None) -> dict[str, object]:
    def fields(line: UsageLine) -> dict[str, object]:
        values: dict[str, object] = line._asdict()
        del values["key"]
        return values

    lines = [{report.by: line.key, **fields(line)} for line in report.lines]
    return {"by": report.by, "since": since, "project": project, "lines": lines, "total": fields(report.total)}


def _print(report: UsageReport, heading: str) -> None:
    """Print a line with a bar each, in the terminal's colours; ASCII only if the locale requires it."""
    rows, hidden = usage_rows(report)
    letters = draws_letters_only(os.environ) or "utf" not in (sys.stdout.encoding or "").lower()
    wide = shutil.get_terminal_size((100, 24)).columns
    console = Console(width=wide, highlight=False, emoji=False, markup=False)
    console.print(Text(heading, "bold"))
    if not report.total.requests:
        console.print("nothing was asked of a model")
        return
    measure = measured_by(report)
    values = [_value(line, measure) for line in rows]
    columns = [(title, [_plain(of(line), letters=letters) for line in rows]) for title, of in _COLUMNS]
    sizes = {title: max(map(len, (title, *cells))) + 2 for title, cells in columns}
    for title in _DISPENSABLE:
        if wide - sum(sizes.values()) < _MIN_NAMES_WIDTH:
            del sizes[title]
    left = max(wide - sum(sizes.values()), 12)
    name = min(max(len(name_of(line)) for line in rows), max(10, left - 10))
    room = max(0, min(40, left - name - 4))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    cut: OverflowMethod = "crop" if letters else "ellipsis"
    table.add_column(report.by, width=name, no_wrap=True, overflow=cut)
    table.add_column("", width=room, no_wrap=True, overflow=cut)
    kept = [(title, cells) for title, cells in columns if title in sizes]
    for title, _ in kept:
        table.add_column(title, justify="right", no_wrap=True, overflow=cut)
    for place, (line, value) in enumerate(zip(rows, values, strict=True)):
        drawn = Text(bar(value, max(values), room, letters=letters), "cyan")
        table.add_row(Text(name_of(line)), drawn, *(cells[place] for _, cells in kept))
    console.print(table)
    console.print(Text(f"bars: {measure}", "dim"))
    for told in total_lines(report, hidden):
        console.print(Text(_plain(told, letters=letters)))


def _plain(text: str, *, letters: bool) -> str:
    return text.replace("—", "-") if letters else text


def _value(line: UsageLine, measure: str) -> float:
    return (line.cost or 0.0) if measure == "cost" else float(line.tokens)
