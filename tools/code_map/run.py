"""Runs the map's process: starts it, reads its messages and ends it."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ebbtide.tools.base import ToolError
from ebbtide.tools.code_map.mapper import argv_for
from ebbtide.tools.process.child import Child, start_child
from ebbtide.tools.process.lines import TooLong
from ebbtide.tools.process.shell import Launch

_MAX_MAP_BYTES = 8 * 1024**2
"""Maximum length of a line, in bytes."""


class _StderrTail:
    """The end of the process's error output."""

    def __init__(self) -> None:
        self._tail = b""

    @property
    def last_line(self) -> str:
        lines = self._tail.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def write(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-4096:]


async def run_mapper(root: Path, wanted: Mapping[str, object], show: Callable[[str], None]) -> dict[str, Any]:
    """Return the result of the process. `show` receives progress. Cancelling ends the process. Raises `ToolError`."""
    environment = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    try:
        child = await start_child(Launch(tuple(argv_for(str(root))), environment), root, _StderrTail(), _MAX_MAP_BYTES)
    except (OSError, ValueError) as error:
        raise ToolError(f"the map cannot be made: {error}; use glob and grep instead") from error
    try:
        child.write(json.dumps(wanted).encode() + b"\n")
        return await _listen(child, show)
    except BrokenPipeError as error:
        raise ToolError(f"the map cannot be made: {await child.ending()}; use glob and grep instead") from error
    finally:
        await child.end()


async def _listen(child: Child, show: Callable[[str], None]) -> dict[str, Any]:
    while (line := await child.read()) is not None:
        message = {} if isinstance(line, TooLong) else json.loads(line)
        if "chosen" in message:
            return dict(message)
        if "done" in message:
            show(f"{message['done']:,} of {message['of']:,} files read\n")
    raise ToolError(f"the map cannot be made: {await child.ending()}; use glob and grep instead")
