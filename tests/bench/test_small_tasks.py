"""The small tasks: none is done before somebody does it, and each is when that is done right."""

import json
import sys
from pathlib import Path

import pytest

from bench.small_tasks import TASK_SETS, SmallTask, load_tasks
from bench.small_tasks.__main__ import EBB_COMMAND, check_failure, command_line, run_task, write_files

TASKS = [task for name in TASK_SETS for task in load_tasks(name)]


def test_there_are_twenty_in_each_set() -> None:
    assert [len(load_tasks(name)) for name in TASK_SETS] == [20, 20]
    assert len({task.name for task in TASKS}) == len(TASKS)


@pytest.mark.parametrize("task", TASKS, ids=[task.name for task in TASKS])
def test_a_task_is_done_when_it_was_done_and_not_before(task: SmallTask, tmp_path: Path) -> None:
    write_files(task.files, tmp_path)
    assert check_failure(task, tmp_path, "I do not know.")
    write_files(task.solution_files, tmp_path)
    assert check_failure(task, tmp_path, task.answer) == ""


def test_a_scripted_model_does_one(tmp_path: Path) -> None:
    (task,) = (task for task in TASKS if task.name == "json_value")
    (path, content), *_ = task.solution_files.items()
    replies = [
        {"calls": [{"name": "read", "arguments": {"path": path}}]},
        {"calls": [{"name": "write", "arguments": {"path": path, "content": content}}]},
        {"text": "Done."},
    ]
    (tmp_path / "script.json").write_text(json.dumps({"reply": replies}))
    ebb = [str(Path(sys.executable).parent / "ebb"), "-p", task.prompt, "--permission-mode", "auto"]
    outcome = run_task(task, [*ebb, "-m", f"scripted/{tmp_path / 'script.json'}"], tmp_path / "task")
    assert (outcome.is_done, outcome.printed) == (True, "Done.\n\n--- told:\n\n--- check: done\n")
    idle = run_task(task, command_line("echo '{model} {prompt}'", task, "m", "u"), tmp_path / "idle")
    assert (idle.is_done, idle.printed.startswith(f"m {task.prompt}\n")) == (False, True)


def test_a_command_has_its_placeholders_filled_as_words() -> None:
    words = command_line(EBB_COMMAND, TASKS[0], "q", "http://127.0.0.1:1/v1")
    assert words[:5] == ["ebb", "-p", TASKS[0].prompt, "-m", "openai-chat/q"]
    assert words[-1] == "providers.openai-chat.base_url=http://127.0.0.1:1/v1"
