"""A web server on loopback, for as long as a block lasts."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias

Answer: TypeAlias = tuple[int, bytes] | tuple[int, bytes, Mapping[str, str]]
"""Status and body, and headers if the body is not JSON."""


class QuietHandler(BaseHTTPRequestHandler):
    """Handles requests without a line for each of them."""

    def reply(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers["content-length"]))

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def _do_nothing() -> None: ...


@contextmanager
def web_server(
    handler: type[BaseHTTPRequestHandler] | Callable[[QuietHandler], Answer],
    release: Callable[[], None] = _do_nothing,
) -> Iterator[str]:
    """The address, without a path, at which requests are handled so; a function answers each GET and POST. `release`
    ends what is still being answered."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler if isinstance(handler, type) else _handler_of(handler))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        release()
        server.shutdown()
        thread.join()
        server.server_close()


def _handler_of(answer: Callable[[QuietHandler], Answer]) -> type[QuietHandler]:
    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.reply(*answer(self))

        do_POST = do_GET

    return Handler
