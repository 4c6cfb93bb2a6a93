"""Agents that a session sends off, in runs of the program."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.config.load import load_config
from ebbtide.agent.events.permissions import Decision, PermissionAsked
from ebbtide.agent.events.session import AgentActivity, ToolFinished
from ebbtide.agent.extensions.agent_files import find_agents
from ebbtide.agent.extensions.skills import find_skills
from ebbtide.agent.subagents.definitions import built_in_agents
from ebbtide.agent.subagents.file_definitions import all_definitions
from ebbtide.agent.tokens.estimate import count_tools, decode_estimator
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.tools.task import Task
from tests.kit.files import write_file
from tests.kit.mcp_project import PROGRAM
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
        "you are a sub-agent, and sub-agents cannot start others",
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
    # Also where it may look at itself alone, what its agents saw is found by words.
    looks = {"calls": [{"name": "recall", "arguments": {"query": "def", "kind": "output"}}]}
    only = ("-r", session, "--config", 'recall.scope="session"')
    found = user.ask(
        looks, {"calls": [{"name": "recall", "arguments": {"ref_id": reference}}]}, {"text": "ok"}, flags=only
    )
    assert found.code == 0
    assert all(line["agent"][:8] in user.outputs(session)[-2] for line in done)
    assert "def f(): return 1" in user.outputs(session)[-1]
    (listed,) = user.ebb("sessions", "list", "--json").lines
    assert (listed["id"], {one["agent"] for one in listed["agents"]}) == (session, {"explore", "review"})
    assert {one["id"] for one in listed["agents"]} == {line["agent"] for line in done}
    assert not [*user.data.glob("outputs/*"), *user.data.glob("locks/*")]
    gone = user.ebb("sessions", "delete", session)
    assert gone.out == f"deleted {session}  go and 2 agent sessions\n"
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
    assert done["text"].endswith("there is no agent `nobody`; available: explore, review")


LOOKER = """---
name: looker
description: looks at names
tools: Read, Bash(git log:*)
model: inherit
---
You look at names only.
"""


def bring(user: User, name: str, text: str) -> None:
    write_file(user.project / name, text)


def test_an_agent_of_a_trusted_project_is_told_its_text_and_has_no_more_than_its_tools(user: User) -> None:
    bring(user, ".claude/agents/deep/looker.md", LOOKER)
    bring(user, ".claude/agents/broken.md", "---\nname: broken\n---\nSay nothing.\n")
    write = {"name": "write", "arguments": {"path": "b.py", "content": "x"}}
    flags = (*model_of(user, READ, {"calls": [write]}, FINAL), "--trust", "--permission-mode", "auto")
    run = user.ask({"calls": [task("looker")]}, {"text": "ok"}, flags=flags, form="stream-json")
    (done,) = (line for line in run.lines if line["type"] == "agent_finished")
    assert (done["name"], done["end"], done["read"], done["changed"]) == ("looker", "answered", ["a.py"], [])
    assert not (user.project / "b.py").exists()
    notices = [line["text"] for line in run.lines if line["type"] == "noticed"]
    assert notices == ["the agent `.claude/agents/broken.md` is skipped: it has no description"]


def test_an_agent_is_meant_in_other_letters_too_and_makes_no_more_requests_than_its_file_says(user: User) -> None:
    bring(
        user, ".claude/agents/ui.md", LOOKER.replace("looker", "UI Reviewer").replace("model: inherit", "maxTurns: 2")
    )
    flags = (*model_of(user, READ, READ, FINAL), "--trust")
    run = user.ask({"calls": [task("ui reviewer")]}, {"text": "ok"}, flags=flags, form="stream-json")
    (done,) = (line for line in run.lines if line["type"] == "agent_finished")
    assert (done["name"], done["end"], done["steps"]) == ("UI-Reviewer", "step_limit", 2)


def test_agents_of_other_programs_have_the_tools_that_they_name_in_their_words(user: User) -> None:
    tools = "[read_file, search_file_content, run_shell_command, list_directory]"
    bring(user, ".gemini/agents/g.md", f"---\nname: g\ndescription: d\ntools: {tools}\n---\nLook.\n")
    permission = "permission:\n  edit: deny\n  bash:\n    '*': deny\n  webfetch: ask\n"
    bring(user, ".opencode/agent/o.md", f"---\ndescription: d\n{permission}tools:\n  list: false\n---\nLook.\n")
    skill = "---\nname: style\ndescription: How to write.\ndisable-model-invocation: true\n---\nBe kind.\n"
    bring(user, ".claude/skills/writing/style/skill.md", skill)
    bring(user, ".claude/agents/s.md", "---\ndescription: d\nskills: kit:style, other\n---\nLook.\n")
    config = replace(load_config(user.project, {"EBB_HOME": str(user.home)}, {}), is_project_trusted=True)
    skills, _ = find_skills(config)
    found = {one.name: one for one in all_definitions(find_agents(config)[0], skills)}
    assert found["g"].tools == ("read", "grep", "bash", "read_result")
    offered = {
        name: found["o"].allows_tool(name) for name in ("read", "bash", "edit", "write", "apply_patch", "web_fetch")
    }
    assert offered == {
        "read": True,
        "bash": False,
        "edit": False,
        "write": False,
        "apply_patch": False,
        "web_fetch": True,
    }
    assert found["s"].prompt.endswith(f"- style: How to write. ({user.project}/.claude/skills/writing/style/skill.md)")


def test_tools_that_are_none_here_are_named_in_one_line(user: User) -> None:
    bring(
        user,
        ".claude/agents/a.md",
        LOOKER.replace("Read, Bash(git log:*)", "Read, Sparkle, NotebookRead, NotebookEdit, Skill"),
    )
    bring(user, ".claude/agents/b.md", LOOKER.replace("looker", "b").replace("Read,", "mcp__x, Sparkle, read_file,"))
    run = user.ask({"text": "ok"}, flags=("--trust",), form="stream-json")
    notices = [line["text"] for line in run.lines if line["type"] == "noticed"]
    assert notices == ["agents name unknown tools: `Sparkle` (looker, b)"]


def test_an_agent_of_a_project_that_is_not_trusted_is_named_and_not_sent_off(user: User) -> None:
    bring(user, ".claude/agents/looker.md", LOOKER)
    run = user.ask({"calls": [task("looker")]}, {"text": "no"}, form="stream-json")
    (done,) = (line for line in run.lines if line["type"] == "tool_finished")
    assert done["text"].endswith("there is no agent `looker`; available: explore, review")
    (notice,) = (line["text"] for line in run.lines if line["type"] == "noticed")
    assert notice.startswith("the agent `looker` of this project is not approved, so it is skipped")


def test_files_of_agents_narrow_what_an_agent_may_do(user: User) -> None:
    bring(user, ".claude/agents/looker.md", LOOKER)
    bring(user, ".claude/agents/explore.md", LOOKER.replace("looker", "explore"))
    opencode = "---\ndescription: writes nothing\ntools:\n  write: false\n  webfetch: false\n---\nDo it."
    bring(user, ".opencode/agents/reader.md", opencode)
    files, problems = find_agents(load_config(user.project, {"HOME": str(user.home)}, {}))
    definitions = {one.name: (one.prompt, one.tools, one.denied_tools, one.model) for one in all_definitions(files)}
    assert problems == ()
    assert definitions | {"explore": None, "review": None} == {
        "explore": None,
        "review": None,
        "looker": ("You look at names only.", ("read", "bash", "read_result"), (), None),
        "reader": ("Do it.", None, ("write", "web_fetch", "apply_patch"), None),
    }
    (explore, _) = built_in_agents()
    assert all_definitions(files)[0] == explore
    description = Task({one.name: one.description for one in all_definitions(files)}).description
    assert description.splitlines()[-2:] == ["- looker: looks at names", "- reader: writes nothing"]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("tools: Read, mcp__raw__echo", "done"),
        ("tools: mcp__raw__*", "done"),
        ("model: inherit", "done"),
        ("tools: Read", "failed"),
        ("disallowedTools: mcp__raw", "failed"),
    ],
)
def test_an_agent_has_those_tools_of_servers_that_its_file_gives_it(user: User, head: str, status: str) -> None:
    bring(user, ".claude/agents/asker.md", f"---\ndescription: asks\n{head}\n---\nAsk the server.\n")
    server = [sys.executable, str(PROGRAM), str(user.project)]
    echo = {"calls": [{"name": "mcp__raw__echo", "arguments": {"text": "to the server"}}]}
    flags = (
        *model_of(user, echo, FINAL), "--trust", "--permission-mode", "auto",
        "--config", f"mcp.servers.raw.command={json.dumps(server[0])}",
        "--config", f"mcp.servers.raw.args={json.dumps(server[1:])}", "--config", "mcp.wait=20",
    )  # fmt: skip
    run = user.ask({"calls": [task("asker")]}, {"text": "ok"}, flags=flags, form="stream-json")
    inner = [line["event"] for line in run.lines if line["type"] == "agent_activity"]
    (called,) = (event for event in inner if event["type"] == "tool_finished" and event["name"] != "hand_back")
    assert (called["status"], "to the server" in called["text"]) == (status, status == "done")


def with_writers(user: User, **settings: object) -> ProjectSessions:
    """Somebody is there to answer, and the model sends off two agents, each of which writes a file."""
    path = user.project / "agents.json"
    write = {"calls": [{"name": "write", "arguments": {"path": "b.py", "content": "x"}}]}
    path.write_text(json.dumps({"reply": [write, FINAL]}))
    main = user.project / "main.json"
    main.write_text(json.dumps({"reply": [{"calls": [task("writer"), task("writer")]}, {"text": "ok"}]}))
    environment = {"HOME": str(user.home), "EBB_HOME": str(user.home), "EBB_SANDBOX": "off", "PATH": "/usr/bin:/bin"}
    values = {"agent.model": f"scripted/{main}", "agents.model": f"scripted/{path}", **settings}
    config = load_config(user.project, environment, values)
    folder = config.folders.config / "agents"
    write_file(folder / "writer.md", "---\nname: writer\ndescription: writes\n---\nWrite.\n")
    return ProjectSessions(config, user.project, environment, is_interactive=True)


async def test_agents_are_stopped_one_by_one_also_while_they_wait(user: User) -> None:
    sessions = with_writers(user, **{"agents.concurrent": 1})
    session = await sessions.open(None)
    assert session.agents is not None
    texts: list[str] = []
    async for event in session.send("go"):
        if isinstance(event, PermissionAsked):
            working, waiting = session.agents.running
            assert (working.agent != "", waiting.agent) == (True, "")
            session.agents.stop(waiting.call_id)
        if isinstance(event, ToolFinished):
            texts.append(event.text)
            for one in session.agents.running:
                session.agents.stop(one.call_id)
    await sessions.close()
    waited, worked = texts
    assert waited == "the user stopped the agent before it started: ask before you start it again"
    assert worked.startswith("[Agent writer was stopped by the user: 1 requests, ")
    assert not (user.project / "b.py").exists()


async def test_two_agents_of_one_name_ask_each_for_itself(user: User) -> None:
    """Their calls have the same ids, since both models count from one."""
    sessions = with_writers(user)
    session = await sessions.open(None)
    asked: list[tuple[str, str]] = []
    statuses: list[str] = []
    async for event in session.send("go"):
        if isinstance(event, PermissionAsked):
            asked.append((event.id, event.agent))
            if len(asked) == 2:  # both wait
                session.answer(asked[1][0], Decision("deny"))
                session.answer(asked[0][0], Decision("allow"))
        if isinstance(event, AgentActivity) and isinstance(event.event, ToolFinished):
            statuses.append(event.event.status)
    await sessions.close()
    assert len({id for id, _ in asked}) == 2
    assert [agent for _, agent in asked] == ["writer", "writer"]
    assert sorted(statuses) == ["denied", "done"]
    assert (user.project / "b.py").read_text() == "x"


def test_the_task_tool_takes_little_of_each_request() -> None:
    tool = Task({one.name: one.description for one in built_in_agents()})
    spec = ToolSpec(tool.name, tool.description, tool.schema)
    assert decode_estimator(None).estimate(count_tools([spec])) <= 150
