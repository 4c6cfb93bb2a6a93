"""Stores embedding vectors of documents next to the full-text index. It does not compute or compare vectors.

The vectors can be rebuilt, like the full-text index. They are deleted with their documents, which are deleted with
their sessions.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ebbtide.store.search import has_table
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
    """A quantized form of the vector, used for a first comparison."""
    body: bytes


@dataclass(frozen=True, slots=True)
class QuantizedVector:
    """The quantized form of a vector, with facts about its document."""

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
    """Vectors computed by one model. Vectors of other models are deleted when the store is first used. Raises
    `StoreError`; call it in the thread of the session store, after the full-text index was created."""

    def __init__(self, store: SessionStore, model: str) -> None:
        """`model` identifies how vectors are computed."""
        self._store = store
        self._model = model
        self._is_prepared = False

    def prepare(self) -> None:
        """Create the table if it is missing, and delete the vectors of other models. Later calls do nothing."""
        if self._is_prepared and self._store.query("select 1 from sqlite_master where name = 'vectors'"):
            return
        with self._store.transaction() as db:
            if not has_table(db, "vectors"):
                create_vectors_table(db)
            db.execute("delete from vectors where model <> ?", (self._model,))
        self._is_prepared = True

    def unembedded_count(self) -> int:
        """Return the number of documents without vectors, which are always the newest ones."""
        rows = self._store.query("select count(*) from documents where id > ?", self._last_embedded_document())
        return int(rows[0][0])

    def unembedded_documents(self, limit: int) -> tuple[UnembeddedDocument, ...]:
        """Return the oldest documents without vectors."""
        rows = self._store.query(
            "select id, title, text from documents where id > ? order by id limit ?",
            self._last_embedded_document(),
            limit,
        )
        return tuple(UnembeddedDocument(*row) for row in rows)

    def add(self, vectors: Sequence[Vector]) -> None:
        """Add vectors of documents, at least one for each document. Documents that have been deleted or already have
        vectors are skipped."""
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

    def state(self) -> tuple[int, int]:
        """Return a version that changes when vectors are removed, and the number of vectors. If only the number has
        changed, vectors were added."""
        (version,), (count,) = (
            self._store.query("pragma schema_version")[0],
            self._store.query("select count(*) from vectors")[0],
        )
        return int(version), int(count)

    def quantized_vectors(self, after: int, limit: int) -> Iterator[QuantizedVector]:
        """Yield the newest vectors after id `after`, at most `limit`, in the order of their ids."""
        rows = self._store.query(
            "select v.id, v.document, d.session, s.project, d.kind, d.tool, d.path, d.created, v.sketch "
            "from (select id, document, sketch from vectors where id > ? and model = ? order by id desc limit ?) v "
            "join documents d on d.id = v.document join sessions s on s.id = d.session order by v.id",
            after,
            self._model,
            limit,
        )
        return (QuantizedVector(*row) for row in rows)

    def vectors_by_id(self, ids: Sequence[int]) -> list[tuple[int, int, int, bytes]]:
        """Return the document, start, end and body of each of these vectors that still exists."""
        return self._store.query(
            f"select document, start, end, body from vectors where id in ({', '.join('?' * len(ids))}) and model = ? "
            "order by id",
            *ids,
            self._model,
        )

    def paths_like(self, paths: Sequence[str], pattern: str) -> frozenset[str]:
        """Return the paths that match a glob pattern by SQLite's rules."""
        rows = self._store.query("select value from json_each(?) where value glob ?", json.dumps(paths), pattern)
        return frozenset(path for (path,) in rows)

    def _last_embedded_document(self) -> int:
        """Return the id of the newest document with vectors; 0 if there is none. Vectors are added in the order of
        documents, so all earlier documents also have vectors."""
        rows = self._store.query(
            "select document from vectors where model = ? order by document desc limit 1", self._model
        )
        return int(rows[0][0]) if rows else 0


def create_vectors_table(db: sqlite3.Connection) -> None:
    """Create the table of vectors. This is done when the first vector is stored."""
    db.execute(
        """create table vectors (
            id integer primary key autoincrement, document integer not null references documents (id) on delete cascade,
            start integer not null, end integer not null, model text not null, sketch blob not null,
            body blob not null)"""
    )
    db.execute("create index vectors_by_document on vectors (document, model)")
