"""Hooks that see outputs as they came: real sessions, real processes, real files."""

import asyncio
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.config.option_values import AfterToolHook
from ebbtide.agent.events.session import Noticed, ToolFinished, TurnFinished
from ebbtide.agent.hooks.answers import HookAnswer, build_failure_answer, parse_answer
from ebbtide.agent.hooks.tool_hooks import feedback_lines
from ebbtide.agent.messages import ToolOutput
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.session import Session
from ebbtide.tools.process.child import ChildResult
from ebbtide.tools.process.state import ProgramState
from tests.kit.extension_project import HookProject
from tests.kit.polling import soon
from tests.kit.session import ID, Home, bash, call, calls, events_of, first_turn, outputs_of
from tests.tools.test_bash import is_running


def keeps(home: Home, name: str) -> str:
    """A command that keeps what it was told and the bytes that it was pointed to."""
    script = home.root.parent / f"{name}.py"
    script.write_text(
        "import json, os, sys\n"
        "told = json.load(sys.stdin)\n"
        "path = told['output_path']\n"
        "told['mode'] = os.stat(path).st_mode\n"
        f"with open({str(home.root.parent / name)!r}, 'a') as out:\n"
        "    out.write(json.dumps([told, open(path, 'rb').read().decode('latin-1')]) + '\\n')\n"
    )
    return f"{sys.executable} {script}"


def kept(home: Home, name: str) -> list[tuple[dict[str, Any], bytes]]:
    lines = (home.root.parent / name).read_text().splitlines()
    return [(told, text.encode("latin-1")) for told, text in map(json.loads, lines)]


async def ran(home: Home, hooks: list[AfterToolHook], *wanted: dict[str, Any]) -> tuple[Session, list[str]]:
    """A session in which the calls were made, and the lines that the user was told."""
    session, events = await first_turn(
        home.session(ScriptedProvider.from_replies(calls(*wanted), {"text": "done"}), hooks=hooks)
    )
    assert events[-1] == TurnFinished("answered", "done")
    return session, [event.text for event in events if isinstance(event, Noticed)]


async def test_a_hook_sees_all_of_an_output_as_it_came_before_it_is_cut(home: Home) -> None:
    command = "printf '\\033[1m\\377\\n'; seq 100000"
    session, notices = await ran(home, [AfterToolHook("bash", keeps(home, "seen"))], bash(command))
    ((given, data),) = kept(home, "seen")
    path = Path(given.pop("output_path"))
    assert stat.S_IMODE(given.pop("mode")) & 0o377 == 0
    raw = b"\x1b[1m\xff\n" + b"".join(b"%d\n" % number for number in range(1, 100_001))
    assert data == raw
    assert given == {
        "session": ID,
        "tool": "bash",
        "arguments": {"command": command},
        "status": "done",
        "cwd": str(home.root),
        "bytes": len(raw),
    }
    (output,) = outputs_of(session)
    assert output.text.startswith("[Tool result stored — 588,901 bytes")
    assert await home.archive().read("r1") == raw + b"exit code 0"
    assert (path.parent, os.listdir(home.outputs), notices) == (home.outputs, [], [])


async def test_short_outputs_failures_and_lines_that_are_cut_are_seen_whole(home: Home) -> None:
    (home.root / "a.js").write_text("x" * 5000)
    hooks = [AfterToolHook("*", keeps(home, "seen"))]
    await ran(home, hooks, bash("echo ä; exit 3"), call("read", path="a.js"), call("read", path="nothing"))
    assert sorted((given["tool"], given["status"], data) for given, data in kept(home, "seen")) == [
        ("bash", "failed", "ä\nexit code 3".encode()),
        ("read", "done", b"1\t" + b"x" * 5000),
        ("read", "failed", b"`nothing` does not exist: look for it with glob"),
    ]


async def test_what_hooks_say_is_shown_beside_the_output(home: Home) -> None:
    hooks = [
        AfterToolHook("bash(git *)", "echo is never asked"),
        AfterToolHook("bash(echo)", "echo two words"),
        AfterToolHook("bash", ("sh", "-c", 'echo "$0: no" >&2; exit 2', "checker")),
        AfterToolHook("b*", "true"),
    ]
    session, notices = await ran(home, hooks, bash("cd . && echo hello"))
    assert outputs_of(session) == [
        ToolOutput(
            "call-1-1",
            "hello\nexit code 0\n[A hook of the user for `bash(echo)` notes:]\ntwo words\n"
            "[A hook of the user for `bash` objects; take it into account:]\nchecker: no",
            program=ProgramState("exit code 0", 0),
        )
    ]
    assert notices == []


async def test_a_hook_that_fails_costs_a_line_and_not_the_output(home: Home) -> None:
    hooks = [
        AfterToolHook("bash", "echo broken >&2; exit 1"),
        AfterToolHook("bash", "sleep 600", 0.2),
        AfterToolHook("bash", (str(home.root / "nothing"),)),
        AfterToolHook("bash", ("echo", "a\0b")),
        AfterToolHook("bash", 'rm "$(sed \'s/.*"output_path": "\\([^"]*\\)".*/\\1/\')"'),
    ]
    session, notices = await ran(home, hooks, bash("seq 5000"))
    assert [line.removesuffix("; the output is shown without it") for line in notices] == [
        "the hook for `bash` exited with 1: broken",
        "the hook for `bash` was ended after 0.2 s",
        f"the hook for `bash` could not be run: [Errno 2] No such file or directory: '{home.root / 'nothing'}'",
        "the hook for `bash` could not be run: embedded null byte",
    ]
    (output,) = outputs_of(session)
    assert output.text.endswith('ref_id="r1" to read specific portions.\nexit code 0')
    assert len(await home.archive().read("r1")) == 23_893 + len("exit code 0")


async def test_what_was_brought_back_and_what_did_not_run_is_not_seen_again(home: Home) -> None:
    hooks = [AfterToolHook("*", keeps(home, "seen"))]
    await ran(
        home,
        hooks,
        bash("seq 3000"),
        call("read_result", ref_id="r1", lines="1"),
        call("recall", ref_id="r1", lines="1"),
        call("tool_output_cache", ref_id="r1"),
        call("no_such_tool"),
    )
    assert [given["tool"] for given, _ in kept(home, "seen")] == ["bash"]


async def test_a_part_of_what_a_background_job_prints_is_the_part_that_is_shown(home: Home) -> None:
    hooks = [AfterToolHook("bash_output", keeps(home, "seen"))]
    run = call("bash", command="seq 20000; touch done; sleep 600", background=True)
    wait = bash("until [ -e done ]; do sleep 0.01; done")
    await ran(home, hooks, run, wait, call("bash_output", job="job-1"), call("bash_output", job="job-1"))
    (_, first), (_, second) = kept(home, "seen")
    assert first == b"".join(b"%d\n" % number for number in range(1, 20_001))
    assert second == b"no new output\njob-1: still running"


async def test_an_interruption_ends_a_hook_with_all_that_it_started(home: Home) -> None:
    pid = home.root / "pid"
    hooks = [AfterToolHook("bash", "sleep 600 & echo $! > new; mv new pid; wait"), AfterToolHook("bash", "echo never")]
    session = await home.session(
        ScriptedProvider.from_replies(calls(bash("echo hello")), {"text": "done"}), hooks=hooks
    )
    turn = asyncio.create_task(events_of(session))
    await soon(pid.exists)
    session.interrupt()
    events = await turn
    assert [event.text for event in events if isinstance(event, ToolFinished)] == ["hello\nexit code 0"]
    assert events[-1] == TurnFinished("interrupted", "")
    await soon(lambda: not is_running(pid))
    assert os.listdir(home.outputs) == []


async def test_a_hook_gets_no_secret_of_the_environment(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-1234567890123456")
    session, _ = await ran(home, [AfterToolHook("bash", 'echo "key:$ANTHROPIC_API_KEY"')], bash("true"))
    assert outputs_of(session)[0].text.endswith("notes:]\nkey:")


async def test_where_the_output_cannot_be_laid_down_it_goes_on(home: Home) -> None:
    home.outputs.write_text("a file in the place of the folder")
    session, notices = await ran(home, [AfterToolHook("glob", "echo never")], call("glob", pattern="*"))
    (line,) = notices
    assert line.startswith("the hook for `glob` could not be run: the output could not be written to a file: ")
    assert outputs_of(session)[0].status == "done"


async def test_both_kinds_of_hooks_see_one_output_these_first(project: HookProject) -> None:
    project.write(
        "ebb/config/config.toml",
        '[[hooks.after_tool]]\nmatch = "write(a.py)"\ncommand = "cat > first; echo 2 >> a.py; echo seen"\n'
        '[[hooks.after_tool]]\nmatch = "write(b.py)"\ncommand = "echo never"\n',
        of_user=True,
    )
    project.settings(PostToolUse=[("Write", "cat > second; cat a.* >&2; exit 2")])
    project.script(calls(call("write", path="a.py", content="1\n")), {"text": "done"})
    done = await project.run()
    first, second = (json.loads((project.root / name).read_text()) for name in ("first", "second"))
    assert (first["session"], second["session_id"]) == (done.id, done.id)
    assert (first["output_path"], first["bytes"]) == (second["output_path"], second["bytes"])
    ((status, text),) = done.outputs
    assert (status, text.split("\n", 1)[1]) == (
        "done",
        "[A hook of the user for `write` has changed what it wrote:]\n`a.py`, line 2\n"
        "[A hook of the user for `write(a.py)` notes:]\nseen\n"
        "[A hook of the user for `write` objects; take it into account:]\n1\n2",
    )
    assert done.told == []


def shown_and_told(answer: ChildResult, seconds: float) -> tuple[list[str], tuple[str, ...]]:
    """What the model is shown of an answer, and the lines that the user is told."""
    found = parse_answer("after_tool", "the hook for `bash`", answer, seconds)
    return list(feedback_lines("bash", found)), found.problems


@pytest.mark.parametrize(
    ("answer", "note", "notice"),
    [
        (ChildResult(0, b"", b"debug"), "", ""),
        (ChildResult(0, b" \n", b""), "", ""),
        (ChildResult(0, b"\x1b[31m3 warnings\x1b[0m\n", b""), "[A hook of the user for `bash` notes:]\n3 warnings", ""),
        (ChildResult(0, b'{"decision": "block"}', b""),
         '[A hook of the user for `bash` notes:]\n{"decision": "block"}', ""),
        (ChildResult(2, b"ignored", b"no tests ran\n"),
         "[A hook of the user for `bash` objects; take it into account:]\nno tests ran", ""),
        (ChildResult(2, b"", b""), "", "the hook for `bash` exited with 2; the output is shown without it"),
        (ChildResult(1, b"x", b"Traceback\nmore"), "",
         "the hook for `bash` exited with 1: Traceback; the output is shown without it"),
        (ChildResult(-9, b"", b""), "", "the hook for `bash` was killed by signal 9; the output is shown without it"),
        (ChildResult(None, b"x", b""), "", "the hook for `bash` was ended after 9 s; the output is shown without it"),
    ],
)  # fmt: skip
def test_what_the_model_is_shown_and_the_user_is_told(answer: ChildResult, note: str, notice: str) -> None:
    assert shown_and_told(answer, 9) == ([note] if note else [], (notice,) if notice else ())


def test_of_a_long_answer_ten_thousand_characters_are_shown() -> None:
    (note,), _ = shown_and_told(ChildResult(0, "ä".encode() * 10_001, b""), 60)
    assert note == f"[A hook of the user for `bash` notes:]\n{'ä' * 10_000}… [cut]"
    (note,), _ = shown_and_told(ChildResult(0, b"a" * 10_000, b""), 60)
    assert note.endswith("aaa")


def test_a_hook_that_cannot_be_run_is_told_of() -> None:
    assert build_failure_answer("after_tool", "the hook for `bash`", "no such file") == HookAnswer(
        problems=("the hook for `bash` could not be run: no such file; the output is shown without it",)
    )
