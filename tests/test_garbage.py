"""When stored outputs go, in real homes and real processes: with their session, by age and by size, else never."""

import json
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from agent.config.load import load_config
from agent.sessions import Sessions
from store.locks import SessionLock
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

    def forget_view(self, *sessions: str) -> None:
        """Lets nothing of these sessions be in view any more, as after compactions whose summaries name no output."""
        for session in sessions:
            ((count,),) = self.query("select max(position) + 1 from messages where session = ?", session)
            body = json.dumps({"start": count, "summary": "Work was done.", "anchor": None, "anchored": 0})
            self.query("insert or replace into snapshots values (?, ?, ?, 1.0)", session, count, body)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_outputs_go_by_their_age_unless_they_were_looked_at(home: Home) -> None:
    old, looked_at, new = home.session("seq 5001"), home.session("seq 5002"), home.session("seq 5003")
    digests = {session: home.digest(session, 1) for session in (old, looked_at, new)}
    home.age(old, 8)
    home.age(looked_at, 8)
    home.forget_view(old, looked_at)
    assert home.ebb("sessions", "show", looked_at, "r1").code == 0
    assert home.blobs == set(digests.values())
    last = home.session("seq 5004", config="archive.max_age=7")
    assert home.blobs == {digests[looked_at], digests[new], home.digest(last, 1)}
    told = home.ebb("sessions", "show", old, "r1")
    today = time.strftime("%Y-%m-%d")
    why = "because nobody had needed it for longer than `archive.max_age` allows"
    assert (told.code, told.err) == (1, f"ebb: `r1` was removed on {today} {why}: run the call again\n")
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
    home.forget_view(*sessions)
    home.ebb("sessions", "--config", f"archive.max_bytes={sum(sizes[2:])}")
    assert home.blobs == set(digests[2:])
    home.ebb("sessions", "--config", f"archive.max_bytes={sum(sizes[2:]) - 1}")
    assert home.blobs == {digests[3]}
    told = home.ebb("sessions", "show", sessions[0], "r1").err
    assert "because kept outputs took more space than `archive.max_bytes` allows: run the call again" in told
    found = home.ebb("doctor", "-m", home.script())
    assert found.code == 0, found.out
    assert "1 of 4 in 4 sessions resolve; the bytes of 3 were removed for their age or size" in found.out


STRICT = ("--config", "archive.max_bytes=1", "--config", "archive.max_age=1")


def test_what_a_view_shows_stays_whatever_the_limits_say_and_that_is_told_once(home: Home) -> None:
    sessions = [home.session("seq 5001"), home.session("seq 6001")]
    before = home.blobs
    for session in sessions:
        home.age(session, 30)
    first, *others = (home.ebb("-p", "more", "-m", home.script(), "-r", sessions[0], *STRICT) for _ in range(3))
    assert home.blobs == before
    assert first.err == ""  # it was found at that run's end
    assert [told.err.count("sessions refer to all that is left") for told in others] == [1, 0]
    found = home.ebb("doctor", "-m", home.script(), *STRICT)
    assert found.code == 0
    assert found.out.count("sessions refer to all that is left") == 1


def test_what_a_fork_a_summary_or_another_session_refers_to_stays(home: Home) -> None:
    forked, summed, kept, named, lost = (home.session(f"seq {number}") for number in range(5001, 5006))
    digests = {session: home.digest(session, 1) for session in (forked, summed, kept, named, lost)}
    assert home.ebb("sessions", "fork", forked).code == 0
    home.forget_view(forked, summed, kept, named, lost)
    home.query(
        "insert into summaries values (?, 1, 4, ?, 1.0)", summed, json.dumps({"ledger": "Ran: seq 5002 – exit 0\nR1."})
    )
    home.query("update snapshots set body = json_insert(body, '$.pinned', json('[\"r1\"]')) where session = ?", kept)
    home.ebb("-p", f"what is in ebb://app/{named[:8]}/r1?", "-m", home.script())
    home.ebb("sessions", *STRICT)
    for session in digests:
        home.age(session, 30)
    home.ebb("sessions", *STRICT)
    assert home.blobs == set(digests.values()) - {digests[lost]}
    for session in (forked, summed, kept, named):
        assert home.ebb("sessions", "show", session, "r1").code == 0


def test_nothing_is_taken_from_a_session_that_runs(home: Home) -> None:
    session = home.session("seq 5001")
    home.forget_view(session)
    before = home.blobs
    unsettled = home.folder / "data" / "blobs" / "incoming" / f"{'0' * 64}.{session}"
    unsettled.write_bytes(b"")
    os.utime(unsettled, (1.0, 1.0))
    lock = SessionLock(home.folder / "data" / "locks", session)
    lock.acquire()
    home.ebb("sessions", *STRICT)
    assert (home.blobs, unsettled.exists()) == (before, True)
    lock.release()
    home.ebb("sessions", *STRICT)
    assert (home.blobs, unsettled.exists()) == (set(), False)


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
        assert shown.out == "".join(f"{n}\n" for n in range(1, last + 1)) + "exit code 0"
    assert home.ebb("doctor", "--deep", "-m", model).code == 0
