"""Token usage: each request of a session, and totals over all sessions."""

import json
from collections.abc import Iterator, Mapping
from itertools import starmap
from typing import Literal, NamedTuple, TypeAlias

from ebbtide.store.session_rows import UsageRow
from ebbtide.store.sessions import SessionStore

REQUESTS_PER_PAGE = 500
"""Maximum number of requests in memory at a time."""

UsageKey: TypeAlias = Literal["day", "month", "model", "project", "all"]


class UsageSum(NamedTuple):
    """Totals of a group of requests."""

    key: str
    """The local day (`2026-01-31`), month (`2026-01`), model or project folder; empty if not grouped."""
    requests: int
    sessions: int
    """Number of sessions. Sub-agents count as part of the session that started them."""
    input: int
    """Input tokens that were neither read from nor written to a cache."""
    cache_read: int
    cache_write: int
    output: int
    cost: float | None
    """Cost in US dollars of the requests whose price is known; None if there are none."""
    unpriced: int
    """Number of requests whose price is unknown."""

    @property
    def tokens(self) -> int:
        return self.input + self.cache_read + self.cache_write + self.output


_GROUP_KEYS_SQL: Mapping[UsageKey, str] = {
    "day": "date(u.created, 'unixepoch', 'localtime')",
    "month": "strftime('%Y-%m', u.created, 'unixepoch', 'localtime')",
    "model": "u.model",
    "project": "s.project",
    "all": "''",
}


class UsageStore:
    """Reads stored usage. Raises `StoreError`; call it in the store's thread."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def request_count(self, session: str) -> int:
        return int(self._store.query("select count(*) from usage where session = ?", session)[0][0])

    def requests(self, session: str) -> Iterator[UsageRow]:
        """Yield the usage of each request of a session, oldest first."""
        ids = [
            request_id
            for (request_id,) in self._store.query("select id from usage where session = ? order by id", session)
        ]
        for start in range(0, len(ids), REQUESTS_PER_PAGE):
            rows = self._store.query(
                "select model, purpose, input, cache_read, cache_write, output, cost, created from usage "
                "where id in (select value from json_each(?)) order by id",
                json.dumps(ids[start : start + REQUESTS_PER_PAGE]),
            )
            yield from starmap(UsageRow, rows)

    def sums(self, group_by: UsageKey, since: float | None = None, project: str | None = None) -> tuple[UsageSum, ...]:
        """Get the totals of requests since a time (Unix seconds), grouped and sorted by key. `project`: None for all
        projects."""
        clause, values = "1", list[object]()
        if since is not None:
            clause += " and u.created >= ?"
            values.append(since)
        if project is not None:
            clause += " and s.project = ?"
            values.append(project)
        rows = self._store.query(
            f"select {_GROUP_KEYS_SQL[group_by]} as key, count(*), count(distinct coalesce(s.owner, s.id)), "
            "sum(u.input), sum(u.cache_read), sum(u.cache_write), sum(u.output), sum(u.cost), count(*) - count(u.cost) "
            f"from usage u join sessions s on s.id = u.session where {clause} group by key order by key",
            *values,
        )
        return tuple(UsageSum(str(key), *numbers) for key, *numbers in rows)
