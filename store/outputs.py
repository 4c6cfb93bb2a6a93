"""The rows of outputs and summaries. The store numbers nothing: whoever writes them down does."""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple


class OutputRow(NamedTuple):
    """A part of an output: its text, or one of its pictures."""

    number: int
    """Counts from 1 in each session, in the order of calls."""
    part: int
    """0 is the text."""
    position: int
    """Of the message that holds it."""
    call: str
    tool: str
    size: int
    """Bytes of what the call gave back, which may be more than the message shows."""
    lines: int
    media_type: str
    digest: str | None = None
    """Where the bytes are; None when they stand in the message."""
    created: float = 0.0
    accesses: int = 0
    accessed: float | None = None
    removed: float | None = None
    """When the bytes were removed for their age or size."""


class SummaryRow(NamedTuple):
    """What stood for the messages before a position."""

    number: int
    """Counts from 1 in each session."""
    position: int
    body: str
    created: float = 0.0


def insert_outputs(db: sqlite3.Connection, session: str, rows: Sequence[OutputRow], now: float) -> None:
    if rows:  # a table that is damaged or missing then stops nothing else
        db.executemany(
            "insert or replace into outputs "
            "(session, number, part, position, call, tool, size, lines, media_type, digest, created) "
            "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    session,
                    row.number,
                    row.part,
                    row.position,
                    row.call,
                    row.tool,
                    row.size,
                    row.lines,
                    row.media_type,
                    row.digest,
                    row.created or now,
                )
                for row in rows
            ],
        )


def insert_summaries(db: sqlite3.Connection, session: str, rows: Sequence[SummaryRow], now: float) -> None:
    if rows:
        db.executemany(
            "insert or replace into summaries (session, number, position, body, created) values (?, ?, ?, ?, ?)",
            [(session, row.number, row.position, row.body, row.created or now) for row in rows],
        )
