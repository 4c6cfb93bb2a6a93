"""The driver through which a session talks to the web server. It runs in the session's process."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from textual.app import App
from textual.drivers._byte_stream import ByteStream  # how the server frames what it sends
from textual.drivers.web_driver import WebDriver, _ExitInput  # how it is told that the user has left
from textual.messages import ExitApp

from ebbtide.tui.terminal.colour_query import TerminalInput
from ebbtide.tui.terminal.display import Display
from ebbtide.tui.terminal.replies import MAX_JOINED_READS, READ_PAUSE_S, may_be_pasted

NAME = f"{__name__}:ServedDriver"
"""Its name in the environment variable."""


class ServedDriver(WebDriver):
    gathers: Callable[[], bool] = staticmethod(lambda: False)
    """Whether simultaneous input counts as one read."""

    def __init__(self, app: App[Any], **options: Any) -> None:  # noqa: ANN401  # Textual's
        super().__init__(app, **options)
        self.display = Display(self._draw, lambda: self._app.call_later(self.display.draw))

    def _draw(self, text: str) -> None:
        self.write(text)  # returns when the server has taken all of it
        self.display.mark_idle()

    def on_meta(self, packet_type: str, payload: dict[str, object]) -> None:
        """Also handle a new page, which starts as an empty terminal."""
        if packet_type != "shown":
            return super().on_meta(packet_type, payload)
        self.write("\x1b[?1049h\x1b[?25l")
        self._enable_mouse_support()
        self._enable_bracketed_paste()
        self.display.forget()
        super().on_meta("resize", payload)
        self._app.call_later(self._app.refresh, layout=True)
        return None

    def run_input_thread(self) -> None:
        """Read input as from a terminal until its end; the session ends with its server."""
        with suppress(_ExitInput):
            self._read_loop(TerminalInput(self.process_message, self._debug), ByteStream())
        self._input_reader.close()
        self._app.post_message(ExitApp())

    def _read_loop(self, hearing: TerminalInput, packets: ByteStream) -> None:
        reads = iter(self._input_reader)
        for data in reads:
            if typed := self._typed_bytes(data, packets):
                if self.gathers() or may_be_pasted(typed):
                    typed += b"".join(self._rest_of_it(reads, packets))
                hearing.feed_bytes(typed)
            else:
                hearing.wait()

    def _rest_of_it(self, reads: Iterator[bytes], packets: ByteStream) -> Iterator[bytes]:
        """Input that follows with hardly a pause: a page sends each key separately."""
        usual, self._input_reader.timeout = self._input_reader.timeout, READ_PAUSE_S
        quiet = 0
        try:
            for data in islice(reads, MAX_JOINED_READS):
                quiet = 0 if data else quiet + 1
                if quiet == 2:  # the reader says so right behind each read, and again when the pause is over
                    return
                yield self._typed_bytes(data, packets)
        finally:
            self._input_reader.timeout = usual

    def _typed_bytes(self, data: bytes, packets: ByteStream) -> bytes:
        """The typed bytes; other messages from the server are handled."""
        typed = b""
        for kind, payload in packets.feed(data) if data else ():
            if kind == "D":
                typed += payload
            else:
                self._on_meta(kind, payload)
        return typed
