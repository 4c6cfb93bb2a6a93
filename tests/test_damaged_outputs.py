"""One stored output that is damaged, in a real home: a sentence wherever it is read, and all the rest goes on."""

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.test_garbage import Home

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


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def asking(home: Home, *calls: tuple[str, dict[str, Any]]) -> str:
    """A model that makes these calls, one a step."""
    replies = [{"calls": [{"name": name, "arguments": arguments}]} for name, arguments in calls]
    path = home.folder / "asking.json"
    path.write_text(json.dumps({"reply": [*replies, {"text": "Done."}]}))
    return f"scripted/{path}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_output_is_said_and_the_rest_is_read(kind: str, home: Home) -> None:
    session = home.session("seq 300000", "seq 5002")
    digest = home.digest(session, 1)
    path = home.folder / "data" / "blobs" / digest[:2] / digest
    damage(path, kind)
    model = asking(
        home,
        ("read_result", {"ref_id": "r1"}),
        ("read_result", {"ref_id": "r1", "pattern": "7.7"}),
        ("recall", {"ref_id": "r1", "search": "77"}),
        ("tool_output_cache", {"ref_id": "r1"}),
        ("tool_output_cache_grep", {"ref_id": "r1", "pattern": "7"}),
        ("recall", {"query": "4999"}),
        ("read_result", {"ref_id": "r2", "lines": "5001"}),
    )
    run = home.ebb("-p", "look", "-c", "-m", model, "--output-format", "stream-json")
    assert (run.code, run.result["result"]) == (0, "Done."), run.err
    ended = [line for line in run.lines if line["type"] == "tool_finished"]
    assert [line["status"] for line in ended] == ["failed"] * 5 + ["done"] * 2
    assert all("`r1` cannot be read: the stored output" in line["text"] for line in ended[:5])
    assert all("run the call again if it is needed" in line["text"] for line in ended[:5])
    assert "5001\t5001" in ended[6]["text"]

    shown = home.ebb("sessions", "show", session, "r1")
    assert shown.code == 1
    assert shown.err.startswith("ebb: `r1` cannot be read: the stored output")
    assert home.ebb("sessions", "show", session, "r2").out.startswith("1\n2\n3\n")
    assert home.ebb("sessions", "search", "4999").code == 0
    exported = home.ebb("sessions", "export", session, str(home.folder / "out.zip"))
    assert exported.code == 0, exported.err
    assert "r1" in exported.err + exported.out
    for arguments in [("doctor", "--deep"), *([("doctor",)] if kind != "a flipped bit" else [])]:
        found = home.ebb(*arguments, "-m", model)
        assert found.code == 1, arguments
        assert "the bytes of `r1` are " in found.out

    again = home.session("seq 300000")
    assert home.ebb("sessions", "show", again, "r1").out == home.ebb("sessions", "show", session, "r1").out != ""
