"""What requests took: of one session a few at a time, and of all sessions in sums."""

import json
from collections.abc import Iterator, Mapping
from itertools import starmap
from typing import Literal, NamedTuple, TypeAlias

from ebbtide.store.session_rows import UsageRow
from ebbtide.store.sessions import SessionStore

PAGE = 500
"""Requests that are held at once."""

UsageKey: TypeAlias = Literal["day", "month", "model", "project", "all"]


class UsageSum(NamedTuple):
    """Requests together."""

    key: str
    """The day here (`2026-01-31`), the month (`2026-01`), the model or the folder of the project; empty for all."""
    requests: int
    sessions: int
    """In which they were made, those of agents counted with the ones that sent them off."""
    input: int
    """Tokens that were neither read from nor written to a cache."""
    cache_read: int
    cache_write: int
    output: int
    cost: float | None
    """US dollars, of those whose price is known; None when none is."""
    unpriced: int
    """Requests whose price is not known."""

    @property
    def tokens(self) -> int:
        return self.input + self.cache_read + self.cache_write + self.output


_KEYS: Mapping[UsageKey, str] = {
    "day": "date(u.created, 'unixepoch', 'localtime')",
    "month": "strftime('%Y-%m', u.created, 'unixepoch', 'localtime')",
    "model": "u.model",
    "project": "s.project",
    "all": "''",
}


class UsageStore:
    """Raises `StoreError`; to be called in the thread of the store."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def count(self, session: str) -> int:
        return int(self._store.query("select count(*) from usage where session = ?", session)[0][0])

    def requests(self, session: str) -> Iterator[UsageRow]:
        """What each request of a session took, oldest first."""
        ids = [id for (id,) in self._store.query("select id from usage where session = ? order by id", session)]
        for start in range(0, len(ids), PAGE):
            rows = self._store.query(
                "select model, purpose, input, cache_read, cache_write, output, cost, created from usage "
                "where id in (select value from json_each(?)) order by id",
                json.dumps(ids[start : start + PAGE]),
            )
            yield from starmap(UsageRow, rows)

    def sums(self, by: UsageKey, since: float | None = None, project: str | None = None) -> tuple[UsageSum, ...]:
        """The requests since a moment, in Unix seconds, and of a folder or of all, grouped, in the order of the keys;
        nothing where there were none."""
        clause, values = "1", list[object]()
        if since is not None:
            clause += " and u.created >= ?"
            values.append(since)
        if project is not None:
            clause += " and s.project = ?"
            values.append(project)
        rows = self._store.query(
            f"select {_KEYS[by]} as key, count(*), count(distinct coalesce(s.owner, s.id)), sum(u.input), "
            "sum(u.cache_read), sum(u.cache_write), sum(u.output), sum(u.cost), count(*) - count(u.cost) "
            f"from usage u join sessions s on s.id = u.session where {clause} group by key order by key",
            *values,
        )
        return tuple(UsageSum(str(key), *numbers) for key, *numbers in rows)
