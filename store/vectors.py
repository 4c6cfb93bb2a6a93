"""Vectors of what can be found, kept beside the index of words. It knows bytes and documents, not how vectors are made
or compared.

Like the index of words, all of it can be made again. Vectors go with their documents, and those with their sessions.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ebbtide.store.search import has_table
from ebbtide.store.sessions import SessionStore


@dataclass(frozen=True, slots=True)
class UnembeddedDocument:
    """A document that has no vectors yet."""

    id: int
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Vector:
    """Of a part of a document's text."""

    document: int
    start: int
    end: int
    sketch: bytes
    """What is compared first."""
    body: bytes


@dataclass(frozen=True, slots=True)
class QuantizedVector:
    """What can be told of a vector without its body, and of its document."""

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
    """Vectors of one model; those of another are forgotten when this one is used. Raises `StoreError`; to be called in
    the thread of the session store, when the index of words is there."""

    def __init__(self, store: SessionStore, model: str) -> None:
        """`model`: a name for how its vectors are made, and for nothing else."""
        self._store = store
        self._model = model
        self._is_prepared = False

    def prepare(self) -> None:
        """Makes the table where it is missing, and removes the vectors of other models, once."""
        if self._is_prepared and self._store.query("select 1 from sqlite_master where name = 'vectors'"):
            return
        with self._store.transaction() as db:
            if not has_table(db, "vectors"):
                create_vectors(db)
            db.execute("delete from vectors where model <> ?", (self._model,))
        self._is_prepared = True

    def unembedded_count(self) -> int:
        """How many documents have no vectors. They are the newest."""
        found = self._store.query("select count(*) from documents where id > ?", self._last())
        return int(found[0][0])

    def unembedded_documents(self, limit: int) -> tuple[UnembeddedDocument, ...]:
        """The oldest documents that have no vectors."""
        rows = self._store.query(
            "select id, title, text from documents where id > ? order by id limit ?", self._last(), limit
        )
        return tuple(UnembeddedDocument(*row) for row in rows)

    def add(self, vectors: Sequence[Vector]) -> None:
        """Adds the vectors of documents, at least one of each; those of documents that are gone or have some are left
        out."""
        with self._store.transaction() as db:
            last = self._last()
            db.executemany(
                "insert into vectors (document, start, end, model, sketch, body) "
                "select ?1, ?2, ?3, ?4, ?5, ?6 where exists (select 1 from documents where id = ?1)",
                [
                    (vector.document, vector.start, vector.end, self._model, vector.sketch, vector.body)
                    for vector in vectors
                    if vector.document > last  # another process may have been faster
                ],
            )

    def state(self) -> tuple[int, int]:
        """What changes when vectors are removed: with more than so many more, some are new."""
        (version,), (count,) = (
            self._store.query("pragma schema_version")[0],
            self._store.query("select count(*) from vectors")[0],
        )
        return int(version), int(count)

    def quantized_vectors(self, after: int, limit: int) -> Iterator[QuantizedVector]:
        """Of the newest vectors, the oldest of them first."""
        rows = self._store.query(
            "select v.id, v.document, d.session, s.project, d.kind, d.tool, d.path, d.created, v.sketch "
            "from (select id, document, sketch from vectors where id > ? and model = ? order by id desc limit ?) v "
            "join documents d on d.id = v.document join sessions s on s.id = d.session order by v.id",
            after,
            self._model,
            limit,
        )
        return (QuantizedVector(*row) for row in rows)

    def bodies(self, ids: Sequence[int]) -> list[tuple[int, int, int, bytes]]:
        """Document, start, end and body of those of the vectors that are still there."""
        return self._store.query(
            f"select document, start, end, body from vectors where id in ({', '.join('?' * len(ids))}) and model = ? "
            "order by id",
            *ids,
            self._model,
        )

    def paths_like(self, paths: Sequence[str], pattern: str) -> frozenset[str]:
        """Those of the paths that match a pattern as the index of words does it."""
        rows = self._store.query("select value from json_each(?) where value glob ?", json.dumps(paths), pattern)
        return frozenset(path for (path,) in rows)

    def _last(self) -> int:
        """The newest document that has vectors. They are made in the order of documents, so all before it have some."""
        found = self._store.query(
            "select document from vectors where model = ? order by document desc limit 1", self._model
        )
        return int(found[0][0]) if found else 0


def create_vectors(db: sqlite3.Connection) -> None:
    """The table of vectors. It is made when the first is kept."""
    db.execute(
        """create table vectors (
            id integer primary key autoincrement, document integer not null references documents (id) on delete cascade,
            start integer not null, end integer not null, model text not null, sketch blob not null,
            body blob not null)"""
    )
    db.execute("create index vectors_by_document on vectors (document, model)")
