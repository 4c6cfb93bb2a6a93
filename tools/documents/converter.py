"""Runs a converter for untrusted data in a process with limited time and memory. Malicious input can make a library use
any amount of either."""

import asyncio
import json
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any

from ebbtide.tools.base import ToolError
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.process.own_module import own_module_command

MAX_MEMORY_BYTES = 1 << 30
"""Maximum address space of the process, in bytes."""
MAX_RECORD_BYTES = 1 << 26
"""Maximum size of a record, in bytes."""

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
    """The JSON objects that the process printed, one per line."""
    has_timed_out: bool
    """Whether the process timed out. Records printed before the timeout are kept."""
    has_failed: bool
    """Whether it ended abnormally, e.g. because it ran out of memory."""


async def run_converter(
    module: str, request: Mapping[str, object], source: IO[bytes], timeout_s: float
) -> ConversionResult:
    """Run a module's `main` in a separate process that reads the source from standard input. Raises `ToolError` if the
    process cannot be started."""
    process = _start_process(module, request, source)
    output_task = asyncio.ensure_future(asyncio.to_thread(_collect_output, process))
    try:
        return await asyncio.wait_for(asyncio.shield(output_task), timeout_s)
    except TimeoutError:
        process.kill()
        return ConversionResult((await output_task).records, has_timed_out=True, has_failed=False)
    except BaseException:
        process.kill()
        await asyncio.wait([output_task])
        raise


def _start_process(module: str, request: Mapping[str, object], source: IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            own_module_command(module, json.dumps(request), prelude=_LIMIT_PRELUDE.format(MAX_MEMORY_BYTES)),
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(f"a helper process could not be started: {(error.strerror or str(error)).lower()}") from error


def _collect_output(process: subprocess.Popen[bytes]) -> ConversionResult:
    records = list[Mapping[str, Any]]()
    with process:
        while process.stdout is not None and (line := process.stdout.readline(MAX_RECORD_BYTES)):
            with suppress(ValueError):  # the line is incomplete if the process was killed
                records.append(json.loads(line))
        code = process.wait()
    return ConversionResult(tuple(records), has_timed_out=False, has_failed=code != 0)
