"""The command context of line mode."""

import os
from collections.abc import Sequence
from pathlib import Path

from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.permissions import Decision, PermissionAsked
from ebbtide.agent.events.plan import PlanDecision, PlanSubmitted
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.commands import COMMANDS
from ebbtide.tui.plain.lines import Lines
from ebbtide.tui.plain.panel import show_panel
from ebbtide.tui.plain.print_events import lines_of_text, plain_lines, words_of
from ebbtide.tui.session.compaction import ManualCompaction, size_of
from ebbtide.tui.session.view_edits import carry_out_written, propose_written
from ebbtide.tui.terminal.edit_file import edit_file
from ebbtide.tui.terminal.edit_text import edit_with, editor_of, ignore_interrupt_keys
from ebbtide.tui.text.sanitise import sanitised
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.blocks import AnswerText, SessionView, UserText
from ebbtide.tui.view.call_titles import path_of
from ebbtide.tui.view.compaction_preview import draft_text, gate_lines, headline, plan_lines
from ebbtide.tui.view.context import overview_lines
from ebbtide.tui.view.greeting import greeting_words
from ebbtide.tui.view.panel import Panel, PanelRow, RowChosen
from ebbtide.tui.view.permission import changeable, with_changed_argument
from ebbtide.tui.view.plan import FILE

HELP = (
    "Type a message and press Enter. A line that ends with \\ continues on the next.",
    "What you type while the session works goes in at its next step; `/later TEXT` waits for the end of the turn.",
    "Ctrl-C takes away what you type, or else stops the turn; where nothing runs, twice leaves. "
    "Ctrl-D on an empty line leaves, while a turn works when it comes again.",
    "@ and the name of a file shows the model that file, ! runs a command, # remembers something.",
)
EDITING = (
    "Alt-Enter begins a new line. Up, Down, Ctrl-R go through what you typed before; Tab completes commands and files."
)
"""Help text where line editing is available."""
PRINTING = "Keys work here as far as the terminal allows; `/history` brings back what you typed before."


class LineContext(Lines):
    """A `CommandContext` for line mode."""

    looks = None

    async def leave(self) -> None:
        self.close()

    async def show(self, panel: Panel) -> RowChosen | None:
        return await show_panel(self, panel)

    async def confirm(self, question: str, lines: Sequence[Line], yes: str) -> bool:
        self.print_lines(plain_lines(lines))
        return (await self.ask(f"y {yes}; an empty line cancels: ")).strip().lower() == "y"

    async def play_demo(self) -> None:
        from ebbtide.tui.session.demo import print_demo  # noqa: PLC0415  # deferred: few see it

        await self.reader().lend_terminal(lambda: str(print_demo(None)))

    def hint(self, text: str) -> None:
        self.print_lines((text,))

    def insert(self, text: str) -> None:
        self.write(text)

    def show_session(self) -> None:
        greet(self)

    async def show_help(self) -> None:
        commands = (f"{command.usage}: {command.help}" for command in COMMANDS)
        self.print_lines((*HELP, EDITING if self.reader().has_line_editing else PRINTING, "Commands:", *commands))

    async def show_palette(self) -> None:
        await self.show_help()

    async def show_context(self) -> None:
        if self.controller.session is not None:
            self.print_lines(
                plain_lines(overview_lines(await self.controller.sessions.overview(self.controller.session.id), 80))
            )

    async def steer(self, written: str) -> None:
        """Run the action after confirming its price."""
        offered = await propose_written(self.controller, written)
        if not offered.is_possible:
            self.print_lines((offered.text,))
        elif (await self.ask(f"{offered.text}. Do it? y or n: ")).strip().lower() in ("y", "yes"):
            await carry_out_written(self.controller, written)

    async def compact(self, by_hand: ManualCompaction) -> None:
        await compact(self, by_hand)

    async def find_message(self) -> None:
        said, empty = "What you wrote before, the newest first.", "Nothing was written yet."
        rows = tuple(PanelRow(text, ((text, "text"),)) for text in self.history.entries())
        if taken := await self.show(Panel("history", ((("Messages", "strong"),),), rows, plain_head=said, empty=empty)):
            self.write(taken.value)

    async def edit_message(self, text: str) -> None:
        try:
            written = (await in_editor(self, text, "message.md")).strip()
        except AgentError as error:
            return self.controller.fail(error)
        if written:
            self.write(written, unsent=True)
            if not self.reader().has_line_editing:
                self.print_lines(("An empty line sends what you wrote.",))
        return None

    async def edit_file(self, path: Path) -> None:
        try:
            self.controller.notice(await edit_file(path, lambda text: in_editor(self, text, path.name)))
        except AgentError as error:
            self.controller.fail(error)

    async def switch_vim(self) -> None:
        self.controller.notice("this is for the prompt of the screen; here a line goes on after `\\` at its end")

    def copy(self, text: str) -> None:
        """Print the text as written. A clipboard needs control sequences, which line mode avoids."""
        self.print_lines(lines_of_text(text) or ("Nothing to copy.",))

    async def print_conversation(self) -> None:
        self.print_lines(
            [line for block in self.controller.view.blocks for line in words_of(block)] or ("Nothing was said yet.",)
        )

    def apply_setting(self, key: str) -> None:
        """Do nothing: no setting changes how line mode looks."""


async def compact(context: Lines, by_hand: ManualCompaction) -> None:
    context.print_lines((headline(by_hand.preview), *plain_lines(plan_lines(by_hand.preview))))
    if (await context.ask("y lets the model write the summary; an empty line cancels: ")).strip().lower() != "y":
        return
    try:
        drafted = await by_hand.draft()
        text = by_hand.with_missing_facts(by_hand.text)
        while not drafted.is_interrupted:
            told = draft_text(by_hand.drafted, size_of(text), by_hand.result(text))
            gate = plain_lines(gate_lines(by_hand.missing(text), size_of(text) == 0))
            context.print_lines((*lines_of_text(text), told, *gate))
            answer = await context.ask("y compacts, other words are added to the summary, an empty line cancels: ")
            if not answer.strip():
                break
            if answer.strip().lower() == "y":
                await by_hand.apply(text)
                break
            text = by_hand.with_missing_facts(f"{text.rstrip()}\n{answer}")
    except AgentError as error:
        context.controller.fail(error)


def greet(context: Lines) -> None:
    """Print which session is open, and its last exchange if it was resumed."""
    said, view = context.greeter.greeting(), context.controller.view
    if said is not None:
        context.print_lines((*greeting_words(said), *before_this(view), *last_exchange(view)))
        if draft := context.controller.take_draft():
            context.write(draft, unsent=True)


def before_this(view: SessionView) -> tuple[str, ...]:
    """The number of earlier messages, and how to read them."""
    return words_of(view.past[0]) if view.earlier else ()


def last_exchange(view: SessionView) -> tuple[str, ...]:
    """The last message and its answer, of a resumed session."""
    said = [index for index, block in enumerate(view.blocks) if isinstance(block, UserText)]
    if not said:
        return ()
    last = view.blocks[said[-1] :]
    answers = [block for block in last if isinstance(block, AnswerText)][-1:]
    words = tuple(line for block in (last[0], *answers) for line in words_of(block))
    return (f"The session goes on after {pluralize(len(said), 'message')} of yours. The last one:", *words)


COMMAND = "Command to run: "


async def change(context: Lines, question: PermissionAsked | PlanSubmitted) -> Decision | PlanDecision | None:
    """Let the user edit a call or plan; None if nothing was changed. Raises `UsageError`."""
    if isinstance(question, PlanSubmitted):
        plan = await in_editor(context, question.plan, FILE)
        return PlanDecision("edit", plan=plan) if plan.strip() and plan != question.plan else None
    before = str(question.arguments[changeable(question)])
    if changeable(question) == "command" and sanitised(before) == before:
        if not context.reader().prefill_answer(COMMAND, before):
            context.print_lines(("Type the command to run in its place; an empty line goes back to the question.",))
        text = await context.ask(COMMAND)
        if not text.strip():
            return None
        return (
            Decision("allow") if text == before else Decision("allow", arguments=with_changed_argument(question, text))
        )
    text = await in_editor(context, before, path_of(question.arguments))
    return Decision("edit", arguments=with_changed_argument(question, text)) if text != before else None


async def in_editor(context: Lines, text: str, name: str) -> str:
    """Edit a text in the editor, in a file with the suffix `name`. Raises `UsageError`."""
    command = editor_of(os.environ)
    with ignore_interrupt_keys():
        return await context.reader().lend_terminal(lambda: edit_with(command, text, name))
