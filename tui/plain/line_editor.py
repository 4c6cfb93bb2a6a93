"""Line editing in line mode: history, completion and multi-line messages."""

import asyncio
import os
import select
import sys
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from prompt_toolkit.application import in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import PromptSession

from ebbtide.tui.plain.reader import PROMPT, CompletionItem, KeyCallbacks, is_continued
from ebbtide.tui.prompt.completion import file_completions, mentioned_path
from ebbtide.tui.prompt.key_arrivals import KeyArrival
from ebbtide.tui.session.completion import SessionPromptCompleter
from ebbtide.tui.terminal.replies import (
    MAX_JOINED_READS,
    READ_PAUSE_S,
    REPLY_TIMEOUT_S,
    TerminalReplies,
    may_be_pasted,
    split_pastes,
)
from ebbtide.tui.text.graphemes import grapheme_end, grapheme_start
from ebbtide.tui.text.sanitise import (
    count_invisible_characters,
    describe_invisible_count,
    sanitise_line,
    with_control_pictures,
)

if TYPE_CHECKING:  # imported for types only: session modules are imported after the first paint
    from ebbtide.agent.session import Session


class SessionLineCompleter:
    """Completions for the session returned by `get_session`, if there is one."""

    def __init__(self, get_session: "Callable[[], Session | None]") -> None:
        self._completer = SessionPromptCompleter(get_session)

    def completions(self, text_before_cursor: str) -> Sequence[CompletionItem]:
        return [
            (candidate.text_before, sanitise_line(candidate.label))
            for candidate in self._completer.candidates(text_before_cursor)
        ]

    def completes_files(self, text_before_cursor: str) -> bool:
        return mentioned_path(text_before_cursor) is not None and self._completer.project_files is not None

    async def find_files(self, text_before_cursor: str, text_after_cursor: str) -> Sequence[CompletionItem]:
        """Complete MCP resources and file paths. Returns the paths that start with the typed text or, if there are
        none, the best matches."""
        typed_path, project_files = mentioned_path(text_before_cursor), self._completer.project_files
        paths: tuple[str, ...] = ()
        if typed_path is not None and project_files is not None:
            async for matches in project_files.find_matches(typed_path):
                paths = matches
        prefix_matches = tuple(path for path in paths if path.lower().startswith((typed_path or "").lower()))
        file_items = file_completions(text_before_cursor, text_after_cursor, prefix_matches or paths)
        return [
            *self.completions(text_before_cursor),
            *((candidate.text_before, sanitise_line(candidate.label)) for candidate in file_items),
        ]


_LINE_ENDING_KEYS = (Keys.ControlM, Keys.ControlJ, Keys.BracketedPaste)
"""Keys that end a line. Pastes are included because they may contain several lines."""
_PASTE_START, _PASTE_END = "\x1b[200~", "\x1b[201~"
MAX_PRINTED_COMPLETIONS = 20
"""Maximum number of completions printed."""


class _TimedInput(Vt100Input):
    """Terminal input that records when it arrived."""

    arrival = KeyArrival(0.0, 0)
    """When and how the last input arrived."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self.stdin_reader = PosixStdinReader(stdin.fileno(), errors="replace", encoding=stdin.encoding)
        self._replies = TerminalReplies()
        self._reply_started_at = 0.0
        """When the terminal reply that is still incomplete began to arrive."""

    def read_keys(self) -> list[KeyPress]:
        texts = [self.stdin_reader.read()]
        if may_be_pasted(texts[0].encode()):
            while len(texts) < MAX_JOINED_READS and select.select([self.fileno()], [], [], READ_PAUSE_S)[0]:
                texts.append(self.stdin_reader.read())
        final_enter = [texts.pop()] if texts[1:] and texts[-1] == "\r" else []  # a program's Enter after its paste
        for text in ("".join(texts), *final_enter):
            self._feed(text)
        keys, self._buffer = self._buffer, []
        line_end_count = sum(1 if press.key == Keys.ControlM else 2 for press in keys if press.key in _LINE_ENDING_KEYS)
        self.arrival = KeyArrival(monotonic(), (self.arrival.read_number or 0) + 1, is_alone=line_end_count <= 1)
        return keys

    def flush_keys(self) -> list[KeyPress]:
        if not self._replies.is_reply_certain:
            self.vt100_parser.feed(self._replies.release())
        return super().flush_keys()

    def _feed(self, input_text: str) -> None:
        parser, replies, now = self.vt100_parser, self._replies, monotonic()
        if parser._in_bracketed_paste:  # private, but there is no other way to know
            parser.feed(input_text)
            return
        if (
            replies.is_reply_certain
            and now >= self._reply_started_at + REPLY_TIMEOUT_S
            and not replies.completes_reply(input_text)
        ):
            replies.release()
        partial_reply, replies.pending_text = replies.pending_text, ""
        input_text, paste_start, pasted = (partial_reply + input_text).partition(_PASTE_START)
        for piece in replies.split_replies(input_text)[0]:
            for text, is_pasted in split_pastes(piece):
                parser.feed(f"{_PASTE_START}{text}{_PASTE_END}" if is_pasted else text)
        if not (partial_reply and replies.pending_text.startswith(partial_reply)):
            self._reply_started_at = now
        if paste_start:
            parser.feed(replies.release() + paste_start + pasted)


class _SanitisingProcessor(Processor):
    """Makes control characters and invisible characters visible on screen. The text itself is not changed."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        fragments = transformation_input.fragments
        line = with_control_pictures(fragment_list_to_text(fragments))
        offset = 0
        displayed_fragments: StyleAndTextTuples = []
        for style, text, *_ in fragments:
            displayed_fragments.append((style, line[offset : offset + len(text)]))
            offset += len(text)
        return Transformation(displayed_fragments)


class LineEditorReader:
    """Reads from stdin and writes to stdout. Both must be a terminal."""

    def __init__(self, history: Sequence[str], completer: SessionLineCompleter, keys: KeyCallbacks) -> None:
        """`history`: earlier messages, oldest first."""
        self._completer = completer
        self._keys = keys
        self._prompt = PROMPT
        self._drafts: dict[str, str] = {}
        """Unfinished text for each prompt."""
        self._unprinted_lines: list[str] = []
        self._print_task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._input = _TimedInput(sys.stdin)
        self._arrival = self._input.arrival
        self._session: PromptSession[str] = PromptSession(
            lambda: self._prompt,
            input=self._input,
            history=InMemoryHistory(list(history)),
            reserve_space_for_menu=0,
            enable_suspend=True,
            key_bindings=self._create_bindings(),
            input_processors=[_SanitisingProcessor()],
            rprompt=lambda: describe_invisible_count(count_invisible_characters(self._session.default_buffer.text)),
            # Do not query the cursor position, because that would write yet another control sequence.
            output=Vt100_Output(sys.stdout, _terminal_size, term=os.environ.get("TERM"), enable_cpr=False),
        )

    async def read(self) -> str:
        await self.wait_until_printed()
        if self._is_closed:
            raise EOFError
        try:
            return await self._session.prompt_async(
                default=self._drafts.pop(self._draft_key, ""), set_exception_handler=False, handle_sigint=False
            )
        except OSError as error:  # the terminal is gone
            self._is_closed = True
            raise EOFError from error

    @property
    def arrival(self) -> KeyArrival:
        return self._arrival

    def print_lines(self, lines: Sequence[str]) -> None:
        self._unprinted_lines += lines
        if self._unprinted_lines and self._print_task is None:
            self._print_task = asyncio.get_running_loop().create_task(self._print())

    async def wait_until_printed(self) -> None:
        while self._print_task is not None:
            await self._print_task

    def set_prompt(self, prompt: str) -> None:
        buffer, previous_key = self._session.default_buffer, self._draft_key
        self._prompt = prompt
        if self._draft_key != previous_key and self._is_reading:
            self._drafts[previous_key] = buffer.text
            buffer.document = Document(self._drafts.pop(self._draft_key, ""))
        self._session.app.invalidate()

    def prefill(self, text: str, prompt: str = PROMPT) -> bool:
        buffer = self._session.default_buffer
        if prompt != PROMPT:
            self._drafts[prompt] = text
        elif self._is_reading and not self._draft_key:
            buffer.document = Document(f"{text}\n\n{buffer.text}" if buffer.text else text)
        else:
            self._drafts[""] = text
        return True

    async def run_with_terminal(self, work: Callable[[], str]) -> str:
        async with in_terminal():
            return await asyncio.to_thread(work)

    @property
    def has_line_editing(self) -> bool:
        return True

    @property
    def draft(self) -> str:
        return (
            self._session.default_buffer.text if self._is_reading and not self._draft_key else self._drafts.get("", "")
        )

    def close(self) -> None:
        self._is_closed = True
        if self._is_reading:
            self._session.app.exit(exception=EOFError)

    @property
    def _is_reading(self) -> bool:
        """Whether the user is typing a line. Between reads, the buffer still contains the previous line."""
        return self._session.app.is_running and not self._session.app.is_done

    @property
    def _draft_key(self) -> str:
        return "" if self._prompt == PROMPT else self._prompt

    async def _print(self) -> None:
        try:
            async with in_terminal():
                lines, self._unprinted_lines = self._unprinted_lines, []
                sys.stdout.write("".join(f"{line}\n" for line in lines))
                sys.stdout.flush()
        except OSError:  # the terminal is gone
            self._unprinted_lines.clear()
            self.close()
        finally:
            self._print_task = None
        self.print_lines(())

    def _complete(self, buffer: Buffer) -> None:
        """Insert the common prefix of all completions, and print them."""
        text_before, text_after = buffer.document.text_before_cursor, buffer.document.text_after_cursor

        def insert_common_prefix(items: Sequence[CompletionItem]) -> None:
            if buffer.document.text_before_cursor != text_before or buffer.document.text_after_cursor != text_after:
                return  # the user has typed more meanwhile
            common_prefix = os.path.commonprefix([text for text, _ in items])  # noqa: RUF071  # compares letters, not path components
            if len(common_prefix) > len(text_before) or len(items) == 1:
                buffer.document = Document(common_prefix + text_after, len(common_prefix))
            if len(items) > 1:
                omitted_count = len(items) - MAX_PRINTED_COMPLETIONS
                lines = [display for _, display in items[:MAX_PRINTED_COMPLETIONS]]
                self.print_lines(
                    [*lines, f"{omitted_count} more; keep typing to narrow the list."] if omitted_count > 0 else lines
                )

        async def complete_files() -> None:
            insert_common_prefix(await self._completer.find_files(text_before, text_after))

        if self._completer.completes_files(text_before):
            self._session.app.create_background_task(complete_files())
        else:
            insert_common_prefix(self._completer.completions(text_before))

    def _create_bindings(self) -> KeyBindings:
        bindings = KeyBindings()

        @bindings.add("enter", filter=has_focus(DEFAULT_BUFFER))
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if is_continued(buffer.document.text_before_cursor) and not self._draft_key:
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            else:
                self._arrival = self._input.arrival
                buffer.validate_and_handle()

        @bindings.add("escape", "enter", filter=has_focus(DEFAULT_BUFFER))
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        def bind_by_character(key: str, action: Callable[[Buffer], object]) -> None:
            @bindings.add(key, filter=has_focus(DEFAULT_BUFFER))
            def _(event: KeyPressEvent) -> None:
                for _ in range(event.arg):
                    action(event.current_buffer)

        bind_by_character(
            "backspace", lambda buffer: buffer.delete_before_cursor(max(1, _previous_char_length(buffer.document)))
        )
        bind_by_character("delete", lambda buffer: buffer.delete(max(1, _next_char_length(buffer.document))))
        bind_by_character("left", lambda buffer: buffer.cursor_left(_previous_char_length(buffer.document)))
        bind_by_character("right", lambda buffer: buffer.cursor_right(_next_char_length(buffer.document)))

        @bindings.add("tab", filter=has_focus(DEFAULT_BUFFER))
        def _(event: KeyPressEvent) -> None:
            if not self._draft_key:
                self._complete(event.current_buffer)

        @bindings.add("c-c")
        def _(event: KeyPressEvent) -> None:
            buffer = self._session.default_buffer
            if buffer.text:
                if not self._draft_key:
                    self._keys.on_clear(buffer.text)
                buffer.reset(append_to_history=not self._draft_key)
            else:
                self._keys.on_interrupt()

        @bindings.add("c-d", filter=Condition(lambda: not self._session.default_buffer.text))
        def _(event: KeyPressEvent) -> None:
            if self._keys.on_end_key():
                self.close()

        return bindings


def _previous_char_length(document: Document) -> int:
    """Count the code points of the character before the cursor; 0 at the start of a line."""
    line = with_control_pictures(document.current_line_before_cursor)
    return len(line) - grapheme_start(line, len(line))


def _next_char_length(document: Document) -> int:
    """Count the code points of the character after the cursor; 0 at the end of a line."""
    return grapheme_end(with_control_pictures(document.current_line_after_cursor), 0)


def _terminal_size() -> Size:
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):  # the terminal is gone
        return Size(rows=24, columns=80)
    return Size(rows=size.lines or 24, columns=size.columns or 80)
