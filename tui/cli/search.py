"""Output of `ebb sessions search` and `ebb sessions show ID REF`."""

import argparse
import codecs
import itertools
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING

from ebbtide.agent.errors import ReferenceFailed
from ebbtide.agent.headless.json_line import print_json
from ebbtide.tools.base import ToolError
from ebbtide.tools.outputs.recalled import RecalledItem, RecallQuery, RecallResult
from ebbtide.tools.outputs.stored import StoredContent
from ebbtide.tools.read_result import part_of
from ebbtide.tui.cli.arguments import parse_subcommand_args, parser_of, whole_number, with_sessions
from ebbtide.tui.text.sanitise import sanitised, sanitised_line

if TYPE_CHECKING:  # types only
    from ebbtide.agent.sessions import Sessions

DEFAULT_RESULTS = 20


def search(arguments: Sequence[str]) -> int:
    """Run `ebb sessions search`; return the exit code."""
    parser = parser_of("sessions search", "Searches what stored sessions said, saw and did.")
    parser.add_argument("query", nargs="+", help="words; several between quotation marks stand in that order")
    parser.add_argument("--all", action="store_true", help="the sessions of all projects")
    parser.add_argument(
        "--limit",
        type=whole_number,
        default=DEFAULT_RESULTS,
        metavar="N",
        help=f"how many are shown, {DEFAULT_RESULTS} at first",
    )
    options = parse_subcommand_args(parser, arguments, "JSON lines")
    if not " ".join(options.query).strip() or options.limit < 1:
        parser.error("write some words to search for, and a limit above 0")

    progress = SearchProgress()

    async def work(sessions: "Sessions") -> RecallResult:
        try:
            recall = await sessions.recall(everywhere=options.all)
            return await recall.search(RecallQuery(" ".join(options.query), limit=options.limit), progress)
        finally:
            progress.wipe()

    memory = with_sessions(options, work)
    for told in memory.notes:
        print(f"ebb: {told}", file=sys.stderr)
    for one in memory.found:
        if options.json:
            print_json(sys.stdout, asdict(one))
        else:
            print("\n".join(found_lines(one)))
    if not memory.found and not options.json:
        print("nothing was found; `--all` searches the sessions of other projects")
    return 0


def show(options: argparse.Namespace) -> int:
    """Run `ebb sessions show ID REF`: print the referenced content, or the part that it names; return the exit code."""

    async def work(sessions: "Sessions") -> None:
        found = await (await sessions.recall(options.id, everywhere=True)).fetch(options.ref)
        with closing(found.content):
            _print_part(found)
            for line in found.frame.splitlines():  # bytes that are no text stay as they are
                print(f"ebb: {sanitised_line(line)}", file=sys.stderr)

    with_sessions(options, work)
    return 0


def _print_part(found: StoredContent) -> None:
    """Print the referenced bytes unchanged; on a terminal without control sequences."""
    try:
        start, end = part_of(found)
    except ToolError as error:
        raise ReferenceFailed(str(error)) from error
    if not sys.stdout.isatty():
        sys.stdout.flush()
        for chunk in found.content.chunks(start, end):
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        return
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    last = "\n"
    for chunk in itertools.chain(found.content.chunks(start, end), (b"",)):
        text = decoder.decode(chunk, final=not chunk)
        print(sanitised(text), end="")
        last = text[-1:] or last
    if last != "\n":
        print()


def found_lines(one: RecalledItem) -> list[str]:
    """The reference, its kind, time and place, and why it matched."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.at))
    what = f"{one.kind} of {one.tool}" if one.tool else one.kind
    head = "  ".join(filter(None, (one.ref, when, what, one.title, "(by its meaning)" if one.by_meaning else "")))
    return [sanitised_line(head), *(f"    {line}" for line in sanitised(one.excerpt).split("\n") if line.strip())]


class SearchProgress:
    """Shows indexing progress on a terminal and erases it when done."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        if not sys.stderr.isatty():
            return
        if done < total and time.monotonic() - self._began > 1:
            print(f"\rindexing {done:,} of {total:,} messages", end="", file=sys.stderr, flush=True)
            self._shown = True
        elif done >= total:
            self.wipe()

    def wipe(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False
