"""A database on a real file, with a session in it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ebbtide.store.session_rows import MessageRow, SessionRow
from ebbtide.store.sessions import SessionStore

ROW = SessionRow("aa11bb22cc33", "/p", "fix it", "scripted/a", "ask", 10.0, 10.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "sessions.db"


@pytest.fixture
def store(path: Path) -> Iterator[SessionStore]:
    with closing(SessionStore(path)) as opened:
        opened.create(ROW)
        yield opened


def message(position: int, text: str = "hi") -> MessageRow:
    return MessageRow(position, "user", text, 5.0)
