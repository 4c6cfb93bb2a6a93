"""A process that is killed with no chance to clean up, and the session that goes on afterwards."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.running import command, ebb, environment

JSON = ("--output-format", "stream-json")


def script(path: Path, *replies: dict[str, Any]) -> str:
    path.write_text(json.dumps({"reply": list(replies)}))
    return f"scripted/{path}"


def killed_at(event: str, model: str, home: Path, project: Path) -> list[dict[str, Any]]:
    """The events of a run up to the first of a kind, at which the process is killed."""
    process = subprocess.Popen(
        command(*("-p", "go", "-m", model, "-C", str(project)), *("--permission-mode", "auto", *JSON)),
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=environment(home),
    )  # fmt: skip
    events: list[dict[str, Any]] = []
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            events.append(json.loads(line))
            if events[-1]["type"] == event:
                process.kill()
                break
    assert process.wait() == -signal.SIGKILL
    return events


def outputs(home: Path, session: str) -> list[str]:
    shown = ebb("sessions", "show", session, "--json", home=home)
    return [part.get("status", "done") for line in shown.lines for part in line["parts"] if part["type"] == "output"]


def test_a_call_that_was_running_is_answered_as_interrupted_and_not_run_again(tmp_path: Path) -> None:
    count = tmp_path / "count"
    work = {"name": "bash", "arguments": {"command": f"echo $$ >> {count}; echo begun; exec sleep 600"}}
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    model = script(tmp_path / "s.json", {"text": "I begin.", "calls": [work, work]}, {"text": "I see."})
    events = killed_at("tool_progress", model, home, project)
    os.killpg(int(count.read_text().split()[0]), signal.SIGKILL)

    again = script(tmp_path / "again.json", {"text": "I see."})
    run = ebb("-p", "what happened?", "-c", "-m", again, "-C", str(project), "--output-format", "json", home=home)
    assert (run.code, run.result["session"], run.result["result"]) == (0, events[0]["session"], "I see.")
    assert outputs(home, events[0]["session"]) == ["interrupted", "interrupted"]
    assert len(count.read_text().split()) == 1


@pytest.mark.parametrize("event", ["turn_started", "step_started", "text_delta", "reply_finished", "tool_finished"])
def test_a_kill_at_any_moment_leaves_a_session_that_resumes(event: str, tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    call = {"name": "todo", "arguments": {"items": []}}
    reply = {"text": "one two three", "calls": [call], "pause_between": 0.05}
    model = script(tmp_path / "s.json", reply, reply, {"text": "Done."})
    killed_at(event, model, home, project)

    again = script(tmp_path / "again.json", {"text": "Here."})
    resume = ("-c",) if ebb("sessions", "list", "--json", "-C", str(project), home=home).out else ()
    run = ebb("-p", "go on", *resume, "-m", again, "-C", str(project), "--output-format", "json", home=home)
    assert (run.code, run.result["result"]) == (0, "Here.")
