"""A search of the web by a program of the user."""

import os
from collections.abc import Sequence
from pathlib import Path

from tools.base import ToolError
from tools.plain_text import plain
from tools.process.child import answer_of
from tools.process.shell import child_environment

SECONDS = 30.0
MOST = 200_000
"""Bytes of an answer."""


async def printed_by(command: Sequence[str], folder: Path) -> str:
    """What the program prints. It is no shell that reads the words. Raises `ToolError`."""
    program = f"the program of `web.search`, `{command[0]}`,"
    try:
        answer = await answer_of(_found(command), b"", folder, child_environment(), SECONDS, MOST)
    except (OSError, ValueError) as error:
        raise ToolError(f"{program} cannot be started: {error}. Tell the user") from error
    if answer.code is None:
        raise ToolError(f"{program} was not done within {SECONDS:.0f} s: try again, or tell the user")
    if answer.code != 0:
        said = plain(answer.err.decode("utf-8", "replace")).strip()[-500:]
        raise ToolError(f"{program} ended with exit code {answer.code}: {said or 'it said nothing'}")
    return answer.out.decode("utf-8", "replace")


def _found(command: Sequence[str]) -> Sequence[str]:
    return (os.path.expanduser(command[0]), *command[1:])
