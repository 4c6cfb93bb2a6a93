"""A Textual driver that also reads the terminal's replies about its background colour and size."""

import asyncio
import os
import selectors
import signal
import termios
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import IO, Any

from textual import constants
from textual._time import get_time  # the clock that the parser uses for timeouts
from textual._xterm_parser import (  # drivers offer no other access to replies
    BRACKETED_PASTE_END,
    BRACKETED_PASTE_START,
    XTermParser,
)
from textual.app import App
from textual.drivers import linux_driver
from textual.events import Key, MouseDown, Paste, Resize
from textual.geometry import Size
from textual.message import Message

from ebbtide.tools.lazy import regex
from ebbtide.tui.prompt.key_arrivals import KeyArrival, record_alt_character, record_arrival
from ebbtide.tui.terminal.display import Display
from ebbtide.tui.terminal.replies import (
    MAX_JOINED_READS,
    READ_PAUSE_S,
    REPLY_TIMEOUT_S,
    TerminalReplies,
    may_be_pasted,
    split_pastes,
)
from ebbtide.tui.terminal.signals import is_in_foreground, is_shutdown_requested
from ebbtide.tui.terminal.size_query import SIZE_QUERY, SizeMismatch, SizeReported, TrackedSize, size_in_reply
from ebbtide.tui.terminal.window import POP_TITLE, PUSH_TITLE
from ebbtide.tui.text.themes import BackgroundTone

BACKGROUND_QUERY = "\x1b]11;?\x1b\\"
"""Query for the background colour (OSC 11)."""

_OSC_REPLY = regex(r"\x1b\](\d+;[^\x07\x1b]*)(?:\x07|\x1b\\)")
_COLOR_REPLY = regex(r"11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})(?:/[0-9a-fA-F]{1,4})?")
_ESC_BEFORE_PREFIX = regex(r"\x1b(?=[/!#@])")
"""Esc and a command prefix typed so quickly that they arrive together."""
_ALT_ENTER = regex(r"\x1b[\r\n]")
"""Alt-Enter, as most terminals send it."""
_XTERM_MODIFIED_KEY = regex(r"\x1b\[27;(\d+);(\d+)~")
"""A key with modifiers, as xterm and tmux send it. Textual's parser drops some of them."""
_KITTY_CTRL_KEY = regex(r"\x1b\[(\d+);(?:5|69|133|197)u")
"""Ctrl and a character in the kitty keyboard protocol, whether or not lock keys are on."""
_CTRL_ALIASES = {"91": "\x1b", "104": "\b", "105": "\t", "109": "\r"}
"""Ctrl with `[`, `h`, `i` and `m`, which traditionally mean Esc, Backspace, Tab and Enter. The kitty protocol tells
them apart."""
_ALT_CHARACTER = regex(r"\x1b[^\x1b\[\]OPX^_\x00-\x1f\x7f]")
"""Alt with a character. It is handled here because Textual's parser would wait for more input and would misread a
second such key as `^` plus the character."""
_ALT_PIECES = regex(f"({_ALT_CHARACTER.pattern})")
_ALT_ARROW = regex(r"\x1b\x1b[\[O]([ABCD])")
"""Alt with an arrow key, from terminals that send Esc before the key's own sequence."""
_ALT_BACKSPACE = regex(r"\x1b\[127;11u")
"""Option-Backspace, as sent by Ghostty on macOS."""
_RESTORE_SEQUENCE = (
    "\x1b[m\x1b[r\x1b[?2004l\x1b[?7h\x1b[?2048l\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?2026l"
    f"{POP_TITLE}\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l"
)
"""Undoes the modes that the driver turns on and the state that drawing leaves behind."""
PASTE_STALL_S = 1.0
"""Seconds without pasted text after which Ctrl-C counts as a key again. The end of the paste may have been lost."""
_MAX_COLUMNS, _MAX_LINES = 1_000, 500


class BackgroundColor(Message):
    """The terminal reported its background colour."""

    def __init__(self, tone: BackgroundTone) -> None:
        super().__init__()
        self.tone = tone


def background_in_reply(reply: str) -> BackgroundTone | None:
    """Parse the background colour from a reply; None if it does not contain one."""
    match = _COLOR_REPLY.fullmatch(reply)
    if match is None:
        return None
    red, green, blue = (int(channel, 16) / (16 ** len(channel) - 1) for channel in match.groups())
    return "light" if 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2 > 0.18 else "dark"


def _reply_messages(reply: str) -> Iterator[Message]:
    match = _OSC_REPLY.fullmatch(reply)
    value = background_in_reply(match[1]) if match is not None else size_in_reply(reply)
    if value is not None:
        yield SizeReported(value) if isinstance(value, Size) else BackgroundColor(value)


class _Parser(XTermParser):
    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._replies = TerminalReplies()
        self._wait_until = 0.0
        self.pasted_chunks: list[str] | None = None
        """The text pasted so far; None if no paste is in progress."""
        self._partial_end_mark = ""
        """Input that may be the start of a paste's end mark."""
        self._partial_sequence = ""
        """The start of a sequence that Textual's parser has not finished reading."""

    def feed(self, data: str) -> Iterator[Message]:
        if self.pasted_chunks is not None:
            yield from self._feed_paste(self.pasted_chunks, data)
            return
        replies, now = self._replies, get_time()
        if replies.is_reply_certain and now >= self._wait_until and not replies.completes_reply(data):
            replies.release()
        partial_reply = replies.pending_text if replies.is_reply_certain else ""
        input_text, paste_start, pasted_text = (replies.pending_text + data).partition(BRACKETED_PASTE_START)
        replies.pending_text = ""
        pieces, reply_texts = replies.split_replies(input_text)
        if not (partial_reply and replies.pending_text.startswith(partial_reply)):
            self._wait_until = now + (REPLY_TIMEOUT_S if replies.is_reply_certain else constants.ESCAPE_DELAY)
        for reply_text in reply_texts:
            yield from _reply_messages(reply_text)
        *earlier_pieces, last_piece = pieces
        for piece in earlier_pieces:
            yield from self._parse_piece(piece)
            yield from self._flush_pending()  # input after a reply does not continue what was typed before it
        yield from self._parse_piece(last_piece)
        if paste_start:
            yield from self._parse_piece(replies.release())
            yield from self._flush_pending()
            self.pasted_chunks = []
            yield from self._feed_paste(self.pasted_chunks, pasted_text)

    def _parse_piece(self, piece: str) -> Iterator[Message]:
        if _ESC_BEFORE_PREFIX.match(piece):
            yield Key("escape", "\x1b")
            piece = piece[1:]
        for text, is_pasted in split_pastes(piece):
            if is_pasted:
                yield from self._flush_pending()
                yield Paste(text)
            elif text:  # the parser would take empty text for the end of all input
                yield from self._key_events(_ALT_ARROW.sub("\x1b[1;3\\1", text))

    def _key_events(self, text: str) -> Iterator[Message]:
        """Yield the keys in the text. Alt with a character is complete as soon as another such key begins."""
        for piece in filter(None, _ALT_PIECES.split(text)):
            if self._timeout_time is not None and _ALT_CHARACTER.fullmatch(self._partial_sequence):
                yield from self._flush_pending()
            yield from super().feed(piece)
            escape_index = piece.rfind("\x1b")
            self._partial_sequence = piece[escape_index:] if escape_index >= 0 else self._partial_sequence + piece

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[Key]:
        normalised = _ALT_ENTER.sub("\x1b[13;3u", _ALT_BACKSPACE.sub("\x1b[127;3u", sequence))
        normalised = _XTERM_MODIFIED_KEY.sub("\x1b[\\2;\\1u", normalised)
        normalised = _KITTY_CTRL_KEY.sub(lambda match: _CTRL_ALIASES.get(match[1], match[0]), normalised)
        character = sequence if alt else sequence[1:] if _ALT_CHARACTER.fullmatch(sequence) else ""
        for key in super()._sequence_to_key_events(normalised, alt):
            if character:
                record_alt_character(key, character)
            yield key

    def _feed_paste(self, pasted_pieces: list[str], data: str) -> Iterator[Message]:
        """Yield a paste once it is complete. Textual's parser would process every character and mistake some for
        keys."""
        text, end_mark, remaining_input = (self._partial_end_mark + data).partition(BRACKETED_PASTE_END)
        if not end_mark:
            safe_length = max(0, len(text) - len(BRACKETED_PASTE_END) + 1)
            pasted_pieces.append(text[:safe_length])
            self._partial_end_mark = text[safe_length:]
            return
        self.pasted_chunks, self._partial_end_mark = None, ""
        yield Paste("".join([*pasted_pieces, text]).replace("\0", ""))
        if remaining_input:
            yield from self.feed(remaining_input)

    def tick(self) -> Iterator[Message]:
        """Called every tenth of a second and after input. If input was held for too long, it is treated as keys, or
        dropped if it is certainly the start of a reply."""
        if self._replies.pending_text and get_time() >= self._wait_until:
            yield from self._parse_piece(self._replies.release())
            yield from self._flush_pending()
        yield from super().tick()

    @property
    def has_partial_input(self) -> bool:
        """Whether some input may be incomplete, for example the start of a key sequence."""
        return bool(self._replies.pending_text) or self._timeout_time is not None or self.pasted_chunks is not None

    def _flush_pending(self) -> Iterator[Message]:
        """Treat the held input as complete, so that an Esc becomes the Esc key."""
        if self._timeout_time is not None:
            self._timeout_time = 0.0
            yield from super().tick()


class TerminalInput:
    """Emits keys with their arrival times. Drops sequences that keyboards do not send and the parser cannot handle."""

    def __init__(self, post: Callable[[Message], None], debug: bool, clock: Callable[[], float] = monotonic) -> None:
        self._post_message = post
        self._debug = debug
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._parser = _Parser(debug)
        self._clock = clock
        self._last_read = KeyArrival(clock(), 0)
        """When and how the last input arrived."""
        self._press_count = 0
        """Number of keys, clicks and pastes found so far in the last read."""

    def feed_bytes(self, input_bytes: bytes) -> None:
        """Process one read. During a paste, Ctrl-C counts as a key only if no pasted text has arrived for a while. It
        then ends the paste."""
        previous_time = self._last_read.time
        self._last_read, self._press_count = KeyArrival(self._clock(), (self._last_read.read_number or 0) + 1), 0
        text = self._decode(input_bytes)
        if (
            input_bytes == b"\x03"
            and self._parser.pasted_chunks is not None
            and self._last_read.time >= previous_time + PASTE_STALL_S
        ):
            text = BRACKETED_PASTE_END
        if text:  # empty for part of a character; the parser would take that for the end of all input
            self._post_messages(self._parser.feed(text))

    def wait(self) -> None:
        """Process a pause in the input."""
        self._post_messages(self._parser.tick())

    def _post_messages(self, messages: Iterable[Message]) -> None:
        received_messages = list(self._skip_invalid(messages))
        self._press_count += sum(isinstance(message, Key | MouseDown | Paste) for message in received_messages)
        arrival = replace(self._last_read, is_alone=self._press_count <= 1 and not self._parser.has_partial_input)
        for message in received_messages:
            record_arrival(message, arrival)
            self._post_message(message)

    def _skip_invalid(self, messages: Iterable[Message]) -> Iterator[Message]:
        try:
            yield from messages
        except (ArithmeticError, ValueError):  # an invalid character or size
            self._parser = _Parser(self._debug)


class _ErrorIgnoringWriter:
    """Output that ignores errors once the terminal has been closed. Such errors would end the writer thread, and
    drawing would hang."""

    def __init__(self, file: IO[str], on_idle: Callable[[], object]) -> None:
        """`on_idle` is called in the writer's thread once the terminal has accepted all output."""
        self._file = file
        self._on_idle = on_idle
        self.fileno = file.fileno

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()
        self._on_idle()


class ReplyReadingDriver(linux_driver.LinuxDriver):
    """Textual's driver, extended to read the terminal's replies and to restore the window title."""

    _is_terminal_in_use = True
    """Whether another program is using the terminal."""
    joins_reads: Callable[[], bool] = staticmethod(lambda: False)
    """Whether input that follows almost at once counts as part of the same read."""

    def __init__(self, app: App[Any], **options: Any) -> None:  # noqa: ANN401  # Textual's
        super().__init__(app, **options)
        terminal: Any = self._file
        self._output_descriptor: int = terminal.fileno()
        self._tracked_size = TrackedSize()
        self.display = Display(self.write, lambda: self._app.call_later(self.display.draw))
        self._file = _ErrorIgnoringWriter(terminal, self.display.mark_idle)  # type: ignore[assignment]  # has all methods that Textual uses

    def write(self, data: str) -> None:
        writer = self._writer_thread
        if not self._is_terminal_in_use and writer is not None and writer.is_alive():
            # While another program is using the terminal, nothing empties the writer's queue.
            writer.write(data)

    def start_application_mode(self) -> None:
        self._is_terminal_in_use = False
        self.display.begin()
        super().start_application_mode()  # type: ignore[no-untyped-call]  # Textual's
        self.write(PUSH_TITLE)
        self.query_size()
        # Handle this in the event loop. A signal handler might read the size, be interrupted by the next signal, and
        # then report the outdated size last.
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, self._post_resize)

    def _get_terminal_size(self) -> tuple[int, int]:
        """Get the window's size as reported by the terminal, or else by the system. `COLUMNS` and `LINES` are ignored,
        because they do not change with the window. Huge sizes are reduced, because they would only waste memory."""
        columns, lines = self._tracked_size.current_size(self._system_size)
        return min(columns, _MAX_COLUMNS), min(lines, _MAX_LINES)

    @property
    def _system_size(self) -> Size:
        columns, lines = 0, 0
        with suppress(OSError):
            columns, lines = os.get_terminal_size(self._output_descriptor)
        if not (columns and lines):
            columns, lines = super()._get_terminal_size()
        return Size(columns, lines)

    def query_size(self) -> None:
        """Ask the terminal for its size."""
        self._tracked_size.record_query(self._system_size)
        self.write(SIZE_QUERY)

    def _post_resize(self) -> None:
        self._tracked_size.reset()
        self.display.invalidate()
        if not self._in_band_window_resize:
            size = Size(*self._get_terminal_size())
            self._app.post_message(Resize(size, size))

    def stop_application_mode(self) -> None:
        if self._is_terminal_in_use:
            if is_in_foreground():  # a killed program may have left the terminal in any state
                if self.attrs_before is not None:
                    with suppress(termios.error):
                        termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
                self.reset_terminal()
            return
        self.write(f"\x1b[m{POP_TITLE}")
        super().stop_application_mode()
        self._is_terminal_in_use = True

    def disable_input(self) -> None:
        if not self._is_terminal_in_use:  # a program that touches a terminal lent to another one is stopped
            super().disable_input()

    def reset_terminal(self) -> None:
        """Reset the terminal at once, without using other threads. Its line settings are not reset."""
        with suppress(OSError):
            os.write(self._output_descriptor, _RESTORE_SEQUENCE.encode())

    def resume_application_mode(self) -> None:
        if self._is_terminal_in_use:  # if not lent, another process stopped this one, and the terminal is unchanged
            if (
                is_in_foreground() or not is_shutdown_requested()
            ):  # without a terminal of its own, it would be stopped again and again
                super().resume_application_mode()
        else:
            self.display.invalidate()
            self._app.call_later(self._app.refresh, layout=True)

    def _sigtstp_application(self, *_: object) -> None:
        """Suspend the whole process group, as a terminal would. Otherwise, the parent would wait for this process."""
        if self._auto_restart and not self._is_terminal_in_use:
            self.suspend_application_mode()
            self._must_signal_resume = True
        os.killpg(os.getpgrp(), signal.SIGSTOP)

    def process_message(self, message: Message) -> None:
        if isinstance(message, SizeReported):
            system_size = self._system_size
            if not self._tracked_size.record_reply(message.size, system_size):
                return
            super().process_message(SizeMismatch(message.size, system_size))
            size = Size(*self._get_terminal_size())
            message = Resize(size, size)
        if isinstance(message, Resize):  # reported by the terminal itself
            self.display.invalidate()
        super().process_message(message)

    def run_input_thread(self) -> None:
        """Read input until the app ends or the terminal is gone. The input may contain any bytes."""
        terminal_input = TerminalInput(self.process_message, self._debug)
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(0.1):
                    input_bytes = self._read_input()
                    if not input_bytes:
                        os.kill(os.getpid(), signal.SIGHUP)  # not every terminal sends SIGHUP when it is closed
                        return
                    if self.joins_reads():
                        input_bytes += b"".join(self._following_reads(selector))
                        terminal_input.feed_bytes(input_bytes)
                    elif may_be_pasted(input_bytes):
                        *pieces, last_piece = input_bytes, *self._following_reads(selector)
                        is_separate_enter = (
                            bool(pieces) and last_piece == b"\r"
                        )  # Enter that a program sent after a paste
                        terminal_input.feed_bytes(b"".join(pieces if is_separate_enter else (*pieces, last_piece)))
                        if is_separate_enter:
                            terminal_input.feed_bytes(last_piece)
                    else:
                        terminal_input.feed_bytes(input_bytes)
                else:  # Only after a pause, because right after a read the rest of a key may still arrive.
                    terminal_input.wait()

    def _following_reads(self, selector: selectors.BaseSelector) -> Iterator[bytes]:
        """Yield further input that arrives almost at once. A single write may be read in several pieces."""
        for _ in range(MAX_JOINED_READS):
            if self.exit_event.is_set() or not selector.select(READ_PAUSE_S):
                return
            piece = self._read_input()
            if not piece:
                return  # the next read detects that the terminal is gone
            yield piece

    def _read_input(self) -> bytes:
        """Read the available input; empty if the terminal is gone."""
        try:
            return os.read(self.fileno, 4096)
        except OSError:
            return b""
