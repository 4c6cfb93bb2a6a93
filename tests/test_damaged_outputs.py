"""One stored output that is damaged, in a real home: a sentence wherever it is read, and all the rest goes on."""

import os
import random
from pathlib import Path

import pytest

from tests.kit.session import call, calls
from tests.kit.user import Worker

KINDS = ("cut in half", "another end", "a flipped bit", "empty", "gone", "a folder", "a pipe", "a loop")


def damage(path: Path, kind: str) -> None:
    whole = path.read_bytes()
    path.unlink()
    match kind:
        case "cut in half":
            path.write_bytes(whole[: len(whole) // 2])
        case "another end":
            path.write_bytes(whole[:-44] + random.Random(1).randbytes(44))
        case "a flipped bit":
            path.write_bytes(whole[:9] + bytes([whole[9] ^ 16]) + whole[10:])
        case "empty":
            path.touch()
        case "a folder":
            path.mkdir()
        case "a pipe":
            os.mkfifo(path)
        case "a loop":
            path.symlink_to(path)
        case _:
            pass


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_output_is_said_and_the_rest_is_read(kind: str, worker: Worker) -> None:
    session = worker.session("seq 300000", "seq 5002")
    damage(worker.blob(session, 1), kind)
    model = worker.script(
        calls(call("read_result", ref_id="r1")),
        calls(call("read_result", ref_id="r1", pattern="7.7")),
        calls(call("recall", ref_id="r1", search="77")),
        calls(call("tool_output_cache", ref_id="r1")),
        calls(call("tool_output_cache_grep", ref_id="r1", pattern="7")),
        calls(call("recall", query="4999")),
        calls(call("read_result", ref_id="r2", lines="5001")),
        {"text": "Done."},
    )
    run = worker.ebb("-p", "look", "-c", "-m", model, "--output-format", "stream-json")
    assert (run.code, run.result["result"]) == (0, "Done."), run.err
    ended = [line for line in run.lines if line["type"] == "tool_finished"]
    assert [line["status"] for line in ended] == ["failed"] * 5 + ["done"] * 2
    assert all("`r1` cannot be read: the stored output" in line["text"] for line in ended[:5])
    assert all("run the call again if it is needed" in line["text"] for line in ended[:5])
    assert "5001\t5001" in ended[6]["text"]

    printed = worker.ebb("sessions", "show", session, "r1")
    assert printed.code == 1
    assert printed.err.startswith("ebb: `r1` cannot be read: the stored output")
    assert worker.ebb("sessions", "show", session, "r2").out.startswith("1\n2\n3\n")
    assert worker.ebb("sessions", "search", "4999").code == 0
    exported = worker.ebb("sessions", "export", session, str(worker.home / "out.zip"))
    assert exported.code == 0, exported.err
    assert "r1" in exported.err + exported.out
    for arguments in [("doctor", "--deep"), *([("doctor",)] if kind != "a flipped bit" else [])]:
        found = worker.ebb(*arguments, "-m", model)
        assert found.code == 1, arguments
        assert "the bytes of `r1` are " in found.out

    again = worker.session("seq 300000")
    assert worker.ebb("sessions", "show", again, "r1").out == worker.ebb("sessions", "show", session, "r1").out != ""
