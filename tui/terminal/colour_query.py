"""The driver that reads the terminal's replies about its background colour and size."""

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
from textual._time import get_time  # the clock by which the parser waits
from textual._xterm_parser import (  # the drivers offer no other way to hear of an answer
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
from ebbtide.tui.prompt.key_arrivals import Arrival, note_escape, stamp
from ebbtide.tui.terminal.display import Display
from ebbtide.tui.terminal.replies import (
    MAX_JOINED_READS,
    READ_PAUSE_S,
    REPLY_TIMEOUT,
    TerminalReplies,
    may_be_pasted,
    pasted_in,
)
from ebbtide.tui.terminal.signals import has_terminal, is_shutdown_requested
from ebbtide.tui.terminal.size_query import QUESTION as SIZE_QUESTION
from ebbtide.tui.terminal.size_query import BelievedSize, SizeMismatch, SizeReported, size_of
from ebbtide.tui.terminal.window import POP_TITLE, PUSH_TITLE
from ebbtide.tui.text.themes import Ground

QUESTION = "\x1b]11;?\x1b\\"
"""Query of the background colour (OSC 11)."""

_OSC = regex(r"\x1b\](\d+;[^\x07\x1b]*)(?:\x07|\x1b\\)")
_COLOR = regex(r"11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})(?:/[0-9a-fA-F]{1,4})?")
_ESC_AND_MORE = regex(r"\x1b(?=[/!#@])")
"""Esc followed by a command prefix, typed in one burst."""
_ALT_ENTER = regex(r"\x1b[\r\n]")
"""Alt-Enter as most terminals send it."""
_AS_XTERM = regex(r"\x1b\[27;(\d+);(\d+)~")
"""A key with modifiers as xterm and tmux send it: Textual's parser drops some modifiers."""
_WITH_CTRL = regex(r"\x1b\[(\d+);(?:5|69|133|197)u")
"""Ctrl with a character in the kitty protocol, with or without lock keys."""
_ONE_KEY = {"91": "\x1b", "104": "\b", "105": "\t", "109": "\r"}
"""Ctrl with `[`, `h`, `i` and `m`, which always meant Esc, Backspace, Tab and Enter; the kitty protocol
distinguishes them."""
_ALT = regex(r"\x1b[^\x1b\[\]OPX^_\x00-\x1f\x7f]")
"""Alt with a character. Textual's parser waits for more, and takes a second one for `^` and the character."""
_ALT_PIECES = regex(f"({_ALT.pattern})")
_ALT_ARROW = regex(r"\x1b\x1b[\[O]([ABCD])")
"""Alt with an arrow, from terminals that send Esc before the key's own sequence."""
_ALT_BACKSPACE = regex(r"\x1b\[127;11u")
"""Option-Backspace, as Ghostty on macOS sends it."""
_RESTORE_SEQUENCE = (
    "\x1b[m\x1b[r\x1b[?2004l\x1b[?7h\x1b[?2048l\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?2026l"
    f"{POP_TITLE}\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l"
)
"""Undoes what the driver enables and what drawing leaves behind."""
PASTE_STALL_S = 1.0
"""Seconds without more pasted text after which Ctrl-C is a key again: the end mark may be lost."""
_MAX_COLUMNS, _MAX_LINES = 1_000, 500


class BackgroundColour(Message):
    """The terminal reported its background."""

    def __init__(self, ground: Ground) -> None:
        super().__init__()
        self.ground = ground


def ground_of(answer: str) -> Ground | None:
    """The background in a reply; None if it has none."""
    color = _COLOR.fullmatch(answer)
    if color is None:
        return None
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in color.groups())
    return "light" if 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2 > 0.18 else "dark"


def _reply_messages(reply: str) -> Iterator[Message]:
    osc = _OSC.fullmatch(reply)
    said = ground_of(osc[1]) if osc is not None else size_of(reply)
    if said is not None:
        yield SizeReported(said) if isinstance(said, Size) else BackgroundColour(said)


class _Parser(XTermParser):
    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._replies = TerminalReplies()
        self._held_until = 0.0
        self.pasted: list[str] | None = None
        """The text pasted so far; None outside a paste."""
        self._end = ""
        """The possible start of the end mark."""
        self._begun = ""
        """The start of a sequence in Textual's parser."""

    def feed(self, data: str) -> Iterator[Message]:
        if self.pasted is not None:
            yield from self._paste(self.pasted, data)
            return
        replies, now = self._replies, get_time()
        if replies.is_certain and now >= self._held_until and not replies.completes_reply(data):
            replies.give_up()
        held = replies.begun if replies.is_certain else ""
        typed, begun, pasted = (replies.begun + data).partition(BRACKETED_PASTE_START)
        replies.begun = ""
        pieces, answers = replies.split_replies(typed)
        if not (held and replies.begun.startswith(held)):
            self._held_until = now + (REPLY_TIMEOUT if replies.is_certain else constants.ESCAPE_DELAY)
        for answer in answers:
            yield from _reply_messages(answer)
        *before_answers, last = pieces
        for piece in before_answers:
            yield from self._parse_piece(piece)
            yield from self._flush_pending()  # what comes behind an answer does not go on with what was typed before it
        yield from self._parse_piece(last)
        if begun:
            yield from self._parse_piece(replies.give_up())
            yield from self._flush_pending()
            self.pasted = []
            yield from self._paste(self.pasted, pasted)

    def _parse_piece(self, piece: str) -> Iterator[Message]:
        if _ESC_AND_MORE.match(piece):
            yield Key("escape", "\x1b")
            piece = piece[1:]
        for text, is_pasted in pasted_in(piece):
            if is_pasted:
                yield from self._flush_pending()
                yield Paste(text)
            elif text:  # nothing at all, as of half a character, would mean the end of all typing
                yield from self._key_events(_ALT_ARROW.sub("\x1b[1;3\\1", text))

    def _key_events(self, text: str) -> Iterator[Message]:
        """Keys, where Alt with a character ends as soon as the next one begins."""
        for piece in filter(None, _ALT_PIECES.split(text)):
            if self._timeout_time is not None and _ALT.fullmatch(self._begun):
                yield from self._flush_pending()
            yield from super().feed(piece)
            begins = piece.rfind("\x1b")
            self._begun = piece[begins:] if begins >= 0 else self._begun + piece

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[Key]:
        known = _ALT_ENTER.sub("\x1b[13;3u", _ALT_BACKSPACE.sub("\x1b[127;3u", sequence))
        known = _AS_XTERM.sub("\x1b[\\2;\\1u", known)
        known = _WITH_CTRL.sub(lambda found: _ONE_KEY.get(found[1], found[0]), known)
        character = sequence if alt else sequence[1:] if _ALT.fullmatch(sequence) else ""
        for key in super()._sequence_to_key_events(known, alt):
            if character:
                note_escape(key, character)
            yield key

    def _paste(self, parts: list[str], data: str) -> Iterator[Message]:
        """Emit a paste once it is complete. Textual's parser handles characters one by one, and takes some for keys."""
        text, ended, typed = (self._end + data).partition(BRACKETED_PASTE_END)
        if not ended:
            cut = max(0, len(text) - len(BRACKETED_PASTE_END) + 1)
            parts.append(text[:cut])
            self._end = text[cut:]
            return
        self.pasted, self._end = None, ""
        yield Paste("".join([*parts, text]).replace("\0", ""))
        if typed:
            yield from self.feed(typed)

    def tick(self) -> Iterator[Message]:
        """Called every tenth of a second, and after input. Characters held for too long are not a reply; certain
        replies are dropped."""
        if self._replies.begun and get_time() >= self._held_until:
            yield from self._parse_piece(self._replies.give_up())
            yield from self._flush_pending()
        yield from super().tick()

    @property
    def is_waiting(self) -> bool:
        """Whether the input may continue, so the key is not known yet."""
        return bool(self._replies.begun) or self._timeout_time is not None or self.pasted is not None

    def _flush_pending(self) -> Iterator[Message]:
        """Treat the held input as complete: Esc is Esc."""
        if self._timeout_time is not None:
            self._timeout_time = 0.0
            yield from super().tick()


class TerminalInput:
    """Emits keys and how they arrived. Sequences that no keyboard sends and that break the parser are dropped."""

    def __init__(self, tell: Callable[[Message], None], debug: bool, clock: Callable[[], float] = monotonic) -> None:
        self._tell = tell
        self._debug = debug
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._parser = _Parser(debug)
        self._clock = clock
        self._read = Arrival(clock(), 0)
        """The arrival of the last read."""
        self._pressed = 0
        """Number of keys, clicks and pastes in it so far."""

    def feed_bytes(self, typed: bytes) -> None:
        """Process one read. A paste is ended only by Ctrl-C long after its last text."""
        before = self._read.at
        self._read, self._pressed = Arrival(self._clock(), (self._read.read or 0) + 1), 0
        text = self._decode(typed)
        if typed == b"\x03" and self._parser.pasted is not None and self._read.at >= before + PASTE_STALL_S:
            text = BRACKETED_PASTE_END
        if text:  # otherwise it is part of a character; nothing at all would be the end of all typing
            self._take(self._parser.feed(text))

    def wait(self) -> None:
        """Process a pause in the input."""
        self._take(self._parser.tick())

    def _take(self, messages: Iterable[Message]) -> None:
        heard = list(self._skip_invalid(messages))
        self._pressed += sum(isinstance(message, Key | MouseDown | Paste) for message in heard)
        came = replace(self._read, is_alone=self._pressed <= 1 and not self._parser.is_waiting)
        for message in heard:
            stamp(message, came)
            self._tell(message)

    def _skip_invalid(self, messages: Iterable[Message]) -> Iterator[Message]:
        try:
            yield from messages
        except (ArithmeticError, ValueError):  # numbers of no character, sizes of no screen
            self._parser = _Parser(self._debug)


class _ForgivingWriter:
    """Output to a terminal that ignores a closed terminal: otherwise writers would end and drawing would hang."""

    def __init__(self, file: IO[str], rested: Callable[[], object]) -> None:
        """`rested` is called by the writing thread when the terminal has taken all output."""
        self._file = file
        self._rested = rested
        self.fileno = file.fileno

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()
        self._rested()


class AnsweringDriver(linux_driver.LinuxDriver):
    """Textual's driver with replies from the terminal, and restoring of the window title."""

    _is_away = True
    """Whether another program is using the terminal."""
    gathers: Callable[[], bool] = staticmethod(lambda: False)
    """Whether simultaneous input counts as one read."""

    def __init__(self, app: App[Any], **options: Any) -> None:  # noqa: ANN401  # Textual's
        super().__init__(app, **options)
        terminal: Any = self._file
        self._output: int = terminal.fileno()
        self._believed = BelievedSize()
        self.display = Display(self.write, lambda: self._app.call_later(self.display.draw))
        self._file = _ForgivingWriter(terminal, self.display.mark_idle)  # type: ignore[assignment]  # all of a file that is used of it

    def write(self, data: str) -> None:
        writer = self._writer_thread
        if not self._is_away and writer is not None and writer.is_alive():
            # Messages at other times would stay in a queue that nothing empties.
            writer.write(data)

    def start_application_mode(self) -> None:
        self._is_away = False
        self.display.begin()
        super().start_application_mode()  # type: ignore[no-untyped-call]  # Textual's
        self.write(PUSH_TITLE)
        self.ask_size()
        # In the event loop. A signal handler may be interrupted by the next signal after asking for the size, and the
        # older size would be reported last.
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, self._post_resize)

    def _get_terminal_size(self) -> tuple[int, int]:
        """The window's size from the terminal, or else the system. `COLUMNS` and `LINES` are ignored, because they
        do not follow the window. Absurd sizes are rejected, because they only cost memory."""
        columns, lines = self._believed.of(self._system_size)
        return min(columns, _MAX_COLUMNS), min(lines, _MAX_LINES)

    @property
    def _system_size(self) -> Size:
        columns, lines = 0, 0
        with suppress(OSError):
            columns, lines = os.get_terminal_size(self._output)
        if not (columns and lines):
            columns, lines = super()._get_terminal_size()
        return Size(columns, lines)

    def ask_size(self) -> None:
        """Query the terminal for its size."""
        self._believed.record_query(self._system_size)
        self.write(SIZE_QUESTION)

    def _post_resize(self) -> None:
        self._believed.reset()
        self.display.forget()
        if not self._in_band_window_resize:
            size = Size(*self._get_terminal_size())
            self._app.post_message(Resize(size, size))

    def stop_application_mode(self) -> None:
        if self._is_away:
            if has_terminal():  # what had it meanwhile was ended, and may have left it in any state
                if self.attrs_before is not None:
                    with suppress(termios.error):
                        termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
                self.abandon()
            return
        self.write(f"\x1b[m{POP_TITLE}")
        super().stop_application_mode()
        self._is_away = True

    def disable_input(self) -> None:
        if not self._is_away:  # otherwise nothing is read, and to touch the shell's terminal would stop the program
            super().disable_input()

    def abandon(self) -> None:
        """Restore everything at once except the line settings, without other threads."""
        with suppress(OSError):
            os.write(self._output, _RESTORE_SEQUENCE.encode())

    def resume_application_mode(self) -> None:
        if self._is_away:  # otherwise it was stopped without being asked, and all of it is still there
            if (
                has_terminal() or not is_shutdown_requested()
            ):  # to touch the shell's terminal would stop it again, for ever
                super().resume_application_mode()
        else:
            self.display.forget()
            self._app.call_later(self._app.refresh, layout=True)

    def _sigtstp_application(self, *_: object) -> None:
        """Suspend the whole process group, as the terminal would: otherwise the parent would wait for us."""
        if self._auto_restart and not self._is_away:
            self.suspend_application_mode()
            self._must_signal_resume = True
        os.killpg(os.getpgrp(), signal.SIGSTOP)

    def process_message(self, message: Message) -> None:
        if isinstance(message, SizeReported):
            said = self._system_size
            if not self._believed.record_reply(message.size, said):
                return
            super().process_message(SizeMismatch(message.size, said))
            size = Size(*self._get_terminal_size())
            message = Resize(size, size)
        if isinstance(message, Resize):  # told by the terminal itself
            self.display.forget()
        super().process_message(message)

    def run_input_thread(self) -> None:
        """Read input, whatever the bytes, until the app ends or the terminal is gone."""
        hearing = TerminalInput(self.process_message, self._debug)
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(0.1):
                    typed = self._read_input()
                    if not typed:
                        os.kill(os.getpid(), signal.SIGHUP)  # not every terminal's end is told to who draws on it
                        return
                    if self.gathers():
                        typed += b"".join(self._rest_of_it(selector))
                        hearing.feed_bytes(typed)
                    elif may_be_pasted(typed):
                        *pieces, last = typed, *self._rest_of_it(selector)
                        is_sent = bool(pieces) and last == b"\r"  # as by a program that pastes, and then sends Enter
                        hearing.feed_bytes(b"".join(pieces if is_sent else (*pieces, last)))
                        if is_sent:
                            hearing.feed_bytes(last)
                    else:
                        hearing.feed_bytes(typed)
                else:  # what has come and was not read yet, on a busy machine, may be the rest of a key
                    hearing.wait()

    def _rest_of_it(self, selector: selectors.BaseSelector) -> Iterator[bytes]:
        """Input that follows with hardly a pause: one write may be read in pieces."""
        for _ in range(MAX_JOINED_READS):
            if self.exit_event.is_set() or not selector.select(READ_PAUSE_S):
                return
            piece = self._read_input()
            if not piece:
                return  # the next read finds the terminal gone, too
            yield piece

    def _read_input(self) -> bytes:
        """The input; empty if the terminal is gone."""
        try:
            return os.read(self.fileno, 4096)
        except OSError:
            return b""
