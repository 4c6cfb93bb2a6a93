"""A model server on loopback that answers from a script, on all four wires. It knows sockets, `fake_frames` formats.

    with FakeProvider([Turn(text="hi"), Turn(calls=(Call("read", {"path": "a.txt"}),))]) as server:
        ...                                  # base_url: server.url, for every wire
        server.requests[0].body["messages"]  # what was asked, parsed

Each request to a model uses up one answer of the script, in order; when none is left the answer is a 400. A member of
the script may also be a function from the request to a `Turn`; the last one of a script answers all that follow.

What the real servers refuse (`strict_api`) is refused with a 400 and uses up no answer, and the `with` fails at its
end: no session of ours may send such a request. `rules=None` takes anything; `refused` may be emptied by a test that
meant it. `reads` and `counts` make a server that counts for itself: one that reads only the newest so many tokens and
does not say so, one that counts too many or too few. A `reader` does both in the ways that servers have.

    server.shown[3]     # the outputs that the fourth request held: whole, cut or as a line
    server.blind        # which requests did not show the outputs of the calls before them

POST /v1/messages, /v1/responses, /v1/chat/completions (each also without /v1), /api/chat, /api/show.
"""

import json
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypeAlias

from ebbtide.agent.messages import Usage
from tests.kit.fake_frames import Call, Frames, Turn, WireName, error_body, frames
from tests.kit.request_outputs import SeenOutput, ids_of, is_step, outputs_in, unseen
from tests.kit.strict_api import Rules, refusal
from tests.kit.token_counts import Reader

__all__ = ["Call", "FakeProvider", "Recorded", "Rules", "Turn"]

STRICT = Rules()

PATHS: dict[str, WireName] = {
    "/messages": "anthropic",
    "/responses": "responses",
    "/chat/completions": "chat",
    "/api/chat": "ollama",
}


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request as it reached the server."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: dict[str, Any]
    at: float
    """`time.monotonic()` of its arrival."""


Step: TypeAlias = Turn | Callable[[Recorded], Turn]


class FakeProvider:
    """The server. It runs in threads of its own from `with` (or `start`) to the end of it (or `close`)."""

    def __init__(
        self,
        script: Sequence[Step],
        show: Mapping[str, object] | None = None,
        *,
        pages: Mapping[str, object] | None = None,
        rules: Rules | None = STRICT,
        reads: int | None = None,
        counts: float | None = None,
        reader: Reader | None = None,
    ) -> None:
        self.requests: list[Recorded] = []
        """Requests to a model, in order of arrival."""
        self.others: list[Recorded] = []
        """Requests to `/api/show` and to paths that nobody serves."""
        self.show = show
        """What `/api/show` answers; None: 404, as an old server does."""
        self.pages = pages or {}
        """What a GET of each path answers; 404 for all others."""
        self.looked_at: list[str] = []
        """The paths that were asked for so."""
        self.connections = 0
        """How many connections clients have opened."""
        self.gone = threading.Event()
        """Set when a client went away from an answer before its end."""
        self.refused: list[str] = []
        """Why requests were refused that the real server would refuse, too."""
        self.seen_outputs: list[tuple[SeenOutput, ...]] = []
        """Of each request, the outputs that it held."""
        self.blind: list[int] = []
        """The places in `requests` of those that left out outputs of the newest calls."""
        self._rules = rules
        self._reads, self._counts, self._reader = reads, counts, reader
        self._called: tuple[str, ...] = ()
        """The calls of the newest answer."""
        self._script = list(script)
        self._served = 0
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
        if error is None and self.refused:
            raise AssertionError(f"the real server would have refused: {'; '.join(self.refused)}")

    def start(self) -> Self:
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """Ends every answer and every thread."""
        self.release()
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.drop_connections()
            self._server.server_close()
            self._server = self._thread = None

    @property
    def url(self) -> str:
        assert self._server is not None, "the server runs inside `with`"
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which a program asks this server on every wire."""
        keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY"), "key")
        return {"ANTHROPIC_BASE_URL": self.url, "OPENAI_BASE_URL": f"{self.url}/v1", "OLLAMA_HOST": self.url, **keys}

    def release(self) -> None:
        """Lets answers that hang go on to their end frame."""
        self._released.set()

    def wait_gone(self, seconds: float = 10.0) -> bool:
        """True once a client has closed its connection to an answer that hangs."""
        return self.gone.wait(seconds)

    def answer(self, recorded: Recorded, wire: WireName) -> tuple[Turn, int]:
        """The next turn of the script, and its number."""
        with self._lock:
            number, place = self._served, len(self.requests)
            self.requests.append(recorded)
            self.seen_outputs.append(outputs_in(wire, recorded.body))
            refused = refusal(wire, recorded.body, self._rules) if self._rules is not None else None
            if refused is not None:
                self.refused.append(refused)
                return Turn(status=400, error=("invalid_request_error", refused)), number
            self._served += 1
            if number < len(self._script):
                step = self._script[number]
            elif self._script and not isinstance(self._script[-1], Turn):
                step = self._script[-1]
            else:
                step = Turn(status=400, error=("invalid_request_error", "the script has no more turns"))
            if is_step(recorded.body) and unseen(wire, self._called, recorded.body):
                self.blind.append(place)
        turn = step if isinstance(step, Turn) else step(recorded)
        if is_step(recorded.body) and turn.status == 200:
            self._called = ids_of(wire, turn.calls, number)
        return self._counted(turn, recorded.body), number

    def _counted(self, turn: Turn, body: Mapping[str, Any]) -> Turn:
        """The turn with the usage of a server that counts for itself."""
        if self._reader is not None:
            return replace(turn, usage=self._reader.usage(body, turn.usage.output))
        if self._reads is None and self._counts is None:
            return turn
        size = round(tokens_in(body) * (self._counts or 1.0))
        return replace(turn, usage=Usage(input=min(size, self._reads or size), output=turn.usage.output))

    def hang(self, connection: socket.socket) -> bool:
        """Waits for `release` (True) or for the client to go away (False)."""
        while not self._released.is_set():
            readable, _, _ = select.select([connection], [], [], 0.01)
            if readable and not _peek(connection):
                self.gone.set()
                return False
        return True


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # joined by `server_close`, so that no thread outlives its test
    block_on_close = True
    request_queue_size = 64

    def __init__(self, fake: FakeProvider) -> None:
        self.fake = fake
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        self.fake.connections += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is part of what is tested; anything else is a bug and is printed."""
        if isinstance(sys.exc_info()[1], OSError):
            self.fake.gone.set()
        else:
            super().handle_error(request, client_address)

    def drop_connections(self) -> None:
        for connection in list(self._connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # its thread has just closed it
                continue


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: tests read `requests`."""

    def do_GET(self) -> None:
        self.server.fake.looked_at.append(self.path)
        found = self.server.fake.pages.get(self.path)
        missing = {"error": {"message": "not found", "type": "not_found_error"}}
        self._whole(404 if found is None else 200, {}, missing if found is None else found)

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        at = time.monotonic()
        path = self.path.split("?")[0]
        headers = {name.lower(): value for name, value in self.headers.items()}
        recorded = Recorded(path, headers, json.loads(raw), at)
        wire = PATHS.get(path.removeprefix("/v1"))
        if wire is None:
            self.server.fake.others.append(recorded)
            show = self.server.fake.show if path == "/api/show" else None
            missing = {"error": {"message": f"no such path: {path}", "type": "not_found_error"}}
            return self._whole(200 if show is not None else 404, {}, show if show is not None else missing)
        turn, number = self.server.fake.answer(recorded, wire)
        if turn.status != 200:
            return self._whole(turn.status, turn.headers, error_body(wire, turn) if turn.body is None else turn.body)
        if turn.whole is not None:
            return self._whole(200, turn.headers, turn.whole)
        if turn.fault == "silent" and not self.server.fake.hang(self.connection):
            return self._leave()
        if turn.raw is not None:
            return self._stream(turn, Frames([turn.raw], [], "", ""))
        free_text = {tool["name"] for tool in recorded.body.get("tools", ()) if tool.get("type") == "custom"}
        return self._stream(turn, frames(wire, turn, number, str(recorded.body.get("model", "")), free_text))

    def _whole(self, status: int, headers: Mapping[str, str], body: object) -> None:
        raw = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _stream(self, turn: Turn, answer: Frames) -> None:
        self.send_response(200)
        for name, value in {"content-type": answer.media_type, **turn.headers}.items():
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for frame in answer.content:
            self._write(frame, turn)
        match turn.fault:
            case "error":
                self._write(answer.error, turn)
            case "malformed":
                self._write(answer.malformed, turn)
            case "drop":
                return self._leave()
            case "hang" if not self.server.fake.hang(self.connection):
                return self._leave()
        if turn.fault not in ("error", "cut"):
            for frame in answer.end:
                self._write(frame, turn)
        self.wfile.write(b"0\r\n\r\n")

    def _write(self, frame: str, turn: Turn) -> None:
        raw = frame.encode()
        parts = [raw[at : at + 1] for at in range(len(raw))] if turn.fault == "bytewise" else [raw]
        for part in parts:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))

    def _leave(self) -> None:
        self.close_connection = True


def tokens_in(body: Mapping[str, Any]) -> int:
    """What a request takes, by a tokenizer of four characters a token."""
    parts = {name: body[name] for name in ("system", "instructions", "messages", "input", "tools") if name in body}
    return len(json.dumps(parts, ensure_ascii=False)) // 4


def _peek(connection: socket.socket) -> bytes:
    """What the client sent and nobody read; nothing when it closed the connection."""
    try:
        return connection.recv(1, socket.MSG_PEEK)
    except OSError:
        return b""
