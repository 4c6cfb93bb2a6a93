"""When tools were used last, on disk."""

import sqlite3
from pathlib import Path

from ebbtide.store.calls import last_tool_uses, save_tool_uses
from ebbtide.store.migrations import MIGRATIONS
from ebbtide.store.sessions import SessionStore


def test_the_last_use_of_each_tool_is_known_to_the_next_session_of_its_project(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions.db")
    save_tool_uses(store, "/a", {"x": 1.0, "y": 5.0})
    save_tool_uses(store, "/a", {"x": 3.0, "y": 2.0})
    save_tool_uses(store, "/b", {"x": 9.0})
    store.close()
    again = SessionStore(tmp_path / "sessions.db")
    assert [last_tool_uses(again, project) for project in ("/a", "/b", "/c")] == [{"x": 3.0, "y": 5.0}, {"x": 9.0}, {}]
    again.close()


def test_a_database_of_before_gets_the_table(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    before = next(place for place, migrate in enumerate(MIGRATIONS) if migrate.__name__ == "_create_tool_uses")
    db = sqlite3.connect(path)
    for migrate in MIGRATIONS[:before]:
        migrate(db)
    db.execute(f"pragma user_version = {before}")
    db.commit()
    db.close()
    store = SessionStore(path)
    save_tool_uses(store, "/a", {"x": 1.0})
    assert last_tool_uses(store, "/a") == {"x": 1.0}
    store.close()
