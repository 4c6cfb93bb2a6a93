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
from ebbtide.tui.session.compaction import ManualCompaction, estimate_summary_tokens
from ebbtide.tui.text.sanitise import sanitise
from ebbtide.tui.text.styles import clipped_text, get_palette
from ebbtide.tui.view.compaction_preview import (
    compaction_headline,
    compaction_plan_lines,
    draft_status_text,
    missing_fact_lines,
)
from ebbtide.tui.widgets.field import CommandField
from ebbtide.tui.widgets.key_line import KeyLine
from ebbtide.tui.widgets.worker import start_worker

PLAN_KEY_HINTS = "Enter let the model summarise   w write it yourself   Esc cancel"
DRAFTING_KEY_HINTS = "Esc interrupt"
EDIT_KEY_HINTS = "Enter compact   Alt-Enter new line   Ctrl-N add missing facts   Esc cancel"


class CompactionScreen(TypeaheadGuardedDialog[None]):
    """Takes the user through a manual compaction, and closes when it is finished or cancelled."""

    AUTO_FOCUS = "#subject"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False, priority=True),
        Binding("enter", "draft", show=False),
        Binding("w", "write", show=False),
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

    def __init__(self, compaction: ManualCompaction) -> None:
        super().__init__()
        self._compaction = compaction
        self._step: Literal["plan", "drafting", "editing", "applying"] = "plan"
        self._unedited_text = ""
        """The summary before the user edited it."""
        self._has_warned = False

    def compose(self) -> ComposeResult:
        palette = get_palette(self.app.theme_variables)
        with Vertical(id="dialog"):
            yield Static(id="headline")
            with VerticalScroll(id="subject"):
                yield Static(clipped_text(compaction_plan_lines(self._compaction.preview), palette))
            yield CommandField(id="draft", soft_wrap=True, show_line_numbers=False, highlight_cursor_line=False)
            yield Static(id="gate")
            yield KeyLine(id="answers")

    def on_mount(self) -> None:
        self._show_headline("Compact", compaction_headline(self._compaction.preview), PLAN_KEY_HINTS)

    @property
    def has_text_focus(self) -> bool:
        return self._step == "editing"

    def accepts_key(self, key: events.Key) -> bool:
        return not key.is_printable or self.has_text_focus or (key.key == "w" and self._step == "plan")

    @property
    def step(self) -> str:
        return self._step

    @property
    def draft(self) -> CommandField:
        return self.query_one("#draft", CommandField)

    def on_text_area_changed(self) -> None:
        if self._step == "editing":
            self._show_missing_facts()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable only the keys that apply at the current step."""
        match action:
            case "draft" | "write":
                return self._step == "plan"
            case "complete":
                return self._step == "editing"
            case _:
                return True

    def action_draft(self) -> None:
        self._step = "drafting"
        model = self._compaction.preview.quote.model
        self._show_headline("Compact", f"writing the summary ({model}) …", DRAFTING_KEY_HINTS)
        start_worker(self, self._draft, "draft")

    async def _draft(self) -> None:
        try:
            draft = await self._compaction.draft()
        except AgentError as error:
            self._step = "plan"
            self._show_headline("Compact", sanitise(str(error)), PLAN_KEY_HINTS, is_bad=True)
            return
        if draft.is_interrupted:
            self._step = "plan"
            self._show_headline("Compact", "interrupted, nothing changed", PLAN_KEY_HINTS, is_bad=True)
        else:
            self.action_write()

    def action_write(self) -> None:
        """Show the summary for editing. It is empty if there is none yet."""
        self._step, self._unedited_text = "editing", self._compaction.summary_text
        self.add_class("editing")
        self.draft.cursor_blink = False
        self.draft.load_text(self._unedited_text)
        self.draft.focus()
        self._show_missing_facts()
        self.restart_guard()  # an Enter from before the summary was shown does not confirm it

    def action_complete(self) -> None:
        completed_text = self._compaction.with_missing_facts(self.draft.text)
        if completed_text != self.draft.text:
            self.draft.replace(completed_text, (0, 0), self.draft.document.end)
            self.draft.move_cursor(self.draft.document.end)

    def on_command_field_command_submitted(self) -> None:
        if self._step != "editing":
            return
        if self._compaction.missing_facts(self.draft.text):
            self._show_headline(
                "Compact", "required facts are missing: press Ctrl-N to add them", EDIT_KEY_HINTS, is_bad=True
            )
            return
        self._step, self.draft.read_only = "applying", True
        start_worker(self, self._apply, "apply")

    async def _apply(self) -> None:
        try:
            await self._compaction.apply(self.draft.text)
        except AgentError as error:
            self._step, self.draft.read_only = "editing", False
            self._show_headline("Compact", sanitise(str(error)), EDIT_KEY_HINTS, is_bad=True)
        else:
            self.dismiss(None)

    def action_leave(self) -> None:
        if self._step == "applying":
            return  # the last step is short and cannot be interrupted
        if self._step == "drafting":
            self._compaction.interrupt()
        elif self._step == "editing" and self.draft.text != self._unedited_text and not self._has_warned:
            self._has_warned = True
            self._show_headline("Compact", "press Esc again to discard your edits", EDIT_KEY_HINTS, is_bad=True)
        else:
            self.dismiss(None)

    def _show_missing_facts(self) -> None:
        self._has_warned = False
        compaction = self._compaction
        text = self.draft.text
        palette = get_palette(self.app.theme_variables)
        headline_text = draft_status_text(
            compaction.last_draft, estimate_summary_tokens(text), compaction.predict_result(text)
        )
        self._show_headline("Summary", headline_text, EDIT_KEY_HINTS)
        self.query_one("#gate", Static).update(
            clipped_text(
                missing_fact_lines(compaction.missing_facts(text), estimate_summary_tokens(text) == 0), palette
            )
        )

    def _show_headline(self, title: str, text: str, key_hints: str, *, is_bad: bool = False) -> None:
        palette = get_palette(self.app.theme_variables)
        headline = Text.assemble((f"{title}  ", palette.strong), (text, palette.warn if is_bad else palette.dim))
        self.query_one("#headline", Static).update(headline)
        self.query_one(KeyLine).show(key_hints)
