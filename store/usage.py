"""What requests took: of one session a few at a time, and of all sessions in sums."""

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from store.session_rows import UsageRow
from store.sessions import SessionStore

PAGE = 500
"""Requests that are held at once."""

UsageKey: TypeAlias = Literal["day", "model", "project"]


class UsageSum(NamedTuple):
    """Requests together."""

    key: tuple[str, ...]
    """The day here (`2026-01-31`), the model or the folder of the project, as was asked for."""
    requests: int
    sessions: int
    """In which they were made, those of agents counted with the ones that sent them off."""
    input: int
    cache_read: int
    cache_write: int
    output: int
    cost: float
    """US dollars, of those whose price is known."""
    unpriced: int
    """Requests whose price is not known."""


_KEYS = {"day": "date(u.created, 'unixepoch', 'localtime')", "model": "u.model", "project": "s.project"}


class UsageStore:
    """Raises `StoreError`; to be called in the thread of the store."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def count(self, session: str) -> int:
        return int(self._store.query("select count(*) from usage where session = ?", session)[0][0])

    def requests(self, session: str) -> Iterator[UsageRow]:
        """What each request of a session took, oldest first."""
        last = 0
        while True:
            rows = self._store.query(
                "select id, model, purpose, input, cache_read, cache_write, output, cost, created from usage "
                "where session = ? and id > ? order by id limit ?",
                session,
                last,
                PAGE,
            )
            for row in rows:
                yield UsageRow(*row[1:])
            if len(rows) < PAGE:
                return
            last = rows[-1][0]

    def sums(
        self,
        by: tuple[UsageKey, ...],
        since: float | None = None,
        until: float | None = None,
        project: str | None = None,
    ) -> tuple[UsageSum, ...]:
        """The requests of a span of time, in Unix seconds, and of a folder or of all, grouped; in the order of the
        keys."""
        clause, values = "1", list[object]()
        for sign, moment in ((">=", since), ("<", until)):
            if moment is not None:
                clause += f" and u.created {sign} ?"
                values.append(moment)
        if project is not None:
            clause += " and s.project = ?"
            values.append(project)
        keys = ", ".join(_KEYS[key] for key in by)
        places = ", ".join(str(place + 1) for place in range(len(by)))
        rows = self._store.query(
            f"select {keys}, count(*), count(distinct coalesce(s.owner, s.id)), sum(u.input), sum(u.cache_read), "
            "sum(u.cache_write), sum(u.output), total(u.cost), count(*) - count(u.cost) "
            f"from usage u join sessions s on s.id = u.session where {clause} group by {places} order by {places}",
            *values,
        )
        return tuple(UsageSum(tuple(map(str, row[: len(by)])), *row[len(by) :]) for row in rows)
