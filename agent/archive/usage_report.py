"""What all requests that are stored took and cost, by day, month, model or project."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal, TypeAlias, get_args

from ebbtide.agent.config.values import Config
from ebbtide.agent.records.store_access import opened_store
from ebbtide.store.usage import UsageStore, UsageSum

UsageGroup: TypeAlias = Literal["day", "month", "model", "project"]
USAGE_GROUPS: tuple[UsageGroup, ...] = get_args(UsageGroup)


UsageLine: TypeAlias = UsageSum
"""As front ends know it, which know no store."""


@dataclass(frozen=True, slots=True)
class UsageReport:
    by: UsageGroup
    lines: tuple[UsageLine, ...]
    """Days and months in order, the others with the dearest first."""
    total: UsageLine


def usage_report(config: Config, by: UsageGroup, since: float | None, project: str | None) -> UsageReport:
    """Of the requests since a moment, in Unix seconds, of the sessions of a folder or of all. What was deleted is not
    among them. Raises `AgentError`."""
    with opened_store(config.folders) as store:
        usage = UsageStore(store)
        lines = list(usage.sums(by, since, project))
        whole = usage.sums("all", since, project)
    if by not in ("day", "month"):
        lines.sort(key=lambda line: (-(line.cost or 0.0), -line.tokens, line.key))
    return UsageReport(by, tuple(lines), whole[0] if whole else UsageLine("", 0, 0, 0, 0, 0, 0, 0.0, 0))


def with_every_day(lines: Sequence[UsageLine], most: int) -> tuple[UsageLine, ...]:
    """Days in order with those between them on which nothing was asked, but not where more than so many follow each
    other."""
    found: list[UsageLine] = []
    for line in lines:
        day = date.fromisoformat(line.key)
        missing = (day - date.fromisoformat(found[-1].key)).days - 1 if found else 0
        if missing <= most:
            days = (day - timedelta(left) for left in range(missing, 0, -1))
            found += [UsageLine(one.isoformat(), 0, 0, 0, 0, 0, 0, 0.0, 0) for one in days]
        found.append(line)
    return tuple(found)
