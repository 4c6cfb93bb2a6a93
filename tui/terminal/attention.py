"""Terminal features outside the screen: window title, notifications, suspending."""

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

from ebbtide.agent.config.options import NotifyName
from ebbtide.tui.terminal.notify import notify
from ebbtide.tui.terminal.window import TerminalWindow
from ebbtide.tui.view.blocks import SessionView

RESIZE_DELAY_S = 0.1
"""Seconds after which a new size is applied, even on a busy machine."""


class Attention:
    """Connects one app to its terminal."""

    def __init__(self, app: App[Any], way: NotifyName, name: Callable[[], str]) -> None:
        """`way`: the notification method. `name`: the window title."""
        self._app = app
        self._way = way
        self._name = name
        self._window = TerminalWindow(self.write, self._notify, monotonic)

    def attend(self) -> None:
        """Restore the screen after each suspension from now on."""
        self._app.app_resume_signal.subscribe(self._app, lambda _: self._come_back())

    def saw(self, event: Event) -> None:
        if isinstance(event, Resize):
            # Textual's own timer may never fire on a machine too busy to start it within 8 ms; later sizes would then
            # be lost.
            asyncio.get_running_loop().call_later(RESIZE_DELAY_S, self._app._check_resize)
        self._window.saw(event)

    def show(self, view: SessionView) -> None:
        self._window.show(view, self._name())

    def write(self, sequence: str) -> None:
        """Write to the terminal, bypassing the screen."""
        driver = self._app._driver  # Textual has no other way to a terminal
        if driver is not None and self._app.is_running:
            driver.write(sequence)
            driver.flush()

    def copy(self, text: str, say: Callable[[str], None]) -> None:
        """Copy a text. `say` gets the result."""

        from ebbtide.tui.terminal.copy import copy  # noqa: PLC0415  # deferred: not before the first paint

        async def work() -> None:
            say(await copy(text, os.environ, sys.platform, self.write))

        self._app.run_worker(work(), group="aside")

    def suspend(self) -> bool:
        """Suspend the program until the shell resumes it; return whether there is a shell that can."""
        if not can_be_resumed():
            return False
        self._app.action_suspend_process()
        return True

    def abandon(self) -> None:
        """Restore the terminal at once, even if the app hangs."""
        from ebbtide.tui.terminal.colour_query import AnsweringDriver  # noqa: PLC0415  # deferred: it cannot be loaded on every platform

        driver = self._app._driver  # as above
        if isinstance(driver, AnsweringDriver):
            driver.abandon()

    def _come_back(self) -> None:
        self._window.restore_title()
        self._app.refresh(layout=True)

    def _notify(self, title: str, text: str) -> None:
        self._app.run_worker(notify(self._way, title, text, os.environ, self.write), group="aside")


@contextmanager
def suspended(app: App[Any]) -> Iterator[None]:
    """Lend the terminal to another program. It is restored even after an exception, which Textual does not do.
    Raises `SuspendNotSupported`."""
    wrong: Exception | None = None
    with app.suspend():
        try:
            yield
        except Exception as error:  # noqa: BLE001  # raised again behind it
            wrong = error
    if wrong is not None:
        raise wrong


def can_be_resumed() -> bool:
    """Whether a shell can resume the program: a process group without a parent shell in the same session would stay
    stopped forever."""
    group, parent = os.getpgrp(), os.getppid()
    while os.getpgid(parent) == group:  # what started us is stopped with us
        above = _parent_of(parent)
        if above is None:
            return True
        parent = above
    return parent > 1 and os.getsid(parent) == os.getsid(0)


def _parent_of(process: int) -> int | None:
    """The parent's process id; None if unknown."""
    with suppress(OSError, ValueError, IndexError):
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        return int(status.rpartition(")")[2].split()[1])
    return None
