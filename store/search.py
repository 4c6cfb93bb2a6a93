"""Full-text search over sessions. The index works on texts and rows; the caller extracts the texts from messages.

The index is not needed to resume a session and can be rebuilt from the messages, so damage to it loses no data."""

import hashlib
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ebbtide.store.errors import StoreError
from ebbtide.store.queries import (
    MAX_NAME_CHARS,
    MAX_TERM_CHARS,
    MatchMethod,
    SearchQuery,
    clean,
    expression,
    filters,
    pairs_of,
    pieces_of,
    prefix,
    quote_fts,
    spellings,
    words_of,
    words_of_path,
)
from ebbtide.store.search_tables import create_parts, create_tables, create_words, drop_index
from ebbtide.store.session_rows import MessageRow
from ebbtide.store.sessions import SessionStore

DocumentKind: TypeAlias = Literal["user", "assistant", "output", "summary"]

MAX_RANKED = 2000
"""Maximum number of matches that are ranked. If there are more, only the newest are ranked, to limit the time."""
MAX_TERMS = 100
"""Maximum number of longer words that the words of a query may expand to."""
MIN_PREFIX_CHARS = 12
"""Length from which a word is also searched as a prefix, in characters."""
_WEIGHTS = "0.0, 3.0, 1.0, 1.0"


@dataclass(frozen=True, slots=True)
class SearchDocument:
    """A searchable message, output or summary."""

    position: int
    """Position of the message, or of the message containing the output; for a summary, the number of messages before
    it."""
    number: int
    """Number of the output or summary in the session, from 1; 0 for a message."""
    kind: DocumentKind
    title: str
    """A one-line description."""
    text: str
    tool: str = ""
    path: str = ""
    """Related files, one per line."""
    size: int = 0
    """Full size in bytes; `text` may be only the beginning."""
    created: float = 0.0


@dataclass(frozen=True, slots=True)
class SearchMatch:
    """A document that was found, with the match method."""

    session: str
    project: str
    document: SearchDocument
    way: MatchMethod
    accesses: int
    """How often it was looked up."""
    part: tuple[int, int] | None = None
    """Start and end of the matching part of its text."""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A match that has not been read yet."""

    id: int
    way: MatchMethod
    accesses: int = 0
    part: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far a session is indexed."""

    session: str
    position: int
    """Number of indexed messages."""
    outputs: int
    """Number of outputs in them."""
    summaries: int
    messages: int
    """Number of messages not yet indexed."""
    waiting: int
    """Number of summaries not yet indexed."""


class SearchIndex:
    """Searches documents. Raises `StoreError`; call it in the thread of the session store."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def behind(self) -> tuple[IndexProgress, ...]:
        """Return the sessions that are not fully indexed, newest first."""
        rows = self._store.query(
            "select s.id, coalesce(i.position, 0), coalesce(i.outputs, 0), coalesce(i.summaries, 0), "
            "(select coalesce(max(position) + 1, 0) from messages where session = s.id), "
            "(select coalesce(max(number), 0) from summaries where session = s.id) "
            "from sessions s left join indexed i on i.session = s.id order by s.updated desc"
        )
        return tuple(
            IndexProgress(id, position, outputs, summaries, messages - position, written - summaries)
            for id, position, outputs, summaries, messages, written in rows
            if messages > position or written > summaries
        )

    def messages(self, session: str, start: int, limit: int) -> tuple[MessageRow, ...]:
        rows = self._store.query(
            "select position, role, body, created from messages where session = ? and position >= ? "
            "order by position limit ?",
            session,
            start,
            limit,
        )
        return tuple(MessageRow(*row) for row in rows)

    def add(self, done: IndexProgress, documents: Iterable[SearchDocument], start: int = 0) -> None:
        """Add documents of a session for the messages from `start` on; `done` is the progress afterwards. Nothing is
        added if earlier messages are missing because the index was emptied meanwhile."""
        self._prepare()
        with self._store.transaction() as db:
            before = db.execute(
                "select i.position, i.summaries, s.project from sessions s left join indexed i on i.session = s.id "
                "where s.id = ?",
                (done.session,),
            ).fetchone()
            if before is None or (before[0] or 0) < start:
                return  # the session was deleted, or the index was emptied
            position, summaries, project = before[0] or 0, before[1] or 0, before[2]
            has_parts = has_table(db, "parts")
            for document in documents:
                is_new = document.number > summaries if document.kind == "summary" else document.position >= position
                if is_new:  # another process may have added it
                    self._insert(db, done.session, project, document, has_parts)
            db.execute(
                "insert into indexed (session, position, outputs, summaries) values (?, ?, ?, ?) "
                "on conflict (session) do update set position = max(position, excluded.position), "
                "outputs = max(outputs, excluded.outputs), summaries = max(summaries, excluded.summaries)",
                (done.session, done.position, done.outputs, done.summaries),
            )

    @staticmethod
    def _insert(db: sqlite3.Connection, session: str, project: str, document: SearchDocument, has_parts: bool) -> None:
        title, text = clean(document.title), clean(document.text)
        pairs = pairs_of(f"{title}\n{text}")
        path = clean(document.path)
        marks = [mark("s", session), mark("p", project), mark("k", document.kind), mark("t", document.tool), path]
        found = db.execute(
            "insert into documents (session, position, number, kind, tool, size, created, path, title, marks, text, "
            "pairs) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                session,
                document.position,
                document.number,
                document.kind,
                document.tool,
                document.size,
                document.created,
                path,
                title,
                " ".join(marks),
                text,
                pairs,
            ),
        )
        db.execute(
            "insert into words (rowid, marks, title, text, pairs) values (?, ?, ?, ?, ?)",
            (found.lastrowid, " ".join(marks), title, text, pairs),
        )
        if not has_parts:
            return
        for word in words_of(f"{title} {text}"):
            if db.execute("insert or ignore into terms (term) values (?)", (word,)).rowcount:
                db.execute("insert into parts (term) values (?)", (word,))

    def find(self, wanted: SearchQuery) -> tuple[SearchMatch, ...]:
        """Search, best matches first: documents with all words, then with the words as parts of longer words, and if
        there are none, with some of the words. Without words, return the newest."""
        return self.read(self.ranked_hits(wanted))

    def ranked_hits(self, wanted: SearchQuery, most: int = 0) -> list[SearchHit]:
        """Search without reading the documents. `most` raises the limit on their number if more are available."""
        self._prepare()
        limit, wanted = wanted.limit, replace(wanted, limit=max(wanted.limit, most))
        if not wanted.words.strip():
            return [SearchHit(id, "newest", accesses) for id, accesses in self._newest(wanted)]
        pieces = pieces_of(wanted.words)
        found = [
            SearchHit(id, "words", accesses) for id, accesses in self._best_matches(wanted, expression(pieces, "all"))
        ]
        if len(found) < limit:
            wider = [self._terms_with(piece, MAX_TERMS // len(pieces)) for piece in pieces]
            more = self._best_matches(wanted, expression(pieces, "all", wider)) if any(wider) else []
            known = {hit.id for hit in found}
            found += [SearchHit(id, "parts", accesses) for id, accesses in more if id not in known]
        if not found and len(pieces) > 1:
            some = self._best_matches(wanted, expression(pieces, "some"))
            found = [SearchHit(id, "some", accesses) for id, accesses in some]
        return found[: wanted.limit]

    def touch(self, session: str, ref: str) -> None:
        """Count a lookup, unless the store is read-only."""
        if self._store.is_read_only:
            return
        with self._store.transaction() as db:
            db.execute(
                "insert into accesses (session, ref, count, last) values (?, ?, 1, ?) "
                "on conflict (session, ref) do update set count = count + 1, last = excluded.last",
                (session, ref, time.time()),
            )

    def accesses(self, session: str) -> Mapping[str, tuple[int, float]]:
        """Return the number of lookups and the last one in Unix seconds, for each item of a session."""
        rows = self._store.query("select ref, count, last from accesses where session = ?", session)
        return {str(row[0]): (int(row[1]), float(row[2])) for row in rows}

    def forget_words(self) -> None:
        """Delete the index of word parts; it is rebuilt by the next search. Call this after a session is deleted, since
        words are not removed otherwise."""
        with self._store.transaction() as db:
            drop_index(db, "parts")
            db.execute("delete from terms")

    def rebuild(self) -> None:
        """Empty the index, whatever its state."""
        with self._store.transaction() as db:
            db.execute("drop trigger if exists documents_forgotten")
            for index in ("words", "parts"):
                drop_index(db, index)
            for table in ("vectors", "documents", "terms", "indexed"):
                db.execute(f"drop table if exists {table}")
            create_tables(db)
            create_words(db)

    def _prepare(self) -> None:
        """Create the index. Requires SQLite with FTS5."""
        if self._store.query("select 1 from sqlite_master where name = 'words'"):
            return
        with self._store.transaction() as db:
            try:
                create_words(db)
            except sqlite3.OperationalError as error:
                if "no such module" not in str(error):
                    raise
                raise StoreError("missing", f"this Python's SQLite cannot search texts: {error}") from error

    def _best_matches(self, wanted: SearchQuery, words: str) -> list[tuple[int, int]]:
        """Return row id and lookup count of the best matches."""
        if not words:
            return []
        marks = [mark(kind, value) for kind, value in (("p", wanted.project), ("t", wanted.tool)) if value]
        ways = [
            " OR ".join(quote_fts(mark(kind, value)) for value in values)
            for kind, values in (("k", wanted.kinds), ("s", wanted.sessions))
        ]
        scope = " AND ".join(
            [*map(quote_fts, marks), *(f"({any_of})" for any_of in ways if any_of), *words_of_path(wanted.path)]
        )
        match = f"{{title text pairs}} : ({words})" + (f" AND marks : ({scope})" if scope else "")
        clause, values = filters(wanted)
        joined = "join documents d on d.id = words.rowid" if clause else ""
        return self._store.query(
            f"select f.id, coalesce(a.count, 0) from (select words.rowid as id, bm25(words, {_WEIGHTS}) as score "
            f"from words {joined} where words match ? {clause} order by words.rowid desc limit {MAX_RANKED}) f "
            "join documents d on d.id = f.id left join accesses a on a.session = d.session and a.ref = "
            f"{_REF} order by round(f.score, 2), coalesce(a.count, 0) desc, d.created desc, d.id desc limit ?",
            match,
            *values,
            wanted.limit,
        )

    def _newest(self, wanted: SearchQuery) -> list[tuple[int, int]]:
        clause, values = filters(wanted)
        exact = [("s.project", wanted.project), ("d.tool", wanted.tool)]
        for column, value in exact:
            if value:
                clause += f" and {column} = ?"
                values.append(clean(value))
        for column, any_of in (("d.kind", wanted.kinds), ("d.session", wanted.sessions)):
            if any_of:
                clause += f" and {column} in ({', '.join('?' * len(any_of))})"
                values += any_of
        return self._store.query(
            "select d.id, coalesce(a.count, 0) from documents d join sessions s on s.id = d.session "
            f"left join accesses a on a.session = d.session and a.ref = {_REF} where true {clause} "
            "order by d.created desc, d.id desc limit ?",
            *values,
            wanted.limit,
        )

    def read(self, hits: Sequence[SearchHit]) -> tuple[SearchMatch, ...]:
        """Return the documents that still exist, in the given order."""
        found = self._store.query(
            "select d.id, d.session, s.project, d.position, d.number, d.kind, d.title, d.text, d.tool, d.path, d.size, "
            "d.created from documents d join sessions s on s.id = d.session "
            f"where d.id in ({', '.join('?' * len(hits))})",
            *(hit.id for hit in hits),
        )
        rows = {row[0]: (row[1], row[2], SearchDocument(*row[3:])) for row in found}
        return tuple(
            SearchMatch(*rows[hit.id], way=hit.way, accesses=hit.accesses, part=hit.part)
            for hit in hits
            if hit.id in rows
        )

    def _terms_with(self, piece: str, limit: int) -> tuple[str, ...]:
        """Return longer words that contain the piece, shortest first, and alternative spellings, as FTS5 terms."""
        apart, glued = spellings(piece)
        if not piece.isalnum():
            return (prefix(piece), *((quote_fts(glued), *self._terms_with(glued, limit)) if glued else ()))
        others = (
            *((quote_fts(apart),) if apart else ()),
            *((prefix(piece),) if len(piece) >= MIN_PREFIX_CHARS else ()),
        )
        return (*others, *self._terms_around(piece, limit))

    def _terms_around(self, piece: str, limit: int) -> tuple[str, ...]:
        if len(piece) < 3 or not self._remembers_words():
            return ()
        found = self._store.query(
            "select term from parts where parts match ? order by length(term), term limit ?", quote_fts(piece), limit
        )
        return tuple(quote_fts(term) for (term,) in found if term != piece)

    def _remembers_words(self) -> bool:
        """Whether words can be found by their parts; the index for that is created if missing."""
        if self._store.query("select 1 from sqlite_master where name = 'parts'"):
            return True
        with self._store.transaction() as db:
            if has_table(db, "parts"):  # another process has created it
                return True
            try:
                create_parts(db)
            except sqlite3.OperationalError as error:
                if "no such tokenizer" not in str(error):
                    raise
                return False
            db.execute("delete from terms")
            db.execute(
                "insert into terms (term) select term from vocabulary where length(term) between 4 and ? "
                "or (length(term) between 4 and ? and term not glob '*[0-9]*')",
                (MAX_TERM_CHARS, MAX_NAME_CHARS),
            )
            db.execute("insert into parts (term) select term from terms")
        return True


def has_table(db: sqlite3.Connection, table: str) -> bool:
    return db.execute("select 1 from sqlite_master where name = ?", (table,)).fetchone() is not None


_REF = (
    "case d.kind when 'output' then 'r' || d.number when 'summary' then 'sum-' || d.number else 'm' || d.position end"
)
"""SQL for `access_key`."""


def access_key(kind: DocumentKind, position: int, number: int) -> str:
    """The key for counting lookups of a document."""
    match kind:
        case "output":
            return f"r{number}"
        case "summary":
            return f"sum-{number}"
        case "user" | "assistant":
            return f"m{position}"


def mark(kind: str, value: str) -> str:
    """A unique word that represents a session, project, kind or tool and does not occur in any text."""
    return f"{kind}{hashlib.sha256(value.encode('utf-8', 'replace')).hexdigest()[:12]}"
