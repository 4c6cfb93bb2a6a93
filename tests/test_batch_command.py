"""`ebb batch` as scripts see it: tasks in, results out, each once whatever ends the process."""

import json
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.messages import Usage
from tests.kit.commands import Run, command, environment
from tests.kit.fake_provider import Call, FakeProvider, Turn
from tests.kit.pty_terminal import running
from tests.kit.session import bash, calls
from tests.kit.user import User

HAIKU = "anthropic/claude-haiku-5-5"


def file_of(user: User, *tasks: object) -> str:
    path = user.home / "tasks.jsonl"
    path.write_text("".join(f"{task if isinstance(task, str) else json.dumps(task)}\n" for task in tasks))
    return str(path)


def results(user: User) -> list[dict[str, Any]]:
    path = user.home / "tasks.results.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def batch(user: User, *flags: str, **more: Any) -> Run:
    return user.ebb("batch", str(user.home / "tasks.jsonl"), *flags, **more)


def said(user: User, session: str) -> list[str]:
    """What the user has said in a session, by its parts' texts."""
    lines = user.ebb("sessions", "show", session, "--json").lines
    return [
        part["text"] for line in lines for part in line["parts"] if line["role"] == "user" and part["type"] == "text"
    ]


def begun(user: User, *flags: str) -> "subprocess.Popen[str]":
    """A batch that runs."""
    return subprocess.Popen(
        command("-C", str(user.project), "batch", str(user.home / "tasks.jsonl"), *flags),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(user.home),
    )  # fmt: skip


def wait_for(path: Path, size: int, process: "subprocess.Popen[str]") -> None:
    """Returns when a file is that large, or the process has ended."""
    while process.poll() is None and not (path.exists() and path.stat().st_size >= size):
        time.sleep(0.001)


def test_each_task_has_a_result_with_the_session_in_which_it_was_done(user: User) -> None:
    file_of(user, {"id": "a", "prompt": "one"}, "", {"prompt": "two"})
    run = batch(user, "-m", user.script({"text": "Done."}))
    assert (run.code, run.out) == (0, f"2 of 2 tasks answered; results: {user.home}/tasks.results.jsonl\n")
    found = {result["id"]: result for result in results(user)}
    assert sorted(found, key=str) == [3, "a"]
    assert {(result["result"], result["stop_reason"], result["exit_code"]) for result in found.values()} == {
        ("Done.", "answered", 0)
    }
    assert (said(user, found["a"]["session"]), said(user, found[3]["session"])) == (["one"], ["two"])
    lines = sorted(line.split("]")[1].split("  ")[:2] for line in run.err.splitlines())
    assert lines == [[" 3", "answered"], [" a", "answered"]]

    again = batch(user, "-m", user.script(), "--json")
    assert again.err == "ebb: already done: 2 of 2\n"
    assert again.result == {
        "end": "done", "tasks": 2, "answered": 2, "failed": 0, "left": 0, "cost": 0.0, "message": "", "exit_code": 0,
        "output": f"{user.home}/tasks.results.jsonl",
    }  # fmt: skip
    assert len(user.ebb("sessions", "list", "--json").lines) == 2


def test_a_task_has_options_of_its_own(user: User) -> None:
    (user.project / "sub").mkdir()
    write = calls({"name": "write", "arguments": {"path": "a.txt", "content": "hi"}})
    script = user.script(write, {"text": '{"ok": true}'})
    (user.home / "slow.json").write_text('{"reply": [{"text": "one two", "pause_between": 60}]}')
    slow = f"scripted/{user.home / 'slow.json'}"
    schema = {"type": "object", "required": ["ok"]}
    file_of(
        user,
        {"id": "may", "prompt": "go", "model": script, "cwd": "sub", "allow": ["write"], "output_schema": schema},
        {"id": "may not", "prompt": "go", "model": script, "permission_mode": "ask"},
        {"id": "slow", "prompt": "go", "model": slow, "max_time": 0.5},
        {"id": "short", "prompt": "go", "model": script, "max_turns": 1, "config": ["agent.permission_mode=plan"]},
    )
    run = batch(user, "--permission-mode", "auto", "--deny", "write(b.txt)")
    assert run.code == 1
    ended = {result["id"]: (result["stop_reason"], result["exit_code"]) for result in results(user)}
    assert ended == {
        "may": ("answered", 0),
        "may not": ("denied", 5),
        "slow": ("time_limit", 6),
        "short": ("step_limit", 6),
    }
    assert (user.project / "sub" / "a.txt").read_text() == "hi"
    assert not (user.project / "a.txt").exists()


def test_lines_that_are_wrong_are_named_before_anything_is_begun(user: User) -> None:
    file_of(user, {"prompt": "fine"}, "{", {"prompt": "x", "cwd": "nowhere"}, {"prompt": "x", "config": ["agent.x=1"]})
    run = batch(user, "-m", user.script({"text": "Done."}))
    assert (run.code, run.out) == (2, "")
    head, *lines = run.err.splitlines()
    assert head == f"ebb: 3 tasks in `{user.home}/tasks.jsonl` cannot run, so the batch did not start:"
    assert [line.split(":")[0] for line in lines] == ["  line 2", "  line 3", "  line 4"]
    assert "no such folder" in lines[1]
    assert not (user.home / "tasks.results.jsonl").exists()
    assert not user.data.exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("none.jsonl",), "cannot read the tasks in `none.jsonl`: No such file or directory"),
        (("-",), "give one with `--output`"),
        (("TASKS", "-o", "TASKS"), "the results would overwrite the tasks"),
        (("TASKS", "-o", "none/out"), "no such folder for the results: `none`"),
        (("TASKS", "--jobs", "0"), "expected a number from 1 to 256, got 0"),
        ((".",), "`.` is not a task file; give its name"),
        (("",), "`` is not a task file; give its name"),
        (("/dev/null",), "cannot read the tasks in `/dev/null`"),
        (("TASKS", "--max-cost", "0"), "above 0"),
    ],
)
def test_a_command_line_that_cannot_be_exits_with_2(user: User, arguments: tuple[str, ...], says: str) -> None:
    tasks = file_of(user, {"prompt": "x"})
    run = user.ebb("batch", *(tasks if word == "TASKS" else word for word in arguments), "-m", user.script(), stdin="")
    assert (run.code, run.out) == (2, "")
    assert says in run.err
    assert "Traceback" not in run.err


def test_a_task_that_fails_is_a_result_and_goes_on_when_it_is_wanted(user: User) -> None:
    file_of(user, {"id": "bad", "prompt": "x", "model": "scripted/none.json"}, {"id": "cut", "prompt": "y"})
    script = user.script({"error": "bad_request"})
    run = batch(user, "-m", script)
    assert (run.code, run.out.split(";")[0]) == (1, "0 of 2 tasks answered, 2 failed")
    assert run.err.splitlines()[-1].endswith("--retry-failed`")
    first = {result["id"]: result for result in results(user)}
    assert {id: result["error"]["code"] for id, result in first.items()} == {"bad": "config", "cut": "bad_request"}

    file_of(user, {"id": "bad", "prompt": "x"}, {"id": "cut", "prompt": "y"})
    run = batch(user, "-m", user.script({"text": "Done."}))
    assert "already has the result of a different task with the id `bad`" in run.err
    run = batch(user, "-m", user.script({"text": "Done."}), "--retry-failed")
    assert run.code == 0
    second = {result["id"]: result for result in results(user)}
    assert [result["result"] for result in second.values()] == ["Done.", "Done."]
    assert second["cut"]["session"] == first["cut"]["session"]
    assert said(user, second["cut"]["session"])[0] == "y"


def test_what_would_fail_in_every_task_stops_the_batch(user: User) -> None:
    file_of(user, *({"id": n, "prompt": "x"} for n in range(5)))
    run = batch(user, "-m", user.script({"error": "auth"}), "--jobs", "1")
    assert (run.code, run.out.split(";")[0]) == (4, "0 of 5 tasks answered")
    assert "stopped, 5 tasks left: " in run.err
    assert results(user) == []
    assert batch(user, "-m", user.script({"text": "Done."})).code == 0
    assert len(user.ebb("sessions", "list", "--json").lines) == 5


def test_the_budget_is_one_of_all_tasks_and_of_all_runs(user: User) -> None:
    file_of(user, *({"id": n, "prompt": "x"} for n in range(6)))
    dear = Usage(input=1_000_000)
    works = Turn(calls=(Call("todo", {"items": []}),), usage=Usage(input=1000))
    turns = [works, *[Turn(text="Done.", usage=dear)] * 9]
    with FakeProvider(turns) as server:
        env = server.environment
        one = batch(user, "-m", HAIKU, "--jobs", "1", "--max-cost", "0.0001", "--json", env=env)
        assert (one.code, one.result["end"], one.result["left"], results(user)) == (6, "cost_limit", 6, [])
        assert len(server.requests) == 1
        two = batch(user, "-m", HAIKU, "--jobs", "1", "--max-cost", "1.5", "--json", env=env)
    spent = [result["usage"]["cost"] for result in results(user)]
    assert (two.code, two.result["end"]) == (6, "cost_limit")
    assert sum(spent[:-1]) < 1.5 <= sum(spent)
    assert two.result["cost"] == pytest.approx(sum(spent))
    assert two.result["left"] == 6 - len(spent) > 0


def test_an_interrupted_batch_ends_in_order_and_goes_on(user: User) -> None:
    file_of(user, *({"id": n, "prompt": f"task {n}"} for n in range(3)))
    script = user.script({"text": "one two three", "pause_between": 200})
    process = begun(user, "-m", script, "--jobs", "2")
    wait_for(user.home / "tasks.results.jsonl.journal", 1, process)
    while len(user.ebb("sessions", "list", "--json").lines) < 2:
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out.split(";")[0]) == (130, "0 of 3 tasks answered"), err
    assert err.splitlines()[-2] == "ebb: interrupted, 3 tasks left"
    assert err.splitlines()[-1].startswith("ebb: to continue, run `ebb batch ")
    run = batch(user, "-m", user.script({"text": "Done."}))
    assert run.code == 0
    assert [result["result"] for result in results(user)] == ["Done."] * 3
    first = [said(user, result["session"])[0] for result in sorted(results(user), key=lambda each: each["id"])]
    assert first == ["task 0", "task 1", "task 2"]
    assert len(user.ebb("sessions", "list", "--json").lines) == 3


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_moment_and_run_again_each_task_is_done_once(user: User, seed: int) -> None:
    """Each task asks for a command that leaves a mark; the answer follows, or follows what is said of the kill."""
    chance, names = random.Random(seed), [f"t{n}" for n in range(16)]
    for name in names:
        (user.project / name).mkdir()
    file_of(user, *({"id": name, "prompt": "leave a mark", "cwd": name} for name in names))
    mark = {"when": "leave a mark", **calls(bash("echo x >> mark"))}
    flags = ("-m", user.script(mark, {"text": "Done."}), "--jobs", "3", "--permission-mode", "auto")
    journal, size, kills = user.home / "tasks.results.jsonl.journal", 0, 0
    while True:
        process = begun(user, *flags)
        size = chance.randint(size, size + 700)
        wait_for(journal, size, process)
        time.sleep(chance.uniform(0, 0.05))  # the moment of the kill, whatever happens then
        process.kill()
        _, err = process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, err
        kills += 1
    assert kills > 1
    assert batch(user, *flags).code == 0
    found = results(user)
    assert Counter(result["id"] for result in found) == Counter(names)
    assert {(result["stop_reason"], result["result"]) for result in found} == {("answered", "Done.")}
    assert user.query("select count(*) from sessions") == [(len(names),)]
    for result in found:
        assert said(user, result["session"]).count("leave a mark") == 1
    marks = [(user.project / name / "mark") for name in names]
    assert {mark.read_text() for mark in marks if mark.exists()} == {"x\n"}


def test_an_answer_that_was_there_already_is_not_asked_for_again(user: User) -> None:
    file_of(user, {"id": "a", "prompt": "x"})
    assert batch(user, "-m", user.script({"text": "The answer."})).code == 0
    (first,) = results(user)
    (user.home / "tasks.results.jsonl").write_text(json.dumps(first)[:20])
    assert batch(user, "-m", user.script()).code == 0
    (again,) = results(user)
    assert (again["result"], again["steps"], again["usage"]) == ("The answer.", 0, first["usage"])
    assert said(user, again["session"]) == ["x"]


def test_a_session_that_is_open_elsewhere_is_left_for_another_time(user: User) -> None:
    file_of(user, {"id": "a", "prompt": "x"}, {"id": "b", "prompt": "y"})
    assert batch(user, "-m", user.script({"error": "bad_request"})).code == 1
    open_session = next(result["session"] for result in results(user) if result["id"] == "a")
    script = user.script({"text": "one two three", "pause_between": 200})
    other = user.begin("-p", "z", "-r", open_session, "-m", script, "--output-format", "stream-json")
    assert other.stdout is not None
    with other.stdout:
        other.stdout.readline()
        run = batch(user, "-m", user.script({"text": "Done."}), "--retry-failed", "--json")
        assert (run.code, run.result["end"], run.result["answered"], run.result["left"]) == (1, "stopped", 1, 1)
        assert "in use" in run.result["message"] or "open" in run.result["message"]
        other.kill()
    other.wait()
    assert batch(user, "-m", user.script({"text": "Done."})).code == 0


def test_a_terminal_is_shown_how_far_it_is(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('{"id": "slow", "prompt": "x"}\n{"id": "bad", "prompt": "x", "model": "scripted/none.json"}\n')
    replies = '[[reply]]\ntext = "one two three four five"\npause_between = 0.4'
    with running(tmp_path, replies, flags=("batch", str(tasks)), columns=120) as terminal:
        terminal.until("1 of 2, 1 running, 1 failed")
        terminal.until("  slow  started")
        terminal.until("1 of 2 tasks answered, 1 failed; results: ")
        terminal.until_it_ends()
        assert "running" not in terminal.text
        assert terminal.child.exitstatus == 1
