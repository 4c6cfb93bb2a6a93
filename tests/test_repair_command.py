"""`ebb doctor --repair` on real homes whose database was damaged in the ways in which files are damaged."""

import os
import random
from pathlib import Path

import pytest

from ebbtide.store.locks import SessionLock
from tests.kit.user import Worker


def damage(path: Path, kind: str) -> None:
    data = bytearray(path.read_bytes())
    match kind:
        case "cut off":
            del data[len(data) * 9 // 10 :]
        case "no header":
            data[:100] = bytes(100)
        case "no first page":
            data[:4096] = random.Random(1).randbytes(4096)
        case "schema":
            at = data.index(b"CREATE TABLE messages")
            data[at : at + 12] = b"CREATE TUBLE"
        case "a page":
            at = data.index(b'"echo message 30') // 4096 * 4096
            data[at : at + 4096] = random.Random(2).randbytes(4096)
        case "the log":
            log = path.with_name("sessions.db-wal")
            found = bytearray(log.read_bytes())
            at = 32 + 4120 * 2 + 500
            found[at : at + 40] = b"\xa5" * 40
            log.write_bytes(found)
        case _:
            raise ValueError(kind)
    path.write_bytes(data)


KINDS = ("cut off", "no header", "no first page", "schema", "a page", "the log")


@pytest.mark.parametrize("kind", KINDS)
def test_what_can_be_read_is_saved_and_the_rest_set_aside(kind: str, worker: Worker) -> None:
    session = worker.session(*(f"echo message {number}" for number in range(40)), "seq 5001")
    other = worker.session("seq 6001")
    path = worker.data / "sessions.db"
    ((before,),) = worker.query("select count(*) from messages")
    if kind == "the log":
        worker.leave_log(*(f"update sessions set title = 'title {number}' where id = '{other}'" for number in range(8)))
    whole = path.read_bytes()
    damage(path, kind)
    damaged = path.read_bytes()
    assert damaged != whole or kind == "the log"
    run = worker.ebb("doctor", "--repair", "-m", worker.working())
    assert (run.err, "Traceback" in run.out) == ("", False)
    assert "in a new" in run.out
    (damaged_file,) = [
        each for each in path.parent.glob("sessions.db.damaged-*") if not each.name.endswith(("-wal", "-shm"))
    ]
    assert damaged_file.read_bytes() == damaged
    assert list(path.parent.glob("repair-*")) == []
    ((after,),) = worker.query("select count(*) from messages")
    least = {"cut off": before // 4, "a page": before - 30}
    assert least.get(kind, before) <= after <= before
    assert (" messages of session " in run.out) is (after < before)
    listed = worker.ebb("sessions", "list")
    assert listed.code == 0
    for one in (session, other):
        if one in listed.out:
            assert worker.ebb("sessions", "show", one).code == 0
            assert worker.ebb("-p", "more", "-r", one, "-m", worker.working()).code == 0
    assert kind == "cut off" or (session in listed.out and other in listed.out)
    again = worker.ebb("doctor", "--repair", "-m", worker.working())
    assert "the database is not damaged; nothing was changed" in again.out


def test_nothing_is_repaired_that_is_sound_or_in_use(worker: Worker) -> None:
    session = worker.session("seq 5001")
    path = worker.data / "sessions.db"
    whole = path.read_bytes()
    run = worker.ebb("doctor", "--repair", "-m", worker.working())
    assert (run.code, path.read_bytes()) == (0, whole)
    assert "the database is not damaged; nothing was changed" in run.out
    damage(path, "no header")
    damaged = path.read_bytes()
    lock = SessionLock(worker.data / "locks", session)
    lock.acquire()
    run = worker.ebb("doctor", "--repair", "-m", worker.working())
    lock.release()
    assert (run.code, path.read_bytes()) == (1, damaged)
    assert f"nothing was repaired: `{session}` is open" in run.out
    assert os.listdir(path.parent).count("sessions.db") == 1
