"""The settings to look through and to change. The screen knows rows and words; what is written where is not its own."""

from collections.abc import Callable, Sequence

from textual.app import ComposeResult
from textual.widgets import Input

from agent.config.settings import Setting, text_of
from agent.errors import AgentError
from tui.screens.finder import Finder
from tui.text.sanitise import visible_line
from tui.view.list_entry import ListEntry
from tui.view.settings import setting_entries
from tui.widgets.field import Field


class SettingsScreen(Finder[None]):
    """Gives nothing. Each change is made at once."""

    KEYS = "Up, Down   Enter changes   Esc closes"
    EDITING = "Enter keeps it   empty: as without a setting   Esc leaves it as it was"

    def __init__(
        self,
        rows: Callable[[], Sequence[Setting]],
        change: Callable[[str, str], str],
        words: str = "",
    ) -> None:
        """`change` takes a key and what was written for it, and tells what follows. It raises `AgentError`."""
        self._rows = {row.key: row for row in rows()}
        super().__init__((("Settings", "strong"),), setting_entries(tuple(self._rows.values())), "No setting.", words)
        self._read = rows
        self._change = change
        self._editing = ""
        """The key that is being changed."""

    def below(self) -> ComposeResult:
        yield Field(id="note", select_on_focus=True)

    def taken(self, entry: ListEntry | None) -> None:
        if entry is None:
            return
        self._editing = entry.value
        value = self._rows[entry.value].value
        box = self.query_one("#note", Input)
        box.value = "" if value is None else value if isinstance(value, str) else text_of(value)
        box.placeholder = f"{entry.value}: not set"
        box.display = True
        box.focus()
        self.hint(self.EDITING)

    def left(self) -> None:
        if self._editing:
            self._done()
        else:
            self.dismiss(None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id != "note":
            super().on_input_submitted(event)
            return
        event.stop()
        try:
            told = self._change(self._editing, event.value)
        except AgentError as error:
            self.tell(self._editing, [((visible_line(str(error)), "bad"),)])
            return
        self._rows = {row.key: row for row in self._read()}
        self.show(setting_entries(tuple(self._rows.values())), self._editing)
        self.tell(self._editing, [((visible_line(told), "good"),)])
        self._done()

    def _done(self) -> None:
        self._editing = ""
        self.query_one("#note").display = False
        self.query_one("#filter").focus()
        self.hint(self.KEYS)
