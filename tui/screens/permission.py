"""May this call run? The screen knows the question and its possible answers, not who asked."""

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input, Static, TextArea

from agent.errors import UsageError
from agent.events import Decision, PermissionAsked
from tui.diffs.unified import counted, files_of
from tui.paint import arguments_text
from tui.palette import painted, palette_of
from tui.permitting import answers_of, changeable, changed, decision_for, headline_of
from tui.sanitise import visible
from tui.screens.guarded import GUARD, GuardedScreen
from tui.titles import command_of, path_of
from tui.widgets.diffview import DiffView
from tui.widgets.field import Field

_BRIEF = 20
"""Lines of the screen below which rules are shown without what they would have done."""
_FRAME = 6
"""Lines that the dialog takes besides what it is about, the reason and the answers."""
_EDITING = "Enter runs it   Ctrl-J begins a line   Esc goes back"


class PermissionScreen(GuardedScreen[Decision | None]):
    """Gives the user's decision, or None when the question was answered elsewhere. Only named keys answer."""

    AUTO_FOCUS = "#subject"
    CSS = """
    PermissionScreen #dialog { max-width: 130; max-height: 100%; }
    PermissionScreen #dialog.wide { width: 100%; max-width: 240; }
    PermissionScreen #command {
        height: auto; min-height: 3; max-height: 50vh;
        border: none; padding: 0; background: $surface;
    }
    """

    def __init__(self, question: PermissionAsked, guard: float = GUARD) -> None:
        super().__init__(guard)
        self.question = question
        self._for_project = False

    def compose(self) -> ComposeResult:
        palette, question = palette_of(self.app.theme_variables), self.question
        with Vertical(id="dialog", classes="wide" if question.preview else ""):
            yield Static(painted([headline_of(question, *counted(question.preview))], palette), id="headline")
            yield DiffView(id="subject")
            yield CommandField(id="command")
            yield Static(Text(visible(question.reason), palette.dim), id="reason")
            yield Static(id="answers")
            yield Field(placeholder="why not, or what to do instead; Enter denies, Esc goes back", id="note")

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one("#note").display = self.query_one("#command").display = False
        show_subject(self.query_one(DiffView), self.question)

    def on_resize(self) -> None:
        """What the call would do gets all lines that the frame and the answers leave."""
        lines = self._tell_answers()
        reason = 1 + len(self.question.reason) // max(1, self.query_one("#dialog").size.width - 2)
        others = _FRAME + lines + reason
        self.query_one("#subject").styles.max_height = max(3, self.size.height - others)

    def _tell_answers(self) -> int:
        """Shows the keys that answer; how many lines they take."""
        brief = self.size.height < _BRIEF
        lines = answers_of(self.question, for_project=self._for_project, brief=brief)
        self.query_one("#answers", Static).update(painted(lines, palette_of(self.app.theme_variables)))
        return len(lines)

    def on_key(self, event: events.Key) -> None:
        if self.query_one("#note").display or self.query_one("#command").display:
            if event.key == "escape":
                event.stop()
                self._go_back()
            return
        if self._answers(event.key):
            event.stop()
        elif event.is_printable:
            self.meant_nothing()

    def _answers(self, key: str) -> bool:
        decision = decision_for(key, self.question, for_project=self._for_project)
        if decision is not None:
            self.dismiss(decision)
        elif key == "d":
            self._write("#note")
        elif key == "e" and changeable(self.question):
            self._edit()
        elif key == "p" and self.question.rules_file:
            self._for_project = not self._for_project
            self._tell_answers()
        else:
            return False
        return True

    def _write(self, where: str) -> None:
        """Lets the user write: a word to the model, or another command."""
        is_command = where == "#command"
        self.query_one(where).display = True
        self.query_one("#subject").display = not is_command
        hint = Text(_EDITING if is_command else "", palette_of(self.app.theme_variables).dim)
        self.query_one("#answers", Static).update(hint)
        self.query_one("#answers").display = is_command
        self.query_one(where).focus()

    def _go_back(self) -> None:
        for each in ("#note", "#command"):
            self.query_one(each).display = False
        self.query_one("#answers").display = self.query_one("#subject").display = True
        self._tell_answers()
        self.query_one("#subject").focus()

    def _edit(self) -> None:
        """A command that can be seen is changed in place, anything else in the user's editor."""
        before = str(self.question.arguments[changeable(self.question)])
        if changeable(self.question) == "command" and visible(before) == before:
            field = self.query_one(CommandField)
            field.text = before
            field.move_cursor(field.document.end)
            return self._write("#command")
        from tui.editor import edited  # noqa: PLC0415  # deferred: few questions are answered so

        try:
            text = edited(self.app, before, path_of(self.question.arguments))
        except UsageError as error:
            palette = palette_of(self.app.theme_variables)
            self.query_one("#reason", Static).update(Text(visible(str(error)), palette.warn))
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
        view.show_code(command, "bash")
    elif question.preview:
        view.show_diff(files_of(question.preview))
    else:
        view.show_code(arguments_text(question.arguments), "json")
