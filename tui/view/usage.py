"""Token usage and cost of requests, as a table with bars."""

from ebbtide.agent.archive.usage_report import UsageLine, UsageReport, with_every_day
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.numbers import dollars, tokens
from ebbtide.tui.text.sanitise import sanitised_line

MAX_ROWS = 62
"""Maximum lines shown."""
_EIGHTHS = " ▏▎▍▌▋▊▉"


def usage_rows(report: UsageReport) -> tuple[tuple[UsageLine, ...], int]:
    """The lines shown, including days without requests, and the number left out: the oldest days, or the smallest
    others."""
    lines = with_every_day(report.lines, MAX_ROWS) if report.by == "day" else report.lines
    shown = lines[-MAX_ROWS:] if report.by in ("day", "month") else lines[:MAX_ROWS]
    return shown, len(lines) - len(shown)


def measured_by(report: UsageReport) -> str:
    """What the bars measure: `cost`, or `tokens` if no price is known."""
    return "cost" if report.total.cost else "tokens"


def bar(value: float, most: float, width: int, *, letters: bool) -> str:
    """A bar relative to the largest value; a value above 0 is always visible. `letters`: use ASCII only."""
    if value <= 0 or most <= 0:
        return ""
    if letters:
        return "#" * max(1, round(width * value / most))
    eighths = max(1, round(8 * width * value / most))
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def name_of(line: UsageLine) -> str:
    return sanitised_line(line.key) or "(not known)"


def cost_of(line: UsageLine) -> str:
    """The cost, with a final `+` if the price of some requests is unknown."""
    if not line.requests:
        return ""
    return dollars(line.cost) + ("+" if line.cost is not None and line.unpriced else "")


def tokens_of(line: UsageLine) -> str:
    return tokens(line.tokens) if line.requests else ""


def hit_of(line: UsageLine) -> str:
    """The share of sent tokens that was read from a cache."""
    sent = line.input + line.cache_read + line.cache_write
    return f"{line.cache_read / sent:.0%}" if sent else ""


def total_lines(report: UsageReport, hidden: int) -> list[str]:
    """The totals in words, and what is unknown or not shown."""
    total, what = report.total, {"day": "day", "month": "month", "model": "model", "project": "project"}[report.by]
    told = [
        f"{dollars(total.cost) if total.requests else '$0.00'} for {pluralize(total.requests, 'request')} in "
        f"{pluralize(total.sessions, 'session')}: {tokens(total.cache_read)} tokens read from the cache, "
        f"{tokens(total.cache_write)} written to it, {tokens(total.input)} fresh, {tokens(total.output)} output"
    ]
    if total.unpriced:
        beyond = "" if total.cost is None else ", so the costs are more where a `+` stands"
        told.append(f"the price of {pluralize(total.unpriced, 'request')} is not known{beyond}")
    if hidden:
        which = "earlier" if report.by in ("day", "month") else "smaller"
        told.append(f"{which}: {pluralize(hidden, f'more {what}')}; `--json` has all")
    return told
