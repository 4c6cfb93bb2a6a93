"""Sessions that an earlier version of the program has left go on."""

import json
import sqlite3
from pathlib import Path

import pytest

from ebbtide.agent.events.session import TurnFinished
from ebbtide.agent.messages import Assistant, Summary, Text, User
from ebbtide.store.migrations import MIGRATIONS
from tests.kit.project import Project
from tests.kit.session import events_of

MESSAGES = [
    ("user", {"parts": [{"type": "text", "text": "look"}]}),
    (
        "assistant",
        {"parts": [{"type": "call", "id": "c", "name": "read", "arguments": {"path": "a.txt"}}], "model": ""},
    ),
    ("user", {"parts": [{"type": "output", "call_id": "c", "text": "1\tone"}]}),
    ("assistant", {"parts": [{"type": "text", "text": "It says one."}], "model": "scripted/s"}),
    ("user", {"parts": [{"type": "text", "text": "again"}]}),
    ("assistant", {"parts": [{"type": "text", "text": "One."}], "model": "scripted/s"}),
]
SNAPSHOT = {"start": 4, "summary": "a.txt says one", "anchor": {"input": 5, "output": 3}, "anchored": 2}


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
async def test_a_session_of_an_earlier_version_goes_on_from_its_snapshot(tmp_path: Path, version: int) -> None:
    project = Project(tmp_path)
    model = f"scripted/{project.script({'text': 'Yes.'})}"
    (project.home / "data").mkdir(parents=True)
    db = sqlite3.connect(project.home / "data" / "sessions.db")
    for migrate in MIGRATIONS[:version]:
        migrate(db)
    columns = "id, project, title, model, mode, created, updated"
    known = ("aa11", str(project.root), model)
    db.execute(f"insert into sessions ({columns}) values (?, ?, 'look', ?, 'auto', 1, 1)", known)
    for position, (role, body) in enumerate(MESSAGES):
        row = ("aa11", position, role, json.dumps(body))
        db.execute("insert into messages (session, position, role, body, created) values (?, ?, ?, ?, 1)", row)
    db.execute("insert into snapshots values ('aa11', 6, ?, 1)", (json.dumps(SNAPSHOT),))
    db.execute(f"pragma user_version = {version}")
    db.commit()
    db.close()

    session = await project.sessions().open("aa11")
    assert session.changes_while_closed == ()
    assert session.history.summary == Summary(summary="a.txt says one")
    messages = (User((Text("again"),)), Assistant((Text("One."),), "scripted/s"))
    assert session.history.messages == messages
    assert (await events_of(session, "go on"))[-1] == TurnFinished("answered", "Yes.")
    assert session.history.messages[:2] == messages
