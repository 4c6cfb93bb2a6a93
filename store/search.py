"""Full-text search over sessions. The caller extracts the text to index from messages.

The index is not needed to resume a session and can be rebuilt from the messages, so damage to it loses no data.
"""

import hashlib
import sqlite3
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeAlias

from ebbtide.store.errors import StoreError
from ebbtide.store.queries import (
    MatchMethod,
    SearchQuery,
    character_pairs,
    fts_expression,
    indexed_words,
    path_terms,
    prefix_term,
    query_pieces,
    quote_fts,
    spellings,
    sql_filters,
    storable_text,
)
from ebbtide.store.search_tables import (
    create_index_of_large_documents,
    create_tables,
    create_words_index,
    drop_index,
    has_table,
)
from ebbtide.store.session_rows import MessageRow
from ebbtide.store.sessions import SessionStore
from ebbtide.store.word_parts import add_missing_word_parts, add_word_parts

DocumentKind: TypeAlias = Literal["user", "assistant", "output", "summary"]

MAX_RANKED_MATCHES = 2000
"""Maximum number of matches that are ranked. If there are more, only the newest are ranked, to keep searches fast."""
MAX_EXPANDED_TERMS = 100
"""Maximum number of longer words that the words of a query are expanded to."""
MIN_PREFIX_CHARS = 12
"""Minimum length, in characters, at which a word is also searched for as a prefix."""
_COLUMN_WEIGHTS = "0.0, 3.0, 1.0, 1.0"


@dataclass(frozen=True, slots=True)
class SearchDocument:
    """A searchable message, output or summary."""

    position: int
    """Position of the message, or of the message that contains the output. For a summary, the number of messages before
    it."""
    number: int
    """Number of the output or summary in the session, from 1. 0 for a message."""
    kind: DocumentKind
    title: str
    """A one-line description."""
    text: str
    tool: str = ""
    path: str = ""
    """Related files, one path per line."""
    size: int = 0
    """Full size in bytes. `text` may contain only the beginning."""
    created: float = 0.0


@dataclass(frozen=True, slots=True)
class SearchMatch:
    """A document that matched, and how it matched."""

    session: str
    project: str
    document: SearchDocument
    method: MatchMethod
    access_count: int
    """Number of times the document was looked up."""
    matched_range: tuple[int, int] | None = None
    """For a semantic match, the start and end of the part of the text that matched; otherwise None."""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A match whose document has not been read yet."""

    id: int
    method: MatchMethod
    access_count: int = 0
    matched_range: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far a session has been indexed."""

    session: str
    indexed_messages: int
    """Number of indexed messages."""
    indexed_outputs: int
    """Number of outputs in the indexed messages."""
    indexed_summaries: int
    pending_messages: int
    """Number of messages not yet indexed."""
    pending_summaries: int
    """Number of summaries not yet indexed."""
    project: str = ""

    @property
    def is_unfinished(self) -> bool:
        return self.pending_messages > 0 or self.pending_summaries > 0


class SearchIndex:
    """Searches documents. Raises `StoreError`; call it in the thread of the session store."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def unfinished_sessions(self) -> tuple[IndexProgress, ...]:
        """Return the progress of the sessions that are not fully indexed, newest first."""
        rows = self._store.query(
            "select session, position, outputs, summaries, messages - position, written_summaries - summaries, project "
            "from (select s.id as session, s.project as project, s.updated as updated, "
            "coalesce(i.position, 0) as position, coalesce(i.outputs, 0) as outputs, "
            "coalesce(i.summaries, 0) as summaries, "
            "(select coalesce(max(position) + 1, 0) from messages where session = s.id) as messages, "
            "(select coalesce(max(number), 0) from summaries where session = s.id) as written_summaries "
            "from sessions s left join indexed i on i.session = s.id) "
            "where messages > position or written_summaries > summaries order by updated desc"
        )
        return tuple(IndexProgress(*row) for row in rows)

    def session_count(self, project: str | None = None) -> int:
        """Count the sessions with messages. `project`: None for all projects."""
        ((count,),) = self._store.query(
            "select count(*) from sessions s where exists (select 1 from messages where session = s.id) "
            "and (?1 is null or s.project = ?1)",
            project,
        )
        return int(count)

    def index_large_documents(self) -> None:
        """Create the index of large documents in a database that an earlier version filled."""
        if not self._store.query("select 1 from sqlite_master where name = 'large_documents'"):
            with self._store.transaction() as db:
                create_index_of_large_documents(db)

    def messages(self, session: str, start: int, limit: int) -> tuple[MessageRow, ...]:
        rows = self._store.query(
            "select position, role, body, created from messages where session = ? and position >= ? "
            "order by position limit ?",
            session,
            start,
            limit,
        )
        return tuple(MessageRow(*row) for row in rows)

    def add_documents(self, progress: IndexProgress, documents: Iterable[SearchDocument], start: int = 0) -> None:
        """Add a session's documents for the messages from `start` on. `progress`: the progress once they are added. If
        the index was emptied in the meantime, so that earlier messages are missing, nothing is added."""
        self._ensure_words_index()
        # Everything that needs no database is done before the transaction, because it blocks other writers.
        storable_documents = [_storable_document(document) for document in documents]
        words = {word for storable in storable_documents for word in storable.words}
        with self._store.transaction() as db:
            indexed_row = db.execute(
                "select i.position, i.summaries, s.project from sessions s left join indexed i on i.session = s.id "
                "where s.id = ?",
                (progress.session,),
            ).fetchone()
            if indexed_row is None or (indexed_row[0] or 0) < start:
                return  # the session was deleted, or the index was emptied
            position, summaries, project = indexed_row[0] or 0, indexed_row[1] or 0, indexed_row[2]
            for storable in storable_documents:
                document = storable.document
                is_new = document.number > summaries if document.kind == "summary" else document.position >= position
                if is_new:  # otherwise, another process has already added it
                    _insert_document(db, progress.session, project, storable)
            if has_table(db, "parts"):
                add_word_parts(db, words)
            db.execute(
                "insert into indexed (session, position, outputs, summaries) values (?, ?, ?, ?) "
                "on conflict (session) do update set position = max(position, excluded.position), "
                "outputs = max(outputs, excluded.outputs), summaries = max(summaries, excluded.summaries)",
                (progress.session, progress.indexed_messages, progress.indexed_outputs, progress.indexed_summaries),
            )

    def find(self, query: SearchQuery) -> tuple[SearchMatch, ...]:
        """Search, best matches first. Documents that contain all words come before those that contain them as parts of
        longer words. If there are neither, documents that contain some of the words are returned. A query without words
        returns the newest documents."""
        return self.read(self.rank_hits(query))

    def rank_hits(self, query: SearchQuery, min_limit: int = 0) -> list[SearchHit]:
        """Search without reading the documents. `min_limit` raises the maximum number of hits in each step."""
        self._ensure_words_index()
        limit, query = query.limit, replace(query, limit=max(query.limit, min_limit))
        if not query.words.strip():
            return [SearchHit(document_id, "newest", accesses) for document_id, accesses in self._newest(query)]
        pieces = query_pieces(query.words)
        hits = [
            SearchHit(document_id, "words", accesses)
            for document_id, accesses in self._find_best_matches(query, fts_expression(pieces, "all"))
        ]
        if len(hits) < limit:
            alternatives = [self._terms_for_piece(piece, MAX_EXPANDED_TERMS // len(pieces)) for piece in pieces]
            part_matches = (
                self._find_best_matches(query, fts_expression(pieces, "all", alternatives)) if any(alternatives) else []
            )
            found_ids = {hit.id for hit in hits}
            hits += [
                SearchHit(document_id, "parts", accesses)
                for document_id, accesses in part_matches
                if document_id not in found_ids
            ]
        if not hits and len(pieces) > 1:
            some_matches = self._find_best_matches(query, fts_expression(pieces, "some"))
            hits = [SearchHit(document_id, "some", accesses) for document_id, accesses in some_matches]
        return hits[: query.limit]

    def record_access(self, session: str, ref: str) -> None:
        """Record that a document was looked up, unless the store is read-only."""
        if self._store.is_read_only:
            return
        with self._store.transaction() as db:
            db.execute(
                "insert into accesses (session, ref, count, last) values (?, ?, 1, ?) "
                "on conflict (session, ref) do update set count = count + 1, last = excluded.last",
                (session, ref, time.time()),
            )

    def accesses(self, session: str) -> Mapping[str, tuple[int, float]]:
        """Get the number of lookups and the time of the last one (Unix seconds) for each item in a session."""
        rows = self._store.query("select ref, count, last from accesses where session = ?", session)
        return {str(row[0]): (int(row[1]), float(row[2])) for row in rows}

    def reset_word_parts(self) -> None:
        """Empty the index of word parts; `add_word_parts` fills it again. Call this after deleting a session, whose
        words would otherwise stay in the index."""
        with self._store.transaction() as db:
            drop_index(db, "parts")
            db.execute("delete from terms")

    def add_word_parts(self) -> bool:
        """Add the next words to the index of word parts, if any are missing. Return whether it is complete now."""
        if not self._is_missing_word_parts():
            return True
        self._ensure_words_index()
        with self._store.transaction() as db:
            return add_missing_word_parts(db)

    def _is_missing_word_parts(self) -> bool:
        return self._store.query("select name from sqlite_master where name in ('parts', 'parts_progress')") != [
            ("parts",)
        ]

    def clear(self) -> None:
        """Empty the index, even if it is damaged."""
        with self._store.transaction() as db:
            db.execute("drop trigger if exists documents_forgotten")
            for index in ("words", "parts"):
                drop_index(db, index)
            for table in ("vectors", "documents", "terms", "indexed", "parts_progress"):
                db.execute(f"drop table if exists {table}")
            create_tables(db)
            create_words_index(db)

    def _ensure_words_index(self) -> None:
        """Create the full-text index if necessary. Requires SQLite with FTS5."""
        if self._store.query("select 1 from sqlite_master where name = 'words'"):
            return
        with self._store.transaction() as db:
            try:
                create_words_index(db)
            except sqlite3.OperationalError as error:
                if "no such module" not in str(error):
                    raise
                raise StoreError("missing", f"this Python's SQLite cannot search texts: {error}") from error

    def _find_best_matches(self, query: SearchQuery, words: str) -> list[tuple[int, int]]:
        """Find the row ids and lookup counts of the best matches."""
        if not words:
            return []
        marks = [marker_word(kind, value) for kind, value in (("p", query.project), ("t", query.tool)) if value]
        alternatives = [
            " OR ".join(quote_fts(marker_word(kind, value)) for value in values)
            for kind, values in (("k", query.kinds), ("s", query.sessions))
        ]
        scope = " AND ".join(
            [
                *map(quote_fts, marks),
                *(f"({accepted})" for accepted in alternatives if accepted),
                *path_terms(query.path),
            ]
        )
        match = f"{{title text pairs}} : ({words})" + (f" AND marks : ({scope})" if scope else "")
        clause, values = sql_filters(query)
        join_sql = "join documents d on d.id = words.rowid" if clause else ""
        return self._store.query(
            "select f.id, coalesce(a.count, 0) from (select words.rowid as id, bm25(words, "
            f"{_COLUMN_WEIGHTS}) as score "
            f"from words {join_sql} where words match ? {clause} "
            f"order by words.rowid desc limit {MAX_RANKED_MATCHES}) f "
            "join documents d on d.id = f.id left join accesses a on a.session = d.session and a.ref = "
            f"{_ACCESS_KEY_SQL} order by round(f.score, 2), coalesce(a.count, 0) desc, d.created desc, "
            "d.id desc limit ?",
            match,
            *values,
            query.limit,
        )

    def _newest(self, query: SearchQuery) -> list[tuple[int, int]]:
        clause, values = sql_filters(query)
        exact_conditions = [("s.project", query.project), ("d.tool", query.tool)]
        for column, value in exact_conditions:
            if value:
                clause += f" and {column} = ?"
                values.append(storable_text(value))
        for column, accepted_values in (("d.kind", query.kinds), ("d.session", query.sessions)):
            if accepted_values:
                clause += f" and {column} in ({', '.join('?' * len(accepted_values))})"
                values += accepted_values
        return self._store.query(
            "select d.id, coalesce(a.count, 0) from documents d join sessions s on s.id = d.session "
            f"left join accesses a on a.session = d.session and a.ref = {_ACCESS_KEY_SQL} where true {clause} "
            "order by d.created desc, d.id desc limit ?",
            *values,
            query.limit,
        )

    def read(self, hits: Sequence[SearchHit]) -> tuple[SearchMatch, ...]:
        """Read the documents of hits, in the given order. Documents that no longer exist are skipped."""
        if not hits:
            return ()
        document_rows = self._store.query(
            "select d.id, d.session, s.project, d.position, d.number, d.kind, d.title, d.text, d.tool, d.path, d.size, "
            "d.created from documents d join sessions s on s.id = d.session "
            f"where d.id in ({', '.join('?' * len(hits))})",
            *(hit.id for hit in hits),
        )
        documents_by_id = {row[0]: (row[1], row[2], SearchDocument(*row[3:])) for row in document_rows}
        return tuple(
            SearchMatch(
                *documents_by_id[hit.id],
                method=hit.method,
                access_count=hit.access_count,
                matched_range=hit.matched_range,
            )
            for hit in hits
            if hit.id in documents_by_id
        )

    def _terms_for_piece(self, piece: str, limit: int) -> tuple[str, ...]:
        """Build FTS5 terms for a piece: the longer words that contain it, shortest first, and its alternative
        spellings."""
        separated, joined = spellings(piece)
        if not piece.isalnum():
            return (prefix_term(piece), *((quote_fts(joined), *self._terms_for_piece(joined, limit)) if joined else ()))
        other_terms = (
            *((quote_fts(separated),) if separated else ()),
            *((prefix_term(piece),) if len(piece) >= MIN_PREFIX_CHARS else ()),
        )
        return (*other_terms, *self._longer_terms(piece, limit))

    def _longer_terms(self, piece: str, limit: int) -> tuple[str, ...]:
        if len(piece) < 3:
            return ()
        self.add_word_parts()
        if not self._store.query("select 1 from sqlite_master where name = 'parts'"):
            return ()
        rows = self._store.query(
            "select term from parts where parts match ? order by length(term), term limit ?", quote_fts(piece), limit
        )
        return tuple(quote_fts(term) for (term,) in rows if term != piece)


@dataclass(frozen=True, slots=True)
class _StorableDocument:
    """A document with everything that is computed from its text before it is stored."""

    document: SearchDocument
    title: str
    text: str
    path: str
    pairs: str
    words: Collection[str]
    """The words that can be found by their parts."""


def _storable_document(document: SearchDocument) -> _StorableDocument:
    title, text, path = storable_text(document.title), storable_text(document.text), storable_text(document.path)
    return _StorableDocument(
        document, title, text, path, character_pairs(f"{title}\n{text}"), indexed_words(f"{title} {text}")
    )


def _insert_document(db: sqlite3.Connection, session: str, project: str, storable: _StorableDocument) -> None:
    document, path, title, text, pairs = (
        storable.document, storable.path, storable.title, storable.text, storable.pairs,
    )  # fmt: skip
    origin = (("s", session), ("p", project), ("k", document.kind), ("t", document.tool))
    marks = " ".join([*(marker_word(kind, value) for kind, value in origin), path])
    cursor = db.execute(
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
            marks,
            text,
            pairs,
        ),
    )
    db.execute(
        "insert into words (rowid, marks, title, text, pairs) values (?, ?, ?, ?, ?)",
        (cursor.lastrowid, marks, title, text, pairs),
    )


_ACCESS_KEY_SQL = (
    "case d.kind when 'output' then 'r' || d.number when 'summary' then 'sum-' || d.number else 'm' || d.position end"
)
"""An SQL expression for the value that `access_key` computes."""


def access_key(kind: DocumentKind, position: int, number: int) -> str:
    """Build the key under which a document's lookups are counted."""
    match kind:
        case "output":
            return f"r{number}"
        case "summary":
            return f"sum-{number}"
        case "user" | "assistant":
            return f"m{position}"


@lru_cache(maxsize=1024)
def marker_word(kind: str, value: str) -> str:
    """Build a unique word for a session, project, kind or tool. The word never occurs in ordinary text."""
    return f"{kind}{hashlib.sha256(value.encode('utf-8', 'replace')).hexdigest()[:12]}"
