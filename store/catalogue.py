"""Lists sessions, page by page."""

from dataclasses import dataclass

from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import IS_LISTED_SQL, SessionStore

ORIGIN_FACT = "origin"
"""Kind of the fact that says where a session came from if it was created elsewhere. The key is the origin."""

TAG_FACT = "tag"
"""Kind of the facts that store the user's tags. The key is the tag."""

_HAS_TAG_SQL = f"exists (select 1 from situation where session = s.id and kind = '{TAG_FACT}' and"
_MAX_IDS_PER_QUERY = 500
"""Maximum number of session ids in one SQL statement."""
_WILDCARD_ESCAPES = str.maketrans({sign: f"\\{sign}" for sign in "\\%_"})


@dataclass(frozen=True, slots=True)
class ListedSession:
    """A session as shown in a list."""

    session: SessionRow
    cost: float | None
    """Cost in US dollars; None if the cost of any request is unknown."""
    row_order: int
    """Breaks ties between sessions with the same update time."""
    origin: str = ""
    """Where the session came from if it was created elsewhere; otherwise empty."""
    tags: tuple[str, ...] = ()
    """The tags, sorted."""


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Criteria for selecting sessions. All must be met. Sub-agents are selected together with the session that started
    them."""

    project: str | None = None
    """The project folder; None for any."""
    updated_before: float | None = None
    """Select only sessions last updated before this time, in Unix seconds."""
    tags: tuple[str, ...] = ()
    only_untagged: bool = False
    is_unanswered: bool = False
    """Select only sessions without a reply."""


class SessionCatalogue:
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
    ) -> tuple[ListedSession, ...]:
        """Get one page of sessions, newest first. `project`: None for all projects. `after`: update time and
        `row_order` of the last row of the previous page. `words`: strings that must all occur in the title, ignoring
        case; a string like `#par` also matches tags starting with `par`. `tags`: tags that the session must all
        have."""
        clause, values = f"{IS_LISTED_SQL} and s.owner is null", list[object]()
        if project is not None:
            clause += " and s.project = ?"
            values.append(project)
        for word in words:
            escaped, condition = word.translate(_WILDCARD_ESCAPES), "s.title like ? escape '\\'"
            if word.startswith("#"):
                condition += f" or {_HAS_TAG_SQL} key like ? escape '\\')"
                values += (f"%{escaped}%", f"{escaped[1:]}%")
            else:
                values.append(f"%{escaped}%")
            clause += f" and ({condition})"
        for tag in tags:
            clause += f" and {_HAS_TAG_SQL} key = ?)"
            values.append(tag)
        if after is not None:
            clause += " and (s.updated, s.rowid) < (?, ?)"
            values += after
        return self._read_sessions(clause, values, limit)

    def sessions_by_id(self, ids: tuple[str, ...]) -> tuple[ListedSession, ...]:
        """Get the sessions with these ids, in the given order. Missing ones are skipped."""
        clause = f"s.id in ({', '.join('?' * len(ids))})"
        rows_by_id = {row.session.id: row for row in self._read_sessions(clause, list(ids), len(ids))}
        return tuple(rows_by_id[session_id] for session_id in ids if session_id in rows_by_id)

    def agent_sessions(self, ids: tuple[str, ...]) -> tuple[ListedSession, ...]:
        """Get the sub-agent sessions started by these sessions, newest first within each batch of ids."""
        return tuple(
            row
            for start in range(0, len(ids), _MAX_IDS_PER_QUERY)
            for row in self._read_sessions(
                f"s.owner in ({', '.join('?' * len(ids[start : start + _MAX_IDS_PER_QUERY]))})",
                list(ids[start : start + _MAX_IDS_PER_QUERY]),
                -1,
            )
        )

    def matching_sessions(self, selection: SessionFilter) -> tuple[ListedSession, ...]:
        """Return the sessions that match a selection, newest first."""
        clause, values = "s.owner is null", list[object]()
        if selection.project is not None:
            clause += " and s.project = ?"
            values.append(selection.project)
        if selection.updated_before is not None:
            clause += " and s.updated < ?"
            values.append(selection.updated_before)
        for tag in selection.tags:
            clause += f" and {_HAS_TAG_SQL} key = ?)"
            values.append(tag)
        if selection.only_untagged:
            clause += f" and not {_HAS_TAG_SQL} 1)"
        if selection.is_unanswered:
            clause += " and not exists (select 1 from messages where session = s.id and role = 'assistant')"
        return self._read_sessions(clause, values, -1)

    def count_tags(self) -> tuple[tuple[str, int], ...]:
        """Count the sessions with each tag, sorted by tag."""
        rows = self._store.query(
            f"select key, count(*) from situation where kind = '{TAG_FACT}' group by key order by key"
        )
        return tuple((str(tag), int(count)) for tag, count in rows)

    def change_tags(self, session: str, added: tuple[str, ...], removed: tuple[str, ...]) -> tuple[str, ...]:
        """Add and remove tags of a session. Returns the resulting tags."""
        with self._store.transaction() as db:
            db.executemany(
                "delete from situation where session = ? and kind = ? and key = ?",
                [(session, TAG_FACT, tag) for tag in removed],
            )
            db.executemany(
                "insert or replace into situation (session, kind, key, body) values (?, ?, ?, '')",
                [(session, TAG_FACT, tag) for tag in added],
            )
        return tuple(fact.key for fact in self._store.facts(session, TAG_FACT))

    def _read_sessions(self, clause: str, values: list[object], limit: int) -> tuple[ListedSession, ...]:
        # Select the page before counting anything. Counting for every session would be slow.
        rows = self._store.query(
            "select p.id, p.project, p.title, p.model, p.mode, p.created, p.updated, "
            "(select coalesce(max(position) + 1, 0) from messages where session = p.id), "
            "p.parent, p.forked, p.family, p.draft, p.owner, p.agent, p.place, "
            "(select case when count(*) = count(cost) then total(cost) end from usage where session = p.id "
            "or session in (select id from sessions where owner = p.id)), "
            f"(select coalesce(min(key), '') from situation where session = p.id and kind = '{ORIGIN_FACT}'), "
            f"(select group_concat(key, char(10)) from situation where session = p.id and kind = '{TAG_FACT}') "
            f"from (select s.rowid as place, s.* from sessions s where {clause} "
            "order by s.updated desc, s.rowid desc limit ?) p order by p.updated desc, p.place desc",
            *values,
            limit,
        )
        return tuple(
            ListedSession(
                SessionRow(*row[:14]),
                row[15],
                row[14],
                row[16],
                tuple(sorted(filter(None, (row[17] or "").split("\n")))),
            )
            for row in rows
        )
