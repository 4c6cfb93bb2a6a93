"""How many small tasks an agent does with a model: `python -m bench.small_tasks MODEL URL [--set first|second]`.

URL is that of a server with the API of OpenAI, such as `http://127.0.0.1:8080/v1`. Another agent runs with `--command`,
a command line with `{prompt}`, `{model}` and `{url}` in it; it is started in the folder of the task and prints its
answer. Each task is done in a folder of its own and then checked by a program."""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.small_tasks import SETS, SmallTask, tasks_of

OURS = (
    "ebb -p {prompt} -m openai-chat/{model} --permission-mode auto --quiet "
    "--config providers.openai-chat.base_url={url}"
)
CHECKED_WITHIN = 30
"""Seconds for the program that checks."""


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    is_done: bool
    seconds: float
    printed: str
    """What the agent said, and what it and the check had to complain of."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.small_tasks", description=__doc__)
    parser.add_argument("model")
    parser.add_argument("url")
    parser.add_argument("--set", choices=SETS, default=SETS[0])
    parser.add_argument("--command", default=OURS, help="default: %(default)s")
    parser.add_argument("--only", nargs="*", help="names of tasks")
    parser.add_argument("--time", type=float, default=300, help="seconds for a task; default: %(default)s")
    parser.add_argument("--keep", type=Path, help="a folder that gets what each run printed, and its files")
    said = parser.parse_args(arguments)
    tasks = [task for task in tasks_of(said.set) if not said.only or task.name in said.only]
    count = 0
    for task in tasks:
        with tempfile.TemporaryDirectory(prefix="small-task-") as name:
            folder = said.keep / task.name if said.keep else Path(name)
            outcome = run_task(task, command_line(said.command, task, said.model, said.url), folder, said.time)
        count += outcome.is_done
        print(f"{'done    ' if outcome.is_done else 'not done'}  {outcome.seconds:4.0f} s  {task.name}", flush=True)
    print(f"{count} of {len(tasks)} done")


def command_line(command: str, task: SmallTask, model: str, url: str) -> list[str]:
    """The words of a command, with what is known of the task in the place of its placeholders."""
    known = {"{prompt}": task.prompt, "{model}": model, "{url}": url}
    words = shlex.split(command)
    for placeholder, value in known.items():
        words = [word.replace(placeholder, value) for word in words]
    return words


def run_task(task: SmallTask, command: Sequence[str], folder: Path, seconds: float = 300) -> TaskOutcome:
    """Whether an agent that is started so has done the task, in a folder that is made for it."""
    work, home = folder / "work", folder / "home"
    for each in (work, home):
        each.mkdir(parents=True)
    write_files(task.files, work)
    environment = {**os.environ, "EBB_HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.setdefault("OPENAI_API_KEY", "none")
    began = time.monotonic()
    answer, told = _output_of(command, work, environment, seconds)
    took = time.monotonic() - began
    problem = unmet(task, work, answer)
    printed = f"{answer}\n--- told:\n{told}\n--- check: {problem or 'done'}\n"
    (folder / "printed").write_text(printed)
    return TaskOutcome(not problem, took, printed)


def write_files(files: Mapping[str, str], folder: Path) -> None:
    """Writes files, and takes away those that are to be gone."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True) if text == "gone" else path.write_text(text)


def unmet(task: SmallTask, folder: Path, answer: str) -> str:
    """Why the task is not done; empty where it is."""
    program = f"import sys; sys.path.insert(0, '.'); answer = sys.stdin.read()\n{task.check}\n"
    try:
        done = subprocess.run(
            [sys.executable, "-B", "-c", program],
            cwd=folder, input=answer, capture_output=True, text=True, timeout=CHECKED_WITHIN, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "the check took too long"
    return "" if done.returncode == 0 else done.stderr.strip() or "the check failed"


def _output_of(command: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float) -> tuple[str, str]:
    """What a command prints to its output and its errors in so many seconds; then it is ended with all it has begun."""
    process = subprocess.Popen(
        command,
        cwd=folder, env=environment, text=True, errors="replace", process_group=0,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        answer, told = process.communicate()
        return answer, f"{told}\nended after {seconds:.0f} s"


if __name__ == "__main__":
    main(sys.argv[1:])
