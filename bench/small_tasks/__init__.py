"""Small tasks for small models: what is to be done in a folder of one to four files, and a program that tells whether
it is. `python -m bench.small_tasks` has an agent do them."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SETS = ("first", "second")
"""Twenty tasks each. Whoever works on what a model is told reads what it did with the first and counts with the
second."""


@dataclass(frozen=True, slots=True)
class SmallTask:
    name: str
    prompt: str
    check: str
    """A Python program, run in the folder, that fails while the task is not done. `answer` is what the agent said."""
    files: Mapping[str, str]
    done: Mapping[str, str]
    """Files as a right solution leaves them; one that it takes away has the text `gone`."""
    answer: str
    """A right answer, where the task is a question."""


def tasks_of(name: str) -> tuple[SmallTask, ...]:
    """The tasks of a set."""
    table = tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text("utf-8"))
    return tuple(
        SmallTask(key, task["prompt"], task["check"], task["files"], task.get("done", {}), task.get("answer", "Done."))
        for key, task in table.items()
    )
