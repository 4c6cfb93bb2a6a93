"""When stored outputs go, in real homes and real processes: with their session, by age and by size, else never."""

import json
import os
import time

from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.config.load import load_config
from ebbtide.store.locks import SessionLock
from tests.kit.session import events_of
from tests.kit.user import Worker

SMALL = ("agent.tail_tokens=100", "agent.protect_tokens=100")
"""Settings with which a compaction leaves hardly anything in view."""


def test_outputs_go_by_their_age_unless_they_were_looked_at(worker: Worker) -> None:
    old, looked_at, new = worker.session("seq 5001"), worker.session("seq 5002"), worker.session("seq 5003")
    digests = {session: worker.digest(session, 1) for session in (old, looked_at, new)}
    worker.age(old, 8)
    worker.age(looked_at, 8)
    worker.forget_view(old, looked_at)
    assert worker.ebb("sessions", "show", looked_at, "r1").code == 0
    assert worker.blobs == set(digests.values())
    last = worker.session("seq 5004", config="archive.max_age=7")
    assert worker.blobs == {digests[looked_at], digests[new], worker.digest(last, 1)}
    gone = worker.ebb("sessions", "show", old, "r1")
    today = time.strftime("%Y-%m-%d")
    why = "because it had not been used for longer than `archive.max_age` allows"
    assert (gone.code, gone.err) == (1, f"ebb: `r1` was removed on {today} {why}: run the call again\n")
    assert worker.ebb("sessions", "show", old).out.count("Tool result stored") == 1
    assert worker.ebb("doctor", "-m", worker.working()).code == 0
    went_on = worker.ebb("-p", "more", "-m", worker.working(), "-r", old)
    assert (went_on.code, went_on.out) == (0, "Done.\n")


def test_the_oldest_outputs_go_when_all_take_too_much(worker: Worker) -> None:
    sessions = [worker.session(f"head -c 60000 /dev/urandom | base64 -w 100 # {number}") for number in range(4)]
    digests = [worker.digest(session, 1) for session in sessions]
    for days, session in enumerate(reversed(sessions)):
        worker.age(session, days)
    sizes = [path.stat().st_size for digest in digests for path in (worker.data / "blobs").glob(f"??/{digest}")]
    worker.forget_view(*sessions)
    worker.ebb("sessions", "--config", f"archive.max_bytes={sum(sizes[2:])}")
    assert worker.blobs == set(digests[2:])
    worker.ebb("sessions", "--config", f"archive.max_bytes={sum(sizes[2:]) - 1}")
    assert worker.blobs == {digests[3]}
    message = worker.ebb("sessions", "show", sessions[0], "r1").err
    assert "because stored outputs took more space than `archive.max_bytes` allows: run the call again" in message
    found = worker.ebb("doctor", "-m", worker.working())
    assert found.code == 0, found.out
    assert "1 of 4 in 4 sessions resolve; 3 removed because of age or size" in found.out


STRICT = ("--config", "archive.max_bytes=1", "--config", "archive.max_age=1")


def test_what_a_view_shows_stays_whatever_the_limits_say_and_that_is_told_once(worker: Worker) -> None:
    sessions = [worker.session("seq 5001"), worker.session("seq 6001")]
    before = worker.blobs
    for session in sessions:
        worker.age(session, 30)
    first, *others = (worker.ebb("-p", "more", "-m", worker.working(), "-r", sessions[0], *STRICT) for _ in range(3))
    assert worker.blobs == before
    assert first.err == ""  # it was found at that run's end
    assert [run.err.count("sessions still use all of them") for run in others] == [1, 0]
    found = worker.ebb("doctor", "-m", worker.working(), *STRICT)
    assert found.code == 0
    assert found.out.count("sessions still use all of them") == 1


def test_what_a_fork_a_summary_or_another_session_refers_to_stays(worker: Worker) -> None:
    forked, summed, used_by_fork, named, lost = (worker.session(f"seq {number}") for number in range(5001, 5006))
    digests = {session: worker.digest(session, 1) for session in (forked, summed, used_by_fork, named, lost)}
    assert worker.ebb("sessions", "fork", forked).code == 0
    worker.forget_view(forked, summed, used_by_fork, named, lost)
    worker.query(
        "insert into summaries values (?, 1, 4, ?, 1.0)", summed, json.dumps({"ledger": "Ran: seq 5002 – exit 0\nR1."})
    )
    worker.query(
        "update snapshots set body = json_insert(body, '$.pinned', json('[\"r1\"]')) where session = ?", used_by_fork
    )
    worker.ebb("-p", f"what is in ebb://app/{named[:8]}/r1?", "-m", worker.working())
    worker.ebb("sessions", *STRICT)
    for session in digests:
        worker.age(session, 30)
    worker.ebb("sessions", *STRICT)
    assert worker.blobs == set(digests.values()) - {digests[lost]}
    for session in (forked, summed, used_by_fork, named):
        assert worker.ebb("sessions", "show", session, "r1").code == 0


def test_nothing_is_taken_from_a_session_that_runs(worker: Worker) -> None:
    session = worker.session("seq 5001")
    worker.forget_view(session)
    before = worker.blobs
    unsettled = worker.data / "blobs" / "incoming" / f"{'0' * 64}.{session}"
    unsettled.write_bytes(b"")
    os.utime(unsettled, (1.0, 1.0))
    lock = SessionLock(worker.data / "locks", session)
    lock.acquire()
    worker.ebb("sessions", *STRICT)
    assert (worker.blobs, unsettled.exists()) == (before, True)
    lock.release()
    worker.ebb("sessions", *STRICT)
    assert (worker.blobs, unsettled.exists()) == (set(), False)


def test_without_limits_outputs_stay_however_old_they_are(worker: Worker) -> None:
    session = worker.session("seq 5001")
    worker.age(session, 10_000)
    (worker.data / "blobs" / "tidied").unlink(missing_ok=True)  # the day's tidying is due
    worker.session("seq 5002")
    assert worker.digest(session, 1) in worker.blobs


def test_deleting_a_session_frees_what_no_other_needs_and_nothing_else(worker: Worker) -> None:
    one, other = worker.session("seq 5001", "seq 6001"), worker.session("seq 5001", "seq 7001")
    shared, own, others = worker.digest(one, 1), worker.digest(one, 2), worker.digest(other, 2)
    assert worker.blobs == {shared, own, others}
    assert worker.ebb("sessions", "delete", one).code == 0
    assert worker.blobs == {shared, others}
    assert worker.ebb("doctor", "--deep", "-m", worker.working()).code == 0
    assert worker.ebb("sessions", "delete", other).code == 0
    assert worker.blobs == set()


async def test_compactions_remove_nothing(worker: Worker) -> None:
    model = worker.working("seq 5001", "seq 6001", "seq 7001")
    environment = {"EBB_HOME": str(worker.home)}
    config = load_config(worker.project, environment, {"agent.model": model, "agent.permission_mode": "auto"}, SMALL)
    sessions = ProjectSessions(config, worker.project, environment, is_interactive=False)
    session = await sessions.open()
    await events_of(session)
    before = worker.blobs
    assert (await session.compact()).strategies
    assert session.history.outputs_before > 0
    await events_of(session, "go on")
    await session.close()
    await sessions.close()
    assert len(before) == 3
    assert worker.blobs == before
    for number, last in ((1, 5001), (2, 6001), (3, 7001)):
        printed = worker.ebb("sessions", "show", session.id, f"r{number}")
        assert printed.out == "".join(f"{n}\n" for n in range(1, last + 1)) + "exit code 0"
    assert worker.ebb("doctor", "--deep", "-m", model).code == 0
