"""What commands act on where there is no screen, and what they do there in its own way."""

from collections.abc import Sequence

from agent.errors import AgentError
from tui.commands import COMMANDS
from tui.plain.compaction import compact
from tui.plain.edit_call import in_editor
from tui.plain.greeting import greet
from tui.plain.lines import Lines
from tui.plain.panel import show_panel
from tui.plain.print_events import lines_of_text, plain_lines, words_of
from tui.session.compaction import ManualCompaction
from tui.session.view_edits import carry_out_written, propose_written
from tui.text.inks import Line
from tui.view.context import overview_lines
from tui.view.panel import Panel, PanelRow, Taken

HELP = (
    "Type a message and press Enter. A line that ends with \\ continues on the next.",
    "What you type while the session works goes in at its next step; `/later TEXT` waits for the end of the turn.",
    "Ctrl-C interrupts the session; twice in a row it quits. Ctrl-D on an empty line quits.",
    "@ and the name of a file shows the model that file, ! runs a command, # remembers something.",
)
EDITING = (
    "Alt-Enter begins a new line. Up, Down, Ctrl-R go through what you typed before; Tab completes commands and files."
)
"""Where keys do more than the terminal itself lets them."""
PRINTING = "Keys work here as far as the terminal allows; `/history` brings back what you typed before."


class LineContext(Lines):
    """A `CommandContext`."""

    looks = None

    async def leave(self) -> None:
        self.close()

    async def show(self, panel: Panel) -> Taken | None:
        return await show_panel(self, panel)

    async def confirm(self, question: str, lines: Sequence[Line], yes: str) -> bool:
        self.say(plain_lines(lines))
        return (await self.ask(f"y {yes}; an empty line cancels: ")).strip().lower() == "y"

    def hint(self, text: str) -> None:
        self.say((text,))

    def insert(self, text: str) -> None:
        self.write(text)

    def show_session(self) -> None:
        greet(self)

    async def show_help(self) -> None:
        commands = (f"{command.usage}: {command.help}" for command in COMMANDS)
        self.say((*HELP, EDITING if self.reader().edits else PRINTING, "Commands:", *commands))

    async def show_palette(self) -> None:
        await self.show_help()

    async def show_context(self) -> None:
        if self.controller.session is not None:
            self.say(
                plain_lines(overview_lines(await self.controller.sessions.overview(self.controller.session.id), 80))
            )

    async def steer(self, written: str) -> None:
        """Once its price was agreed to."""
        offered = await propose_written(self.controller, written)
        if not offered.is_possible:
            self.say((offered.text,))
        elif (await self.ask(f"{offered.text}. Do it? y or n: ")).strip().lower() in ("y", "yes"):
            await carry_out_written(self.controller, written)

    async def compact(self, by_hand: ManualCompaction) -> None:
        await compact(self, by_hand)

    async def find_message(self) -> None:
        said, empty = "What you wrote before, the newest first.", "Nothing was written yet."
        rows = tuple(PanelRow(text, ((text, "text"),)) for text in self.history.entries())
        if taken := await self.show(Panel("history", ((("Messages", "strong"),),), rows, said=said, empty=empty)):
            self.write(taken.value)

    async def edit_message(self, text: str) -> None:
        try:
            written = (await in_editor(self, text, "message.md")).strip()
        except AgentError as error:
            return self.controller.fail(error)
        if written:
            self.write(written, unsent=True)
            if not self.reader().edits:
                self.say(("An empty line sends what you wrote.",))
        return None

    async def switch_vim(self) -> None:
        self.controller.notice("this is for the prompt of the screen; here a line goes on after `\\` at its end")

    def copy(self, text: str) -> None:
        """A clipboard is reached with what steers a terminal, which lines do without: it is printed as it was
        written."""
        self.say(lines_of_text(text) or ("Nothing to copy.",))

    async def print_conversation(self) -> None:
        self.say(
            [line for block in self.controller.view.blocks for line in words_of(block)] or ("Nothing was said yet.",)
        )

    def applied(self, key: str) -> None:
        """Nothing that can be changed is seen in lines."""
