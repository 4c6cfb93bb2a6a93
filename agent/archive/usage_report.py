"""Reports tokens and cost of all stored requests, by day, month, model or project."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal, TypeAlias, get_args

from ebbtide.agent.config.values import Config
from ebbtide.agent.records.store_access import open_store_briefly
from ebbtide.store.usage import UsageStore, UsageSum

UsageGroup: TypeAlias = Literal["day", "month", "model", "project"]
USAGE_GROUPS: tuple[UsageGroup, ...] = get_args(UsageGroup)


UsageLine: TypeAlias = UsageSum
"""An alias for front ends, because they must not import the store."""


@dataclass(frozen=True, slots=True)
class UsageReport:
    group_by: UsageGroup
    lines: tuple[UsageLine, ...]
    """Days and months in order; other groups by cost, highest first."""
    total: UsageLine


def usage_report(config: Config, group_by: UsageGroup, since: float | None, project: str | None) -> UsageReport:
    """Sum the usage of requests since a time (Unix seconds), in one project or in all of them. Deleted sessions are not
    included. Raises `AgentError`."""
    with open_store_briefly(config.folders) as store:
        usage = UsageStore(store)
        lines = list(usage.sums(group_by, since, project))
        totals = usage.sums("all", since, project)
    if group_by not in ("day", "month"):
        lines.sort(key=lambda line: (-(line.cost or 0.0), -line.tokens, line.key))
    return UsageReport(group_by, tuple(lines), totals[0] if totals else UsageLine("", 0, 0, 0, 0, 0, 0, 0.0, 0))


def fill_missing_days(lines: Sequence[UsageLine], max_gap_days: int) -> tuple[UsageLine, ...]:
    """Return the days in order, with missing days added. Gaps of more than `max_gap_days` days are kept."""
    filled: list[UsageLine] = []
    for line in lines:
        day = date.fromisoformat(line.key)
        missing_count = (day - date.fromisoformat(filled[-1].key)).days - 1 if filled else 0
        if missing_count <= max_gap_days:
            days = (day - timedelta(days_before) for days_before in range(missing_count, 0, -1))
            filled += [UsageLine(missing_day.isoformat(), 0, 0, 0, 0, 0, 0, 0.0, 0) for missing_day in days]
        filled.append(line)
    return tuple(filled)
