"""The prompt: editing, history and completion."""

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

from ebbtide.tui.commands import PromptMode, hint_for, mode_of
from ebbtide.tui.prompt.completion import PromptCompletion, mention_prefix, with_files
from ebbtide.tui.prompt.files import ProjectFiles
from ebbtide.tui.prompt.history import History
from ebbtide.tui.prompt.pastes import Pastes, dropped_picture
from ebbtide.tui.text.sanitise import invisible_words, pasted_text
from ebbtide.tui.text.spans import strip_backticks
from ebbtide.tui.widgets.completions import Completions
from ebbtide.tui.widgets.pasted_units import PastedUnits, index_of
from ebbtide.tui.widgets.text_box import TextBox

if TYPE_CHECKING:  # a type only: few use it
    from ebbtide.tui.widgets.vimkeys import VimKeys

COMMAND_STARTS = ("", "/", "!", "#")
"""Text before a command; leading spaces are ignored."""
NEWLINE_KEYS = ("shift+enter", "ctrl+j", "alt+enter")

_EDITS = {
    key: binding.action
    for binding in TextArea.BINDINGS
    if isinstance(binding, Binding)
    for key in binding.key.split(",")
} | {"ctrl+underscore": "undo"}  # Ctrl-Z goes back to the shell
"""Actions of a text area for non-character keys."""


class PromptCompleter(Protocol):
    """Source of completions."""

    def candidates(self, text: str) -> Sequence[PromptCompletion]: ...
    @property
    def files(self) -> ProjectFiles | None: ...


_MODES: Mapping[PromptMode, str] = {"message": "", "shell": "! you run this", "memory": "# to be remembered"}


def message_of(text: str) -> str:
    """The message to send: the text without leading blank lines and trailing spaces."""
    stripped = text.strip()
    if stripped[:1] in COMMAND_STARTS:
        return stripped
    return text[text.rfind("\n", 0, text.index(stripped[:1])) + 1 :].rstrip(" \t\n")


class PromptInput(TextBox):
    """A few lines of text. Enter sends; other keys insert a line break; Up and Down leave into the history."""

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

    class RecallRequested(Message):
        """Up was pressed in an empty prompt: queued messages may be recalled before the history."""

    class HintRequested(Message):
        """A hint to show, e.g. why something failed."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class ScrollRequested(Message):
        """A key for the transcript: PgUp and PgDn, and in an empty prompt Home and End."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(
        self,
        history: History,
        completions: Completions,
        offers: PromptCompleter,
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
        self.queued = False
        """Whether there are queued messages, which Up recalls before the history."""
        self.past = history
        self._completions = completions
        self._offers = offers
        self._pastes = pastes
        self._units = PastedUnits(self, pastes)
        self._vim: VimKeys | None = None
        self._before_search: str | None = None
        """The text when the history search was opened."""
        self._put_by = ""
        """The text last cleared, until something else is typed."""
        self._looking: asyncio.Task[None] | None = None
        """The running file search."""
        self._offered_for = ""

    def render_line(self, y: int) -> Strip:
        """Draw a line. Textual cannot wrap the placeholder if there is no column for it."""
        return super().render_line(y) if self.content_size.width > 0 else Strip.blank(self.size.width)

    def on_unmount(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    def set_text(self, text: str) -> None:
        """Replace the text and move the cursor to the end."""
        self.load_text(pasted_text(text))
        self.move_cursor(self.document.end)

    def stash(self) -> bool:
        """Clear the text and keep it in the history; return whether there was any."""
        self._put_by = self.text
        if self._put_by:
            self.past.add(self._pastes.unfold(self._put_by))
            self.set_text("")
        return bool(self._put_by)

    def restore_stash(self) -> None:
        """Restore the cleared text if the prompt is empty."""
        if not self.text:
            self.set_text(self._put_by)

    def prepend(self, text: str) -> None:
        """Insert a text before the current one."""
        self.set_text("\n\n".join([text, self.text]).rstrip())

    def on_text_area_changed(self) -> None:
        self._offer()

    def _offer(self) -> None:
        """Offer completions once per text: a closed list does not reopen by itself."""
        if self.text != self._offered_for:
            self._put_by = "" if self.text else self._put_by
            self._show_mode()
            self._offered_for = self.text
            at = index_of(self.text, self.cursor_location)
            before, behind = self.text[:at], self.text[at:]
            offered = self._offers.candidates(before if mention_prefix(before) is not None else self.text)
            self._look_for_files(before, behind, offered)

    def offer_again(self) -> None:
        """Offer completions again, since there may be more."""
        self._offered_for = ""
        self._offer()

    def _look_for_files(self, before: str, behind: str, offered: Sequence[PromptCompletion]) -> None:
        """Search for files if a file name is being typed, and cancel an earlier search."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        written, files = mention_prefix(before), self._offers.files
        if written is None or files is None:
            self._completions.offer(offered)
            return

        async def look() -> None:
            async for paths in files.matching(written):
                self._completions.offer((*offered, *with_files(before, behind, paths)))

        self._completions.is_behind = True
        self._looking = asyncio.create_task(look())

    def _show_mode(self) -> None:
        mode = mode_of(self.text)
        self.set_class(mode == "shell", "shell")
        self.set_class(mode == "memory", "memory")
        hint = hint_for(self.text)
        title = escape(f"{hint.usage}  {strip_backticks(hint.help)}") if hint is not None else _MODES[mode]
        invisible = invisible_words(self._pastes.invisible_in(self.text))
        self.set_class(bool(invisible), "invisible")
        self.border_title = "  ".join(filter(None, (invisible, title)))

    def paste(self, text: str) -> None:
        picture = dropped_picture(text, os.environ)
        if picture is None or not self.add_picture(picture):
            super().paste(self._pastes.fold(text))

    def add_picture(self, data: bytes) -> bool:
        """Insert an image at the cursor; return whether it can be sent, otherwise show why not."""
        try:
            self.insert(f"{self._pastes.add_picture(data)} ")
        except ValueError as error:
            self.post_message(self.HintRequested(str(error)))
            return False
        return True

    def take_typed_ahead(self) -> str:
        """Return and remove what was typed for a search before it opened."""
        before, self._before_search = self._before_search, None
        if before is None or not self.text.startswith(before):
            return ""
        typed = self.text[len(before) :]
        if typed:
            self.set_text(before)
        return typed

    async def _paste_picture(self) -> None:
        """Paste the image in the clipboard, or the text copied here."""
        from ebbtide.tui.terminal.clipboard import NoPicture, picture  # noqa: PLC0415  # deferred: loaded when it is first needed

        try:
            self.add_picture(await picture(os.environ))
        except NoPicture as problem:
            if self.app.clipboard:
                self.insert(self._pastes.fold(pasted_text(self.app.clipboard)))
            else:
                self.post_message(self.HintRequested(str(problem)))

    async def _on_key(self, event: events.Key) -> None:
        if self._handle_vim_key(event) or self._handle_prompt_key(event.key) or await self._edits(event.key):
            event.stop()
            event.prevent_default()

    @property
    def uses_vim(self) -> bool:
        return self._vim is not None

    def use_vim(self, on: bool) -> None:
        """Turn vi keys on or off."""
        self._vim = None
        if on:
            from ebbtide.tui.widgets.vimkeys import VimKeys  # noqa: PLC0415  # deferred: few use it

            self._vim = VimKeys(self, self._older, self._newer)
        self._show_vim()

    def _show_vim(self) -> None:
        self.border_subtitle = escape(self._vim.status_text) if self._vim is not None else ""

    def _handle_vim_key(self, event: events.Key) -> bool:
        if self._vim is None or (self._completions.selected_candidate is not None and self._vim.vim.mode == "insert"):
            return False
        took = self._vim.process_key(event)
        self._show_vim()
        return took

    async def _edits(self, key: str) -> bool:
        """Run an editing key at once and return whether it did something. As a binding it would be overtaken by the
        next character."""
        action = _EDITS.get(key)
        if action is not None:
            await self.run_action(action)
        return action is not None

    def _handle_prompt_key(self, key: str) -> bool:
        """Handle a key specific to the prompt; return whether it was handled."""
        self._offer()  # the text may have changed so shortly before that nobody was told yet
        if self._completions.selected_candidate is not None and self._handle_candidate_key(key):
            return True
        if self._units.process_key(key):
            return True
        match key:
            case "enter":
                self._enter()
            case "ctrl+r":
                self._before_search = self.text
                return False
            case "ctrl+v":
                self.run_worker(self._paste_picture(), group="clipboard", exclusive=True)
            case "tab":
                return False
            case "question_mark" if not self.text:
                self.call_later(self.run_action, "app.command('help')")
            case "ctrl+d" if not self.text:
                self.call_later(self.run_action, "app.leave")
            case "shift+tab":
                self.call_later(self.run_action, "app.command('mode')")
            case "up" if self.cursor_at_first_line:
                return self._older()
            case "down" if self.cursor_at_last_line:
                return self._newer()
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
        chosen = self._completions.selected_candidate
        if chosen is None:
            return False
        match key:
            case "up" | "down":
                self._completions.step(-1 if key == "up" else 1)
            case "escape":
                self._completions.offer(())
            case "tab":
                self._take(chosen)
            case "enter" if chosen.final or self.text == chosen.insert.rstrip():
                self.set_text(chosen.insert)
                self._submit()
            case "enter":
                self._take(chosen)
            case _:
                return False
        return True

    def _take(self, chosen: PromptCompletion) -> None:
        self.set_text(chosen.insert)
        if chosen.behind:
            end = self.cursor_location
            self.insert(chosen.behind)
            self.move_cursor(end)
        self._completions.offer(())
        self._offered_for = self.text
        if chosen.insert.endswith("/"):
            self._offered_for = ""  # what is in the folder comes next

    def _enter(self) -> None:
        row, column = self.cursor_location
        if column and self.document.get_line(row)[column - 1] == "\\":
            self.action_delete_left()
            self.insert("\n")
        else:
            self._submit()

    def _submit(self) -> None:
        text = message_of(self.text)
        if not text:
            return
        if self.text[0].isspace():
            self.past.rest()
        else:
            self.past.add(self._pastes.unfold(text))
        self._completions.offer(())
        self.load_text("")
        self.post_message(self.Submitted(text))

    def _older(self) -> bool:
        if self.queued and not self.text:
            self.post_message(self.RecallRequested())
            return True
        text = self.past.older(self.text)
        if text is not None:
            self.set_text(text)
            self.move_cursor((0, len(self.document.get_line(0))))  # Up goes on from the first line
        return True

    def _newer(self) -> bool:
        text = self.past.newer()
        if text is not None:
            self.set_text(text)
        return True
