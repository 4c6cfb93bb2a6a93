"""May this call run? The screen knows the question and its possible answers, not who asked."""

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, Static

from agent.events import Decision, PermissionAsked
from tui.diffs.unified import counted, files_of
from tui.paint import arguments_text
from tui.palette import Palette, palette_of
from tui.sanitise import visible, visible_line
from tui.screens.guarded import GUARD, GuardedScreen
from tui.titles import command_of, path_of
from tui.widgets.diffview import DiffView


class PermissionScreen(GuardedScreen[Decision | None]):
    """Gives the user's decision, or None when the question was answered elsewhere. Only named keys answer."""

    AUTO_FOCUS = "#subject"

    def __init__(self, question: PermissionAsked, guard: float = GUARD) -> None:
        super().__init__(guard)
        self.question = question

    def compose(self) -> ComposeResult:
        palette = palette_of(self.app.theme_variables)
        with Vertical(id="dialog"):
            yield Static(_headline(self.question, palette), id="headline")
            yield DiffView(id="subject")
            yield Static(Text(visible(self.question.reason), palette.dim), id="reason")
            yield Static(answers_text(self.question.offers, palette), id="answers")
            yield Input(placeholder="why not, or what to do instead; Enter denies, Esc goes back", id="note")

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one("#note").display = False
        show_subject(self.query_one(DiffView), self.question)

    def on_resize(self) -> None:
        """What the call would do gets all lines that the frame and the answers leave."""
        others = 11 + len(self.question.offers) + len(self.question.reason) // max(1, self.size.width - 20)
        self.query_one("#subject").styles.max_height = max(3, self.size.height - others)

    def on_key(self, event: events.Key) -> None:
        if self.query_one("#note").display:
            if event.key == "escape":
                event.stop()
                self._write_note(False)
            return
        if self._answers(event.key):
            event.stop()

    def _answers(self, key: str) -> bool:
        offers = self.question.offers
        match key:
            case "y":
                self.dismiss(Decision("allow"))
            case "a" if offers:
                self.dismiss(Decision("allow", rule=offers[0]))
            case "n" | "escape":
                self.dismiss(Decision("deny"))
            case "d":
                self._write_note(True)
            case _ if key.isdecimal() and 0 < int(key) <= len(offers):
                self.dismiss(Decision("allow", rule=offers[int(key) - 1]))
            case _:
                return False
        return True

    def _write_note(self, writing: bool) -> None:
        self.query_one("#note").display = writing
        self.query_one("#answers").display = not writing
        self.query_one("#note" if writing else "#subject").focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(Decision("deny", note=visible(event.value.strip())))


def _headline(question: PermissionAsked, palette: Palette) -> Text:
    text = Text.assemble(("? ", palette.warn), ("May ", palette.text), (visible_line(question.name), palette.strong))
    command, path = command_of(question.arguments), path_of(question.arguments)
    if command:
        return text.append(" run this?", palette.text)
    if path:
        text.append(f" touch {visible_line(path)}?" if not question.preview else "", palette.text)
    if question.preview:
        added, removed = counted(question.preview)
        text.append(f" change {visible_line(path) or 'these files'}?", palette.text)
        return text.append(f"  +{added} −{removed}", palette.dim)
    return text if path else text.append(" run with these arguments?", palette.text)


def show_subject(view: DiffView, question: PermissionAsked) -> None:
    """All that the call would do: the whole command line, the diff, or every argument."""
    command = command_of(question.arguments)
    if command:
        view.show_code(command, "bash")
    elif question.preview:
        view.show_diff(files_of(question.preview))
    else:
        view.show_code(arguments_text(question.arguments), "json")


def answers_text(offers: tuple[str, ...], palette: Palette) -> Text:
    text = Text(end="")

    def answer(key: str, meaning: str) -> None:
        text.append(f" {key} ", palette.accent)
        text.append(f"{meaning}   ", palette.text)

    answer("y", "once")
    answer("n", "no")
    answer("d", "no, and say why")
    for number, offer in enumerate(offers, 1):
        text.append("\n")
        answer("a" if number == 1 else str(number), f"always in this session: {visible_line(offer)}")
    return text
