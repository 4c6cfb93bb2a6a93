"""The screen for a manual compaction: preview, summary, then compaction."""

from typing import ClassVar, Literal

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from ebbtide.agent.errors import AgentError
from ebbtide.tui.screens.typeahead_guard import TypeaheadGuardedDialog
from ebbtide.tui.session.compaction import ManualCompaction, size_of
from ebbtide.tui.text.sanitise import sanitised
from ebbtide.tui.text.styles import clipped_text, palette_of
from ebbtide.tui.view.compaction_preview import draft_text, gate_lines, headline, plan_lines
from ebbtide.tui.widgets.keyline import KeyLine
from ebbtide.tui.widgets.text_box import TextBox
from ebbtide.tui.widgets.worker import begin

PLAN_KEYS = "Enter lets the model write the summary   w lets you write it   Esc cancels"
MAKING_KEYS = "Esc interrupts"
EDIT_KEYS = "Ctrl-S compacts   Ctrl-N adds what is missing   Esc cancels"


class CompactionScreen(TypeaheadGuardedDialog[None]):
    """Closes when the compaction is done or cancelled."""

    AUTO_FOCUS = "#subject"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False, priority=True),
        Binding("enter", "draft", show=False),
        Binding("w", "write", show=False),
        Binding("ctrl+s", "apply", show=False, priority=True),
        Binding("ctrl+n", "complete", show=False, priority=True),
    ]
    CSS = """
    CompactionScreen #dialog { height: 90%; }
    CompactionScreen #subject { height: 1fr; max-height: 100%; }
    CompactionScreen #draft { height: 1fr; border: none; padding: 0; background: $surface; display: none; }
    CompactionScreen #gate { height: auto; max-height: 6; display: none; }
    CompactionScreen.editing #subject { display: none; }
    CompactionScreen.editing #draft, CompactionScreen.editing #gate { display: block; }
    """

    def __init__(self, by_hand: ManualCompaction) -> None:
        super().__init__()
        self._by_hand = by_hand
        self._step: Literal["plan", "making", "editing", "applying"] = "plan"
        self._loaded = ""
        """The summary before any edit."""
        self._is_warned = False

    def compose(self) -> ComposeResult:
        palette = palette_of(self.app.theme_variables)
        with Vertical(id="dialog"):
            yield Static(id="headline")
            with VerticalScroll(id="subject"):
                yield Static(clipped_text(plan_lines(self._by_hand.preview), palette))
            yield TextBox(id="draft", soft_wrap=True, show_line_numbers=False, highlight_cursor_line=False)
            yield Static(id="gate")
            yield KeyLine(id="answers")

    def on_mount(self) -> None:
        self._show_headline("Compact", headline(self._by_hand.preview), PLAN_KEYS)

    @property
    def has_text_focus(self) -> bool:
        return self._step == "editing"

    def accepts_key(self, key: events.Key) -> bool:
        return not key.is_printable or self.has_text_focus or (key.key == "w" and self._step == "plan")

    @property
    def step(self) -> str:
        return self._step

    @property
    def draft(self) -> TextBox:
        return self.query_one("#draft", TextBox)

    def on_text_area_changed(self) -> None:
        if self._step == "editing":
            self._show_gate()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable only the keys of the current step."""
        match action:
            case "draft" | "write":
                return self._step == "plan"
            case "apply" | "complete":
                return self._step == "editing"
            case _:
                return True

    def action_draft(self) -> None:
        self._step = "making"
        model = self._by_hand.preview.quote.model
        self._show_headline("Compact", f"the summary is being written ({model}) …", MAKING_KEYS)
        begin(self, self._draft, "draft")

    async def _draft(self) -> None:
        try:
            drafted = await self._by_hand.draft()
        except AgentError as error:
            self._step = "plan"
            self._show_headline("Compact", sanitised(str(error)), PLAN_KEYS, is_bad=True)
            return
        if drafted.is_interrupted:
            self._step = "plan"
            self._show_headline("Compact", "interrupted: nothing has changed", PLAN_KEYS, is_bad=True)
        else:
            self.action_write()

    def action_write(self) -> None:
        """Show the summary, if any, for editing."""
        self._step, self._loaded = "editing", self._by_hand.text
        self.add_class("editing")
        self.draft.cursor_blink = False
        self.draft.load_text(self._loaded)
        self.draft.focus()
        self._show_gate()

    def action_complete(self) -> None:
        completed = self._by_hand.with_missing_facts(self.draft.text)
        if completed != self.draft.text:
            self.draft.replace(completed, (0, 0), self.draft.document.end)
            self.draft.move_cursor(self.draft.document.end)

    def action_apply(self) -> None:
        if self._by_hand.missing(self.draft.text):
            self._show_headline("Compact", "not yet: Ctrl-N adds what must be in it", EDIT_KEYS, is_bad=True)
            return
        self._step, self.draft.read_only = "applying", True
        begin(self, self._apply, "apply")

    async def _apply(self) -> None:
        try:
            await self._by_hand.apply(self.draft.text)
        except AgentError as error:
            self._step, self.draft.read_only = "editing", False
            self._show_headline("Compact", sanitised(str(error)), EDIT_KEYS, is_bad=True)
        else:
            self.dismiss(None)

    def action_leave(self) -> None:
        if self._step == "applying":
            return  # it is done in a moment, and half of it would be nothing
        if self._step == "making":
            self._by_hand.interrupt()
        elif self._step == "editing" and self.draft.text != self._loaded and not self._is_warned:
            self._is_warned = True
            self._show_headline(
                "Compact", "you have edited the summary: Esc again throws that away", EDIT_KEYS, is_bad=True
            )
        else:
            self.dismiss(None)

    def _show_gate(self) -> None:
        self._is_warned = False
        by_hand, text, palette = self._by_hand, self.draft.text, palette_of(self.app.theme_variables)
        told = draft_text(by_hand.drafted, size_of(text), by_hand.result(text))
        self._show_headline("Summary", told, EDIT_KEYS)
        self.query_one("#gate", Static).update(
            clipped_text(gate_lines(by_hand.missing(text), size_of(text) == 0), palette)
        )

    def _show_headline(self, title: str, text: str, keys: str, *, is_bad: bool = False) -> None:
        palette = palette_of(self.app.theme_variables)
        head = Text.assemble((f"{title}  ", palette.strong), (text, palette.warn if is_bad else palette.dim))
        self.query_one("#headline", Static).update(head)
        self.query_one(KeyLine).show(keys)
