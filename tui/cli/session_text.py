"""`ebb sessions show`: prints a session's messages, or what a reference refers to."""

import argparse
import codecs
import itertools
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from ebbtide.agent.errors import ReferenceFailed
from ebbtide.agent.headless.printing import print_json
from ebbtide.agent.messages import Assistant, Message, User
from ebbtide.agent.records.message_rows import encode_message
from ebbtide.tools.base import ToolError
from ebbtide.tools.outputs.stored_content import StoredContent
from ebbtide.tools.read_result import referenced_range
from ebbtide.tui.cli.arguments import run_with_sessions
from ebbtide.tui.text.sanitise import sanitise, sanitise_line

if TYPE_CHECKING:  # types only
    from ebbtide.agent.compose.sessions import ProjectSessions


def show(options: argparse.Namespace) -> int:
    """Run `ebb sessions show ID [REF]`; return the exit code."""
    if options.ref:
        _show_reference(options)
        return 0
    log = run_with_sessions(options, lambda sessions: sessions.all_messages(options.id))
    _print(log.messages, as_json=options.json)
    if log.problem:
        print(f"ebb: {sanitise_line(log.problem)}", file=sys.stderr)
    return 0


def _show_reference(options: argparse.Namespace) -> None:
    """Print the content of a reference, or the range that it names."""

    async def work(sessions: "ProjectSessions") -> None:
        stored = await (await sessions.open_recall(options.id, in_all_projects=True)).fetch(options.ref)
        with closing(stored.content):
            _print_referenced(stored)
            for line in stored.trailing_note.splitlines():  # on stderr, so that stdout contains only the bytes
                print(f"ebb: {sanitise_line(line)}", file=sys.stderr)

    run_with_sessions(options, work)


def _print_referenced(stored_content: StoredContent) -> None:
    """Print the referenced bytes. On a terminal, control sequences are removed."""
    try:
        start, end = referenced_range(stored_content)
    except ToolError as error:
        raise ReferenceFailed(str(error)) from error
    if not sys.stdout.isatty():
        sys.stdout.flush()
        for chunk in stored_content.content.chunks(start, end):
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        return
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    last_character = "\n"
    for chunk in itertools.chain(stored_content.content.chunks(start, end), (b"",)):
        text = decoder.decode(chunk, final=not chunk)
        print(sanitise(text), end="")
        last_character = text[-1:] or last_character
    if last_character != "\n":
        print()


def _print(messages: Sequence[Message], *, as_json: bool) -> None:
    for index, message in enumerate(messages):
        if as_json:
            row = encode_message(message, index)
            print_json(sys.stdout, {"role": row.role, **json.loads(row.body)})
            continue
        match message:
            case User() as user:
                for output in user.outputs:
                    print(f"  [{output.status}] {sanitise(output.text)}\n")
                if user.text:
                    print(f"> {sanitise(user.text)}\n")
            case Assistant() as reply:
                if reply.text:
                    print(f"{sanitise(reply.text)}\n")
                for call in reply.calls:
                    print(sanitise(f"  {call.name} {json.dumps(call.arguments, ensure_ascii=False)}"))
