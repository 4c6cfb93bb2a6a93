"""A model server on loopback that answers every program from the same script, and notes when.

It is also the proxy that programs are told to use, so that requests to other hosts are refused at once and listed."""

import json
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

from tests.kit.fake_frames import Call, Frames, Turn, WireName, frames

WIRES: Mapping[str, WireName] = {"/messages": "anthropic", "/responses": "responses", "/chat/completions": "chat"}
SHELL_ARGUMENTS: Mapping[str, Callable[[str], Mapping[str, object]]] = {
    "bash": lambda command: {"command": command, "description": "Runs a command"},
    "Bash": lambda command: {"command": command, "description": "Runs a command"},
    "exec_command": lambda command: {"cmd": command},
    "shell_command": lambda command: {"command": command},
    "shell": lambda command: {"command": ["bash", "-c", command]},
}
"""The arguments of a command, by the name of the tool that runs it: pi and opencode, Claude Code, Codex."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model says to one request."""

    text: str = ""
    command: str = ""
    """Run by the program's own shell tool."""
    pieces_per_second: float = 0
    """Speed at which the text is streamed; 0: sent at once."""


Script = Callable[[int], Answer]
"""Returns the answer to request number 0, 1, …"""


@dataclass(frozen=True, slots=True)
class Times:
    """When a request arrived and when its answer had been sent, in `time.monotonic()`."""

    arrived: float
    sent: float


class ScriptedServer:
    """The server, which runs inside a `with` block.

    Requests that offer a shell tool are steps of the session, and use up the script. Other requests (for a title, for
    instance) are answered with a word."""

    def __init__(self, script: Script, arrived: Callable[[], None] = lambda: None) -> None:
        """`arrived` is called when a step's request has arrived, before it is answered."""
        self.script, self.arrived = script, arrived
        self.steps: list[Times] = []
        self.requests: list[dict[str, Any]] = []
        """The bodies of the steps' requests."""
        self.side_requests: list[str] = []
        """Paths of the requests that are not steps."""
        self.outside: list[str] = []
        """Hosts other than this one that programs have asked for."""
        self._lock = threading.Lock()
        self._served = 0
        self._http = _HttpServer(self)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def next_number(self) -> int:
        with self._lock:
            self._served += 1
            return self._served - 1


def gaps_ms(steps: Sequence[Times]) -> list[float]:
    """Return the milliseconds from each answer to the next request."""
    return [(after.arrived - before.sent) * 1000 for before, after in pairwise(steps)]


def shell_call(body: Mapping[str, Any], command: str) -> Call | None:
    """Return a call of the shell tool that a request offers, or None if it offers none."""
    for name in offered_tools(body):
        if name in SHELL_ARGUMENTS:
            return Call(name, SHELL_ARGUMENTS[name](command))
    return None


def offered_tools(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the tools that a request offers, on any wire."""
    for tool in body.get("tools") or ():
        yield str(tool.get("name") or tool.get("function", {}).get("name", ""))


def wire_of(path: str) -> WireName | None:
    """Return the protocol that a path belongs to, or None if it is not a request to a model."""
    return next((wire for end, wire in WIRES.items() if path.split("?")[0].endswith(end)), None)


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, scripted: ScriptedServer) -> None:
        self.scripted = scripted
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of programs that end or are stopped while they are being answered."""
        if not isinstance(sys.exc_info()[1], OSError):
            traceback.print_exc()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _HttpServer

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def do_CONNECT(self) -> None:
        self._refuse()

    def do_HEAD(self) -> None:
        self._send_json(200, {})

    def do_GET(self) -> None:
        if not self.path.startswith("/"):
            self._refuse()
            return
        self.server.scripted.side_requests.append(self.path)
        self._send_json(404, {"error": {"message": "not found", "type": "not_found_error"}})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        arrived = time.monotonic()
        wire = wire_of(self.path) if self.path.startswith("/") else None
        if wire is None:
            self.do_GET()
        else:
            self._answer(wire, json.loads(raw), arrived)

    def _refuse(self) -> None:
        self.server.scripted.outside.append(self.path)
        self.close_connection = True
        self._send_json(403, {})

    def _answer(self, wire: WireName, body: dict[str, Any], arrived: float) -> None:
        scripted, model = self.server.scripted, str(body.get("model", ""))
        if shell_call(body, "") is None:
            scripted.side_requests.append(self.path)
            self._send_stream(frames(wire, Turn(text="Title"), 1_000_000, model), 0)
            return
        scripted.arrived()
        number = scripted.next_number()
        answer = scripted.script(number)
        call = shell_call(body, answer.command) if answer.command else None
        turn = Turn(text=answer.text, calls=(call,) if call else ())
        sent = self._send_stream(frames(wire, turn, number, model), answer.pieces_per_second)
        scripted.requests.append(body)
        scripted.steps.append(Times(arrived, sent))

    def _send_stream(self, answer: Frames, pieces_per_second: float) -> float:
        """Send an answer, and return the time at which its last part was sent."""
        self.send_response(200)
        self.send_header("content-type", answer.media_type)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        if not pieces_per_second:
            return self._send("".join([*answer.content, *answer.end]), last=True)
        began = time.monotonic()
        for number, frame in enumerate(answer.content):
            time.sleep(max(0.0, began + number / pieces_per_second - time.monotonic()))
            self._send(frame)
        return self._send("".join(answer.end), last=True)

    def _send(self, text: str, *, last: bool = False) -> float:
        raw = text.encode()
        sent = time.monotonic()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(raw), raw) + (b"0\r\n\r\n" if last else b""))
        return sent

    def _send_json(self, status: int, body: object) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
