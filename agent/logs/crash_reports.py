"""Crash reports. The user sees a short error; the full report, without secrets, goes to the log folder."""

import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import AgentError
from ebbtide.tools.files.private_folder import create_private_folder
from ebbtide.tools.secrets.redaction import redact_text
from ebbtide.version import VERSION

MAX_REPORTS = 20
"""Maximum number of reports; older ones are removed."""


class CrashError(AgentError):
    """A bug in the program. The message says where the report is and how to continue."""

    code = "crash"


def crash_error(error: BaseException, folder: Path, known_secrets: Collection[str] = ()) -> CrashError:
    """Write a report of the error to the folder, and return the error to show to the user. `known_secrets`: secrets in
    addition to those in the environment."""
    report_path = write_report("".join(traceback.format_exception(error)), folder, known_secrets)
    summary = redact_text(" ".join(f"{type(error).__name__}: {error}".split()), os.environ, known_secrets)[:200].rstrip(
        ": "
    )
    report_sentence = (
        f"A report (without your keys) is in `{report_path}`." if report_path else "No report could be written."
    )
    return CrashError(
        f"Ebbtide stopped because of an internal bug ({summary}). {report_sentence} The conversation is not lost: "
        "`ebb -c` resumes the session."
    )


def write_report(text: str, folder: Path, known_secrets: Collection[str] = ()) -> Path | None:
    """Write the text to a private file, without secrets. Returns its path, or None if it cannot be written."""
    import tempfile  # noqa: PLC0415  # deferred: needed after a crash only

    version = ".".join(map(str, sys.version_info[:3]))
    header = f"ebb {VERSION}, Python {version}, {sys.platform}, {time.strftime('%Y-%m-%d %H:%M:%S %z')}\n\n"
    name = f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{threading.get_native_id()}.txt"
    for target_folder in (folder, Path(tempfile.gettempdir())):
        try:
            create_private_folder(target_folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(
                os.open(target_folder / name, flags, 0o600), "w", encoding="utf-8", errors="replace"
            ) as file:
                file.write(header + redact_text(text, os.environ, known_secrets))
        except OSError:
            continue  # the disk may be full or read-only: try the next folder
        _remove_oldest(folder)
        return target_folder / name
    return None


def _remove_oldest(folder: Path) -> None:
    with suppress(OSError):
        for path in sorted(folder.glob("crash-*.txt"))[:-MAX_REPORTS]:
            path.unlink()


def install_crash_handlers(folder: Path) -> None:
    """From now on, write errors from threads, abandoned tasks and libraries to crash reports. Printed on standard
    error, they would corrupt the screen and might reveal secrets."""
    root = logging.getLogger()
    for old_handler in [handler for handler in root.handlers if isinstance(handler, _CrashReportHandler)]:
        root.removeHandler(old_handler)
    root.addHandler(_CrashReportHandler(folder))
    threading.excepthook = lambda args: _report_thread_error(args, folder)


def _report_thread_error(args: threading.ExceptHookArgs, folder: Path) -> None:
    if args.exc_value is not None:
        write_report("".join(traceback.format_exception(args.exc_value)), folder)


class _CrashReportHandler(logging.Handler):
    def __init__(self, folder: Path) -> None:
        super().__init__(logging.ERROR)
        self._folder = folder

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            trace = "".join(traceback.format_exception(record.exc_info[1]))
            write_report(f"{record.getMessage()}\n{trace}", self._folder)


def config_secrets(config: Config, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets that a configuration contains or refers to."""
    for provider in config.providers.values():
        yield environment.get(provider.api_key_env or "", "")
    for table in config.mcp_servers.values():
        for value in (*_values(table.get("headers")), *_values(table.get("env")), table.get("client_secret")):
            if isinstance(value, str):
                yield value


def _values(table: object) -> Collection[object]:
    return table.values() if isinstance(table, Mapping) else ()
