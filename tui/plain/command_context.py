"""The command context of line mode."""

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Protocol

from ebbtide.agent.config.settings import Settings
from ebbtide.agent.errors import AgentError
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui import session
from ebbtide.tui.commands.command_context import SendMessage
from ebbtide.tui.keys import KEYS as SCREEN_KEYS
from ebbtide.tui.keys import KeyBinding
from ebbtide.tui.plain.panel import show_panel
from ebbtide.tui.plain.questions import ANSWER_PROMPT, parse_answer, question_lines
from ebbtide.tui.plain.reader import PromptReader
from ebbtide.tui.prompt.history import History
from ebbtide.tui.session.compaction import ManualCompaction, estimate_summary_tokens
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.session.greeter import GreetingCollector
from ebbtide.tui.session.view_edits import propose_typed_action, run_typed_action
from ebbtide.tui.slash_commands import Invocation
from ebbtide.tui.terminal.edit_text import editor_command, ignore_interrupt_keys, run_editor
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.blocks import AnswerText, Notice, SessionView, UserText
from ebbtide.tui.view.compaction_preview import (
    compaction_headline,
    compaction_plan_lines,
    draft_status_text,
    missing_fact_lines,
)
from ebbtide.tui.view.context import overview_lines
from ebbtide.tui.view.greeting import plain_greeting
from ebbtide.tui.view.panel import Panel, PanelRow, RowChosen
from ebbtide.tui.view.plain_lines import block_lines, plain_lines, text_lines
from ebbtide.tui.view.question import Answer, TextEntry
from ebbtide.tui.view.questions import build_confirmation

SHARED_KEYS = ("@", "!", "#", "Ctrl-D")
"""Labels of keys that mean the same in both interfaces."""
LINE_MODE_KEYS = (
    KeyBinding("", "Enter", "", "send (while it works: delivered at the next step, with `/later` after the turn)"),
    KeyBinding("", "\\ Enter", "", "start a new line"),
    *(key for key in SCREEN_KEYS if key.label in SHARED_KEYS),
    KeyBinding("", "Ctrl-C", "", "clear the input or stop the turn; twice: quit"),
)
EDITING_KEYS = (
    KeyBinding("", "Alt-Enter", "", "start a new line"),
    KeyBinding("", "Up, Down", "", "earlier messages"),
    KeyBinding("", "Ctrl-R", "", "search your earlier messages"),
    KeyBinding("", "Tab", "", "complete commands and files"),
)
"""Keys that require line editing."""


COMMAND_PROMPT = "Command to run: "


class SetPromptText(Protocol):
    """Puts text into the prompt. If that is impossible and `is_unsent` is set, the messages stay in the queue."""

    def __call__(self, text: str, is_unsent: bool = False) -> None: ...


@dataclass(frozen=True, slots=True)
class LineContext:
    """The `CommandContext` of line mode."""

    controller: SessionController
    history: History
    print_lines: Callable[[Sequence[str]], None]
    ask: Callable[[str], Awaitable[str]]
    """Returns the user's next line; empty to cancel."""
    set_prompt_text: SetPromptText
    model: str | None
    send: SendMessage
    invoke: Callable[[Invocation], None]
    settings: Settings | None
    close: Callable[[], None]
    greeter: GreetingCollector
    get_reader: Callable[[], PromptReader]
    """Returns the current reader."""

    @property
    def themes(self) -> None:
        """None, because line mode has no colours."""

    @property
    def keys(self) -> Sequence[KeyBinding]:
        return (*LINE_MODE_KEYS, *(EDITING_KEYS if self.get_reader().has_line_editing else ()))

    async def run_action(self, action: str) -> None:
        """Do nothing: keys in line mode have no actions."""

    async def exit(self) -> None:
        self.close()

    async def show(self, panel: Panel) -> RowChosen | None:
        return await show_panel(self, panel)

    async def confirm(self, question: str, lines: Sequence[Line], confirm_label: str) -> bool:
        spec = build_confirmation(question, lines, confirm_label)
        self.print_lines(question_lines(spec))
        return parse_answer(spec, await self.ask(ANSWER_PROMPT)) is True

    async def play_demo(self) -> None:
        await self.get_reader().run_with_terminal(lambda: str(session.demo.print_demo(None)))

    def show_hint(self, text: str) -> None:
        self.print_lines((text,))

    def insert_in_prompt(self, text: str) -> None:
        self.set_prompt_text(text)

    def show_session(self) -> None:
        """Print which session is open and, if it was resumed, its last exchange."""
        greeting, view = self.greeter.build_greeting(), self.controller.view
        if greeting is not None:
            self.print_lines((*plain_greeting(greeting), *older_messages_note(view), *last_exchange(view)))
            if draft := self.controller.take_draft():
                self.set_prompt_text(draft, is_unsent=True)

    async def show_context(self) -> None:
        if self.controller.session is not None:
            self.print_lines(
                plain_lines(overview_lines(await self.controller.sessions.overview(self.controller.session.id), 80))
            )

    async def edit_context(self, action_text: str) -> None:
        """Run a typed context action, once the user has confirmed its price."""
        proposal = await propose_typed_action(self.controller, action_text)
        if not proposal.is_possible:
            self.controller.show_notice(proposal.text)
        elif await self.confirm("Change the context?", (((proposal.text, "text"),),), "do it"):
            await run_typed_action(self.controller, action_text)

    async def compact(self, compaction: ManualCompaction) -> None:
        self.print_lines(
            (compaction_headline(compaction.preview), *plain_lines(compaction_plan_lines(compaction.preview)))
        )
        if (await self.ask("y to have the model write the summary, an empty line to cancel: ")).strip().lower() != "y":
            return
        try:
            draft = await compaction.draft()
            text = compaction.with_missing_facts(compaction.summary_text)
            while not draft.is_interrupted:
                status = draft_status_text(
                    compaction.last_draft, estimate_summary_tokens(text), compaction.predict_result(text)
                )
                missing_lines = plain_lines(
                    missing_fact_lines(compaction.missing_facts(text), estimate_summary_tokens(text) == 0)
                )
                self.print_lines((*text_lines(text), status, *missing_lines))
                answer = await self.ask("y to compact, other text to add it to the summary, an empty line to cancel: ")
                if not answer.strip():
                    break
                if answer.strip().lower() == "y":
                    await compaction.apply(text)
                    break
                text = compaction.with_missing_facts(f"{text.rstrip()}\n{answer}")
        except AgentError as error:
            self.controller.show_failure(error)

    async def search_history(self) -> None:
        rows = tuple(PanelRow(text, ((text, "text"),), text) for text in self.history.entries())
        title: Line = (("Messages", "strong"), ("  most recent first", "dim"))
        if choice := await self.show(Panel("history", (title,), rows, empty_message="No messages yet.")):
            self.set_prompt_text(choice.value)

    async def edit_message(self, text: str) -> None:
        if new_text := (await self.edit_text(text, "message.md")).strip():
            self.set_prompt_text(new_text, is_unsent=True)
            if not self.get_reader().has_line_editing:
                self.print_lines(("An empty line sends the message.",))

    async def edit_text(self, text: str, name: str) -> str:
        command = editor_command(os.environ)
        with ignore_interrupt_keys():
            return await self.get_reader().run_with_terminal(lambda: run_editor(command, text, name))

    async def write_answer(self, text_entry: TextEntry) -> Answer | None:
        """Let the user write an answer; None if nothing was written or changed. Raises `UsageError`."""
        if text_entry.kind == "editor":
            return text_entry.parse_answer(await self.edit_text(text_entry.initial_text, text_entry.file_suffix))
        prompt = (
            COMMAND_PROMPT if text_entry.kind == "command" else f"{text_entry.hint.partition(';')[0].capitalize()}: "
        )
        if text_entry.initial_text and not self.get_reader().prefill(text_entry.initial_text, prompt):
            self.print_lines(("Type the command to run instead; an empty line returns to the question.",))
        text = await self.ask(prompt)
        return text_entry.parse_answer(text) if text.strip() else None

    async def toggle_vim_keys(self) -> None:
        self.controller.show_notice("vi keys work only in the full-screen interface")

    def copy(self, text: str) -> None:
        """Print the text as is. Using a clipboard would require control sequences, which line mode avoids."""
        self.print_lines(text_lines(text) or ("Nothing to copy.",))

    async def print_conversation(self) -> None:
        self.print_lines(
            [line for block in self.controller.view.blocks for line in block_lines(block)] or ("No messages yet.",)
        )

    def apply_setting(self, key: str) -> None:
        """Do nothing: no setting changes how line mode looks."""


def older_messages_note(view: SessionView) -> tuple[str, ...]:
    """Say how many earlier messages there are and how to read them; empty if there are none."""
    return block_lines(view.past_blocks[0]) if view.older_message_count else ()


def last_exchange(view: SessionView) -> tuple[str, ...]:
    """Format the user's last message in a resumed session, and the answer to it with its sources."""
    user_indexes = [index for index, block in enumerate(view.blocks) if isinstance(block, UserText)]
    if not user_indexes:
        return ()
    last_blocks = view.blocks[user_indexes[-1] :]
    answer_indexes = [index for index, block in enumerate(last_blocks) if isinstance(block, AnswerText)]
    answer, *later_blocks = last_blocks[answer_indexes[-1] :] if answer_indexes else (None,)
    notices = takewhile(lambda block: isinstance(block, Notice), later_blocks)
    shown_blocks = (last_blocks[0], *((answer, *notices) if answer is not None else ()))
    lines = tuple(line for block in shown_blocks for line in block_lines(block))
    return (f"Resumed after {pluralize(len(user_indexes), 'message')} from you. The last one:", *lines)
