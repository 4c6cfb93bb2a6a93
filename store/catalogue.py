"""The list of all sessions, a page at a time, however many there are."""

from dataclasses import dataclass

from store.session_rows import SessionRow
from store.sessions import IS_LISTED, SessionStore

ORIGIN = "origin"
"""The kind of the fact that tells where a session comes from that was not begun here; its key says it."""

_WILD = str.maketrans({sign: f"\\{sign}" for sign in "\\%_"})


@dataclass(frozen=True, slots=True)
class ListedRow:
    """A session as a list shows it."""

    session: SessionRow
    cost: float | None
    """US dollars; None when the cost of any request is not known."""
    place: int
    """Tells sessions apart that were changed at the same moment."""
    origin: str = ""
    """Where it comes from, where it was not begun here."""


class Catalogue:
    """Raises `StoreError`; to be called in the thread of the session store."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def page(
        self, project: str | None, limit: int, after: tuple[float, int] | None = None, words: tuple[str, ...] = ()
    ) -> tuple[ListedRow, ...]:
        """The sessions of a project, or of all, the newest first. `after`: only those behind one in the list, by when
        it was changed and its place. `words`: parts of the title, of which all must be there, capitals or not."""
        clause, values = f"{IS_LISTED} and s.owner is null", list[object]()
        if project is not None:
            clause += " and s.project = ?"
            values.append(project)
        for word in words:
            clause += " and s.title like ? escape '\\'"
            values.append(f"%{word.translate(_WILD)}%")
        if after is not None:
            clause += " and (s.updated, s.rowid) < (?, ?)"
            values += after
        return self._read(clause, values, limit)

    def these(self, ids: tuple[str, ...]) -> tuple[ListedRow, ...]:
        """Those of the sessions that are there, in that order."""
        clause = f"s.id in ({', '.join('?' * len(ids))})"
        found = {row.session.id: row for row in self._read(clause, list(ids), len(ids))}
        return tuple(found[id] for id in ids if id in found)

    def owned(self, ids: tuple[str, ...]) -> tuple[ListedRow, ...]:
        """The sessions that agents of these have had, the newest first."""
        return self._read(f"s.owner in ({', '.join('?' * len(ids))})", list(ids), -1)

    def _read(self, clause: str, values: list[object], limit: int) -> tuple[ListedRow, ...]:
        # The page is chosen before anything is counted: a count for every session of years would take long.
        rows = self._store.query(
            "select p.id, p.project, p.title, p.model, p.mode, p.created, p.updated, "
            "(select coalesce(max(position) + 1, 0) from messages where session = p.id), "
            "p.parent, p.forked, p.family, p.draft, p.owner, p.agent, p.place, "
            "(select case when count(*) = count(cost) then total(cost) end from usage where session = p.id "
            "or session in (select id from sessions where owner = p.id)), "
            f"(select coalesce(min(key), '') from situation where session = p.id and kind = '{ORIGIN}') "
            f"from (select s.rowid as place, s.* from sessions s where {clause} "
            "order by s.updated desc, s.rowid desc limit ?) p order by p.updated desc, p.place desc",
            *values,
            limit,
        )
        return tuple(ListedRow(SessionRow(*row[:14]), row[15], row[14], row[16]) for row in rows)
