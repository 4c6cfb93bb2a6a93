"""How a session talks to the server of its browser. It runs in the session's process, not in the server's."""

from contextlib import suppress

from textual.drivers._byte_stream import ByteStream  # how the server frames what it sends
from textual.drivers.web_driver import WebDriver, _ExitInput  # how it is told that the user has left
from textual.messages import ExitApp

from tui.answering import Hearing

NAME = f"{__name__}:ServedDriver"
"""As the environment names it."""


class ServedDriver(WebDriver):
    def run_input_thread(self) -> None:
        """Hears what is typed, as at a terminal, until there is nothing more to come: with its server the session is
        over, too."""
        with suppress(_ExitInput):
            self._hear(Hearing(self.process_message, self._debug), ByteStream())
        self._input_reader.close()
        self._app.post_message(ExitApp())

    def _hear(self, hearing: Hearing, packets: ByteStream) -> None:
        for data in self._input_reader:
            typed = b""
            for kind, payload in packets.feed(data) if data else ():
                if kind == "D":
                    typed += payload
                else:
                    self._on_meta(kind, payload)
            if typed:
                hearing.hear(typed)
            else:
                hearing.wait()
