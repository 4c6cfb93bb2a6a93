"""Reads lines on terminals that can only print. Leaves line editing to the terminal driver and writes no control
sequences."""

import asyncio
import codecs
import os
import select
import signal
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic

from ebbtide.tui.plain.reader import PROMPT, KeyCallbacks, is_continued, join_continued_lines
from ebbtide.tui.prompt.key_arrivals import KeyArrival

MAX_LINE_BYTES = 4_095
"""Maximum length of a line in bytes. Terminals drop any input beyond it."""


_MAX_JOINED_READS = 1_000
"""Maximum number of reads that are treated as one."""


class DumbTerminalReader:
    """Reads from one file descriptor and writes to another."""

    def __init__(self, input_descriptor: int, output_descriptor: int, keys: KeyCallbacks) -> None:
        self._input_descriptor = input_descriptor
        self._output_descriptor = output_descriptor
        self._loop = asyncio.get_running_loop()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._partial_line = ""
        self._continued_lines: list[str] = []
        """Lines of an incomplete message. All but the last end with a backslash."""
        self._ready_lines: deque[tuple[str, KeyArrival]] = deque()
        self._arrival = KeyArrival(monotonic())
        self._read_count = 0
        self._is_at_end = False
        self._has_input = asyncio.Event()
        self._prompt = ""
        self._is_prompt_visible = False
        """Whether the cursor's line already begins with the prompt."""
        self._keys = keys
        self._is_terminal_in_use = False
        """Whether another program is using the terminal."""
        self._buffered_lines: list[str] = []
        """Lines to print when the other program has finished with the terminal."""
        self._loop.add_reader(input_descriptor, self._read_available)
        self._loop.add_signal_handler(signal.SIGINT, self._interrupt)

    async def read(self) -> str:
        self._show_prompt()
        while not self._ready_lines and not self._is_at_end:
            self._has_input.clear()
            await self._has_input.wait()
        if not self._ready_lines:
            self.set_prompt("")
            raise EOFError
        line, self._arrival = self._ready_lines.popleft()
        return line

    @property
    def arrival(self) -> KeyArrival:
        return self._arrival

    def print_lines(self, lines: Sequence[str]) -> None:
        if self._is_terminal_in_use:
            self._buffered_lines += lines
        elif lines:
            self._write(("\n" if self._is_prompt_visible else "") + "".join(f"{line}\n" for line in lines))
            self._is_prompt_visible = False
            self._show_prompt()

    async def wait_until_printed(self) -> None:
        """Do nothing: lines are printed immediately."""

    def set_prompt(self, prompt: str) -> None:
        if prompt != self._prompt:
            self._prompt = prompt
            if self._is_prompt_visible:
                self._write("\n")
                self._is_prompt_visible = False
            self._show_prompt()

    def prefill(self, text: str, prompt: str = PROMPT) -> bool:
        return False

    async def run_with_terminal(self, work: Callable[[], str]) -> str:
        self._loop.remove_reader(self._input_descriptor)
        self._is_terminal_in_use, self._is_prompt_visible = True, False
        try:
            return await asyncio.to_thread(work)
        finally:
            self._is_terminal_in_use = False
            if not self._is_at_end:
                self._loop.add_reader(self._input_descriptor, self._read_available)
            buffered_lines, self._buffered_lines = self._buffered_lines, []
            self.print_lines(buffered_lines)
            self._show_prompt()

    @property
    def has_line_editing(self) -> bool:
        return False

    @property
    def draft(self) -> str:
        return join_continued_lines([*self._continued_lines, ""]).rstrip() if self._continued_lines else ""

    def close(self) -> None:
        self._loop.remove_reader(self._input_descriptor)
        self._loop.remove_signal_handler(signal.SIGINT)
        self._mark_end()

    def _show_prompt(self) -> None:
        if (
            self._prompt
            and not self._is_terminal_in_use
            and not self._is_prompt_visible
            and not self._ready_lines
            and not self._is_at_end
        ):
            self._write(self._prompt)
            self._is_prompt_visible = True

    def _interrupt(self) -> None:
        if self._is_terminal_in_use:
            return  # Ctrl-C is for the program that has the terminal
        self._partial_line = ""  # the terminal has also discarded the typed text
        if self.draft:
            self._keys.on_clear(self.draft)
            self._continued_lines.clear()
            self.print_lines(("Cleared; `/history` restores it.",))
        else:
            self._keys.on_interrupt()

    def _read_available(self) -> None:
        """Read all available input. Terminals deliver a paste line by line."""
        arrived_at = monotonic()
        messages: list[str] = []
        self._read_count += 1
        for _ in range(_MAX_JOINED_READS):
            data = self._read()
            if not data:
                if not os.isatty(self._input_descriptor) or self._keys.on_end_key():
                    self._loop.remove_reader(self._input_descriptor)
                    self._mark_end()
                break
            messages += self._completed_messages(data)
            if not select.select([self._input_descriptor], [], [], 0)[0]:
                break
        if len(messages) > 1 and self._prompt in ("", PROMPT) and os.isatty(self._input_descriptor):
            self._continued_lines += [f"{message}\\" for message in messages]  # a paste ends with the next single line
            self.print_lines((f"{len(messages)} lines pasted, not sent yet. Enter sends them, Ctrl-C discards them.",))
            return
        self._ready_lines += (
            (message, KeyArrival(arrived_at, self._read_count, is_alone=len(messages) == 1)) for message in messages
        )
        self._has_input.set()

    def _read(self) -> bytes:
        try:
            return os.read(self._input_descriptor, 65_536)
        except OSError:  # the terminal is gone
            return b""

    def _completed_messages(self, data: bytes) -> list[str]:
        """Return the messages that this input completes."""
        if len(data) == MAX_LINE_BYTES + 1:
            self.print_lines(
                ("Note: the line is too long for this terminal; end a line with \\ to continue on the next.",)
            )
        *lines, self._partial_line = (self._partial_line + self._decoder.decode(data)).split("\n")
        messages = list[str]()
        for line in lines:
            self._is_prompt_visible = False  # the cursor is on the next line
            self._continued_lines.append(line)
            if not is_continued(line):
                messages.append(join_continued_lines(self._continued_lines).removesuffix("\n"))
                self._continued_lines.clear()
        return messages

    def _mark_end(self) -> None:
        self._is_at_end = True
        self._has_input.set()

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        try:
            while data:
                data = data[os.write(self._output_descriptor, data) :]
        except OSError:  # the terminal is gone
            self._mark_end()
