"""What the app does outside of its screen: the window's title, news for who looks elsewhere, a stop by the shell."""

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
"""Seconds after which a new size is looked at, however busy the machine is."""


class Attention:
    """One app and the terminal around it."""

    def __init__(self, app: App[Any], way: NotifyName, name: Callable[[], str]) -> None:
        """`way`: how news are told. `name`: what the window is called after."""
        self._app = app
        self._way = way
        self._name = name
        self._window = TerminalWindow(self.write, self._notify, monotonic)

    def attend(self) -> None:
        """From now on the app comes back as it was when it was stopped."""
        self._app.app_resume_signal.subscribe(self._app, lambda _: self._come_back())

    def saw(self, event: Event) -> None:
        if isinstance(event, Resize):
            # Textual's own timer for it never goes off where the machine is too busy to begin it within its 8 ms, and
            # no later size would be heard of.
            asyncio.get_running_loop().call_later(RESIZE_DELAY_S, self._app._check_resize)
        self._window.saw(event)

    def show(self, view: SessionView) -> None:
        self._window.show(view, self._name())

    def write(self, sequence: str) -> None:
        """To the terminal, past the screen."""
        driver = self._app._driver  # Textual has no other way to a terminal
        if driver is not None and self._app.is_running:
            driver.write(sequence)
            driver.flush()

    def copy(self, text: str, say: Callable[[str], None]) -> None:
        """Copies a text. `say` is told what came of it."""

        from ebbtide.tui.terminal.copy import copy  # noqa: PLC0415  # deferred: not before the first paint

        async def work() -> None:
            say(await copy(text, os.environ, sys.platform, self.write))

        self._app.run_worker(work(), group="aside")

    def suspend(self) -> bool:
        """Stops the program until the shell brings it back. Tells whether there is a shell that can."""
        if not can_be_resumed():
            return False
        self._app.action_suspend_process()
        return True

    def abandon(self) -> None:
        """Gives the terminal back at once, whatever hangs."""
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
    """Meanwhile the terminal is somebody else's. It comes back also where something goes wrong then, which Textual does
    not see to. Raises `SuspendNotSupported`."""
    wrong: Exception | None = None
    with app.suspend():
        try:
            yield
        except Exception as error:  # noqa: BLE001  # raised again behind it
            wrong = error
    if wrong is not None:
        raise wrong


def can_be_resumed() -> bool:
    """Whether somebody can bring the program back once it is stopped: a process group whose parent is no shell of the
    same session stays stopped for ever."""
    group, parent = os.getpgrp(), os.getppid()
    while os.getpgid(parent) == group:  # what started us is stopped with us
        above = _parent_of(parent)
        if above is None:
            return True
        parent = above
    return parent > 1 and os.getsid(parent) == os.getsid(0)


def _parent_of(process: int) -> int | None:
    """None where that cannot be found out."""
    with suppress(OSError, ValueError, IndexError):
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        return int(status.rpartition(")")[2].split()[1])
    return None
