"""What hooks are told of a session from its beginning to its end, and when their words reach the model."""

import json
from pathlib import Path
from typing import Any

from ebbtide.agent.events.session import HookStatus, Noticed
from ebbtide.tui.session.controller import SessionController
from tests.kit.extension_project import HookProject
from tests.kit.polling import soon
from tests.kit.session import bash, call, calls, events_of

DONE: dict[str, Any] = {"text": "done"}
LOG = "jq -c '{event: .hook_event_name, why: (.source // .reason), session: .session_id}' >> log"


def declare(project: HookProject, **events: list[dict[str, Any]]) -> None:
    """Hooks with all that they may say of themselves."""
    tables = {
        event: [{"matcher": each.pop("matcher", ""), "hooks": [each]} for each in hooks]
        for event, hooks in events.items()
    }
    project.write(".claude/settings.json", json.dumps({"hooks": tables}))


async def test_hooks_are_told_how_sessions_begin_and_why_they_end(project: HookProject) -> None:
    project.settings(SessionStart=[("", LOG)], SessionEnd=[("", LOG)])
    project.script(*[DONE] * 5)
    sessions = project.sessions(interactive=True)
    controller = SessionController(sessions, lambda: None)
    ids = []

    async def say() -> None:
        assert controller.session is not None
        await events_of(controller.session)
        ids.append(controller.session.id)

    await controller.open_first_session(None, None)
    await controller.open()  # nothing was said: neither has begun
    await say()
    await controller.open(ids[0], f"scripted/{project.model}")  # the same session goes on, with another model
    await say()
    await controller.open()
    await say()
    await controller.open(ids[0])
    await say()
    await controller.close("prompt_input_exit")
    await sessions.close()
    records = [json.loads(line) for line in (project.root / "log").read_text().splitlines()]
    first, second = ids[0], ids[2]
    assert [(each["event"], each["why"], each["session"]) for each in records] == [
        ("SessionStart", "startup", first),
        ("SessionEnd", "clear", first),
        ("SessionStart", "clear", second),
        ("SessionEnd", "resume", second),
        ("SessionStart", "resume", first),
        ("SessionEnd", "prompt_input_exit", first),
    ]


async def test_what_is_only_for_some_calls_or_once_does_not_run_for_others(project: HookProject) -> None:
    declare(
        project,
        PreToolUse=[
            {"matcher": "Bash", "command": "jq -r .tool_input.command >> git", "if": "Bash(git *)"},
            {"command": "echo x >> once", "once": True},
        ],
    )
    project.script(calls(bash("echo hi"), bash("true && git status"), bash("gitk")), DONE)
    assert (await project.run()).told == []
    assert (project.root / "git").read_text() == "true && git status\n"
    assert (project.root / "once").read_text() == "x\n"


async def test_what_nobody_waits_for_is_told_with_the_next_message(project: HookProject) -> None:
    go = project.user_home / "go"
    wait = f"while ! [ -e {go} ]; do sleep 0.02; done"
    declare(
        project,
        PostToolUse=[
            {
                "command": f"{wait}; echo '2 tests fail' >&2; echo x > reported; exit 2",
                "asyncRewake": True,
                "rewakeMessage": "Tests in the background say:",
                "rewakeSummary": "Tests fail",
            }
        ],
    )
    project.script(calls(bash("true")), DONE, DONE)
    session = await project.session()
    await events_of(session)
    go.touch()
    hooks = session.hooks
    assert hooks is not None
    await soon(lambda: hooks.hook_states[0][2].objection_count == 1)
    await events_of(session)
    notes = [part.text for part in session.history.messages[-2].parts if hasattr(part, "text")]
    await session.close()
    assert "[A hook of the user for `PostToolUse` notes:]\nTests in the background say:\n2 tests fail" in notes


def is_running(noted: Path) -> bool:
    """Whether the process runs whose id stands in a file."""
    return noted.exists() and Path("/proc", noted.read_text().strip() or "none").exists()


async def test_a_hook_may_say_itself_that_nobody_need_wait_for_it(project: HookProject) -> None:
    go = project.user_home / "go"
    begun = """echo '{"async": true, "asyncTimeout": 60000}'"""
    waits = f"{begun}; while ! [ -e {go} ]; do sleep 0.02; done"
    answer = """echo '{"systemMessage": "is there now"}'"""
    hangs = f"{begun}; echo $$ > hangs; exec sleep 1000"
    declare(project, SessionStart=[{"command": f"{waits}; {answer}"}, {"command": hangs}])
    project.script(DONE)
    session = await project.session()
    notices: list[str] = []
    session.set_listener(lambda event: notices.append(event.text) if isinstance(event, Noticed) else None)
    await events_of(session)
    assert notices == []
    go.touch()
    await soon(lambda: notices == ["is there now"])
    await soon(lambda: is_running(project.root / "hangs"))
    await session.close()
    await soon(lambda: not is_running(project.root / "hangs"))


async def test_the_user_sees_what_a_hook_is_waited_for_with(project: HookProject) -> None:
    declare(project, Stop=[{"command": "true", "statusMessage": "runs the tests"}, {"command": "exit 0"}])
    project.script(DONE)
    done = await project.run()
    assert [event for event in done.events if isinstance(event, HookStatus)] == [
        HookStatus("runs the tests"), HookStatus(""),
    ]  # fmt: skip


async def test_advice_at_the_end_has_the_model_go_on_like_an_objection(project: HookProject) -> None:
    advice = {"hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "run the tests first"}}
    project.settings(Stop=[("", f"jq -e .stop_hook_active >> stops || echo '{json.dumps(advice)}'")])
    project.script(DONE, {"text": "they pass"})
    done = await project.run()
    assert done.told == ["a hook makes the model continue: run the tests first"]
    assert (project.root / "stops").read_text() == "false\ntrue\n"


async def test_hooks_are_told_which_agent_makes_a_call_and_may_send_it_on(project: HookProject) -> None:
    (project.root / "a.py").write_text("x = 1\n")
    agent = project.model.with_name("agent.json")
    read = {"calls": [call("read", path="a.py")]}
    agent.write_text(json.dumps({"reply": [read, {"text": "It is 2."}, {"text": "It is 1."}]}))
    project.flags["agents.model"] = f"scripted/{agent}"
    project.write(
        ".claude/hooks/doubt.sh",
        '#!/bin/bash\ninput=$(cat)\necho "$input" >> stops\n'
        '[ "$(jq -r .stop_hook_active <<< "$input")" = true ] && exit 0\n'
        'jq -r .agent_transcript_path <<< "$input" | xargs cat > transcript\n'
        "grep -q 'x = 1' transcript && { echo 'look again' >&2; exit 2; }\nexit 0\n",
    )
    project.settings(
        PreToolUse=[("", "jq -c '[.tool_name, .agent_type, .agent_id]' >> calls")],
        SubagentStop=[("explore", '"$CLAUDE_PROJECT_DIR"/.claude/hooks/doubt.sh'), ("review", "touch wrong")],
    )
    project.script(calls(call("task", agent="explore", prompt="what is x?")), DONE)
    done = await project.run()
    assert done.outputs[0][0] == "done"
    assert "It is 1." in done.outputs[0][1]
    task, inner = (json.loads(line) for line in (project.root / "calls").read_text().splitlines())
    assert task == ["Task", None, None]
    assert inner[:2] == ["Read", "explore"]
    first, second = (json.loads(line) for line in (project.root / "stops").read_text().splitlines())
    assert (first["agent_id"], first["agent_type"], first["last_assistant_message"]) == (
        inner[2],
        "explore",
        "It is 2.",
    )
    assert (first["stop_hook_active"], second["stop_hook_active"]) == (False, True)
    assert not (project.root / "wrong").exists()


async def test_a_formatter_behind_an_edit_does_not_stand_in_the_way_of_the_next_one(project: HookProject) -> None:
    """Miosa-osa/OSA#171: the file is remembered as it was written, a formatter rewrites it, and the next edit is told
    to read it first. What a hook changes is told now, and what anybody else changes has to be read as before."""
    tidy = "sed -i 's/ *= */ = /; /^drop/d' \"$(jq -r .tool_input.file_path)\""
    project.settings(PostToolUse=[("Edit|Write", tidy)])
    made = {"path": "a.py", "content": "x=1\ny  = 2\ndrop\nlast = 3\n"}
    project.script(
        calls(call("write", **made)),
        calls(call("edit", path="a.py", old="last = 3", new="last   =4")),
        calls(call("edit", path="a.py", old="y = 2", new="y = 5")),
        calls(call("write", path="a.py", content="all")),
        calls(bash("echo 'z = 6' >> a.py")),
        calls(call("edit", path="a.py", old="x = 1", new="x = 7")),
        DONE,
    )
    done = await project.run()
    changed = "[A hook of the user for `{}` has changed what it wrote:]\n`a.py`, {}"
    again = '`a.py` changed since you read it: call `read` with path="a.py" again before you change it'
    assert [text for _, text in done.outputs] == [
        "created `a.py`: 4 lines\n" + changed.format("write", "lines 1-2"),
        "edited `a.py`, line 3\n" + changed.format("edit", "line 3"),
        "edited `a.py`, line 2",
        "overwrote `a.py`: 1 line",
        "no output\nexit code 0",
        again,
    ]
    assert (project.root / "a.py").read_text() == "allz = 6\n"


async def test_a_file_that_a_hook_has_changed_in_many_places_has_to_be_read_again(project: HookProject) -> None:
    even = "sed -i 's/^\\(.*[02468]\\)$/\\1 # even/' \"$(jq -r .tool_input.file_path)\""
    project.settings(PostToolUse=[("Write", even)])
    text = "".join(f"line_{number}\n" for number in range(60))
    project.script(
        calls(call("write", path="a.py", content=text)), calls(call("edit", path="a.py", old="9", new="x")), DONE
    )
    assert [text.split("\n")[0] for _, text in (await project.run()).outputs] == [
        "created `a.py`: 60 lines",
        '`a.py` changed since you read it: call `read` with path="a.py" again before you change it',
    ]
