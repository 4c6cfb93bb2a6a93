"""A session in line mode: reads lines and prints events."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from ebbtide.agent.config.settings import Settings
from ebbtide.agent.errors import UsageError
from ebbtide.agent.events.permissions import Decision, PermissionAsked, QuestionAsked
from ebbtide.agent.events.plan import PlanDecision, PlanSubmitted
from ebbtide.agent.events.session import Event
from ebbtide.tui.actions.first_run import first_model
from ebbtide.tui.actions.sessions import pick_session
from ebbtide.tui.commands import Invocation, parse
from ebbtide.tui.plain.command_context import LineContext, change, greet
from ebbtide.tui.plain.jobs import LineJobs
from ebbtide.tui.plain.print_events import Printing, lines_of, words_of
from ebbtide.tui.plain.questions import (
    ANSWER,
    answer_of,
    answer_text,
    how_to_answer,
    is_short,
    lines_of_question,
    wants_to_change,
)
from ebbtide.tui.plain.reader import PROMPT, PromptReader
from ebbtide.tui.prompt.double_press import LeaveKeys
from ebbtide.tui.prompt.history import History
from ebbtide.tui.prompt.key_arrivals import GUARD, Arrival
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.session.drafts import Drafts
from ebbtide.tui.text.sanitise import sanitised
from ebbtide.tui.view.blocks import Failure, OpenQuestion, TurnTotal
from ebbtide.tui.view.reduce import with_relative_paths

if TYPE_CHECKING:  # types only: what a session is made of is loaded behind the first paint
    from ebbtide.agent.session import Session
    from ebbtide.agent.sessions import Sessions


@dataclass(frozen=True, slots=True)
class WantedAnswer:
    """A question asked by a command."""

    prompt: str
    answer: asyncio.Future[str]
    asked_at: float


class PrintingController(SessionController):
    """A controller that also prints events."""

    def __init__(
        self,
        sessions: "Sessions",
        changed: Callable[[], None],
        drafts: Drafts | None,
        hear: Callable[[Event], None],
        say: Callable[[Sequence[str]], None],
    ) -> None:
        super().__init__(sessions, changed, drafts)
        self._hear, self._say = hear, say

    def advance(self, event: Event) -> None:
        super().advance(event)
        self._hear(with_relative_paths(event, self.folder))

    def end_turn(self, took: float) -> None:
        super().end_turn(took)
        last = self.view.turn[-1] if self.view.turn else None
        if isinstance(last, TurnTotal):
            self._say(words_of(last))


class PlainFront(LineJobs):
    """Line mode. `run` returns the id of the session to resume, if it has messages.

    The arguments are those of `EbbApp`.
    """

    def __init__(
        self,
        sessions: "Sessions",
        history: History,
        *,
        session: "Session | None" = None,
        choose: bool = False,
        model: str | None = None,
        first_message: str | None = None,
        piped: str = "",
        guard: float = GUARD,
        drafts: Drafts | None = None,
        settings: Settings | None = None,
    ) -> None:
        super().__init__()
        self._controller = PrintingController(
            sessions, self._ask_open_question, drafts, self._print_event, self.print_lines
        )
        self.context = LineContext(
            self._controller,
            history,
            self.print_lines,
            self._ask,
            self._write,
            model,
            self.send,
            self.invoke,
            settings,
            self.leave,
            self.greeter,
            self._read_by,
        )
        self.greeter.settings = settings
        self.model = model
        self._history = history
        self._given, self._choose = session, choose
        self._guard = guard
        self._printing = Printing()
        self._leaving = LeaveKeys()
        self._asked: OpenQuestion | None = None
        """The open question that was printed last."""
        self._asked_at = 0.0
        self._answered: set[str] = set()
        """Questions whose answer was sent."""
        self._wanted: list[WantedAnswer] = []
        """Open questions of commands."""
        self._changing: asyncio.Task[None] | None = None
        """The task in which the user edits a call."""
        self._piped = piped_parts(piped) if not first_message else ()
        """Piped input with commands, to be sent part by part."""
        self._saying: asyncio.Task[None] | None = None
        said = [] if self._piped else [first_message, self.controller.pastes.fold(piped) if piped else ""]
        if any(said):
            self.controller.queue.add("\n\n".join(filter(None, said)))

    async def run(self, reader: PromptReader) -> str | None:
        self._reader = reader
        self.start(self._open_first)
        self._saying = asyncio.create_task(self._send_piped())
        try:
            while True:
                self._handle_line(await reader.read(), reader.arrival)
        except EOFError:
            pass
        finally:
            self._saying.cancel()
            id = await self.end(reader.draft)
            await reader.wait_until_printed()
        if self._failure is not None:
            raise self._failure
        return id

    async def wait_until_answered(self) -> None:
        """Return when all piped input was sent and nothing is left to do."""
        if self._saying is not None:
            await asyncio.wait([self._saying])
        await self.wait_until_done()

    async def _send_piped(self) -> None:
        for part in self._piped:
            await self.wait_until_done()
            if part.startswith("/") and isinstance(parse(part), Invocation):
                self.take(part)
            else:
                self.controller.queue.add(self.controller.pastes.fold(part))
                self.start()

    @property
    def controller(self) -> PrintingController:
        return self._controller

    @property
    def has_failed(self) -> bool:
        """Whether the last job failed."""
        blocks = self.controller.view.blocks
        return bool(blocks) and isinstance(blocks[-1], Failure)

    def interrupt(self) -> None:
        """Handle Ctrl-C on an empty line: cancel the question or stop the turn; otherwise exit when pressed twice."""
        if self._wanted:
            self._wanted.pop(0).answer.set_result("")
            return
        match self._leaving.ctrl_c(is_written=False, works=self.is_busy):
            case "stop":
                self.is_held = True
                self.print_lines(("Interrupting.",))
                self.controller.interrupt()
            case "leave":
                self.leave()
            case _:
                self.print_lines(("Ctrl-C again leaves.",))

    def may_end(self) -> bool:
        """Handle Ctrl-D on an empty line; return whether to stop reading."""
        if self._leaving.ctrl_d(works=self.is_busy) == "leave":
            return True
        self.print_lines(("Ctrl-D again leaves.",))
        return False

    async def _open_first(self) -> None:
        if self._given is not None:
            await self.controller.adopt(self._given)
        else:
            if (
                self.model is None and not self._choose and self._read_by().has_line_editing
            ):  # somebody is there to be asked
                self.model = await first_model(self.context)
            resume = await pick_session(self.context) if self._choose else ""
            if self._choose and not resume:
                self.is_held = True  # what was to be said in an earlier session is not said in a new one unasked
            await self.controller.open(resume or None, self.model)
        await self.greeter.look()
        greet(self.context)
        if self.controller.session is not None:
            self.start_background(self.controller.session.prepare())

    # What the user types

    def _handle_line(self, line: str, came: Arrival) -> None:
        """Take a line as an answer only if it can have been typed for the question."""
        is_ahead = self._asked is not None and not self._wanted and came.at < self._asked_at + self._guard
        if not self._guard or not (is_ahead or self._is_type_ahead(came)):
            self._handle_prompted_line(line)
        elif is_short(line):
            self.print_lines((f"{line.strip()!r} came too soon to be an answer. Type it again.",))
        elif is_ahead:
            self.take(line)  # typed before the question was there
        else:
            self._stash_line(line)

    def _is_type_ahead(self, came: Arrival) -> bool:
        """Whether a line arrived before a command's question, or together with other lines at a session's question.
        A command's question follows a line of the user, so the next one may come at once."""
        if self._wanted:
            return came.at < self._wanted[0].asked_at or not came.is_alone
        return self._asked is not None and not came.is_alone

    def _stash_line(self, line: str) -> None:
        """Keep a line that arrived with others, as part of a paste, for the prompt."""
        written = self._reader.draft if self._reader is not None else ""
        if self._reader is not None and self._reader.prefill("\n".join(filter(None, (written, line)))):
            self.print_lines(
                ("Lines that arrive together answer nothing. They will be in the prompt after this question.",)
            )
        else:
            self.print_lines((f"This arrived together with other lines: it answers nothing, and was not sent: {line}",))

    def _handle_prompted_line(self, line: str) -> None:
        if self._wanted:
            self._wanted.pop(0).answer.set_result(line)
            self.prompt()
        elif self._asked is not None:
            self._answer(self._asked, line)
        elif line.strip():
            self._history.add(line)
            self.take(line)
        elif self.controller.queue and not self.is_busy:
            self.start()
        else:
            self.prompt()

    def _answer(self, question: OpenQuestion, line: str) -> None:
        if not isinstance(question, QuestionAsked) and wants_to_change(question, line):
            self._changing = self.start_background(self._change(question))
            return
        answer = answer_of(question, line)
        if answer is None:
            self.print_lines(how_to_answer(question))
        else:
            self._take_answer(question, answer)

    async def _change(self, question: PermissionAsked | PlanSubmitted) -> None:
        """Let the user edit a call or plan; without a change, the question stays open."""
        try:
            decision = await change(self.context, question)
        except UsageError as error:
            decision = None
            self.print_lines((f"Error: {error}",))
        if decision is None:
            self.print_lines(how_to_answer(question))
        else:
            self._take_answer(question, decision)

    def _take_answer(self, question: OpenQuestion, answer: Decision | PlanDecision | str) -> None:
        self._asked = None
        self._answered.add(question.id)
        self.prompt()
        self.print_lines(answer_text(answer))
        self.controller.answer(question.id, answer)

    # What the user is told

    def _print_event(self, event: Event) -> None:
        settings = self.context.settings
        is_full = settings is not None and settings.config.tui_detail == "full"
        self._printing, lines = lines_of(self._printing, event, is_full=is_full)
        self.print_lines(lines)

    def _ask_open_question(self) -> None:
        """Print the next open question."""
        questions = self.controller.view.asked
        self._answered &= {question.id for question in questions}
        due = next((question for question in questions if question.id not in self._answered), None)
        if due != self._asked:
            self._asked = due
            if self._changing is not None:
                self._changing.cancel()  # what is changed is asked about no more
                self._changing = None
            if due is not None:
                self._asked_at = monotonic()
                self.print_lines(lines_of_question(due))
            self.prompt()

    async def _ask(self, prompt: str) -> str:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._wanted.append(WantedAnswer(prompt, answer, monotonic()))
        self.prompt()
        try:
            return await answer
        finally:
            self._wanted = [wanted for wanted in self._wanted if wanted.answer is not answer]
            self.prompt()

    def _write(self, text: str, unsent: bool = False) -> None:
        if self._reader is not None and not self._reader.prefill(text):
            if unsent:
                self.controller.queue.add(text)
                self.is_held = True
            else:
                self.print_lines((text,))

    def _read_by(self) -> PromptReader:
        assert self._reader is not None
        return self._reader

    def print_lines(self, lines: Sequence[str]) -> None:
        if self._reader is not None:
            self._reader.show([sanitised(line) for line in lines])

    def prompt(self) -> None:
        if self._reader is not None:
            if self._wanted:
                self._reader.ask(self._wanted[0].prompt)
            elif self._asked is not None:
                self._reader.ask(ANSWER)
            else:
                self._reader.ask("" if self.is_busy or self._commands else PROMPT)


def piped_parts(text: str) -> Sequence[str]:
    """Split piped input into messages and commands, in order; empty if no line is a slash command. A line with `!`
    or `#` does not count: a text may start with it by chance."""
    parts, message = list[str](), list[str]()

    def end_message() -> None:
        if whole := "\n".join(message).strip("\n"):
            parts.append(whole)
        message.clear()

    for line in text.split("\n"):
        if line.startswith("/") and isinstance(parse(line), Invocation):
            end_message()
            parts.append(line.strip())
        else:
            message.append(line)
    end_message()
    return parts if any(isinstance(parse(part), Invocation) and part.startswith("/") for part in parts) else ()
