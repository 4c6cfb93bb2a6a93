"""What a browser's page sends, as the session hears it."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from textual.drivers._byte_stream import ByteStream

from ebbtide.tui.integrations.browser.driver import ServedDriver
from ebbtide.tui.terminal.replies import READ_PAUSE_S
from ebbtide.tui.terminal.terminal_driver import ReplyReadingDriver
from ebbtide.tui.typeahead import TypeaheadFilter


class Reads:
    """A reader of what the page sends: each key for itself, and nothing behind each, as Textual's own says it."""

    timeout = 0.1

    def __init__(self, typed: bytes) -> None:
        self._typed = typed
        self.pauses: set[float] = set()

    def __iter__(self) -> Iterator[bytes]:
        for key in self._typed:
            yield b"D" + (1).to_bytes(4, "big") + bytes([key])
            yield b""
            self.pauses.add(self.timeout)
        yield b""


class ReceivedEvents(list[bytes]):
    """What was heard, a read each."""

    def feed_bytes(self, typed: bytes) -> None:
        self.append(typed)

    def wait(self) -> None: ...


@pytest.mark.parametrize(
    ("is_asking", "expected", "pause"), [(True, [b"yes"], READ_PAUSE_S), (False, [b"y", b"e", b"s"], 0.1)]
)
def test_keys_with_hardly_a_pause_are_one_read_while_something_is_asked(
    is_asking: bool, expected: list[bytes], pause: float
) -> None:
    driver = ServedDriver.__new__(ServedDriver)  # without an app: what is heard is no matter of the screen
    reads, hearing = Reads(b"yes"), ReceivedEvents()
    driver._input_reader = cast(Any, reads)
    driver.joins_reads = lambda: is_asking
    driver._read_loop(cast(Any, hearing), ByteStream())
    assert (hearing, reads.pauses, reads.timeout) == (expected, {pause}, 0.1)


@pytest.mark.parametrize("driver_class", [ServedDriver, ReplyReadingDriver])
def test_each_driver_is_told_when_something_is_asked(driver_class: type[ServedDriver | ReplyReadingDriver]) -> None:
    driver = driver_class.__new__(driver_class)
    keys = TypeaheadFilter(cast(Any, SimpleNamespace(screen=None)), cast(Any, None), guard_s=0.5)
    keys.watch_driver(driver)
    assert "joins_reads" in vars(driver)
    assert not driver.joins_reads()
