"""Runs the process that builds the map: starts it, reads its messages and ends it."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ebbtide.tools.base import ToolError
from ebbtide.tools.integrations.code_map.mapper import mapper_argv
from ebbtide.tools.process.child import Child, start_child
from ebbtide.tools.process.lines import TruncatedLine
from ebbtide.tools.process.shell import Launch

_MAX_MAP_BYTES = 8 * 1024**2
"""Maximum size of a message from the process, in bytes."""


class _StderrTail:
    """The tail of the process's stderr."""

    def __init__(self) -> None:
        self._tail = b""

    @property
    def last_line(self) -> str:
        lines = self._tail.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def write(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-4096:]


async def run_mapper(root: Path, request: Mapping[str, object], on_progress: Callable[[str], None]) -> dict[str, Any]:
    """Run the mapper and return its result. `on_progress` receives progress. Cancelling ends the process. Raises
    `ToolError`."""
    environment = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    try:
        child = await start_child(
            Launch(tuple(mapper_argv(str(root))), environment), root, _StderrTail(), _MAX_MAP_BYTES
        )
    except (OSError, ValueError) as error:
        raise ToolError(f"the map cannot be built: {error}; use glob and grep instead") from error
    try:
        child.write(json.dumps(request).encode() + b"\n")
        return await _read_result(child, on_progress)
    except BrokenPipeError as error:
        raise ToolError(f"the map cannot be built: {await child.end_reason()}; use glob and grep instead") from error
    finally:
        await child.end()


async def _read_result(child: Child, on_progress: Callable[[str], None]) -> dict[str, Any]:
    while (line := await child.read()) is not None:
        message = {} if isinstance(line, TruncatedLine) else json.loads(line)
        if "chosen" in message:
            return dict(message)
        if "done" in message:
            on_progress(f"{message['done']:,} of {message['of']:,} files read\n")
    raise ToolError(f"the map cannot be built: {await child.end_reason()}; use glob and grep instead")
