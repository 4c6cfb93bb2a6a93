"""Small tasks for small models: a task in a folder of one to four files, and a program that checks the result. `python
-m bench.small_tasks` runs an agent on them."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TASK_SETS = ("first", "second")
"""Names of the sets, with twenty tasks each. Use the first set to improve prompts and the second to measure."""


@dataclass(frozen=True, slots=True)
class SmallTask:
    name: str
    prompt: str
    check: str
    """A Python program, run in the folder, that fails unless the task is done. `answer` is the agent's answer."""
    files: Mapping[str, str]
    solution_files: Mapping[str, str]
    """Files of a correct solution. The text `gone` marks a file that must be removed."""
    answer: str
    """A correct answer, if the task is a question."""


def load_tasks(name: str) -> tuple[SmallTask, ...]:
    """Return the tasks of a set."""
    table = tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text("utf-8"))
    return tuple(
        SmallTask(key, task["prompt"], task["check"], task["files"], task.get("done", {}), task.get("answer", "Done."))
        for key, task in table.items()
    )
