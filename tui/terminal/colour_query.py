"""What a terminal answers when it is asked what it is: for the colour that it draws on, for its size."""

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
"""Asks for the ground (OSC 11)."""

_OSC = regex(r"\x1b\](\d+;[^\x07\x1b]*)(?:\x07|\x1b\\)")
_COLOR = regex(r"11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})(?:/[0-9a-fA-F]{1,4})?")
_ESC_AND_MORE = regex(r"\x1b(?=[/!#@])")
"""Esc, and then what begins a command: typed in one burst, or too fast to be told from one."""
_ALT_ENTER = regex(r"\x1b[\r\n]")
"""As most terminals send it."""
_AS_XTERM = regex(r"\x1b\[27;(\d+);(\d+)~")
"""A key with what is held with it, as xterm and tmux send it: the usual parser drops the latter of some."""
_WITH_CTRL = regex(r"\x1b\[(\d+);(?:5|69|133|197)u")
"""Ctrl with a character in the protocol of kitty, with either lock or without."""
_ONE_KEY = {"91": "\x1b", "104": "\b", "105": "\t", "109": "\r"}
"""Ctrl with `[`, `h`, `i` and `m` has always been Esc, Backspace, Tab and Enter; that protocol tells them apart."""
_ALT = regex(r"\x1b[^\x1b\[\]OPX^_\x00-\x1f\x7f]")
"""Alt with a character. The usual parser waits for more, and takes a second one behind it for `^` and the character."""
_ALT_PIECES = regex(f"({_ALT.pattern})")
_ALT_ARROW = regex(r"\x1b\x1b[\[O]([ABCD])")
"""Alt with an arrow where a terminal puts Esc before what the key sends by itself."""
_ALT_BACKSPACE = regex(r"\x1b\[127;11u")
"""Option with Backspace, as Ghostty on macOS sends it."""
_RESTORE_SEQUENCE = (
    "\x1b[m\x1b[r\x1b[?2004l\x1b[?7h\x1b[?2048l\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?2026l"
    f"{POP_TITLE}\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l"
)
"""Switches off what the driver switches on, and what is drawn in between."""
PASTE_STALL_S = 1.0
"""Seconds without anything more of what is pasted, after which Ctrl-C is a key again: its end may have been lost."""
_MAX_COLUMNS, _MAX_LINES = 1_000, 500


class BackgroundColour(Message):
    """The terminal has said what it draws on."""

    def __init__(self, ground: Ground) -> None:
        super().__init__()
        self.ground = ground


def ground_of(answer: str) -> Ground | None:
    """What an answer says of the ground; None when it says nothing of it."""
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
        """What was pasted so far; None when nothing is being pasted."""
        self._end = ""
        """What may be the beginning of the mark behind it."""
        self._begun = ""
        """What the usual parser has of a sequence that may go on."""

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
        """Keys, where Alt with a character is one as soon as the next one begins."""
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
        """What is pasted is told when all of it is there. The usual parser takes each character by itself, and some for
        keys."""
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
        """Called every tenth of a second, and after what was typed. What was kept for as long as a key's characters are
        waited for is no reply; what is certainly one is dropped."""
        if self._replies.begun and get_time() >= self._held_until:
            yield from self._parse_piece(self._replies.give_up())
            yield from self._flush_pending()
        yield from super().tick()

    @property
    def is_waiting(self) -> bool:
        """What was typed may go on: nobody knows yet which key it is."""
        return bool(self._replies.begun) or self._timeout_time is not None or self.pasted is not None

    def _flush_pending(self) -> Iterator[Message]:
        """Nothing more belongs to what was typed: Esc is Esc."""
        if self._timeout_time is not None:
            self._timeout_time = 0.0
            yield from super().tick()


class TerminalInput:
    """Tells what was typed, and how it came. What no keyboard sends and the parser stumbles over is nothing."""

    def __init__(self, tell: Callable[[Message], None], debug: bool, clock: Callable[[], float] = monotonic) -> None:
        self._tell = tell
        self._debug = debug
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._parser = _Parser(debug)
        self._clock = clock
        self._read = Arrival(clock(), 0)
        """How what was read last came."""
        self._pressed = 0
        """Keys, clicks and pastes in it so far."""

    def feed_bytes(self, typed: bytes) -> None:
        """What one read brought, right behind it. Nothing but Ctrl-C long after the rest ends what is being pasted."""
        before = self._read.at
        self._read, self._pressed = Arrival(self._clock(), (self._read.read or 0) + 1), 0
        text = self._decode(typed)
        if typed == b"\x03" and self._parser.pasted is not None and self._read.at >= before + PASTE_STALL_S:
            text = BRACKETED_PASTE_END
        if text:  # otherwise it is part of a character; nothing at all would be the end of all typing
            self._take(self._parser.feed(text))

    def wait(self) -> None:
        """Nothing more is typed for the moment."""
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
    """A terminal to write to, also when it is gone: who writes would end otherwise, and who draws wait for it."""

    def __init__(self, file: IO[str], rested: Callable[[], object]) -> None:
        """`rested` is called, by whoever writes, when the terminal has taken everything."""
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
    """The usual driver, which also hears what the terminal answers, and gives the window its title back."""

    _is_away = True
    """The terminal is somebody else's."""
    gathers: Callable[[], bool] = staticmethod(lambda: False)
    """Whether what comes at once is one read, however many it takes."""

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
            # What is drawn at other times would wait in a queue that nobody empties.
            writer.write(data)

    def start_application_mode(self) -> None:
        self._is_away = False
        self.display.begin()
        super().start_application_mode()  # type: ignore[no-untyped-call]  # Textual's
        self.write(PUSH_TITLE)
        self.ask_size()
        # In the event loop. A signal's own handler may be stopped by the next signal, between asking for the size and
        # telling it: the older size would be told last, and stay.
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, self._post_resize)

    def _get_terminal_size(self) -> tuple[int, int]:
        """The window's own size, as itself says it, or else the system. `COLUMNS` and `LINES` may name another, which
        does not follow the window. What no window has is a lie that would only cost memory."""
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
        """Asks the terminal itself for its size."""
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
        """Gives back at once all but the settings of the line, by no thread but the caller's."""
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
        """Stops all of the process group, as the terminal would: whoever started us waits for us otherwise."""
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
        """Hears what is typed, whatever bytes that are, until the app wants no more or the terminal is gone."""
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
        """What comes with hardly a pause behind what was read: one write may be read in pieces."""
        for _ in range(MAX_JOINED_READS):
            if self.exit_event.is_set() or not selector.select(READ_PAUSE_S):
                return
            piece = self._read_input()
            if not piece:
                return  # the next read finds the terminal gone, too
            yield piece

    def _read_input(self) -> bytes:
        """What was typed; nothing when the terminal is gone."""
        try:
            return os.read(self.fileno, 4096)
        except OSError:
            return b""
