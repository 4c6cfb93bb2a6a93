"""A process that is killed with no chance to clean up, and the session that goes on afterwards."""

import json
import os
import signal

import pytest

from tests.kit.session import bash, call, calls
from tests.kit.user import Worker

JSON = ("--output-format", "stream-json")


def killed_at(event: str, model: str, worker: Worker) -> str:
    """The session of a run that is killed at the first event of a kind."""
    process = worker.begin("-p", "go", "-m", model, "--permission-mode", "auto", "--output-format", "stream-json")
    assert process.stdout is not None
    with process.stdout:
        events = [json.loads(process.stdout.readline())]
        while events[-1]["type"] != event:
            events.append(json.loads(process.stdout.readline()))
        process.kill()
    assert process.wait() == -signal.SIGKILL
    return str(events[0]["session"])


def test_a_call_that_was_running_is_answered_as_interrupted_and_not_run_again(worker: Worker) -> None:
    count = worker.home / "count"
    work = bash(f"echo $$ >> {count}; echo begun; exec sleep 600")
    session = killed_at("tool_progress", worker.script({"text": "I begin.", **calls(work, work)}), worker)
    os.killpg(int(count.read_text().split()[0]), signal.SIGKILL)

    run = worker.ask({"text": "I see."}, flags=("-c",))
    assert (run.code, run.result["session"], run.result["result"]) == (0, session, "I see.")
    listing = worker.ebb("sessions", "show", session, "--json")
    outputs = [part for line in listing.lines for part in line["parts"] if part["type"] == "output"]
    assert [output.get("status", "done") for output in outputs] == ["interrupted", "cancelled"]
    assert len(count.read_text().split()) == 1


@pytest.mark.parametrize("event", ["turn_started", "step_started", "text_delta", "reply_finished", "tool_finished"])
def test_a_kill_at_any_moment_leaves_a_session_that_resumes(event: str, worker: Worker) -> None:
    reply = {"text": "one two three", **calls(call("todo", items=[])), "pause_between": 0.05}
    killed_at(event, worker.script(reply, reply, {"text": "Done."}), worker)
    resume = ("-c",) if worker.ebb("sessions", "list", "--json").out else ()
    run = worker.ask({"text": "Here."}, flags=resume)
    assert (run.code, run.result["result"]) == (0, "Here.")
