"""The driver that connects a session to the web server. It runs in the session's process."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from textual.app import App
from textual.drivers._byte_stream import ByteStream  # splits the server's bytes into messages
from textual.drivers.web_driver import WebDriver, _ExitInput  # raised when the user has left
from textual.messages import ExitApp

from ebbtide.tui.terminal.display import Display
from ebbtide.tui.terminal.replies import MAX_JOINED_READS, READ_PAUSE_S, may_be_pasted
from ebbtide.tui.terminal.terminal_driver import TerminalInput

DRIVER_NAME = f"{__name__}:ServedDriver"
"""The driver's name, as set in the environment variable `TEXTUAL_DRIVER`."""


class ServedDriver(WebDriver):
    joins_reads: Callable[[], bool] = staticmethod(lambda: False)
    """Whether simultaneous input counts as one read."""

    def __init__(self, app: App[Any], **options: Any) -> None:  # noqa: ANN401  # Textual's
        super().__init__(app, **options)
        self.display = Display(self._draw, lambda: self._app.call_later(self.display.draw))

    def _draw(self, text: str) -> None:
        self.write(text)  # blocks until the server has accepted all of it
        self.display.mark_idle()

    def on_meta(self, packet_type: str, payload: dict[str, object]) -> None:
        """Handle a message from the server. When a new page connects, redraw everything, because its terminal is
        empty."""
        if packet_type != "shown":
            return super().on_meta(packet_type, payload)
        self.write("\x1b[?1049h\x1b[?25l")
        self._enable_mouse_support()
        self._enable_bracketed_paste()
        self.display.invalidate()
        super().on_meta("resize", payload)
        self._app.call_later(self._app.refresh, layout=True)
        return None

    def run_input_thread(self) -> None:
        """Read input until it ends. The session ends when its server does."""
        with suppress(_ExitInput):
            self._read_loop(TerminalInput(self.process_message, self._debug), ByteStream())
        self._input_reader.close()
        self._app.post_message(ExitApp())

    def _read_loop(self, terminal_input: TerminalInput, packets: ByteStream) -> None:
        reads = iter(self._input_reader)
        for data in reads:
            if input_bytes := self._extract_input(data, packets):
                if self.joins_reads() or may_be_pasted(input_bytes):
                    input_bytes += b"".join(self._following_input(reads, packets))
                terminal_input.feed_bytes(input_bytes)
            else:
                terminal_input.wait()

    def _following_input(self, reads: Iterator[bytes], packets: ByteStream) -> Iterator[bytes]:
        """Yield input that follows almost at once. It counts as the same read, because a page sends each key
        separately."""
        usual_timeout, self._input_reader.timeout = self._input_reader.timeout, READ_PAUSE_S
        empty_reads = 0
        try:
            for data in islice(reads, MAX_JOINED_READS):
                empty_reads = 0 if data else empty_reads + 1
                if empty_reads == 2:  # one empty read follows each input, a second one the pause
                    return
                yield self._extract_input(data, packets)
        finally:
            self._input_reader.timeout = usual_timeout

    def _extract_input(self, data: bytes, packets: ByteStream) -> bytes:
        """Get the typed bytes, and handle the server's other messages."""
        input_bytes = b""
        for kind, payload in packets.feed(data) if data else ():
            if kind == "D":
                input_bytes += payload
            else:
                self._on_meta(kind, payload)
        return input_bytes
