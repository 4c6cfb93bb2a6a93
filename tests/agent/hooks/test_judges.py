"""Hooks that ask a model, an agent or a server; that decide in the user's place, set variables and change outputs."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.config.hook_tables import parse_hooks
from ebbtide.agent.events.permissions import Decision, PermissionAsked
from ebbtide.agent.events.session import Event
from ebbtide.agent.events.subagents import AgentFinished, AgentStarted
from ebbtide.agent.hooks.env_file import changed_variables
from ebbtide.agent.hooks.judges import build_hook_prompt, fill_placeholders, parse_model_answer
from ebbtide.agent.session import Session
from ebbtide.tools.process.child import ChildResult
from tests.kit.extension_project import HookProject
from tests.kit.files import write_file
from tests.kit.mcp_project import PROGRAM
from tests.kit.polling import soon
from tests.kit.session import bash, call, calls

DONE: dict[str, Any] = {"text": "All is done."}


def declare(project: HookProject, *, of_user: bool = False, **hooks: dict[str, object]) -> None:
    tables = {event: [{"hooks": [hook]}] for event, hook in hooks.items()}
    project.write(".claude/settings.json", json.dumps({"hooks": tables}), of_user=of_user)


def refuses(reason: str) -> ChildResult:
    return ChildResult(0, json.dumps({"decision": "block", "reason": reason}).encode(), b"")


@pytest.mark.parametrize(
    ("answer", "means"),
    [
        ('{"ok": true}', ChildResult(0, b"", b"")),
        ('Well.\n```json\n{"ok": false, "reason": "no"}\n```', refuses("no")),
        ('{"ok": true} would be wrong here: {"ok": false, "reason": "no"}', refuses("no")),
        ('{"ok": "false"}', refuses("")),
        ('{"ok": false, "reason": "it runs "rm""}', refuses('{"ok": false, "reason": "it runs "rm""}')),
        ("yes", ChildResult(1, b"", b"gave no verdict: yes")),
        ('{"ok": "true"}', ChildResult(1, b"", b'gave no verdict: {"ok": "true"}')),
        ("[" * 9_000, ChildResult(1, b"", b"gave no verdict: " + b"[" * 100)),
    ],
)
def test_an_answer_of_a_model_is_a_verdict(answer: str, means: ChildResult) -> None:
    assert parse_model_answer(answer, "PreToolUse") == means


def test_a_question_and_arguments_hold_what_is_told() -> None:
    assert build_hook_prompt("Is $ARGUMENTS fine?", b'{"a": 1}').startswith(
        'Is {"a": 1} fine?\n\nAnswer with one JSON object'
    )
    assert build_hook_prompt("Fine?", b"{}").startswith("Fine?\n\n{}\n\n")
    payload = {"tool_input": {"file_path": "/a", "n": 3}}
    given = ["${tool_input.file_path}", "at ${tool_input.file_path}, ${tool_input.n}${no.thing}", "${tool_input.n}", 7]
    assert [fill_placeholders(value, payload) for value in given] == ["/a", "at /a, 3", 3, 7]


def test_what_is_wrong_with_such_hooks_is_named() -> None:
    wrong: list[dict[str, object]] = [
        {"type": "prompt"}, {"type": "agent", "prompt": 1}, {"type": "mcp_tool", "server": "s"},
        {"type": "mcp_tool", "server": "s", "tool": "t", "input": []},
    ]  # fmt: skip
    found, problems = parse_hooks({"Stop": [{"hooks": wrong}]})
    assert found == ()
    assert problems == tuple(
        f"a hook for `Stop` is skipped: {why}"
        for why in (
            "it has no `prompt`",
            "its `prompt` must be a string",
            "it needs `server` and `tool`",
            "its `input` must be a table",
        )
    )


async def test_a_model_judges_a_call_and_its_cost_counts(project: HookProject) -> None:
    hook: dict[str, object] = {"type": "prompt", "prompt": "Is this safe? $ARGUMENTS"}
    declare(project, PreToolUse=hook)
    verdicts = ({"text": '{"ok": false, "reason": "not today"}'}, {"text": '{"ok": true}'})
    project.script(calls(bash("echo one"), bash("echo two")), *verdicts, DONE)
    done = await project.run()
    assert [status for status, _ in done.outputs] == ["denied", "done"]
    assert "a hook denied it: not today" in done.outputs[0][1]
    purposes = [event.purpose for event in done.events if type(event).__name__ == "ReplyFinished"]  # type: ignore[union-attr]  # by its name
    assert purposes == ["step", "hook", "hook", "step"]


async def test_a_model_that_gives_no_verdict_costs_a_line(project: HookProject) -> None:
    declare(project, Stop={"type": "prompt", "prompt": "Done?"})
    project.script(DONE, {"text": "I think so"})
    done = await project.run()
    assert done.told == [
        "the hook `asks a model: Done?` for Stop exited with 1: gave no verdict: I think so; it was skipped"
    ]


async def test_an_agent_looks_before_it_lets_the_turn_end(project: HookProject) -> None:
    project.write("todo.txt", "tests are missing\n")
    project.settings(PreToolUse=[("", "echo told >> told")])
    tables = json.loads((project.root / ".claude/settings.json").read_text())
    tables["hooks"]["Stop"] = [{"hooks": [{"type": "agent", "prompt": "Look whether all in todo.txt is done."}]}]
    project.write(".claude/settings.json", json.dumps(tables))
    looks = (calls(call("read", path="todo.txt")), {"text": '{"ok": false, "reason": "tests are missing"}'})
    content = {"when": '"stop_hook_active": true', "text": '{"ok": true}'}
    agent = project.write("agent.json", json.dumps({"reply": [*looks, content]}), of_user=True)
    project.flags["agents.model"] = f"scripted/{agent}"
    project.script(DONE, DONE)
    done = await project.run()
    assert done.told == ["a hook makes the model continue: tests are missing"]
    assert "`Stop` says that you are not done:]\ntests are missing" in done.said
    assert not (project.root / "told").exists()


async def test_a_tool_of_a_server_is_asked_by_a_hook_of_the_user(project: HookProject, tmp_path: Path) -> None:
    folder = tmp_path / "forge"
    write_file(folder / "tools.json", json.dumps({"search": "Searches."}))
    command = [sys.executable, "-I", "-S", str(PROGRAM), str(folder)]
    config = project.user_home / "ebb" / "config"
    write_file(
        config / "config.toml",
        f"[mcp]\nwait = 20\n[mcp.servers.forge]\ncommand = {json.dumps(command)}\n"
        '[[hooks.PreToolUse]]\nmatcher = "bash"\n'
        'hooks = [{ type = "mcp_tool", server = "forge", tool = "search", '
        'input = { query = "${tool_input.command}" } },\n'
        '  { type = "mcp_tool", server = "forge", tool = "none" }]\n',
    )
    project.script(calls(bash("echo one")), DONE)
    done = await project.run()
    assert [status for status, _ in done.outputs] == ["done"]
    (problem,) = done.told
    assert problem == (
        "the hook `calls `none` of the server `forge`` for PreToolUse could not be run: no server offers "
        "`mcp__forge__none`; it was skipped"
    )


async def test_a_project_calls_no_tool_of_a_server_by_a_hook(project: HookProject) -> None:
    declare(project, Stop={"type": "mcp_tool", "server": "forge", "tool": "search"})
    project.script(DONE)
    assert (await project.run()).told == [
        "the hook `calls `search` of the server `forge`` for Stop is skipped: a project's hooks cannot call tools "
        "without asking"
    ]


APPROVER = """#!/usr/bin/env python3
import json, sys
told = json.load(sys.stdin)
command = told["tool_input"].get("command", "")
behavior = "allow" if command.startswith("touch") else "deny" if command.startswith("rm") else None
if behavior:
    decision = {"behavior": behavior, "message": "by the book"}
    print(json.dumps({"hookSpecificOutput": {"hookEventName": told["hook_event_name"], "decision": decision}}))
"""


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_hook_decides_in_the_place_of_the_user(
    project: HookProject, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    monkeypatch.setenv("HOME", str(project.user_home))
    project.flags = {"agent.permission_mode": "ask", "permissions.deny": ["bash(touch secret)"]}
    project.write(".claude/approve.py", APPROVER, of_user=True)
    project.settings(of_user=True, PermissionRequest=[("Bash", "~/.claude/approve.py")])
    project.script(calls(bash("touch a"), bash("rm a"), bash("touch secret"), bash("mkdir b")), DONE)
    asked_about: list[object] = []

    def answer(session: Session, event: Event) -> None:
        if isinstance(event, PermissionAsked):
            asked_about.append(event.arguments["command"])
            session.answer(event.id, Decision("deny"))

    done = await project.run(interactive=is_there, meanwhile=answer)
    assert [status for status, _ in done.outputs] == ["done", "denied", "denied", "denied"]
    assert "a hook denied it: by the book" in done.outputs[1][1]
    assert asked_about == (["mkdir b"] if is_there else [])


async def test_what_a_project_allows_in_the_place_of_the_user_is_asked_all_the_same(project: HookProject) -> None:
    project.flags = {"agent.permission_mode": "ask"}
    project.write(".claude/hooks/approve.py", APPROVER)
    project.settings(PermissionRequest=[("Bash", '"$CLAUDE_PROJECT_DIR"/.claude/hooks/approve.py')])
    project.script(calls(bash("touch a"), bash("rm a")), DONE)
    done = await project.run()
    assert [status for status, _ in done.outputs] == ["denied", "denied"]
    assert not (project.root / "a").exists()
    assert "a hook denied it" in done.outputs[1][1]


async def test_variables_that_a_starting_session_is_given_are_those_of_its_commands(project: HookProject) -> None:
    project.write(
        ".claude/hooks/env.sh",
        "#!/bin/bash\n"
        'echo "export NODE_ENV=test" >> "$CLAUDE_ENV_FILE"\n'
        'echo "PATH=\\"\\$PATH:\\$CLAUDE_PROJECT_DIR/own\\"" >> "$CLAUDE_ENV_FILE"\n',
    )
    project.settings(SessionStart=[("", '"$CLAUDE_PROJECT_DIR"/.claude/hooks/env.sh')])
    agent = call("task", agent="explore", prompt="Look.")
    shows = bash('echo "$NODE_ENV ${PATH##*:}"')
    project.script(calls(shows), calls(agent), calls(bash('echo "agent has $NODE_ENV"')), {"text": "ok"}, DONE)
    done = await project.run()
    assert done.outputs[0] == ("done", f"test {project.root}/own\nexit code 0")
    assert done.told == []
    assert not list((project.user_home / "ebb").rglob("hook-env*"))


def test_what_two_environments_differ_in() -> None:
    printed = b"A=1\0PWD=/\0_=x\0\0A=2\0PWD=/b\0_=y\0NEW=a\nb\0BASH_FUNC_f%%=() { :; }\0"
    assert changed_variables(printed) == {"A": "2", "NEW": "a\nb"}
    assert changed_variables(b"A=1") == {}


async def test_an_output_that_a_hook_changes_is_the_one_that_is_kept(project: HookProject) -> None:
    masked = {"stdout": "key: ***", "stderr": ""}
    answer = {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": masked}}
    project.settings(PostToolUse=[("Bash", f"echo '{json.dumps(answer)}'")])
    project.script(calls(bash("echo key: $((40 + 2))4711; seq 90000")), DONE)
    done = await project.run()
    assert done.outputs == [
        ("done", "key: ***\nexit code 0\n[A hook of the user for `bash` replaced the output with this]")
    ]
    assert "424711" not in done.said
    stored = b"".join(path.read_bytes() for path in (project.user_home / "ebb").rglob("*") if path.is_file())
    assert b"424711" not in stored


async def test_a_transcript_says_what_replies_took_and_an_agent_is_told_of_hooks(project: HookProject) -> None:
    count = (
        "import json, sys; lines = [json.loads(line) for line in open(json.load(sys.stdin)['transcript_path'])]; "
        "used = [line['message'].get('usage', {}).get('output_tokens', 0) for line in lines]; "
        "print(sum(each > 0 for each in used), file=open('counted', 'w'))"
    )
    project.write("count.py", count)
    context = {"hookSpecificOutput": {"hookEventName": "SubagentStart", "additionalContext": "Mind the gap."}}
    project.settings(Stop=[("", "python3 count.py")], SubagentStart=[("explore", f"echo '{json.dumps(context)}'")])
    project.script(calls(call("task", agent="explore", prompt="Look.")), {"text": "I mind."}, DONE)
    done = await project.run()
    assert (project.root / "counted").read_text() == "2\n"
    assert "I mind." in done.outputs[0][1]


@pytest.mark.parametrize(("event", "requests"), [("SubagentStart", 0), ("SubagentStop", 2)])
async def test_an_agent_that_is_stopped_while_its_hooks_run_makes_no_more_requests(
    project: HookProject, event: str, requests: int
) -> None:
    answer = {"decision": "block", "reason": "go on"} if event == "SubagentStop" else {}
    waits = "touch began; while [ ! -e stopped ]; do sleep 0.05; done"
    hook: dict[str, object] = {"type": "command", "command": f"{waits}; echo '{json.dumps(answer)}'"}
    declare(project, of_user=False, **{event: hook})
    project.script(calls(call("task", agent="explore", prompt="Look.")), {"text": "one"}, {"text": "two"}, DONE)

    async def stop(session: Session) -> None:
        await soon((project.root / "began").exists)
        assert session.agents is not None
        session.agents.stop(session.agents.running[0].call_id)
        (project.root / "stopped").touch()

    stopping: list[asyncio.Task[None]] = []

    def meanwhile(session: Session, seen: Event) -> None:
        if isinstance(seen, AgentStarted):
            stopping.append(asyncio.create_task(stop(session)))

    done = await project.run(meanwhile=meanwhile)
    await asyncio.gather(*stopping)
    (finished,) = [each for each in done.events if isinstance(each, AgentFinished)]
    assert finished.steps == requests


@pytest.mark.parametrize(
    ("of_user", "answer", "status"),
    [
        (True, {"ok": True}, "done"),
        (True, {"ok": False, "reason": "not here"}, "denied"),
        (False, {"ok": True}, "denied"),
    ],
)
async def test_a_model_allows_in_the_place_of_the_user_where_the_hook_is_theirs(
    project: HookProject, of_user: bool, answer: dict[str, object], status: str
) -> None:
    project.flags = {"agent.permission_mode": "ask"}
    declare(project, of_user=of_user, PermissionRequest={"type": "prompt", "prompt": "Is it safe?"})
    project.script(calls(bash("touch a")), {"text": json.dumps(answer)}, DONE)
    done = await project.run()
    assert [each for each, _ in done.outputs] == [status]
    assert (project.root / "a").exists() == (status == "done")
