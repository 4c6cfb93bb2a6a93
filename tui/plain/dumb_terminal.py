"""Reads lines edited by the terminal itself, for terminals that can only print. It writes no control sequences."""

import asyncio
import codecs
import os
import select
import signal
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic

from ebbtide.tui.plain.reader import PROMPT, LineKeys, is_continued, join_continued
from ebbtide.tui.prompt.key_arrivals import Arrival

MAX_LINE_BYTES = 4_095
"""Bytes of a line after which a terminal drops input."""


_MAX_JOINED_READS = 1_000
"""Maximum reads that are joined."""


class CookedReader:
    """Reads from one descriptor and writes to another."""

    def __init__(self, source: int, target: int, keys: LineKeys) -> None:
        self._source = source
        self._target = target
        self._loop = asyncio.get_running_loop()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._typed = ""
        self._parts: list[str] = []
        """Lines of an incomplete message."""
        self._lines: deque[tuple[str, Arrival]] = deque()
        self._arrival = Arrival(monotonic())
        self._reads = 0
        self._is_at_end = False
        self._arrived = asyncio.Event()
        self._prompt = ""
        self._is_prompted = False
        """The prompt stands at the beginning of the line that the cursor is on."""
        self._keys = keys
        self._is_lent = False
        """Whether another program is using the terminal."""
        self._unshown: list[str] = []
        """Lines to print when the terminal is returned."""
        self._loop.add_reader(source, self._read_some)
        self._loop.add_signal_handler(signal.SIGINT, self._interrupt)

    async def read(self) -> str:
        self._show_prompt()
        while not self._lines and not self._is_at_end:
            self._arrived.clear()
            await self._arrived.wait()
        if not self._lines:
            self.ask("")
            raise EOFError
        line, self._arrival = self._lines.popleft()
        return line

    @property
    def arrival(self) -> Arrival:
        return self._arrival

    def show(self, lines: Sequence[str]) -> None:
        if self._is_lent:
            self._unshown += lines
        elif lines:
            self._write(("\n" if self._is_prompted else "") + "".join(f"{line}\n" for line in lines))
            self._is_prompted = False
            self._show_prompt()

    async def wait_until_printed(self) -> None:
        """Return at once: lines are printed immediately."""

    def ask(self, prompt: str) -> None:
        if prompt != self._prompt:
            self._prompt = prompt
            if self._is_prompted:
                self._write("\n")
                self._is_prompted = False
            self._show_prompt()

    def prefill(self, text: str) -> bool:
        return False

    def prefill_answer(self, prompt: str, text: str) -> bool:
        return False

    async def lend_terminal(self, work: Callable[[], str]) -> str:
        self._loop.remove_reader(self._source)
        self._is_lent, self._is_prompted = True, False
        try:
            return await asyncio.to_thread(work)
        finally:
            self._is_lent = False
            if not self._is_at_end:
                self._loop.add_reader(self._source, self._read_some)
            unshown, self._unshown = self._unshown, []
            self.show(unshown)
            self._show_prompt()

    @property
    def has_line_editing(self) -> bool:
        return False

    @property
    def draft(self) -> str:
        return join_continued([*self._parts, ""]).rstrip() if self._parts else ""

    def close(self) -> None:
        self._loop.remove_reader(self._source)
        self._loop.remove_signal_handler(signal.SIGINT)
        self._end()

    def _show_prompt(self) -> None:
        if self._prompt and not self._is_lent and not self._is_prompted and not self._lines and not self._is_at_end:
            self._write(self._prompt)
            self._is_prompted = True

    def _interrupt(self) -> None:
        if self._is_lent:
            return  # it is meant for who has the terminal
        self._typed = ""  # the terminal has dropped what was typed as well
        if self.draft:
            self._keys.cleared(self.draft)
            self._parts.clear()
            self.show(("Taken away; `/history` brings it back.",))
        else:
            self._keys.interrupted()

    def _read_some(self) -> None:
        """Read all available input. A terminal delivers a paste line by line."""
        came, whole = monotonic(), list[str]()
        self._reads += 1
        for _ in range(_MAX_JOINED_READS):
            raw = self._read()
            if not raw:
                if not os.isatty(self._source) or self._keys.may_end():
                    self._loop.remove_reader(self._source)
                    self._end()
                break
            whole += self._lines_in(raw)
            if not select.select([self._source], [], [], 0)[0]:
                break
        if len(whole) > 1 and self._prompt in ("", PROMPT) and os.isatty(self._source):
            self._parts += [f"{line}\\" for line in whole]  # pasted: it goes on until a line comes by itself
            self.show((f"{len(whole)} lines were pasted and are not sent yet. Enter sends them, Ctrl-C drops them.",))
            return
        self._lines += ((line, Arrival(came, self._reads, is_alone=len(whole) == 1)) for line in whole)
        self._arrived.set()

    def _read(self) -> bytes:
        try:
            return os.read(self._source, 65_536)
        except OSError:  # the terminal is gone
            return b""

    def _lines_in(self, raw: bytes) -> list[str]:
        """The messages completed by this input."""
        if len(raw) == MAX_LINE_BYTES + 1:
            self.show(("Note: the terminal takes no more on one line; end a line with \\ to go on with the next.",))
        *lines, self._typed = (self._typed + self._decoder.decode(raw)).split("\n")
        whole = list[str]()
        for line in lines:
            self._is_prompted = False  # the terminal has gone on to the next line
            self._parts.append(line)
            if not is_continued(line):
                whole.append(join_continued(self._parts).removesuffix("\n"))
                self._parts.clear()
        return whole

    def _end(self) -> None:
        self._is_at_end = True
        self._arrived.set()

    def _write(self, text: str) -> None:
        raw = text.encode("utf-8", "replace")
        try:
            while raw:
                raw = raw[os.write(self._target, raw) :]
        except OSError:  # the terminal is gone
            self._end()
