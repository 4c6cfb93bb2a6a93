"""Kept bytes whose damage is told to whoever reads them: a sentence for the model and for the user alike."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent.errors import StoreFailed
from store.errors import StoreError
from tools.base import ToolError
from tools.stored_outputs import Content

RERUN = "run the call again if it is needed"


class ContentFailed(StoreFailed, ToolError):
    """What is kept under a reference cannot be read."""


class CheckedContent:
    """Content by its name. Every part of it is as it was stored, or `ContentFailed` is raised."""

    def __init__(self, name: str, opened: Callable[[], Content]) -> None:
        self._name = name
        with self._told():
            self._content = opened()

    @property
    def size(self) -> int:
        return self._content.size

    @property
    def lines(self) -> int:
        return self._content.lines

    def read(self, offset: int, limit: int) -> bytes:
        with self._told():
            return self._content.read(offset, limit)

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        with self._told():
            yield from self._content.chunks(start, end)

    def line_start(self, line: int) -> int:
        with self._told():
            return self._content.line_start(line)

    def line_end(self, offset: int) -> int:
        with self._told():
            return self._content.line_end(offset)

    def close(self) -> None:
        self._content.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            raise ContentFailed(f"`{self._name}` cannot be read: {error}; {RERUN}", error.reason) from error
        except OSError as error:
            text = f"`{self._name}` cannot be read: {error.strerror or error}; {RERUN}"
            raise ContentFailed(text, "unreadable") from error
