"""When stored outputs go, in real homes and real processes: with their session, by age and by size, else never."""

import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from agent.compose import Sessions
from agent.config import load_config
from tests.running import Run, ebb

DAY = 86_400
SMALL = ("agent.tail_tokens=100", "agent.protect_tokens=100")
"""Settings with which a compaction leaves hardly anything in view."""
WORDS = "word " * 2_000


class Home:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "app"
        self.project.mkdir()

    def script(self, *commands: str) -> str:
        """A model that runs these commands and then answers."""
        replies: list[dict[str, Any]] = [
            {"calls": [{"name": "bash", "arguments": {"command": command}}]} for command in commands
        ]
        path = self.folder / "script.json"
        path.write_text(json.dumps({"reply": [*replies, {"text": "Done."}, *[{"text": WORDS}] * 9]}))
        return f"scripted/{path}"

    def ebb(self, *arguments: str) -> Run:
        return ebb(*arguments, "-C", str(self.project), home=self.folder)

    def session(self, *commands: str, config: str = "") -> str:
        """A session in which these commands ran; its id."""
        more = ("--config", config) if config else ()
        run = self.ebb(
            "-p", "go", "-m", self.script(*commands), "--permission-mode", "auto", "--output-format", "json", *more
        )
        assert run.code == 0, run.err
        return str(run.result["session"])

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        db = sqlite3.connect(self.folder / "data" / "sessions.db")
        found = db.execute(sql, values).fetchall()
        db.commit()
        db.close()
        return found

    def digest(self, session: str, number: int) -> str:
        ((digest,),) = self.query("select digest from outputs where session = ? and number = ?", session, number)
        return str(digest)

    @property
    def blobs(self) -> set[str]:
        return {path.name for path in (self.folder / "data" / "blobs").glob("??/*")}

    def age(self, session: str, days: float) -> None:
        """Lets the outputs of a session be that old."""
        self.query("update outputs set created = created - ? where session = ?", days * DAY, session)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_outputs_go_by_their_age_unless_they_were_looked_at(home: Home) -> None:
    old, looked_at, new = home.session("seq 5001"), home.session("seq 5002"), home.session("seq 5003")
    digests = {session: home.digest(session, 1) for session in (old, looked_at, new)}
    home.age(old, 8)
    home.age(looked_at, 8)
    assert home.ebb("sessions", "show", looked_at, "r1").code == 0
    assert home.blobs == set(digests.values())
    last = home.session("seq 5004", config="archive.max_age=7")
    assert home.blobs == {digests[looked_at], digests[new], home.digest(last, 1)}
    told = home.ebb("sessions", "show", old, "r1")
    today = time.strftime("%Y-%m-%d")
    assert (told.code, told.err) == (1, f"ebb: `r1` was removed on {today} to save space: run the call again\n")
    assert home.ebb("sessions", "show", old).out.count("Tool result stored") == 1
    assert home.ebb("doctor", "-m", home.script()).code == 0
    went_on = home.ebb("-p", "more", "-m", home.script(), "-r", old)
    assert (went_on.code, went_on.out) == (0, "Done.\n")


def test_the_oldest_outputs_go_when_all_take_too_much(home: Home) -> None:
    sessions = [home.session(f"head -c 60000 /dev/urandom | base64 -w 100 # {number}") for number in range(4)]
    digests = [home.digest(session, 1) for session in sessions]
    for days, session in enumerate(reversed(sessions)):
        home.age(session, days)
    sizes = [
        path.stat().st_size for digest in digests for path in (home.folder / "data" / "blobs").glob(f"??/{digest}")
    ]
    home.ebb("sessions", "--config", f"archive.max_bytes={sum(sizes[2:])}")
    assert home.blobs == set(digests[2:])
    home.ebb("sessions", "--config", f"archive.max_bytes={sum(sizes[2:]) - 1}")
    assert home.blobs == {digests[3]}


def test_without_limits_outputs_stay_however_old_they_are(home: Home) -> None:
    session = home.session("seq 5001")
    home.age(session, 10_000)
    (home.folder / "data" / "blobs" / "tidied").unlink(missing_ok=True)  # the day's tidying is due
    home.session("seq 5002")
    assert home.digest(session, 1) in home.blobs


def test_deleting_a_session_frees_what_no_other_needs_and_nothing_else(home: Home) -> None:
    one, other = home.session("seq 5001", "seq 6001"), home.session("seq 5001", "seq 7001")
    shared, own, others = home.digest(one, 1), home.digest(one, 2), home.digest(other, 2)
    assert home.blobs == {shared, own, others}
    assert home.ebb("sessions", "delete", one).code == 0
    assert home.blobs == {shared, others}
    assert home.ebb("doctor", "--deep", "-m", home.script()).code == 0
    assert home.ebb("sessions", "delete", other).code == 0
    assert home.blobs == set()


async def test_compactions_remove_nothing(home: Home) -> None:
    model = home.script("seq 5001", "seq 6001", "seq 7001")
    environment = {"EBB_HOME": str(home.folder)}
    config = load_config(home.project, environment, {"agent.model": model, "agent.permission_mode": "auto"}, SMALL)
    sessions = Sessions(config, home.project, environment, interactive=False)
    try:
        session = await sessions.open()
        _ = [event async for event in session.send("go")]
        before = home.blobs
        assert (await session.compact()).strategies
        assert session.history.outputs_before > 0
        _ = [event async for event in session.send("go on")]
        id = session.id
        await session.close()
    finally:
        await sessions.close()
    assert len(before) == 3
    assert home.blobs == before
    for number, last in ((1, 5001), (2, 6001), (3, 7001)):
        shown = home.ebb("sessions", "show", id, f"r{number}")
        assert shown.out == "".join(f"{n}\n" for n in range(1, last + 1))
    assert home.ebb("doctor", "--deep", "-m", model).code == 0
