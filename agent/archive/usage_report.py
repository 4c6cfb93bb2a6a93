"""What all requests that are stored took and cost, by day, month, model or project."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal, TypeAlias, get_args

from agent.config.values import Config
from agent.records.store_access import opened_store
from store.usage import UsageStore, UsageSum

UsageGroup: TypeAlias = Literal["day", "month", "model", "project"]
USAGE_GROUPS: tuple[UsageGroup, ...] = get_args(UsageGroup)


@dataclass(frozen=True, slots=True)
class UsageLine:
    """Requests together."""

    key: str
    """The day here (`2026-01-31`), the month (`2026-01`), the model or the folder of the project; empty for all."""
    requests: int
    sessions: int
    """In which they were made; those of agents count with the ones that sent them off."""
    input: int
    """Tokens that were neither read from nor written to a cache, as in `Usage`."""
    cache_read: int
    cache_write: int
    output: int
    cost: float | None
    """US dollars, of the requests whose price is known; None when none is."""
    unpriced: int
    """Requests whose price is not known."""

    @property
    def tokens(self) -> int:
        return self.input + self.cache_read + self.cache_write + self.output


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
        lines = [_line(row) for row in usage.sums(by, since, project)]
        whole = [_line(row) for row in usage.sums("all", since, project)]
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


def _line(row: UsageSum) -> UsageLine:
    cost = row.cost if row.unpriced < row.requests else None
    return UsageLine(
        row.key, row.requests, row.sessions, row.input, row.cache_read, row.cache_write, row.output, cost, row.unpriced
    )
