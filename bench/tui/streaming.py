"""Checks that the interface keeps up with a streaming answer, on one core, while text is typed.

python -m bench.tui.streaming [TOKENS] [TOKENS A SECOND]"""

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bench.measure import compile_sources, row
from bench.tui.sessions import ANSWER, LAST, ebb, home, store_session
from bench.tui.terminal import Terminal

ID = "aa11bb22cc33"
MESSAGES = 2_000
TYPED_TEXT = "somebody types while it streams"


class Model(ThreadingHTTPServer):
    """A server that streams its one answer at a steady pace."""

    daemon_threads = True

    def __init__(self, tokens: int, pace: float, silence: float = 0.0) -> None:
        """`silence` is the delay before the first token, in seconds."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.tokens, self.pace, self.silence = tokens, pace, silence
        self.said: dict[int, float] = {}
        """When each mark in the text was sent, by number."""
        self.late = 0.0
        """Maximum delay of the server itself, in seconds."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Model

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        asked = len(self.rfile.read(int(self.headers.get("content-length", 0)))) // 4
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        began = time.monotonic() + self.server.silence
        for number, token in enumerate(tokens(self.server.tokens)):
            due = began + number / self.server.pace
            self.server.late = max(self.server.late, time.monotonic() - due)
            time.sleep(max(0.0, due - time.monotonic()))
            if token.startswith("mark-"):
                self.server.said[int(token.strip().removeprefix("mark-"))] = time.monotonic()
            self._send({"choices": [{"index": 0, "delta": {"content": token}}]})
        usage = {"prompt_tokens": asked, "completion_tokens": self.server.tokens}
        self._send({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, event: object) -> None:
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())


def tokens(count: int) -> Iterator[str]:
    """An answer with paragraphs, lists, code and tables, and a numbered mark every hundred tokens."""
    number = 0
    while True:
        for word in (ANSWER.format(count=number) + "\n").replace(" ", " \0").split("\0"):
            yield f"mark-{number // 100} " if number % 100 == 99 else word
            number += 1
            if number == count:
                return


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    pace = float(sys.argv[2]) if len(sys.argv) > 2 else 200.0
    compile_sources()
    with tempfile.TemporaryDirectory() as name:
        folder, project = Path(name) / "home", Path(name) / "project"
        project.mkdir()
        model = Model(count, pace)
        env = home(folder, model.url)
        store_session(folder, project, ID, MESSAGES)
        with Terminal(ebb("-r", ID), env, project, cores={min(os.sched_getaffinity(0))}) as terminal:
            terminal.shows(LAST)
            terminal.rest()
            before = terminal.load()
            terminal.press("tell me everything\r")
            lags = mark_delays(terminal, model, count // 100)
            after = terminal.load()
            terminal.shows(TYPED_TEXT[: count // 300])  # the typed text is in the prompt
        seconds = count / pace
    print(row("token to its paint", [1000 * lag for lag in lags], "ms"))
    print(row("of the last tenth", [1000 * lag for lag in lags[-len(lags) // 10 :]], "ms"))
    print(row("the server's own delay at worst", [1000 * model.late], "ms"))
    print(row("processor time of the core", [100 * (after.cpu - before.cpu) / seconds], "%", 100))
    print(row("peak memory", [after.peak_mb], "MB"))
    return 0


def mark_delays(terminal: Terminal, model: Model, marks: int) -> list[float]:
    """Seconds from sending each mark to its appearance on the screen, while letters are typed occasionally."""
    lags = []
    for number in range(marks):
        seen = terminal.shows(f"mark-{number} ")
        lags.append(seen - model.said[number])
        if number % 3 == 2:
            terminal.press(TYPED_TEXT[number // 3 : number // 3 + 1])
    terminal.rest()
    return lags


if __name__ == "__main__":
    sys.exit(main())
