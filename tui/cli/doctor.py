"""`ebb doctor`: its output and progress."""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from ebbtide.agent.config.load import find_folders
from ebbtide.agent.doctor.check_result import CheckResult, ReportProgress
from ebbtide.agent.doctor.folders import access_problem, examine_folders
from ebbtide.agent.doctor.network import examine_network, examine_servers
from ebbtide.agent.doctor.repair import repair_store
from ebbtide.agent.doctor.settings import examine_settings
from ebbtide.agent.doctor.store import examine_store
from ebbtide.agent.errors import UsageError
from ebbtide.tui.cli.arguments import environment_of, parse_subcommand_args, parser_of, read_settings
from ebbtide.tui.terminal.checks import examine_terminal
from ebbtide.tui.text.sanitise import sanitised_line

_SIGNS = {"well": "ok  ", "note": "note", "broken": "BAD "}


def run(arguments: Sequence[str]) -> int:
    """Run `ebb doctor`; return 0 if all checks passed, otherwise 1."""
    parser = parser_of(
        "doctor",
        "Checks settings, keys, the way to providers, the terminal, folders, the store and every reference in it. No "
        "server is asked but with `--online`.",
        "Exit codes: 0 all is well, 1 something is broken.",
    )
    parser.add_argument("--deep", action="store_true", help="read every stored output, too, and compare its digest")
    parser.add_argument(
        "--repair", action="store_true", help="save what can be read of a damaged database into a new one, first"
    )
    parser.add_argument("--online", action="store_true", help="ask each provider whether it answers and takes the key")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    progress, findings = CheckProgress(), []
    for finding in _findings(options, progress):
        findings.append(finding)
        if not options.json:
            progress.wipe()
            print(finding_line(finding), flush=True)
    progress.wipe()
    is_well = all(finding.state != "broken" for finding in findings)
    if options.json:
        print(json.dumps({"well": is_well, "findings": [asdict(finding) for finding in findings]}))
    return 0 if is_well else 1


def _findings(options: argparse.Namespace, tell: ReportProgress) -> Iterator[CheckResult]:
    folders, most_bytes = find_folders(os.environ), None
    try:
        _, config = read_settings(options)
    except UsageError as error:
        yield CheckResult("configuration", "broken", str(error))
    else:
        most_bytes = config.archive_max_bytes
        environment = environment_of(config)
        yield from examine_settings(config, environment)
        yield from examine_network(config, environment)
        if options.online:
            yield from examine_servers(config, environment)
    yield examine_terminal(os.environ)
    yield from examine_folders(folders)
    if access_problem(folders.data):
        return
    if options.repair:
        yield from repair_store(folders, tell)
    yield from examine_store(folders, tell, deep=options.deep, most_bytes=most_bytes)


def finding_line(finding: CheckResult) -> str:
    """One check result as a line: status, subject and advice."""
    advice = f": {finding.advice}" if finding.advice else ""
    return sanitised_line(f"{_SIGNS[finding.state]}  {finding.subject:<15} {finding.text}{advice}")


class CheckProgress:
    """Shows the current check on a terminal's stderr once it has taken a second."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._told_at = 0.0
        self._shown = False

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._began < 1 or now - self._told_at < 0.1 or not sys.stderr.isatty():
            return
        self._told_at, self._shown = now, True
        far = f"  {done:,} of {total:,}" if total else ""
        print(f"\r\x1b[Klooking at {what}{far}", end="", file=sys.stderr, flush=True)

    def wipe(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False
