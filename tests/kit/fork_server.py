"""Runs `ebb` in processes that are forked from one that has imported it: what most tests of commands spend is imports.

Each run is a process of its own, with its own arguments, folder, environment and streams, and ends as an interpreter
ends. What it does not have is a fresh interpreter: what is about starting, signals, memory or the locale runs without.

    python -m tests.kit.fork_server SOCKET          the server: until its standard input ends
"""

import atexit
import gc
import io
import json
import os
import select
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

_STREAMS = (0, 1, 2)
_IMPORTED = (
    "ebbtide.agent.headless.run",
    "ebbtide.agent.integrations.doctor.store",
    "ebbtide.agent.integrations.export.session_export",
    "ebbtide.agent.providers.wires.scripted",
    "ebbtide.agent.calls.network_access",
    "ebbtide.agent.calls.rule_suggestions",
    "ebbtide.agent.checkpoints.comparison",
    "ebbtide.agent.checkpoints.project",
    "ebbtide.agent.checkpoints.recovery",
    "ebbtide.agent.checkpoints.restore",
    "ebbtide.agent.checkpoints.staged_files",
    "ebbtide.agent.checkpoints.tracked_files",
    "ebbtide.agent.extensions.custom_commands",
    "ebbtide.agent.extensions.session_extensions",
    "ebbtide.agent.extensions.session_trust",
    "ebbtide.agent.extensions.skills",
    "ebbtide.tools.command_runs.changed_files",
    "ebbtide.tools.command_runs.foreground",
    "ebbtide.tools.command_runs.read_only",
    "ebbtide.tools.sandbox.system_calls",
    "ebbtide.tools.search.walk",
    "ebbtide.tui.cli.main",
    "ebbtide.tui.cli.subcommands",
    "ebbtide.tui.cli.stored_sessions",
    "ebbtide.tui.cli.config",
    "ebbtide.tui.cli.context",
    "ebbtide.tui.cli.headless",
    "ebbtide.tui.cli.piped_input",
    "ebbtide.tui.cli.search",
    "ebbtide.tui.integrations.export.subcommands",
    "ebbtide.tui.integrations.mcp.command",
    "ebbtide.tui.integrations.doctor.subcommand",
    "ebbtide.agent.archive.indexer",
    "ebbtide.agent.archive.recall_search",
    "ebbtide.agent.archive.fork",
    "ebbtide.agent.integrations.small_models.call_search",
    "ebbtide.agent.providers.wires.openai_chat",
    "ebbtide.tui.cli.session_lines",
    "ebbtide.tui.cli.session_text",
    "ebbtide.tui.view.sessions",
    "anthropic",
    "openai",
    "ollama",
    "httpx",
    "httpcore2",
    "anyio._backends._asyncio",
    "ctypes",
    "tiktoken",
    "jsonschema_rs",
    "tree_sitter",
    "tree_sitter_bash",
)


def request(
    server: socket.socket, arguments: Sequence[str], streams: Sequence[int], environment: Mapping[str, str]
) -> None:
    """Has the server run `ebb` with these descriptors as its streams, in our folder. It answers with the exit code."""
    socket.send_fds(server, [b"f"], streams)
    server.sendall(json.dumps([arguments, os.getcwd(), dict(environment)]).encode())
    server.shutdown(socket.SHUT_WR)


def serve(address: str) -> list[str] | None:
    """Answers requests until standard input ends. In the process forked for a request: the arguments to run with."""
    for name in _IMPORTED:
        __import__(name)
    from ebbtide.tools.lazy import build_pending  # noqa: PLC0415  # whoever asks the server imports nothing of the program

    build_pending()
    gc.freeze()
    running: dict[int, socket.socket] = {}
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        print("ready", flush=True)
        while True:
            waited: list[socket.socket | int] = [listening, 0, *running]
            readable, _, _ = select.select(waited, [], [])
            for process in [process for process in readable if process in running]:
                _answer(process, running.pop(process))
            if 0 in readable:
                return None
            if listening in readable:
                asked, _ = listening.accept()
                _, streams, _, _ = socket.recv_fds(asked, 1, len(_STREAMS))
                arguments, folder, environment = json.loads(asked.makefile().read())
                child = os.fork()
                if not child:
                    for other in (listening, asked, *running.values()):
                        other.close()
                    _become(streams, folder, environment)
                    return list(arguments)
                for stream in streams:
                    os.close(stream)
                running[os.pidfd_open(child)] = asked


def _answer(process: int, asked: socket.socket) -> None:
    ended = os.waitid(os.P_PIDFD, process, os.WEXITED)
    os.close(process)
    code = ended.si_status if ended and ended.si_code == os.CLD_EXITED else -1
    with asked:
        try:
            asked.sendall(str(code).encode())
        except BrokenPipeError:
            return  # who asked has given up


def _become(streams: list[int], folder: str, environment: dict[str, str]) -> None:
    for number, stream in zip(_STREAMS, streams, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "rb")), encoding="utf-8", errors="surrogateescape")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "wb")), encoding="utf-8", errors="strict")
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "wb")), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )


def _run() -> None:
    """Runs `ebb` and ends as an interpreter does, but without taking apart what the server had imported: that would
    take ten times as long as the run."""
    from ebbtide.tui.cli.main import main  # noqa: PLC0415  # as above

    code: object = 1
    try:
        code = main()
    except SystemExit as ended:
        code = ended.code
    finally:
        atexit._run_exitfuncs()
        with suppress(BrokenPipeError):
            sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    given = serve(sys.argv[1])
    if given is not None:
        sys.argv[1:] = given
        _run()
