"""`ebb batch`: arguments and output."""

import argparse
import asyncio
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path

from ebbtide.agent.crash import log_stray_errors
from ebbtide.agent.errors import UsageError
from ebbtide.agent.headless.batch.batch import Batch, BatchResult
from ebbtide.agent.headless.batch.journal import BatchJournal, open_journal
from ebbtide.agent.headless.batch.tasks import BatchTask, read_tasks
from ebbtide.agent.headless.batch.worktrees import BatchWorktrees
from ebbtide.agent.headless.json_line import print_json
from ebbtide.agent.sessions import Sessions
from ebbtide.tools.files.bounded import beginning_of
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.cli.arguments import (
    decimal_number,
    parse_subcommand_args,
    parser_of,
    read_settings,
    read_settings_with_warnings,
    sessions_of,
    whole_number,
)
from ebbtide.tui.cli.batch_progress import progress_on
from ebbtide.tui.cli.headless import seconds
from ebbtide.tui.text.sanitise import sanitised, sanitised_line

JOBS = 4
MAX_JOBS = 256
"""Each job has a store thread and some open files."""
MAX_TASK_FILE_BYTES = 1 << 30
"""Maximum bytes of a task file."""
MAX_NAMED_PROBLEMS = 20
"""Maximum invalid lines that are listed."""


def run(arguments: Sequence[str]) -> int:
    """Run `ebb batch FILE`; return the exit code. Raises `AgentError`."""
    parser = parser_of(
        "batch",
        "Does the tasks of a file, a JSON object a line with `prompt` and, if you like, `id`, `model`, `cwd`, "
        "`permission_mode`, `allow`, `deny`, `add_dir`, `max_turns`, `max_time`, `max_cost`, `config` and "
        "`output_schema`. Each result is a line of another file. Run it again after it was stopped or killed, and it "
        "goes on: each task is done once.",
        "What is given here holds for all tasks; a task's own model, mode and limits come before it, its rules and "
        "settings are added.",
    )
    parser.add_argument("file", help="the tasks; `-` reads them from stdin")
    results = "where the results are; without it, beside the tasks: `tasks.results.jsonl`"
    parser.add_argument("-o", "--output", metavar="FILE", help=results)
    parser.add_argument("-j", "--jobs", type=_jobs, default=JOBS, metavar="N", help=f"tasks at a time ({JOBS})")
    total = "dollars of all tasks after which no request is made"
    parser.add_argument("--max-cost", type=decimal_number, metavar="USD", help=total)
    parser.add_argument("--max-turns", type=whole_number, metavar="N", help="requests that each task may make")
    parser.add_argument("--max-time", metavar="SECONDS", help="seconds after which a task is stopped")
    apart = "do each task in a git work tree of its own; its changes are a branch and a diff in the result"
    parser.add_argument("--worktree", action="store_true", help=apart)
    again = "go on with the tasks that ended with another exit code than 0"
    parser.add_argument("--retry-failed", action="store_true", help=again)
    parser.add_argument("--permission-mode", choices=("ask", "accept-edits", "plan", "auto"), help="what may run")
    parser.add_argument("--allow", action="append", metavar="RULE", help="let calls run, such as 'bash(git status)'")
    parser.add_argument("--deny", action="append", metavar="RULE", help="never let calls run, such as 'write(.env)'")
    parser.add_argument("--add-dir", action="append", metavar="DIR", help="work in this folder, too")
    parser.add_argument("--no-sandbox", action="store_true", help="run commands outside the sandbox")
    parser.add_argument("--trust", action="store_true", help="have the servers that projects declare, unasked")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    root, config = read_settings_with_warnings(options)
    output, max_time = _output(options), seconds(options.max_time)
    tasks = _tasks(options)
    log_stray_errors(config.folders.logs)
    with open_journal(output) as journal:
        _refuse_changed(tasks, journal, retries=options.retry_failed)
        failed = [id for id, result in journal.results.items() if result["exit_code"] != 0]
        if options.retry_failed and failed:
            journal.reopen(*failed)
        left = sum(task.id not in journal.results for task in tasks)
        with progress_on(sys.stderr, len(tasks), len(tasks) - left) as progress:
            store = sessions_of(root, config, options, interactive=False)
            batch = Batch(
                tasks,
                journal,
                partial(_sessions, options),
                store,
                progress,
                options.jobs,
                options.max_cost,
                BatchWorktrees(config.folders.worktrees, config.folders.data) if options.worktree else None,
                max_time,
            )
            result = asyncio.run(batch.run())
    _print(result, output, options, arguments)
    return result.exit_code


def _jobs(word: str) -> int:
    number = whole_number(word)
    if not 0 < number <= MAX_JOBS:
        raise argparse.ArgumentTypeError(f"it must be a number from 1 to {MAX_JOBS}")
    return number


def _output(options: argparse.Namespace) -> Path:
    if options.output is None and options.file == "-":
        raise UsageError("where are the results to be? With tasks from stdin, give a file with `--output`")
    path = Path(options.output or Path(options.file).with_suffix(".results.jsonl"))
    if options.file != "-" and path.resolve() == Path(options.file).resolve():
        raise UsageError(f"the results cannot be where the tasks are, in `{path}`; give another file with `--output`")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder `{path.parent}` for the results; make it, or give another file")
    return path


def _tasks(options: argparse.Namespace) -> Sequence[BatchTask]:
    """Read the tasks. Raises `UsageError`, which lists the invalid lines."""
    name = "standard input" if options.file == "-" else f"`{options.file}`"
    try:
        content = (
            sys.stdin.buffer.read(MAX_TASK_FILE_BYTES + 1)
            if options.file == "-"
            else beginning_of(options.file, MAX_TASK_FILE_BYTES + 1)
        )
    except OSError as error:
        raise UsageError(f"cannot read the tasks in {name}: {error.strerror or error}") from error
    if len(content) > MAX_TASK_FILE_BYTES:
        raise UsageError(f"the tasks in {name} are more than {MAX_TASK_FILE_BYTES >> 20:,} MB; split the file")
    tasks, problems = read_tasks(content)
    found = {task.settings: _problem(options, task) for task in {task.settings: task for task in tasks}.values()}
    problems = [*problems, *(f"line {task.line}: {found[task.settings]}" for task in tasks if found[task.settings])]
    if problems:
        more = len(problems) - MAX_NAMED_PROBLEMS
        told = [*problems[:MAX_NAMED_PROBLEMS], *([f"and {pluralize(more, 'line')} more"] if more > 0 else [])]
        listed = "\n".join(f"  {line}" for line in told)
        raise UsageError(f"{pluralize(len(problems), 'task')} in {name} cannot be done, so none was begun:\n{listed}")
    if not tasks:
        raise UsageError(f'there are no tasks in {name}; write one a line, such as {{"prompt": "fix the tests"}}')
    return tasks


def _problem(options: argparse.Namespace, task: BatchTask) -> str:
    """Why the settings of a task are invalid; empty if they are valid."""
    try:
        read_settings(_task_options(options, task))
    except UsageError as error:
        return str(error)
    return ""


def _task_options(options: argparse.Namespace, task: BatchTask) -> argparse.Namespace:
    """The options for one task; its own values override the flags."""
    said = dict(task.options)
    folder, _ = said.pop("cwd", ""), said.pop("max_time", None)
    added: dict[str, object] = {
        name: [*(getattr(options, name) or ()), *said.pop(name)]
        for name in ("allow", "deny", "add_dir", "config")
        if name in said
    }
    limits = [limit for limit in (options.max_cost, said.pop("max_cost", None)) if limit is not None]
    own: dict[str, object] = {
        **said,
        **added,
        "max_cost": min(limits, default=None),
        "cd": os.path.join(options.cd, folder),
    }
    return argparse.Namespace(**{**vars(options), **own})


def _sessions(options: argparse.Namespace, task: BatchTask, folder: Path | None) -> Sessions:
    told = _task_options(options, task)
    told.cd = told.cd if folder is None else str(folder)
    return sessions_of(*read_settings(told), told, interactive=False)


def _refuse_changed(tasks: Sequence[BatchTask], journal: BatchJournal, *, retries: bool) -> None:
    """Raises `UsageError` if a different task with the same id is already done."""
    for task in tasks:
        result, begun = journal.results.get(task.id), journal.begun.get(task.id)
        is_kept = result is not None and not (retries and result["exit_code"] != 0)
        if is_kept and begun is not None and begun.digest != task.digest:
            raise UsageError(
                f"line {task.line}: another task with the id `{task.id}` is done already, in `{journal.output}`; give "
                "this one an id of its own, or another file with `--output`"
            )


def _print(result: BatchResult, output: Path, options: argparse.Namespace, arguments: Sequence[str]) -> None:
    if options.json:
        print_json(sys.stdout, {**asdict(result), "output": str(output)})
        return
    cost = f", {result.cost:.2f} USD" if result.cost else ""
    failed = f", {result.failed} failed" if result.failed else ""
    done = f"{result.answered} of {pluralize(result.tasks, 'task')} answered{failed}{cost}"
    print(f"{done}; results: {sanitised_line(str(output))}")
    again = sanitised_line(shlex.join(["ebb", "batch", *arguments]))
    if result.left:
        why = {"interrupted": "interrupted", "cost_limit": "stopped at `--max-cost`"}.get(result.end, "stopped")
        said = f": {sanitised(result.message)}" if result.message else ""
        raised = "with a higher `--max-cost`, " if result.end == "cost_limit" else ""
        with suppress(OSError):
            print(
                f"ebb: {why}, {pluralize(result.left, 'task')} left{said}\nebb: go on with {raised}`{again}`",
                file=sys.stderr,
            )
    elif result.failed:
        print(f"ebb: `{again} --retry-failed` goes on with those that failed", file=sys.stderr)
