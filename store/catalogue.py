"""Lists all sessions, page by page."""

from dataclasses import dataclass

from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import IS_LISTED, SessionStore

ORIGIN = "origin"
"""Kind of the fact that records the origin of a session created elsewhere; the key is the origin."""

TAG = "tag"
"""Kind of the facts that are the user's tags; the key is the tag."""

_HAS_TAG_SQL = f"exists (select 1 from situation where session = s.id and kind = '{TAG}' and"
_AT_ONCE = 500
"""Maximum number of sessions in one statement."""
_WILD = str.maketrans({sign: f"\\{sign}" for sign in "\\%_"})


@dataclass(frozen=True, slots=True)
class ListedRow:
    """A session as shown in a list."""

    session: SessionRow
    cost: float | None
    """US dollars; None if the cost of any request is unknown."""
    place: int
    """Orders sessions that were updated at the same moment."""
    origin: str = ""
    """The origin of a session created elsewhere; empty otherwise."""
    tags: tuple[str, ...] = ()
    """Sorted."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Criteria that a session must all meet. Sessions of sub-agents are included with their owners."""

    project: str | None = None
    """The project folder; None for any."""
    before: float | None = None
    """Only sessions not updated since, in Unix seconds."""
    tags: tuple[str, ...] = ()
    untagged: bool = False
    unanswered: bool = False
    """Only sessions without a reply."""


class Catalogue:
    """Reads the list of sessions and their tags. Raises `StoreError`; call it in the thread of the session store."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def page(
        self,
        project: str | None,
        limit: int,
        after: tuple[float, int] | None = None,
        words: tuple[str, ...] = (),
        tags: tuple[str, ...] = (),
    ) -> tuple[ListedRow, ...]:
        """Return sessions, newest first, of one project or of all. `after` is the update time and place of the last row
        of the previous page. `words` are parts of the title that must all occur, ignoring case; `#` with the start of a
        tag matches tags as well. `tags` are all required."""
        clause, values = f"{IS_LISTED} and s.owner is null", list[object]()
        if project is not None:
            clause += " and s.project = ?"
            values.append(project)
        for word in words:
            escaped, named = word.translate(_WILD), "s.title like ? escape '\\'"
            if word.startswith("#"):
                named += f" or {_HAS_TAG_SQL} key like ? escape '\\')"
                values += (f"%{escaped}%", f"{escaped[1:]}%")
            else:
                values.append(f"%{escaped}%")
            clause += f" and ({named})"
        for tag in tags:
            clause += f" and {_HAS_TAG_SQL} key = ?)"
            values.append(tag)
        if after is not None:
            clause += " and (s.updated, s.rowid) < (?, ?)"
            values += after
        return self._read(clause, values, limit)

    def sessions_by_id(self, ids: tuple[str, ...]) -> tuple[ListedRow, ...]:
        """Return the existing sessions among these, in the given order."""
        clause = f"s.id in ({', '.join('?' * len(ids))})"
        found = {row.session.id: row for row in self._read(clause, list(ids), len(ids))}
        return tuple(found[id] for id in ids if id in found)

    def agent_sessions(self, ids: tuple[str, ...]) -> tuple[ListedRow, ...]:
        """Return the sessions of sub-agents of these sessions, newest first within each batch of ids."""
        return tuple(
            row
            for start in range(0, len(ids), _AT_ONCE)
            for row in self._read(
                f"s.owner in ({', '.join('?' * len(ids[start : start + _AT_ONCE]))})",
                list(ids[start : start + _AT_ONCE]),
                -1,
            )
        )

    def matching_sessions(self, wanted: Selection) -> tuple[ListedRow, ...]:
        """Return the sessions that match a selection, newest first."""
        clause, values = "s.owner is null", list[object]()
        if wanted.project is not None:
            clause += " and s.project = ?"
            values.append(wanted.project)
        if wanted.before is not None:
            clause += " and s.updated < ?"
            values.append(wanted.before)
        for tag in wanted.tags:
            clause += f" and {_HAS_TAG_SQL} key = ?)"
            values.append(tag)
        if wanted.untagged:
            clause += f" and not {_HAS_TAG_SQL} 1)"
        if wanted.unanswered:
            clause += " and not exists (select 1 from messages where session = s.id and role = 'assistant')"
        return self._read(clause, values, -1)

    def tags(self) -> tuple[tuple[str, int], ...]:
        """Return every tag with its number of sessions, sorted."""
        rows = self._store.query(f"select key, count(*) from situation where kind = '{TAG}' group by key order by key")
        return tuple((str(tag), int(count)) for tag, count in rows)

    def change_tags(self, session: str, added: tuple[str, ...], removed: tuple[str, ...]) -> tuple[str, ...]:
        """Add and remove tags of a session; return the resulting tags."""
        with self._store.transaction() as db:
            db.executemany(
                "delete from situation where session = ? and kind = ? and key = ?",
                [(session, TAG, tag) for tag in removed],
            )
            db.executemany(
                "insert or replace into situation (session, kind, key, body) values (?, ?, ?, '')",
                [(session, TAG, tag) for tag in added],
            )
        return tuple(fact.key for fact in self._store.facts(session, TAG))

    def _read(self, clause: str, values: list[object], limit: int) -> tuple[ListedRow, ...]:
        # The page is selected before anything is counted, since counting for every session would take long.
        rows = self._store.query(
            "select p.id, p.project, p.title, p.model, p.mode, p.created, p.updated, "
            "(select coalesce(max(position) + 1, 0) from messages where session = p.id), "
            "p.parent, p.forked, p.family, p.draft, p.owner, p.agent, p.place, "
            "(select case when count(*) = count(cost) then total(cost) end from usage where session = p.id "
            "or session in (select id from sessions where owner = p.id)), "
            f"(select coalesce(min(key), '') from situation where session = p.id and kind = '{ORIGIN}'), "
            f"(select group_concat(key, char(10)) from situation where session = p.id and kind = '{TAG}') "
            f"from (select s.rowid as place, s.* from sessions s where {clause} "
            "order by s.updated desc, s.rowid desc limit ?) p order by p.updated desc, p.place desc",
            *values,
            limit,
        )
        return tuple(
            ListedRow(
                SessionRow(*row[:14]),
                row[15],
                row[14],
                row[16],
                tuple(sorted(filter(None, (row[17] or "").split("\n")))),
            )
            for row in rows
        )
