"""Hooks that ask a model, an agent or a server; that decide in the user's place, set variables and change outputs."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.config.hook_tables import read_hooks
from ebbtide.agent.events.permissions import Decision, PermissionAsked
from ebbtide.agent.events.session import Event
from ebbtide.agent.hooks.env_file import changes_in
from ebbtide.agent.hooks.judges import fill_placeholders, judge_prompt, judge_verdict
from ebbtide.agent.session import Session
from ebbtide.tools.process.child import Exit
from tests.agent.hooks.hooked import Hooked
from tests.agent.mcp.serving import PROGRAM
from tests.kit.session import bash, call, calls

DONE: dict[str, Any] = {"text": "All is done."}


@pytest.fixture
def home(tmp_path: Path) -> Hooked:
    return Hooked(tmp_path)


def declare(home: Hooked, *, of_user: bool = False, **hooks: dict[str, object]) -> None:
    tables = {event: [{"hooks": [hook]}] for event, hook in hooks.items()}
    home.write(".claude/settings.json", json.dumps({"hooks": tables}), of_user=of_user)


def refuses(reason: str) -> Exit:
    return Exit(0, json.dumps({"decision": "block", "reason": reason}).encode(), b"")


@pytest.mark.parametrize(
    ("answer", "means"),
    [
        ('{"ok": true}', Exit(0, b"", b"")),
        ('Well.\n```json\n{"ok": false, "reason": "no"}\n```', refuses("no")),
        ('{"ok": true} would be wrong here: {"ok": false, "reason": "no"}', refuses("no")),
        ('{"ok": "false"}', refuses("")),
        ('{"ok": false, "reason": "it runs "rm""}', refuses('{"ok": false, "reason": "it runs "rm""}')),
        ("yes", Exit(1, b"", b"answers no verdict: yes")),
        ('{"ok": "true"}', Exit(1, b"", b'answers no verdict: {"ok": "true"}')),
        ("[" * 9_000, Exit(1, b"", b"answers no verdict: " + b"[" * 100)),
    ],
)
def test_an_answer_of_a_model_is_a_verdict(answer: str, means: Exit) -> None:
    assert judge_verdict(answer, "PreToolUse") == means


def test_a_question_and_arguments_hold_what_is_told() -> None:
    assert judge_prompt("Is $ARGUMENTS fine?", b'{"a": 1}').startswith(
        'Is {"a": 1} fine?\n\nAnswer with one JSON object'
    )
    assert judge_prompt("Fine?", b"{}").startswith("Fine?\n\n{}\n\n")
    told = {"tool_input": {"file_path": "/a", "n": 3}}
    given = ["${tool_input.file_path}", "at ${tool_input.file_path}, ${tool_input.n}${no.thing}", "${tool_input.n}", 7]
    assert [fill_placeholders(value, told) for value in given] == ["/a", "at /a, 3", 3, 7]


def test_what_is_wrong_with_such_hooks_is_named() -> None:
    wrong: list[dict[str, object]] = [
        {"type": "prompt"}, {"type": "agent", "prompt": 1}, {"type": "mcp_tool", "server": "s"},
        {"type": "mcp_tool", "server": "s", "tool": "t", "input": []},
    ]  # fmt: skip
    found, problems = read_hooks({"Stop": [{"hooks": wrong}]})
    assert found == ()
    assert problems == tuple(
        f"a hook for `Stop` is left out: {why}"
        for why in (
            "it has no `prompt`",
            "its `prompt` must be a string",
            "it needs `server` and `tool`",
            "its `input` must be a table",
        )
    )


async def test_a_model_judges_a_call_and_its_cost_counts(home: Hooked) -> None:
    hook: dict[str, object] = {"type": "prompt", "prompt": "Is this safe? $ARGUMENTS"}
    declare(home, PreToolUse=hook)
    verdicts = ({"text": '{"ok": false, "reason": "not today"}'}, {"text": '{"ok": true}'})
    home.replies(calls(bash("echo one"), bash("echo two")), *verdicts, DONE)
    done = await home.run()
    assert [status for status, _ in done.outputs] == ["denied", "done"]
    assert "a hook denied it: not today" in done.outputs[0][1]
    purposes = [event.purpose for event in done.events if type(event).__name__ == "ReplyFinished"]  # type: ignore[union-attr]  # by its name
    assert purposes == ["step", "hook", "hook", "step"]


async def test_a_model_that_gives_no_verdict_costs_a_line(home: Hooked) -> None:
    declare(home, Stop={"type": "prompt", "prompt": "Done?"})
    home.replies(DONE, {"text": "I think so"})
    done = await home.run()
    assert done.told == [
        "the hook `asks a model: Done?` for Stop exited with 1: answers no verdict: I think so; it was skipped"
    ]


async def test_an_agent_looks_before_it_lets_the_turn_end(home: Hooked) -> None:
    home.write("todo.txt", "tests are missing\n")
    home.settings(PreToolUse=[("", "echo told >> told")])
    tables = json.loads((home.project / ".claude/settings.json").read_text())
    tables["hooks"]["Stop"] = [{"hooks": [{"type": "agent", "prompt": "Look whether all in todo.txt is done."}]}]
    home.write(".claude/settings.json", json.dumps(tables))
    looks = (calls(call("read", path="todo.txt")), {"text": '{"ok": false, "reason": "tests are missing"}'})
    content = {"when": '"stop_hook_active": true', "text": '{"ok": true}'}
    agent = home.write("agent.json", json.dumps({"reply": [*looks, content]}), of_user=True)
    home.flags["agents.model"] = f"scripted/{agent}"
    home.replies(DONE, DONE)
    done = await home.run()
    assert done.told == ["a hook makes the model continue: tests are missing"]
    assert "`Stop` says that you are not done:]\ntests are missing" in done.said
    assert not (home.project / "told").exists()


async def test_a_tool_of_a_server_is_asked_by_a_hook_of_the_user(home: Hooked, tmp_path: Path) -> None:
    folder = tmp_path / "forge"
    folder.mkdir()
    (folder / "tools.json").write_text(json.dumps({"search": "Searches."}))
    command = [sys.executable, "-I", "-S", str(PROGRAM), str(folder)]
    config = home.home / "ebb" / "config"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(
        f"[mcp]\nwait = 20\n[mcp.servers.forge]\ncommand = {json.dumps(command)}\n"
        '[[hooks.PreToolUse]]\nmatcher = "bash"\n'
        'hooks = [{ type = "mcp_tool", server = "forge", tool = "search", '
        'input = { query = "${tool_input.command}" } },\n'
        '  { type = "mcp_tool", server = "forge", tool = "none" }]\n'
    )
    home.replies(calls(bash("echo one")), DONE)
    done = await home.run()
    assert [status for status, _ in done.outputs] == ["done"]
    (problem,) = done.told
    assert problem == (
        "the hook `calls `none` of the server `forge`` for PreToolUse could not be run: no server offers "
        "`mcp__forge__none`; it was skipped"
    )


async def test_a_project_calls_no_tool_of_a_server_by_a_hook(home: Hooked) -> None:
    declare(home, Stop={"type": "mcp_tool", "server": "forge", "tool": "search"})
    home.replies(DONE)
    assert (await home.run()).told == [
        "the hook `calls `search` of the server `forge`` for Stop is left out: hooks of a project cannot call tools "
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
    home: Hooked, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    monkeypatch.setenv("HOME", str(home.home))
    home.flags = {"agent.permission_mode": "ask", "permissions.deny": ["bash(touch secret)"]}
    home.write(".claude/approve.py", APPROVER, of_user=True)
    home.settings(of_user=True, PermissionRequest=[("Bash", "~/.claude/approve.py")])
    home.replies(calls(bash("touch a"), bash("rm a"), bash("touch secret"), bash("mkdir b")), DONE)
    asked_about: list[object] = []

    def answer(session: Session, event: Event) -> None:
        if isinstance(event, PermissionAsked):
            asked_about.append(event.arguments["command"])
            session.answer(event.id, Decision("deny"))

    done = await home.run(interactive=is_there, meanwhile=answer)
    assert [status for status, _ in done.outputs] == ["done", "denied", "denied", "denied"]
    assert "a hook denied it: by the book" in done.outputs[1][1]
    assert asked_about == (["mkdir b"] if is_there else [])


async def test_what_a_project_allows_in_the_place_of_the_user_is_asked_all_the_same(home: Hooked) -> None:
    home.flags = {"agent.permission_mode": "ask"}
    home.write(".claude/hooks/approve.py", APPROVER)
    home.settings(PermissionRequest=[("Bash", '"$CLAUDE_PROJECT_DIR"/.claude/hooks/approve.py')])
    home.replies(calls(bash("touch a"), bash("rm a")), DONE)
    done = await home.run()
    assert [status for status, _ in done.outputs] == ["denied", "denied"]
    assert not (home.project / "a").exists()
    assert "a hook denied it" in done.outputs[1][1]


async def test_variables_that_a_starting_session_is_given_are_those_of_its_commands(home: Hooked) -> None:
    home.write(
        ".claude/hooks/env.sh",
        "#!/bin/bash\n"
        'echo "export NODE_ENV=test" >> "$CLAUDE_ENV_FILE"\n'
        'echo "PATH=\\"\\$PATH:\\$CLAUDE_PROJECT_DIR/own\\"" >> "$CLAUDE_ENV_FILE"\n',
    )
    home.settings(SessionStart=[("", '"$CLAUDE_PROJECT_DIR"/.claude/hooks/env.sh')])
    agent = call("task", agent="explore", prompt="Look.")
    shows = bash('echo "$NODE_ENV ${PATH##*:}"')
    home.replies(calls(shows), calls(agent), calls(bash('echo "agent has $NODE_ENV"')), {"text": "ok"}, DONE)
    done = await home.run()
    assert done.outputs[0] == ("done", f"test {home.project}/own\nexit code 0")
    assert done.told == []
    assert not list((home.home / "ebb").rglob("hook-env*"))


def test_what_two_environments_differ_in() -> None:
    printed = b"A=1\0PWD=/\0_=x\0\0A=2\0PWD=/b\0_=y\0NEW=a\nb\0BASH_FUNC_f%%=() { :; }\0"
    assert changes_in(printed) == {"A": "2", "NEW": "a\nb"}
    assert changes_in(b"A=1") == {}


async def test_an_output_that_a_hook_changes_is_the_one_that_is_kept(home: Hooked) -> None:
    masked = {"stdout": "key: ***", "stderr": ""}
    answer = {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": masked}}
    home.settings(PostToolUse=[("Bash", f"echo '{json.dumps(answer)}'")])
    home.replies(calls(bash("echo key: $((40 + 2))4711; seq 90000")), DONE)
    done = await home.run()
    assert done.outputs == [
        ("done", "key: ***\nexit code 0\n[A hook of the user for `bash` has put this in the place of the output]")
    ]
    assert "424711" not in done.said
    kept = b"".join(path.read_bytes() for path in (home.home / "ebb").rglob("*") if path.is_file())
    assert b"424711" not in kept


async def test_a_transcript_says_what_replies_took_and_an_agent_is_told_of_hooks(home: Hooked) -> None:
    count = (
        "import json, sys; lines = [json.loads(line) for line in open(json.load(sys.stdin)['transcript_path'])]; "
        "used = [line['message'].get('usage', {}).get('output_tokens', 0) for line in lines]; "
        "print(sum(each > 0 for each in used), file=open('counted', 'w'))"
    )
    home.write("count.py", count)
    context = {"hookSpecificOutput": {"hookEventName": "SubagentStart", "additionalContext": "Mind the gap."}}
    home.settings(Stop=[("", "python3 count.py")], SubagentStart=[("explore", f"echo '{json.dumps(context)}'")])
    home.replies(calls(call("task", agent="explore", prompt="Look.")), {"text": "I mind."}, DONE)
    done = await home.run()
    assert (home.project / "counted").read_text() == "2\n"
    assert "I mind." in done.outputs[0][1]


@pytest.mark.parametrize(
    ("of_user", "answer", "status"),
    [
        (True, {"ok": True}, "done"),
        (True, {"ok": False, "reason": "not here"}, "denied"),
        (False, {"ok": True}, "denied"),
    ],
)
async def test_a_model_allows_in_the_place_of_the_user_where_the_hook_is_theirs(
    home: Hooked, of_user: bool, answer: dict[str, object], status: str
) -> None:
    home.flags = {"agent.permission_mode": "ask"}
    declare(home, of_user=of_user, PermissionRequest={"type": "prompt", "prompt": "Is it safe?"})
    home.replies(calls(bash("touch a")), {"text": json.dumps(answer)}, DONE)
    done = await home.run()
    assert [each for each, _ in done.outputs] == [status]
    assert (home.project / "a").exists() == (status == "done")
