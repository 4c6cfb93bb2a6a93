"""Agents that a session sends off, in runs of the program."""

import json
from pathlib import Path

import pytest

from tests.kit.user import User

FINAL = {"text": "It is in r1.\n\n## Findings\n- a.py:1: f returns 1\n- b.py:2: nothing"}
READ = {"calls": [{"name": "read", "arguments": {"path": "a.py"}}]}


def task(agent: str, prompt: str = "Where is f?") -> dict[str, object]:
    return {"name": "task", "arguments": {"agent": agent, "prompt": prompt}}


@pytest.fixture
def user(tmp_path: Path) -> User:
    user = User(tmp_path)
    (user.project / "a.py").write_text("def f(): return 1\n")
    return user


def model_of(user: User, *replies: object) -> tuple[str, ...]:
    """The flags by which agents are these scripted models."""
    script = user.project.parent / "agent.json"
    script.write_text(json.dumps({"reply": replies}))
    return ("--config", f'agents.model="scripted/{script}"')


def test_two_agents_work_at_once_and_hand_back_what_they_found(user: User) -> None:
    again = {"calls": [task("explore", "again"), {"name": "write", "arguments": {"path": "b.py", "content": "x"}}]}
    flags = model_of(user, READ, again, FINAL)
    both = {"calls": [task("explore"), task("review")]}
    run = user.ask(both, {"text": "In a.py."}, flags=flags, form="stream-json")
    kinds = [line["type"] for line in run.lines]
    assert kinds.index("agent_finished") > max(at for at, kind in enumerate(kinds) if kind == "agent_started")
    done = [line for line in run.lines if line["type"] == "agent_finished"]
    assert {line["name"] for line in done} == {"explore", "review"}
    first = done[0]
    reference = f"ebb://{user.project.name}/{first['agent']}/r1"
    assert first["findings"] == ["a.py:1: f returns 1", "b.py:2: nothing"]
    assert first["references"] == [{"reference": reference, "call": "read a.py"}]
    assert (first["end"], first["read"], first["changed"], first["steps"]) == ("answered", ["a.py"], [], 3)
    inner = [
        line["event"] for line in run.lines if line["type"] == "agent_activity" and line["agent"] == first["agent"]
    ]
    refused = [event["text"] for event in inner if event["type"] == "tool_finished" and event["status"] == "failed"]
    assert [text.partition(":")[0] for text in refused] == [
        "you are an agent yourself, and agents send off no others",
        "the call was not run",
    ]
    assert not (user.project / "b.py").exists()
    spent = sum(line["usage"]["input"] for line in done)
    own = [line["usage"]["input"] for line in run.lines if line["type"] == "reply_finished"]
    assert run.lines[-1]["usage"]["input"] == spent + sum(own)
    # What it read is the parent's by reference only, and its session goes with the parent's.
    session = run.lines[-1]["session"]
    assert user.query("select agent, owner from sessions where owner is not null order by agent") == [
        ("explore", session), ("review", session),
    ]  # fmt: skip
    assert not any("def f()" in text for text in user.outputs(session))
    recalled = user.ask(
        {"calls": [{"name": "recall", "arguments": {"ref_id": reference}}]}, {"text": "ok"}, flags=("-r", session)
    )
    assert recalled.code == 0
    assert "def f(): return 1" in user.outputs(session)[-1]
    listed = user.ebb("sessions", "list")
    assert session in listed.out
    assert user.ebb("sessions", "delete", session).code == 0
    assert user.query("select count(*) from sessions") == [(0,)]


def test_what_agents_take_counts_for_the_limits_of_their_session(user: User) -> None:
    flags = (*model_of(user, READ, READ, FINAL), "--max-turns", "3")
    run = user.ask({"calls": [task("explore")]}, {"text": "no"}, flags=flags, form="stream-json")
    (done,) = (line for line in run.lines if line["type"] == "agent_finished")
    assert (done["end"], done["steps"]) == ("step_limit", 2)
    assert run.lines[-1]["stop_reason"] == "step_limit"


def test_an_agent_that_is_not_there_is_named_with_those_that_are(user: User) -> None:
    run = user.ask({"calls": [task("nobody")]}, {"text": "no"}, form="stream-json")
    (done,) = (line for line in run.lines if line["type"] == "tool_finished")
    assert done["text"].endswith("there is no agent `nobody`; there are explore, review")
