"""The index of word parts, through which a search finds words that contain the words of a query."""

import json
import sqlite3
from collections.abc import Iterable

from ebbtide.store.queries import MAX_NAME_CHARS, MAX_TERM_CHARS
from ebbtide.store.search_tables import has_table

WORDS_PER_BATCH = 1000
"""Number of words that `add_missing_word_parts` adds in one transaction."""


def add_word_parts(db: sqlite3.Connection, words: Iterable[str]) -> None:
    """Make words findable by their parts."""
    new_words = db.execute(
        "select value from json_each(?) where value not in (select term from terms)", (json.dumps([*words]),)
    ).fetchall()
    db.executemany("insert or ignore into terms (term) values (?)", new_words)
    db.executemany("insert into parts (term) values (?)", new_words)


def add_missing_word_parts(db: sqlite3.Connection) -> bool:
    """Add up to `WORDS_PER_BATCH` words of the full-text index to the index of word parts, creating it if necessary.
    Return whether it is complete now, or cannot be created because SQLite lacks the tokenizer."""
    if not has_table(db, "parts") and not _create_parts_index(db):
        return True
    if not has_table(db, "parts_progress"):  # another process has completed it
        return True
    ((last_word,),) = db.execute("select word from parts_progress").fetchall()
    words = [
        word
        for (word,) in db.execute(
            "select term from vocabulary where term > ? and (length(term) between 4 and ? "
            "or (length(term) between 4 and ? and term not glob '*[0-9]*')) order by term limit ?",
            (last_word, MAX_TERM_CHARS, MAX_NAME_CHARS, WORDS_PER_BATCH),
        )
    ]
    add_word_parts(db, words)
    if len(words) < WORDS_PER_BATCH:
        db.execute("drop table parts_progress")
        return True
    db.execute("update parts_progress set word = ?", (words[-1],))
    return False


def _create_parts_index(db: sqlite3.Connection) -> bool:
    """Create an empty index of word parts. Return false if SQLite lacks the tokenizer."""
    try:
        db.execute("create virtual table parts using fts5 (term, tokenize=trigram)")
    except sqlite3.OperationalError as error:
        if "no such tokenizer" not in str(error):
            raise
        return False
    db.execute("delete from terms")
    # The last of the words that were added. The table exists until all of them are.
    db.execute("create table if not exists parts_progress (word text not null)")
    db.execute("delete from parts_progress")
    db.execute("insert into parts_progress values ('')")
    return True
