"""Terminal features outside the screen: window title, notifications and suspending."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

from textual.app import App
from textual.events import Event, Resize

from ebbtide.agent.config.options import NotificationMethod
from ebbtide.tui import terminal
from ebbtide.tui.terminal.notify import notify
from ebbtide.tui.terminal.window import TerminalWindow
from ebbtide.tui.view.blocks import SessionView

RESIZE_DELAY_S = 0.1
"""How long after a resize the new size is applied, in seconds, even on a busy machine."""


class TerminalFeatures:
    """Window title, notifications, clipboard and suspending for one app."""

    def __init__(self, app: App[Any], notify_method: NotificationMethod, get_name: Callable[[], str]) -> None:
        """`get_name` returns the session's name for the window title."""
        self._app = app
        self._notify_method = notify_method
        self._get_name = get_name
        self._window = TerminalWindow(self.write, self._notify, monotonic)

    def restore_after_suspension(self) -> None:
        """From now on, restore the screen and window title after each suspension."""
        self._app.app_resume_signal.subscribe(self._app, lambda _: self._restore_screen())

    def handle_event(self, event: Event) -> None:
        if isinstance(event, Resize):
            # Textual's own timer may never fire on a machine that is too busy to start it within 8 ms. Later sizes
            # would then be lost too.
            asyncio.get_running_loop().call_later(RESIZE_DELAY_S, self._app._check_resize)
        self._window.handle_event(event)

    def update(self, view: SessionView) -> None:
        self._window.show(view, self._get_name())

    def write(self, sequence: str) -> None:
        """Write directly to the terminal, bypassing the screen."""
        driver = self._app._driver  # Textual offers no other access to the terminal
        if driver is not None and self._app.is_running:
            driver.write(sequence)
            driver.flush()

    def copy(self, text: str, on_result: Callable[[str], None]) -> None:
        """Copy text to the clipboard. `on_result` is called with a message about how it went."""

        async def copy_and_report() -> None:
            on_result(await terminal.clipboard_copy.copy_text(text, os.environ, sys.platform, self.write))

        self._app.run_worker(copy_and_report(), group="aside")

    def suspend(self) -> bool:
        """Suspend the program until the shell resumes it. Returns False if no shell could resume it."""
        if not can_be_resumed():
            return False
        self._app.action_suspend_process()
        return True

    def restore_terminal(self) -> None:
        """Restore the terminal at once, even if the app hangs."""
        driver = self._app._driver  # Textual offers no public access
        if isinstance(driver, terminal.terminal_driver.ReplyReadingDriver):
            driver.reset_terminal()

    def _restore_screen(self) -> None:
        self._window.restore_title()
        self._app.refresh(layout=True)

    def _notify(self, title: str, text: str) -> None:
        self._app.run_worker(notify(self._notify_method, title, text, os.environ, self.write), group="aside")


@contextmanager
def released_terminal(app: App[Any]) -> Iterator[None]:
    """Let another program use the terminal inside this context. The terminal is restored even after an exception, which
    Textual does not do. Raises `SuspendNotSupported`."""
    raised_error: Exception | None = None
    with app.suspend():
        try:
            yield
        except Exception as error:  # noqa: BLE001  # re-raised after the screen is restored
            raised_error = error
    if raised_error is not None:
        raise raised_error


def can_be_resumed() -> bool:
    """Whether a shell can resume the program. Without a parent shell in the same session, a stopped process group would
    never run again."""
    group, parent = os.getpgrp(), os.getppid()
    while os.getpgid(parent) == group:  # a parent in our group is also stopped
        grandparent = _parent_of(parent)
        if grandparent is None:
            return True
        parent = grandparent
    return parent > 1 and os.getsid(parent) == os.getsid(0)


def _parent_of(process: int) -> int | None:
    """Get the parent's process id; None if unknown."""
    with suppress(OSError, ValueError, IndexError):
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        return int(status.rpartition(")")[2].split()[1])
    return None
