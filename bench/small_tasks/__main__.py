"""Counts how many small tasks an agent completes with a model: `python -m bench.small_tasks MODEL URL [--set
first|second]`.

URL is that of an OpenAI-compatible server, such as `http://127.0.0.1:8080/v1`. `--command` runs another agent: a
command line with `{prompt}`, `{model}` and `{url}`, started in the task's folder, that prints its answer. Each task
runs in its own folder and is then checked by a program."""

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

from bench.small_tasks import TASK_SETS, SmallTask, load_tasks

EBB_COMMAND = (
    "ebb -p {prompt} -m openai-chat/{model} --permission-mode auto --quiet "
    "--config providers.openai-chat.base_url={url}"
)
CHECK_TIMEOUT_S = 30
"""Timeout of the check in seconds."""


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    is_done: bool
    seconds: float
    printed: str
    """The agent's answer, and errors of the agent and the check."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.small_tasks", description=__doc__)
    parser.add_argument("model")
    parser.add_argument("url")
    parser.add_argument("--set", choices=TASK_SETS, default=TASK_SETS[0])
    parser.add_argument("--command", default=EBB_COMMAND, help="default: %(default)s")
    parser.add_argument("--only", nargs="*", help="names of tasks")
    parser.add_argument("--time", type=float, default=300, help="seconds for a task; default: %(default)s")
    parser.add_argument("--keep", type=Path, help="folder for the output and the files of each run")
    options = parser.parse_args(arguments)
    tasks = [task for task in load_tasks(options.set) if not options.only or task.name in options.only]
    count = 0
    for task in tasks:
        with tempfile.TemporaryDirectory(prefix="small-task-") as name:
            folder = options.keep / task.name if options.keep else Path(name)
            outcome = run_task(
                task, command_line(options.command, task, options.model, options.url), folder, options.time
            )
        count += outcome.is_done
        print(f"{'done    ' if outcome.is_done else 'not done'}  {outcome.seconds:4.0f} s  {task.name}", flush=True)
    print(f"{count} of {len(tasks)} done")


def command_line(command: str, task: SmallTask, model: str, url: str) -> list[str]:
    """Fill the placeholders of a command line."""
    known = {"{prompt}": task.prompt, "{model}": model, "{url}": url}
    words = shlex.split(command)
    for placeholder, value in known.items():
        words = [word.replace(placeholder, value) for word in words]
    return words


def run_task(task: SmallTask, command: Sequence[str], folder: Path, seconds: float = 300) -> TaskOutcome:
    """Run an agent on a task in a new folder and check the result."""
    work, home = folder / "work", folder / "home"
    for each in (work, home):
        each.mkdir(parents=True)
    write_files(task.files, work)
    environment = {**os.environ, "EBB_HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.setdefault("OPENAI_API_KEY", "none")
    began = time.monotonic()
    answer, errors = _run_agent(command, work, environment, seconds)
    took = time.monotonic() - began
    problem = check_failure(task, work, answer)
    printed = f"{answer}\n--- told:\n{errors}\n--- check: {problem or 'done'}\n"
    (folder / "printed").write_text(printed)
    return TaskOutcome(not problem, took, printed)


def write_files(files: Mapping[str, str], folder: Path) -> None:
    """Write files, and remove those marked `gone`."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True) if text == "gone" else path.write_text(text)


def check_failure(task: SmallTask, folder: Path, answer: str) -> str:
    """Return why the task is not done; empty if it is done."""
    program = f"import sys; sys.path.insert(0, '.'); answer = sys.stdin.read()\n{task.check}\n"
    try:
        done = subprocess.run(
            [sys.executable, "-B", "-c", program],
            cwd=folder, input=answer, capture_output=True, text=True, timeout=CHECK_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "the check took too long"
    return "" if done.returncode == 0 else done.stderr.strip() or "the check failed"


def _run_agent(command: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float) -> tuple[str, str]:
    """Return a command's output and errors; after `seconds` it is killed with all its child processes."""
    process = subprocess.Popen(
        command,
        cwd=folder, env=environment, text=True, errors="replace", process_group=0,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        answer, errors = process.communicate()
        return answer, f"{errors}\nended after {seconds:.0f} s"


if __name__ == "__main__":
    main(sys.argv[1:])
