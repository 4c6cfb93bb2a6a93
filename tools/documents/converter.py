"""Bytes of somebody else turned into text by a program of ours, which may take only so much time and memory: a library
that reads such bytes can be made to need any amount of both."""

import asyncio
import json
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any

from ebbtide.tools.base import ToolError
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.process.own_module import own_module

MAX_MEMORY_BYTES = 1 << 30
"""Bytes of address space."""
MAX_RECORD_BYTES = 1 << 26
"""Bytes of a record."""

_LIMIT_PRELUDE = """
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({0}, {0}))
except (ImportError, OSError, ValueError):
    pass  # a system without such limits: time still ends it
"""


@dataclass(frozen=True, slots=True)
class ConversionResult:
    records: tuple[Mapping[str, Any], ...]
    """What the program printed, one JSON object a line."""
    is_late: bool
    """Its time was up; what it had printed is there."""
    failed: bool
    """It ended otherwise than at its end: for want of memory, for example."""


async def run_converter(
    module: str, request: Mapping[str, object], source: IO[bytes], seconds: float
) -> ConversionResult:
    """Runs `main` of a module in a process of its own, with the source as its standard input. Raises `ToolError` when
    it cannot be started."""
    process = _start_process(module, request, source)
    reading = asyncio.ensure_future(asyncio.to_thread(_collect_output, process))
    try:
        return await asyncio.wait_for(asyncio.shield(reading), seconds)
    except TimeoutError:
        process.kill()
        return ConversionResult((await reading).records, is_late=True, failed=False)
    except BaseException:
        process.kill()
        await asyncio.wait([reading])
        raise


def _start_process(module: str, request: Mapping[str, object], source: IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            own_module(module, json.dumps(request), first=_LIMIT_PRELUDE.format(MAX_MEMORY_BYTES)),
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(f"a program of ours could not be started: {(error.strerror or str(error)).lower()}") from error


def _collect_output(process: subprocess.Popen[bytes]) -> ConversionResult:
    records = list[Mapping[str, Any]]()
    with process:
        while process.stdout is not None and (line := process.stdout.readline(MAX_RECORD_BYTES)):
            with suppress(ValueError):  # cut off where it was killed
                records.append(json.loads(line))
        code = process.wait()
    return ConversionResult(tuple(records), is_late=False, failed=code != 0)
