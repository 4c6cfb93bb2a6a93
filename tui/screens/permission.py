"""May this call run? The screen knows the question and its possible answers, not who asked."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input, Static, TextArea

from agent.errors import UsageError
from agent.events import Decision, PermissionAsked
from tui.render.blocks import arguments_text
from tui.screens.guarded import GuardedScreen
from tui.terminal.editor_screen import edited
from tui.text.sanitise import visible
from tui.text.styles import painted, palette_of
from tui.text.unified_diff import counted, files_of
from tui.view.key_hints import key_lines
from tui.view.permission import answers_in, changeable, changed, decision_for, headline_of, lines_taken, reason_of
from tui.view.titles import command_of, path_of
from tui.widgets.diffview import DiffView
from tui.widgets.field import Field
from tui.widgets.told_lines import ToldLines

_FRAME = 6
"""Lines that the dialog takes besides what it is about, the reason and the answers."""
_LOW, _NARROW = 12, 30
"""Sizes of the screen below which the dialog has neither a frame nor empty lines."""
_TELLING = 17
"""Lines of the screen from which on there is room for what the user was told besides."""
_READING = ("space", "m")
"""Characters that show more of what the call would do."""
_EDITING_BRIEFLY = "Enter runs  Esc back"
_EDITING = "Enter runs it   Ctrl-J begins a line   Esc goes back"


class PermissionScreen(GuardedScreen[Decision | Literal["stop"] | None]):
    """Gives the user's decision, which may be to stop the turn, or None when the question was answered elsewhere. Only
    named keys answer."""

    AUTO_FOCUS = "#subject"
    CSS = """
    PermissionScreen #dialog { max-width: 130; max-height: 100%; }
    PermissionScreen #dialog.wide { width: 100%; max-width: 240; }
    PermissionScreen #command {
        height: auto; min-height: 3; max-height: 50vh;
        border: none; padding: 0; background: $surface;
    }
    PermissionScreen #dialog.bare { width: 100%; height: 100%; border: none; padding: 0; }
    PermissionScreen #dialog.bare > * { margin: 0; }
    PermissionScreen #dialog.bare > #headline { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    PermissionScreen #dialog.bare > #subject { height: 1fr; min-height: 1; max-height: 100%; }
    PermissionScreen #dialog.bare > #command { height: 1fr; min-height: 1; max-height: 100%; }
    """

    def __init__(self, question: PermissionAsked, told: Sequence[str] = ()) -> None:
        """`told`: what the user was told just before, which this covers."""
        super().__init__()
        self.question = question
        self._told_before = tuple(told)
        self._for_project = False
        self._has_rules = True
        """The rules are shown: what is not shown is kept by no key."""

    def compose(self) -> ComposeResult:
        palette, question = palette_of(self.app.theme_variables), self.question
        with Vertical(id="dialog", classes="wide" if question.preview else ""):
            yield ToldLines(self._told_before)
            yield Static(painted([headline_of(question, *counted(question.preview))], palette), id="headline")
            yield DiffView(id="subject")
            yield CommandField(id="command")
            yield Static(painted(reason_of(question), palette), id="reason")
            yield Static(id="answers")
            yield Field(placeholder="why not, or what to do instead; Enter denies, Esc goes back", id="note")

    def on_mount(self) -> None:
        self.query_one("#note").display = self.query_one("#command").display = False
        self.query_one(ToldLines).tell(self._told_before)
        show_subject(self.query_one(DiffView), self.question)

    def tell(self, told: Sequence[str]) -> None:
        """Shows what the user is told meanwhile."""
        self._told_before = tuple(told)
        if self.is_mounted:
            self.query_one(ToldLines).tell(told)
            self._fit()

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        """What the call would do gets all lines that the frame and the answers leave. Where there are few, the rest
        gives way: the frame, the reason, what rules would have done, the rules."""
        width, height = self.size
        is_bare = height < _LOW or width < _NARROW
        self.query_one("#dialog").set_class(is_bare, "bare")
        inside = width if is_bare else self._inside(width)
        subject = self.query_one(DiffView)
        wanted = min(subject.get_content_height(self.size, self.size, inside), max(1 if is_bare else 3, height // 3))
        self.query_one("#headline").display = height > 2
        self.query_one("#reason").display = not is_bare
        self.query_one(ToldLines).show_at_most(0 if is_bare or height < _TELLING else 1 + 2 * (height >= 2 * _LOW))
        others = self._others(inside, is_bare=is_bare)
        lines = self._tell_answers(inside, height - others - wanted)
        if not is_bare:
            subject.styles.max_height = max(3, height - others - lines)
        else:
            subject.styles.max_height = None

    def _inside(self, width: int) -> int:
        outside = min(240, width) if self.question.preview else min(130, width * 92 // 100)
        return max(1, outside - 4)

    def _others(self, width: int, *, is_bare: bool) -> int:
        """Lines that are neither what the call would do nor answers."""
        if is_bare:
            return int(self.query_one("#headline").display)
        told = self.query_one(ToldLines)
        said = told.lines_at(width) + 1 if told.display else 0
        reason = sum(lines_taken("".join(text for text, _ in line), width) for line in reason_of(self.question))
        return _FRAME + reason + said

    def _tell_answers(self, width: int, height: int) -> int:
        """Shows the keys that answer; how many lines they take."""
        answers = answers_in(self.question, for_project=self._for_project, width=width, height=height)
        self._has_rules = answers.has_rules
        self.query_one("#answers", Static).update(painted(answers.lines, palette_of(self.app.theme_variables)))
        return answers.height

    @property
    def is_written_in(self) -> bool:
        return self.is_mounted and any(self.query_one(field).display for field in ("#note", "#command"))

    def means(self, key: events.Key) -> bool:
        return not key.is_printable or self.is_written_in or key.key in _READING or self._is_answer(key.key)

    def _is_answer(self, key: str) -> bool:
        decision = decision_for(key, self.question, for_project=self._for_project)
        if decision is not None:
            return self._has_rules or not decision.rule
        match key:
            case "e":
                return bool(changeable(self.question))
            case "p":
                return bool(self.question.rules_file) and self._has_rules
            case _:
                return key in ("escape", "d")

    def on_key(self, event: events.Key) -> None:
        if self.is_written_in:
            if event.key == "escape":
                event.stop()
                self._go_back()
        elif self._is_answer(event.key):
            event.stop()
            self._take(event.key)

    def _take(self, key: str) -> None:
        match key:
            case "escape":
                self.dismiss("stop")
            case "d":
                self._write("#note")
            case "e":
                self._edit()
            case "p":
                self._for_project = not self._for_project
                self._fit()
            case _:
                self.dismiss(decision_for(key, self.question, for_project=self._for_project))

    def _write(self, where: str) -> None:
        """Lets the user write: a word to the model, or another command."""
        is_command = where == "#command"
        self.query_one(where).display = True
        self.query_one("#subject").display = not is_command
        is_bare, width = self.query_one("#dialog").has_class("bare"), self.size.width
        keys = key_lines(_EDITING_BRIEFLY, width) if is_bare else key_lines(_EDITING, self._inside(width))
        self.query_one("#answers", Static).update(painted(keys, palette_of(self.app.theme_variables)))
        self.query_one("#answers").display = is_command and (not is_bare or len(keys) == 1)
        self.query_one(where).focus()

    def _go_back(self) -> None:
        for each in ("#note", "#command"):
            self.query_one(each).display = False
        self.query_one("#answers").display = self.query_one("#subject").display = True
        self._fit()
        self.query_one("#subject").focus()

    def _edit(self) -> None:
        """A command that can be seen is changed in place, anything else in the user's editor."""
        before = str(self.question.arguments[changeable(self.question)])
        if changeable(self.question) == "command" and visible(before) == before:
            field = self.query_one(CommandField)
            field.text = before
            field.move_cursor(field.document.end)
            return self._write("#command")
        try:
            text = edited(self.app, before, path_of(self.question.arguments))
        except UsageError as error:
            palette = palette_of(self.app.theme_variables)
            self.query_one("#reason", Static).update(Text(visible(str(error)), palette.warn))
            self.query_one("#reason").display = True
            return None
        if text != before:
            self.dismiss(Decision("edit", arguments=changed(self.question, text)))
        return None

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(Decision("deny", note=visible(event.value.strip())))

    def on_command_field_taken(self, event: "CommandField.Taken") -> None:
        """What is run is what is there to be read: the field shows it all."""
        event.stop()
        if event.text == command_of(self.question.arguments):
            self.dismiss(Decision("allow"))
        elif event.text.strip():
            self.dismiss(Decision("allow", arguments=changed(self.question, visible(event.text))))


class CommandField(TextArea):
    """A command that is written: Enter is done, Ctrl-J begins another line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", show=False, priority=True),
        Binding("ctrl+j,shift+enter", "new_line", show=False, priority=True),
    ]

    class Taken(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    async def _on_paste(self, event: events.Paste) -> None:
        """Nothing in what is pasted hides from the user."""
        event.prevent_default()
        event.stop()
        self.replace(visible(event.text.replace("\r\n", "\n").replace("\r", "\n")), *self.selection)

    def action_take(self) -> None:
        self.post_message(self.Taken(self.text))

    def action_new_line(self) -> None:
        self.insert("\n")


def show_subject(view: DiffView, question: PermissionAsked) -> None:
    """All that the call would do: the whole command line, the diff, or every argument."""
    command = command_of(question.arguments)
    if command:
        view.show_code(command, "bash", [(one.start, one.end) for one in question.dangers])
    elif question.preview:
        view.show_diff(files_of(question.preview))
    else:
        view.show_code(arguments_text(question.arguments), "json")
