"""Repositories that are set up for Claude Code, used as they are: each part of them in a run of the program."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.claude_projects import PROJECTS, ClaudeProject
from tests.kit.fake_provider import Call, FakeProvider, Recorded, Turn
from tests.kit.user import User

FLAGS = ("--trust", "--permission-mode", "auto", "--config", "mcp.wait=60")


@pytest.fixture
def user(tmp_path: Path) -> User:
    user = User(tmp_path)
    (user.project / ".git").mkdir()
    return user


def turn(*calls: Call) -> Turn:
    return Turn(calls=calls)


def of_server(tool: str) -> Callable[[Recorded], Turn]:
    """A call of a server's tool, by its name or, where that is held back, by the tool that calls it."""

    def answer(asked: Recorded) -> Turn:
        arguments = {"text": f"from {tool}"}
        is_offered = any(one.get("name") == tool and not one.get("defer_loading") for one in asked.body["tools"])
        call = Call(tool, arguments) if is_offered else Call("call_tool", {"name": tool, "arguments": arguments})
        return turn(call)

    return answer


@pytest.mark.parametrize("project", PROJECTS.values(), ids=PROJECTS)
def test_each_part_of_a_repository_for_claude_code_is_used_as_it_is(project: ClaudeProject, user: User) -> None:
    project.write(user.project)
    (read, instruction), (written, hook_says) = next(iter(project.nested.items())), project.edited
    scripts = [texts.split("|") for texts in project.skills.values()]
    begun = [turn(*(Call("read", {"path": path}) for path in (read, *project.skills)))]
    begun += [turn(*(Call("bash", {"command": command}) for _, command in scripts))]
    begun += [turn(Call("write", {"path": written, "content": "print('hello')\n"}))]
    begun += [turn(Call("bash", {"command": project.refused[0]}))]
    asked = [of_server(tool) for tool in project.servers]
    sent = [
        step
        for agent in project.agents
        for step in (turn(Call("task", {"agent": agent, "prompt": "Look."})), Turn(text=f"{agent} has looked."))
    ]
    with FakeProvider([*begun, *asked, *sent, Turn(text="Done."), Turn(text="Done at last.")]) as server:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url}
        run = user.ebb(
            "-p", "Do it.", "-m", "anthropic/claude-sonnet-5", "--output-format", "stream-json", *FLAGS, env=env
        )
    first, last = server.requests[0].body, json.dumps(server.requests[-1].body, ensure_ascii=False)
    system, notes_text = json.dumps(first["system"], ensure_ascii=False), last.replace('\\"', '"')
    texts = [line["text"] for line in run.lines if line["type"] == "noticed"]
    assert [text for text in texts if "left out" in text and "counts" not in text] == []
    denied = [call["rule"] for call in run.result["denied"]]
    assert (run.code, len(denied)) == (5, 1), denied
    assert [text for text in project.instructions if text not in system] == []
    assert [path for path in project.skills if str(user.project / path) not in system] == []
    tools = {one["name"]: one for one in first["tools"]}
    assert [agent for agent in project.agents if f"- {agent}: " not in tools["task"]["description"]] == []
    assert instruction not in system
    expected = (
        instruction, hook_says, project.refused[1], project.noted, *(printed for printed, _ in scripts),
        *(f"from {tool}" for tool in project.servers), *(f"{agent} has looked." for agent in project.agents),
        *(f"Ask {tool.split('__')[1]} before you guess." for tool in project.servers),
    )  # fmt: skip
    assert [text for text in expected if text not in notes_text] == []
    finished = [(line["name"], line["end"]) for line in run.lines if line["type"] == "agent_finished"]
    assert finished == [(agent, "answered") for agent in project.agents]


@pytest.mark.parametrize("project", PROJECTS.values(), ids=PROJECTS)
def test_the_commands_of_a_repository_for_claude_code_say_what_they_say_there(
    project: ClaudeProject, user: User
) -> None:
    project.write(user.project)
    (user.project / ".mcp.json").unlink()
    for command, becomes in project.commands.items():
        model = user.script({"text": "ok"}, {"text": "ok"})
        run = user.ebb("-p", command, "-m", model, "--output-format", "json", *FLAGS)
        assert run.code == 0, run.err
        listing = user.ebb("sessions", "show", run.result["session"], "--json")
        notes = [part["text"] for part in listing.lines[0]["parts"] if part["type"] == "note"]
        assert [note for note in notes if becomes in note] != [], notes
