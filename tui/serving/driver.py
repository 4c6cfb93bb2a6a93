"""How a session talks to the server of its browser. It runs in the session's process, not in the server's."""

from textual.drivers.web_driver import WebDriver
from textual.messages import ExitApp

NAME = f"{__name__}:ServedDriver"
"""As the environment names it."""


class ServedDriver(WebDriver):
    def run_input_thread(self) -> None:
        """Reads until there is nothing more to come: with its server the session is over, too."""
        super().run_input_thread()
        self._app.post_message(ExitApp())
