"""Checks that the interface keeps up with a streaming answer, on one core, while text is typed.

python -m bench.tui.streaming [TOKENS] [TOKENS A SECOND]"""

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeAlias

from bench.measure import compile_sources, format_row
from bench.tui.sessions import ANSWER_TEMPLATE, LAST_LINE, create_home, ebb_command, store_session
from bench.tui.terminal import Terminal

SESSION_ID = "aa11bb22cc33"
SESSION_MESSAGES = 2_000
TYPED_TEXT = "somebody types while it streams"
Delta: TypeAlias = Mapping[str, object]
"""What one event of a stream adds to the message."""
Reply: TypeAlias = Callable[[int, int], Iterator[Delta]]
"""Returns what is streamed, given the number of tokens and of earlier requests."""


class StreamingServer(ThreadingHTTPServer):
    """A model server that streams one answer at a steady pace."""

    daemon_threads = True

    def __init__(
        self,
        tokens: int,
        pace: float,
        silence: float = 0.0,
        reply: Reply | None = None,
    ) -> None:
        """`silence`: delay before the first token, in seconds. `pace`: tokens per second."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.tokens, self.pace, self.silence = tokens, pace, silence
        self.reply = reply or (lambda count, _: ({"content": token} for token in answer_tokens(count)))
        self.request_count = 0
        self.sent_at: dict[int, float] = {}
        """Time at which each numbered mark in the text was sent."""
        self.max_own_delay = 0.0
        """Maximum delay of the server itself, in seconds."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: StreamingServer

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        with suppress(ConnectionError):  # the measured program ends before its answer does
            self._answer()

    def _answer(self) -> None:
        asked = len(self.rfile.read(int(self.headers.get("content-length", 0)))) // 4
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        request_number, self.server.request_count = self.server.request_count, self.server.request_count + 1
        began, finish_reason = time.monotonic() + self.server.silence, "stop"
        for number, delta in enumerate(self.server.reply(self.server.tokens, request_number)):
            due = began + number / self.server.pace
            self.server.max_own_delay = max(self.server.max_own_delay, time.monotonic() - due)
            time.sleep(max(0.0, due - time.monotonic()))
            if (token := str(delta.get("content", ""))).startswith("mark-"):
                self.server.sent_at[int(token.strip().removeprefix("mark-"))] = time.monotonic()
            finish_reason = "tool_calls" if "tool_calls" in delta else finish_reason
            self._send({"choices": [{"index": 0, "delta": delta}]})
        usage = {"prompt_tokens": asked, "completion_tokens": self.server.tokens}
        self._send({"choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, event: object) -> None:
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())


def answer_tokens(count: int) -> Iterator[str]:
    """Yield the tokens of an answer with paragraphs, lists, code and tables. Every hundredth token is a numbered
    mark."""
    number = 0
    while True:
        for word in (ANSWER_TEMPLATE.format(count=number) + "\n").replace(" ", " \0").split("\0"):
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
        model = StreamingServer(count, pace)
        env = create_home(folder, model.url)
        store_session(folder, project, SESSION_ID, SESSION_MESSAGES)
        with Terminal(ebb_command("-r", SESSION_ID), env, project, cores={min(os.sched_getaffinity(0))}) as terminal:
            terminal.wait_for_text(LAST_LINE)
            terminal.wait_until_idle()
            before = terminal.read_load()
            terminal.press("tell me everything\r")
            lags = mark_delays(terminal, model, count // 100)
            after = terminal.read_load()
            terminal.wait_for_text(TYPED_TEXT[: count // 300])  # the typed text is in the prompt
        seconds = count / pace
    print(format_row("token to its paint", [1000 * lag for lag in lags], "ms"))
    print(format_row("of the last tenth", [1000 * lag for lag in lags[-len(lags) // 10 :]], "ms"))
    print(format_row("the server's own delay at worst", [1000 * model.max_own_delay], "ms"))
    print(format_row("processor time of the core", [100 * (after.cpu - before.cpu) / seconds], "%", 100))
    print(format_row("peak memory", [after.peak_mb], "MB"))
    return 0


def mark_delays(terminal: Terminal, model: StreamingServer, marks: int) -> list[float]:
    """Return the seconds from sending each mark to its appearance on the screen. Letters are typed occasionally in the
    meantime."""
    lags = []
    for number in range(marks):
        seen = terminal.wait_for_text(f"mark-{number} ")
        lags.append(seen - model.sent_at[number])
        if number % 3 == 2:
            terminal.press(TYPED_TEXT[number // 3 : number // 3 + 1])
    terminal.wait_until_idle()
    return lags


if __name__ == "__main__":
    sys.exit(main())
