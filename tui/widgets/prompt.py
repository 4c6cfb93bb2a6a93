"""The prompt, with editing, history and completion."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from textual import events
from textual.binding import Binding
from textual.markup import escape
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea

from ebbtide.tui import terminal, widgets
from ebbtide.tui.prompt.completion import PromptCompletion, file_completions, mentioned_path
from ebbtide.tui.prompt.files import ProjectFiles
from ebbtide.tui.prompt.history import History
from ebbtide.tui.prompt.pastes import Pastes, read_dropped_image
from ebbtide.tui.slash_commands import PromptMode, command_awaiting_argument, detect_prompt_mode
from ebbtide.tui.text.sanitise import describe_invisible_count, normalise_paste
from ebbtide.tui.text.spans import strip_backticks
from ebbtide.tui.widgets.completions import Completions
from ebbtide.tui.widgets.placeholder_keys import PlaceholderKeys, char_index
from ebbtide.tui.widgets.text_box import TextBox

if TYPE_CHECKING:  # few users need this module, because few use vi keys
    from ebbtide.tui.widgets.vim_keys import VimKeys

COMMAND_STARTS = ("", "/", "!", "#")
"""Leading spaces are ignored if the message is empty or starts with one of these characters."""
NEWLINE_KEYS = ("shift+enter", "ctrl+j", "alt+enter")

_EDIT_ACTIONS = {
    key: binding.action
    for binding in TextArea.BINDINGS
    if isinstance(binding, Binding)
    for key in binding.key.split(",")
} | {"ctrl+underscore": "undo"}  # Ctrl-Z suspends the program
"""A text area's editing actions, by key."""


class PromptCompleter(Protocol):
    """Source of completions."""

    def candidates(self, text: str) -> Sequence[PromptCompletion]: ...
    @property
    def project_files(self) -> ProjectFiles | None: ...


_MODE_TITLES: Mapping[PromptMode, str] = {"message": "", "shell": "! run as your command", "memory": "# save as a note"}


def message_text(text: str) -> str:
    """Get the message to send: the text without leading blank lines and trailing spaces."""
    stripped = text.strip()
    if stripped[:1] in COMMAND_STARTS:
        return stripped
    return text[text.rfind("\n", 0, text.index(stripped[:1])) + 1 :].rstrip(" \t\n")


class PromptInput(TextBox):
    """The prompt, a text area. Enter submits the text, and other keys insert a line break. Up on the first line and
    Down on the last browse the history."""

    DEFAULT_CSS = """
    PromptInput { border-title-color: $text-muted; border-title-align: left; border-subtitle-color: $text-muted; }
    PromptInput.invisible { border-title-color: $text-warning; }
    PromptInput > .text-area--placeholder { color: $text-muted; }
    PromptInput:ansi > .text-area--placeholder { text-style: dim; }
    """

    class Submitted(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class QueueRequested(Message):
        """Up was pressed in an empty prompt. The user wants queued messages before the history."""

    class HintRequested(Message):
        """Asks for a hint to be shown, such as why something failed."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class ScrollRequested(Message):
        """A key meant for the transcript was pressed: PgUp or PgDn, or Home or End in an empty prompt."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(
        self,
        history: History,
        completions: Completions,
        completer: PromptCompleter,
        pastes: Pastes,
        *,
        placeholder: str = "",
        id: str | None = None,
    ) -> None:
        super().__init__(
            id=id,
            compact=True,
            soft_wrap=True,
            show_line_numbers=False,
            highlight_cursor_line=False,
            tab_behavior="focus",
            placeholder=placeholder,
        )
        self.cursor_blink = False
        self.has_queued_messages = False
        """Whether any messages are queued. If so, Up goes to them before the history."""
        self.prompt_history = history
        self._completions = completions
        self._completer = completer
        self._pastes = pastes
        self._placeholder_keys = PlaceholderKeys(self, pastes)
        self._vim: VimKeys | None = None
        self._text_before_search: str | None = None
        """The text at the time the history search was opened."""
        self._stashed_text = ""
        """The text that was last cleared. Discarded when the user types something else."""
        self._file_search_task: asyncio.Task[None] | None = None
        """The running search for files."""
        self._completed_text = ""

    def render_line(self, y: int) -> Strip:
        """Draw a line. If there is no column left for text, the line is blank, because Textual cannot wrap the
        placeholder."""
        return super().render_line(y) if self.content_size.width > 0 else Strip.blank(self.size.width)

    def on_unmount(self) -> None:
        if self._file_search_task is not None:
            self._file_search_task.cancel()

    def set_text(self, text: str) -> None:
        """Replace the text and move the cursor to the end."""
        self.load_text(normalise_paste(text))
        self.move_cursor(self.document.end)

    def stash(self) -> bool:
        """Clear the text but keep it in the history. Returns whether there was any."""
        self._stashed_text = self.text
        if self._stashed_text:
            self.prompt_history.add(self._pastes.expand(self._stashed_text))
            self.set_text("")
        return bool(self._stashed_text)

    def restore_stash(self) -> None:
        """Restore the cleared text if the prompt is empty."""
        if not self.text:
            self.set_text(self._stashed_text)

    def prepend(self, text: str) -> None:
        """Insert text before the current text."""
        self.set_text("\n\n".join([text, self.text]).rstrip())

    def on_text_area_changed(self) -> None:
        self._update_completions()

    def _update_completions(self) -> None:
        """Update the completions if the text has changed since last time. A list that the user has closed therefore
        stays closed."""
        if self.text != self._completed_text:
            self._stashed_text = "" if self.text else self._stashed_text
            self._show_mode()
            self._completed_text = self.text
            cursor = char_index(self.text, self.cursor_location)
            text_before, text_after = self.text[:cursor], self.text[cursor:]
            candidates = self._completer.candidates(
                text_before if mentioned_path(text_before) is not None else self.text
            )
            self._search_files(text_before, text_after, candidates)

    def refresh_completions(self) -> None:
        """Update the completions for the same text, because more completions may be available by now."""
        self._completed_text = ""
        self._update_completions()

    def _search_files(self, text_before: str, text_after: str, candidates: Sequence[PromptCompletion]) -> None:
        """Search for files if a file name is being typed. Any earlier search is cancelled."""
        if self._file_search_task is not None:
            self._file_search_task.cancel()
            self._file_search_task = None
        typed_path, project_files = mentioned_path(text_before), self._completer.project_files
        if typed_path is None or project_files is None:
            self._completions.set_candidates(candidates)
            return

        async def search() -> None:
            async for paths in project_files.find_matches(typed_path):
                self._completions.set_candidates((*candidates, *file_completions(text_before, text_after, paths)))

        self._completions.is_outdated = True
        self._file_search_task = asyncio.create_task(search())

    def _show_mode(self) -> None:
        mode = detect_prompt_mode(self.text)
        self.set_class(mode == "shell", "shell")
        self.set_class(mode == "memory", "memory")
        command = command_awaiting_argument(self.text)
        title = (
            escape(f"{command.usage}  {strip_backticks(command.help)}") if command is not None else _MODE_TITLES[mode]
        )
        invisible_note = describe_invisible_count(self._pastes.invisible_char_count(self.text))
        self.set_class(bool(invisible_note), "invisible")
        self.border_title = "  ".join(filter(None, (invisible_note, title)))

    def paste(self, text: str) -> None:
        image = read_dropped_image(text, os.environ)
        if image is None or not self.add_image(image):
            super().paste(self._pastes.collapse(text))

    def add_image(self, data: bytes) -> bool:
        """Insert an image at the cursor. If its type is not supported, show why and return False."""
        try:
            self.insert(f"{self._pastes.add_image(data)} ")
        except ValueError as error:
            self.post_message(self.HintRequested(str(error)))
            return False
        return True

    def take_typeahead(self) -> str:
        """Return the text that was typed for the history search before it opened, and remove it."""
        previous_text, self._text_before_search = self._text_before_search, None
        if previous_text is None or not self.text.startswith(previous_text):
            return ""
        typed_text = self.text[len(previous_text) :]
        if typed_text:
            self.set_text(previous_text)
        return typed_text

    async def _paste_image(self) -> None:
        """Paste the image in the clipboard. If there is none, paste text copied in this program."""
        try:
            self.add_image(await terminal.clipboard_image.read_clipboard_image(os.environ))
        except terminal.clipboard_image.NoClipboardImageError as error:
            if self.app.clipboard:
                self.insert(self._pastes.collapse(normalise_paste(self.app.clipboard)))
            else:
                self.post_message(self.HintRequested(str(error)))

    async def _on_key(self, event: events.Key) -> None:
        if self._handle_vim_key(event) or self._handle_prompt_key(event.key) or await self._run_edit_key(event.key):
            event.stop()
            event.prevent_default()

    @property
    def uses_vim(self) -> bool:
        return self._vim is not None

    def set_vim_enabled(self, is_enabled: bool) -> None:
        """Turn vi keys on or off."""
        self._vim = None
        if is_enabled:
            self._vim = widgets.vim_keys.VimKeys(self, self._show_older, self._show_newer)
        self._show_vim_status()

    def _show_vim_status(self) -> None:
        self.border_subtitle = escape(self._vim.status_text) if self._vim is not None else ""

    def _handle_vim_key(self, event: events.Key) -> bool:
        if self._vim is None or (self._completions.selected_candidate is not None and self._vim.vim.mode == "insert"):
            return False
        is_handled = self._vim.process_key(event)
        self._show_vim_status()
        return is_handled

    async def _run_edit_key(self, key: str) -> bool:
        """Run the action of an editing key immediately. Returns whether the key has one. As a Textual binding, the
        action would not run until the next character was typed."""
        action = _EDIT_ACTIONS.get(key)
        if action is not None:
            await self.run_action(action)
        return action is not None

    def _handle_prompt_key(self, key: str) -> bool:
        """Handle a key that only the prompt uses. Returns whether it was handled."""
        self._update_completions()  # the event about the last change may not have arrived yet
        if self._completions.selected_candidate is not None and self._handle_candidate_key(key):
            return True
        if self._placeholder_keys.process_key(key):
            return True
        match key:
            case "enter":
                self._handle_enter()
            case "ctrl+r":
                self._text_before_search = self.text
                return False
            case "ctrl+v":
                self.run_worker(self._paste_image(), group="clipboard", exclusive=True)
            case "tab":
                return False
            case "question_mark" if not self.text:
                self.call_later(self.run_action, "app.command('help')")
            case "ctrl+d" if not self.text:
                self.call_later(self.run_action, "app.leave")
            case "shift+tab":
                self.call_later(self.run_action, "app.command('mode')")
            case "up" if self.cursor_at_first_line:
                return self._show_older()
            case "down" if self.cursor_at_last_line:
                return self._show_newer()
            case "pageup" | "pagedown":
                self.post_message(self.ScrollRequested(key))
            case "home" | "end" if not self.text:
                self.post_message(self.ScrollRequested(key))
            case _ if key in NEWLINE_KEYS:
                self.insert("\n")
            case _:
                return False
        return True

    def _handle_candidate_key(self, key: str) -> bool:
        candidate = self._completions.selected_candidate
        if candidate is None:
            return False
        match key:
            case "up" | "down":
                self._completions.move_mark(-1 if key == "up" else 1)
            case "escape":
                self._completions.set_candidates(())
            case "tab":
                self._insert_candidate(candidate)
            case "enter" if candidate.is_final or self.text == candidate.text_before.rstrip():
                self.set_text(candidate.text_before)
                self._submit()
            case "enter":
                self._insert_candidate(candidate)
            case _:
                return False
        return True

    def _insert_candidate(self, candidate: PromptCompletion) -> None:
        self.set_text(candidate.text_before)
        if candidate.text_after:
            location = self.cursor_location
            self.insert(candidate.text_after)
            self.move_cursor(location)
        self._completions.set_candidates(())
        self._completed_text = self.text
        if candidate.text_before.endswith("/"):
            self._completed_text = ""  # offer the contents of the folder next

    def _handle_enter(self) -> None:
        row, column = self.cursor_location
        if column and self.document.get_line(row)[column - 1] == "\\":
            self.action_delete_left()
            self.insert("\n")
        else:
            self._submit()

    def _submit(self) -> None:
        text = message_text(self.text)
        if not text:
            return
        if self.text[0].isspace():
            self.prompt_history.reset()
        else:
            self.prompt_history.add(self._pastes.expand(text))
        self._completions.set_candidates(())
        self.load_text("")
        self.post_message(self.Submitted(text))

    def _show_older(self) -> bool:
        if self.has_queued_messages and not self.text:
            self.post_message(self.QueueRequested())
            return True
        text = self.prompt_history.step_older(self.text)
        if text is not None:
            self.set_text(text)
            self.move_cursor((0, len(self.document.get_line(0))))  # another Up then goes further back
        return True

    def _show_newer(self) -> bool:
        text = self.prompt_history.step_newer()
        if text is not None:
            self.set_text(text)
        return True
