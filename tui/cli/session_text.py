"""`ebb sessions show`: prints a session's messages, or the content of a reference."""

import argparse
import json
import sys
from collections.abc import Sequence

from ebbtide.agent.headless.printing import print_json
from ebbtide.agent.messages import Assistant, Message, User
from ebbtide.agent.records.message_rows import encode_message
from ebbtide.tui.cli import search
from ebbtide.tui.cli.arguments import run_with_sessions
from ebbtide.tui.text.sanitise import sanitise, sanitise_line


def show(options: argparse.Namespace) -> int:
    """Run `ebb sessions show ID [REF]`; return the exit code."""
    if options.ref:
        return search.show(options)
    log = run_with_sessions(options, lambda sessions: sessions.all_messages(options.id))
    _print(log.messages, as_json=options.json)
    if log.problem:
        print(f"ebb: {sanitise_line(log.problem)}", file=sys.stderr)
    return 0


def _print(messages: Sequence[Message], *, as_json: bool) -> None:
    for position, message in enumerate(messages):
        if as_json:
            row = encode_message(message, position)
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
