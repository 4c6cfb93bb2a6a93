"""The tables of the search index. All but `accesses` can be rebuilt from the messages."""

import sqlite3

LARGE_DOCUMENT_BYTES = 1 << 18
"""Documents above this size, in bytes, have an index of their own, because only their beginnings are searchable."""
_SHADOW_TABLE_SUFFIXES = ("data", "idx", "content", "docsize", "config")


def create_tables(db: sqlite3.Connection) -> None:
    """Create the document tables. `marks` contains words that represent a document's origin and path. `pairs` contains
    pairs of characters from text without spaces."""
    db.execute(
        """create table documents (
            id integer primary key, session text not null references sessions (id) on delete cascade,
            position integer not null, number integer not null, kind text not null, tool text not null,
            size integer not null, created real not null, path text not null, title text not null, marks text not null,
            text text not null, pairs text not null)"""
    )
    db.execute("create index documents_by_session on documents (session, position)")
    db.execute("create index documents_by_time on documents (created)")
    create_index_of_large_documents(db)
    db.execute(
        """create table indexed (
            session text primary key references sessions (id) on delete cascade, position integer not null,
            outputs integer not null, summaries integer not null) without rowid"""
    )
    db.execute("create table terms (term text primary key) without rowid")


def create_index_of_large_documents(db: sqlite3.Connection) -> None:
    """Create the index of large documents unless it exists, as in databases that earlier versions filled."""
    db.execute(f"create index if not exists large_documents on documents (created) where size > {LARGE_DOCUMENT_BYTES}")


def create_words_index(db: sqlite3.Connection) -> None:
    """Create the full-text index. The first search does this, because it requires FTS5."""
    db.execute(
        "create virtual table if not exists words using fts5 "
        "(marks, title, text, pairs, content=documents, content_rowid=id)"
    )
    db.execute("create virtual table if not exists vocabulary using fts5vocab (words, row)")
    db.execute(
        "create trigger if not exists documents_forgotten after delete on documents begin "
        "insert into words (words, rowid, marks, title, text, pairs) "
        "values ('delete', old.id, old.marks, old.title, old.text, old.pairs); end"
    )


def drop_index(db: sqlite3.Connection, index: str) -> None:
    """Drop an index, even if it is too damaged to open."""
    try:
        if index == "words":
            db.execute("drop table if exists vocabulary")
        db.execute(f"drop table if exists {index}")
    except sqlite3.DatabaseError:
        db.execute("pragma writable_schema = on")
        names = (index, "vocabulary") if index == "words" else (index,)
        for name in names:
            db.execute("delete from sqlite_master where name = ?", (name,))
        db.execute("pragma writable_schema = reset")
        for suffix in _SHADOW_TABLE_SUFFIXES:
            db.execute(f"drop table if exists {index}_{suffix}")


def has_table(db: sqlite3.Connection, table: str) -> bool:
    return db.execute("select 1 from sqlite_master where name = ?", (table,)).fetchone() is not None
