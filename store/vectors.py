"""Stores the embedding vectors of documents next to the full-text index. It does not compute or compare vectors.

Like the full-text index, vectors can be rebuilt. Deleting a session deletes its documents, and deleting a document
deletes its vectors.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ebbtide.store.search_tables import has_table
from ebbtide.store.sessions import SessionStore


@dataclass(frozen=True, slots=True)
class UnembeddedDocument:
    """A document without vectors."""

    id: int
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Vector:
    """The vector of one part of a document's text."""

    document: int
    start: int
    end: int
    sketch: bytes
    """A quantized form of the vector, for a fast first comparison."""
    body: bytes


@dataclass(frozen=True, slots=True)
class QuantizedVector:
    """A quantized vector with facts about its document."""

    id: int
    document: int
    session: str
    project: str
    kind: str
    tool: str
    path: str
    created: float
    sketch: bytes


class VectorStore:
    """The vectors computed by one model. Vectors of other models are deleted on first use. Raises `StoreError`; call it
    in the thread of the session store, after the full-text index has been created."""

    def __init__(self, store: SessionStore, model: str) -> None:
        """`model`: identifies the way in which the vectors are computed."""
        self._store = store
        self._model = model
        self._is_prepared = False

    def prepare(self) -> None:
        """Create the table if it is missing, and delete other models' vectors. Only the first call does anything."""
        if self._is_prepared and self._store.query("select 1 from sqlite_master where name = 'vectors'"):
            return
        with self._store.transaction() as db:
            if not has_table(db, "vectors"):
                create_vectors_table(db)
            db.execute("delete from vectors where model <> ?", (self._model,))
        self._is_prepared = True

    def unembedded_count(self) -> int:
        """Count the documents without vectors. These are always the newest ones."""
        rows = self._store.query("select count(*) from documents where id > ?", self._last_embedded_document())
        return int(rows[0][0])

    def unembedded_documents(self, limit: int) -> tuple[UnembeddedDocument, ...]:
        """Get the oldest documents that have no vectors."""
        rows = self._store.query(
            "select id, title, text from documents where id > ? order by id limit ?",
            self._last_embedded_document(),
            limit,
        )
        return tuple(UnembeddedDocument(*row) for row in rows)

    def add(self, vectors: Sequence[Vector]) -> None:
        """Add vectors, at least one for each document. Documents that have been deleted or already have vectors are
        skipped."""
        with self._store.transaction() as db:
            last_document = self._last_embedded_document()
            db.executemany(
                "insert into vectors (document, start, end, model, sketch, body) "
                "select ?1, ?2, ?3, ?4, ?5, ?6 where exists (select 1 from documents where id = ?1)",
                [
                    (vector.document, vector.start, vector.end, self._model, vector.sketch, vector.body)
                    for vector in vectors
                    if vector.document > last_document  # another process may have added them
                ],
            )

    def version_and_count(self) -> tuple[int, int]:
        """Return a version number and the number of vectors. The version changes whenever vectors are removed, so if it
        is unchanged, vectors were only added."""
        (version,), (count,) = (
            self._store.query("pragma schema_version")[0],
            self._store.query("select count(*) from vectors")[0],
        )
        return int(version), int(count)

    def quantized_vectors(self, after_id: int, limit: int) -> Iterator[QuantizedVector]:
        """Yield up to `limit` of the newest vectors with ids above `after_id`, in order of id."""
        rows = self._store.query(
            "select v.id, v.document, d.session, s.project, d.kind, d.tool, d.path, d.created, v.sketch "
            "from (select id, document, sketch from vectors where id > ? and model = ? order by id desc limit ?) v "
            "join documents d on d.id = v.document join sessions s on s.id = d.session order by v.id",
            after_id,
            self._model,
            limit,
        )
        return (QuantizedVector(*row) for row in rows)

    def vectors_by_id(self, ids: Sequence[int]) -> list[tuple[int, int, int, bytes]]:
        """Get vectors by id, as (document, start, end, body) tuples. Vectors that no longer exist are skipped."""
        return self._store.query(
            f"select document, start, end, body from vectors where id in ({', '.join('?' * len(ids))}) and model = ? "
            "order by id",
            *ids,
            self._model,
        )

    def paths_like(self, paths: Sequence[str], pattern: str) -> frozenset[str]:
        """Filter paths by a glob pattern, using SQLite's rules."""
        rows = self._store.query("select value from json_each(?) where value glob ?", json.dumps(paths), pattern)
        return frozenset(path for (path,) in rows)

    def _last_embedded_document(self) -> int:
        """Get the id of the newest document with vectors; 0 if there is none. Vectors are added in document order, so
        all earlier documents have vectors too."""
        rows = self._store.query(
            "select document from vectors where model = ? order by document desc limit 1", self._model
        )
        return int(rows[0][0]) if rows else 0


def create_vectors_table(db: sqlite3.Connection) -> None:
    """Create the table of vectors. Called when the first vector is stored."""
    db.execute(
        """create table vectors (
            id integer primary key autoincrement, document integer not null references documents (id) on delete cascade,
            start integer not null, end integer not null, model text not null, sketch blob not null,
            body blob not null)"""
    )
    db.execute("create index vectors_by_document on vectors (document, model)")
