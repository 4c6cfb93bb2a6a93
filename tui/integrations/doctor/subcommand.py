"""`ebb doctor`: its output and progress."""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from ebbtide.agent.config.load import find_folders
from ebbtide.agent.errors import UsageError
from ebbtide.agent.integrations.doctor.check_result import CheckResult, ReportProgress
from ebbtide.agent.integrations.doctor.folders import access_problem, check_folders
from ebbtide.agent.integrations.doctor.network import check_network, check_providers
from ebbtide.agent.integrations.doctor.repair import repair_store
from ebbtide.agent.integrations.doctor.settings import check_settings
from ebbtide.agent.integrations.doctor.store import check_store
from ebbtide.tui.cli.arguments import (
    create_subcommand_parser,
    environment_with_keys,
    parse_subcommand_args,
    read_settings,
)
from ebbtide.tui.integrations.doctor.terminal_checks import check_stdout_terminal
from ebbtide.tui.text.sanitise import sanitise_line

_STATE_LABELS = {"well": "ok  ", "note": "note", "broken": "BAD "}


def run(arguments: Sequence[str]) -> int:
    """Run `ebb doctor`; return 0 if all checks passed, otherwise 1."""
    parser = create_subcommand_parser(
        "doctor",
        "Check settings, keys, connections to providers, the terminal, folders and the stored data. Providers are "
        "contacted only with `--online`.",
        "Exit codes: 0 no problems, 1 something is broken.",
    )
    parser.add_argument("--deep", action="store_true", help="also read every stored output and verify its checksum")
    parser.add_argument("--repair", action="store_true", help="first recover a damaged database into a new one")
    parser.add_argument("--online", action="store_true", help="check that each provider responds and accepts the key")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    progress = CheckProgress()
    results: list[CheckResult] = []
    for result in _run_checks(options, progress):
        results.append(result)
        if not options.json:
            progress.clear_line()
            print(result_line(result), flush=True)
    progress.clear_line()
    is_ok = all(result.state != "broken" for result in results)
    if options.json:
        print(json.dumps({"well": is_ok, "findings": [asdict(result) for result in results]}))
    return 0 if is_ok else 1


def _run_checks(options: argparse.Namespace, report_progress: ReportProgress) -> Iterator[CheckResult]:
    folders = find_folders(os.environ)
    max_stored_bytes = None
    try:
        _, config = read_settings(options)
    except UsageError as error:
        yield CheckResult("configuration", "broken", str(error))
    else:
        max_stored_bytes = config.archive_max_bytes
        environment = environment_with_keys(config)
        yield from check_settings(config, environment)
        yield from check_network(config, environment)
        if options.online:
            yield from check_providers(config, environment)
    yield check_stdout_terminal(os.environ)
    yield from check_folders(folders)
    if access_problem(folders.data):
        return
    if options.repair:
        yield from repair_store(folders, report_progress)
    yield from check_store(folders, report_progress, should_read_blobs=options.deep, max_stored_bytes=max_stored_bytes)


def result_line(result: CheckResult) -> str:
    """Format a check result as one line: state, subject, text and advice."""
    advice = f": {result.advice}" if result.advice else ""
    return sanitise_line(f"{_STATE_LABELS[result.state]}  {result.subject:<15} {result.text}{advice}")


class CheckProgress:
    """Shows the current check on stderr after the first second. Does nothing unless stderr is a terminal."""

    def __init__(self) -> None:
        self._start_time = time.monotonic()
        self._reported_at = 0.0
        self._is_visible = False

    def __call__(self, check: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._start_time < 1 or now - self._reported_at < 0.1 or not sys.stderr.isatty():
            return
        self._reported_at, self._is_visible = now, True
        position_text = f"  {done:,} of {total:,}" if total else ""
        print(f"\r\x1b[Kchecking {check}{position_text}", end="", file=sys.stderr, flush=True)

    def clear_line(self) -> None:
        if self._is_visible:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._is_visible = False
