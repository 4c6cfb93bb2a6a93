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

from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.config.options import PERMISSION_MODES
from ebbtide.agent.errors import UsageError
from ebbtide.agent.headless.printing import print_json
from ebbtide.agent.integrations.batch.batch import Batch, BatchResult
from ebbtide.agent.integrations.batch.journal import BatchJournal, open_journal
from ebbtide.agent.integrations.batch.tasks import BatchTask, read_tasks
from ebbtide.agent.integrations.batch.worktrees import BatchWorktrees
from ebbtide.agent.logs.crash_reports import install_crash_handlers
from ebbtide.tools.files.bounded import read_prefix
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.cli.arguments import (
    create_sessions,
    create_subcommand_parser,
    parse_integer,
    parse_number,
    parse_subcommand_args,
    read_settings,
    read_settings_with_warnings,
)
from ebbtide.tui.cli.headless import parse_seconds
from ebbtide.tui.integrations.batch.progress import show_progress
from ebbtide.tui.text.sanitise import sanitise, sanitise_line

DEFAULT_JOBS = 4
MAX_JOBS = 256
"""Maximum number of parallel jobs. Each one needs a store thread and some open files."""
MAX_TASK_FILE_BYTES = 1 << 30
"""Maximum size of a task file in bytes."""
MAX_LISTED_PROBLEMS = 20
"""Maximum number of invalid lines listed."""


def run(arguments: Sequence[str]) -> int:
    """Run `ebb batch FILE`; return the exit code. Raises `AgentError`."""
    parser = create_subcommand_parser(
        "batch",
        "Run the tasks in a file, one JSON object per line. Each has a `prompt` and optionally `id`, `model`, `cwd`, "
        "`permission_mode`, `allow`, `deny`, `add_dir`, `max_turns`, `max_time`, `max_cost`, `config` and "
        "`output_schema`. Each result is written as one line to another file. If the batch is stopped or killed, run "
        "the same command again to continue: finished tasks are not repeated.",
        "The options apply to all tasks. A task's own model, mode and limits override them; its rules and settings are "
        "added.",
    )
    parser.add_argument("file", help="file with the tasks; `-` reads stdin")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="file for the results; by default next to the tasks: `tasks.results.jsonl`",
    )
    parser.add_argument(
        "-j",
        "--jobs",
        type=_parse_job_count,
        default=DEFAULT_JOBS,
        metavar="N",
        help=f"run N tasks at a time (default: {DEFAULT_JOBS})",
    )
    parser.add_argument(
        "--max-cost", type=parse_number, metavar="USD", help="stop when all tasks together have cost USD"
    )
    parser.add_argument("--max-turns", type=parse_integer, metavar="N", help="stop a task after N model requests")
    parser.add_argument("--max-time", metavar="SECONDS", help="stop a task after SECONDS")
    parser.add_argument(
        "--worktree",
        action="store_true",
        help="run each task in its own git worktree; its changes become a branch, and a diff in the result",
    )
    parser.add_argument("--retry-failed", action="store_true", help="rerun tasks whose exit code was not 0")
    parser.add_argument("--permission-mode", choices=PERMISSION_MODES, help="what may run without asking")
    parser.add_argument(
        "--allow", action="append", metavar="RULE", help="always allow matching calls, e.g. 'bash(git status)'"
    )
    parser.add_argument(
        "--deny", action="append", metavar="RULE", help="never allow matching calls, e.g. 'write(.env)'"
    )
    parser.add_argument("--add-dir", action="append", metavar="DIR", help="also allow work in this folder (repeatable)")
    parser.add_argument("--no-sandbox", action="store_true", help="run commands outside the sandbox")
    parser.add_argument("--trust", action="store_true", help="start the projects' MCP servers without asking")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    root, config = read_settings_with_warnings(options)
    output, max_time = _output_path(options), parse_seconds(options.max_time)
    tasks = _read_tasks(options)
    install_crash_handlers(config.folders.logs)
    with open_journal(output) as journal:
        _check_unchanged_tasks(tasks, journal, retry_failed=options.retry_failed)
        failed_ids = [task_id for task_id, result in journal.results.items() if result["exit_code"] != 0]
        if options.retry_failed and failed_ids:
            journal.remove_results(*failed_ids)
        remaining_count = sum(task.id not in journal.results for task in tasks)
        with show_progress(sys.stderr, len(tasks), len(tasks) - remaining_count) as progress:
            store_sessions = create_sessions(root, config, options, is_interactive=False)
            batch = Batch(
                tasks,
                journal,
                partial(_open_task_sessions, options),
                store_sessions,
                progress,
                options.jobs,
                options.max_cost,
                BatchWorktrees(config.folders.worktrees, config.folders.data) if options.worktree else None,
                max_time,
            )
            result = asyncio.run(batch.run())
    _print_result(result, output, options, arguments)
    return result.exit_code


def _parse_job_count(word: str) -> int:
    job_count = parse_integer(word)
    if not 0 < job_count <= MAX_JOBS:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to {MAX_JOBS}, got {job_count}")
    return job_count


def _output_path(options: argparse.Namespace) -> Path:
    if options.output is None and options.file == "-":
        raise UsageError("the results need a file if the tasks come from stdin; give one with `--output`")
    if not Path(options.file).name:
        raise UsageError(f"`{options.file}` is not a task file; give its name")
    path = Path(options.output or Path(options.file).with_suffix(".results.jsonl"))
    if options.file != "-" and path.resolve() == Path(options.file).resolve():
        raise UsageError(f"the results would overwrite the tasks in `{path}`; give another file with `--output`")
    if not path.parent.is_dir():
        raise UsageError(
            f"no such folder for the results: `{path.parent}`; create it, or give another file with `--output`"
        )
    return path


def _read_tasks(options: argparse.Namespace) -> Sequence[BatchTask]:
    """Read the tasks. Raises `UsageError`, listing the invalid lines."""
    source_text = "stdin" if options.file == "-" else f"`{options.file}`"
    try:
        content = (
            sys.stdin.buffer.read(MAX_TASK_FILE_BYTES + 1)
            if options.file == "-"
            else read_prefix(options.file, MAX_TASK_FILE_BYTES + 1)
        )
    except OSError as error:
        raise UsageError(f"cannot read the tasks in {source_text}: {error.strerror or error}") from error
    if len(content) > MAX_TASK_FILE_BYTES:
        raise UsageError(f"the task list in {source_text} is larger than {MAX_TASK_FILE_BYTES >> 20:,} MB; split it")
    tasks, problems = read_tasks(content)
    problem_by_settings = {
        task.options_key: _settings_problem(options, task)
        for task in {task.options_key: task for task in tasks}.values()
    }
    problems = [
        *problems,
        *(
            f"line {task.line_number}: {problem_by_settings[task.options_key]}"
            for task in tasks
            if problem_by_settings[task.options_key]
        ),
    ]
    if problems:
        unlisted_count = len(problems) - MAX_LISTED_PROBLEMS
        lines = [
            *problems[:MAX_LISTED_PROBLEMS],
            *([f"and {pluralize(unlisted_count, 'more line')}"] if unlisted_count > 0 else []),
        ]
        problems_text = "\n".join(f"  {line}" for line in lines)
        raise UsageError(
            f"{pluralize(len(problems), 'task')} in {source_text} cannot run, so the batch did not start:\n"
            f"{problems_text}"
        )
    if not tasks:
        raise UsageError(f'no tasks in {source_text}; write one per line, such as {{"prompt": "fix the tests"}}')
    return tasks


def _settings_problem(options: argparse.Namespace, task: BatchTask) -> str:
    """Explain why a task's settings are invalid; empty if they are valid."""
    try:
        read_settings(_task_options(options, task))
    except UsageError as error:
        return str(error)
    return ""


def _task_options(options: argparse.Namespace, task: BatchTask) -> argparse.Namespace:
    """Combine the flags with a task's own values, which take precedence. However, lists are joined, and the lower
    `max_cost` applies."""
    task_values = dict(task.options)
    folder = task_values.pop("cwd", "")
    task_values.pop("max_time", None)
    combined_lists: dict[str, object] = {
        name: [*(getattr(options, name) or ()), *task_values.pop(name)]
        for name in ("allow", "deny", "add_dir", "config")
        if name in task_values
    }
    limits = [limit for limit in (options.max_cost, task_values.pop("max_cost", None)) if limit is not None]
    values: dict[str, object] = {
        **task_values,
        **combined_lists,
        "max_cost": min(limits, default=None),
        "cd": os.path.join(options.cd, folder),
    }
    return argparse.Namespace(**{**vars(options), **values})


def _open_task_sessions(options: argparse.Namespace, task: BatchTask, folder: Path | None) -> ProjectSessions:
    task_options = _task_options(options, task)
    task_options.cd = task_options.cd if folder is None else str(folder)
    return create_sessions(*read_settings(task_options), task_options, is_interactive=False)


def _check_unchanged_tasks(tasks: Sequence[BatchTask], journal: BatchJournal, *, retry_failed: bool) -> None:
    """Raise `UsageError` if a different task with the same id was run before."""
    for task in tasks:
        result, started_task = journal.results.get(task.id), journal.started_tasks.get(task.id)
        is_done = result is not None and not (retry_failed and result["exit_code"] != 0)
        if is_done and started_task is not None and started_task.digest != task.digest:
            raise UsageError(
                f"line {task.line_number}: `{journal.results_path}` already has the result of a different task with "
                f"the id `{task.id}`; use another id, or another file with `--output`"
            )


def _print_result(result: BatchResult, output: Path, options: argparse.Namespace, arguments: Sequence[str]) -> None:
    if options.json:
        print_json(sys.stdout, {**asdict(result), "output": str(output)})
        return
    cost = f", {result.cost:.2f} USD" if result.cost else ""
    failed_text = f", {result.failed} failed" if result.failed else ""
    answered_text = f"{result.answered} of {pluralize(result.tasks, 'task')} answered{failed_text}{cost}"
    print(f"{answered_text}; results: {sanitise_line(str(output))}")
    command_line = sanitise_line(shlex.join(["ebb", "batch", *arguments]))
    if result.left:
        end_text = {"interrupted": "interrupted", "cost_limit": "stopped at `--max-cost`"}.get(result.end, "stopped")
        message = f": {sanitise(result.message)}" if result.message else ""
        limit_advice = "raise `--max-cost` and " if result.end == "cost_limit" else ""
        with suppress(OSError):
            print(
                f"ebb: {end_text}, {pluralize(result.left, 'task')} left{message}\nebb: to continue, "
                f"{limit_advice}run `{command_line}`",
                file=sys.stderr,
            )
    elif result.failed:
        print(f"ebb: to rerun the failed tasks, run `{command_line} --retry-failed`", file=sys.stderr)
