"""A session in line mode: reads lines and prints events."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from ebbtide.agent.config.settings import Settings
from ebbtide.agent.errors import UsageError
from ebbtide.agent.events.session import Event
from ebbtide.tui.commands.first_run import choose_first_model
from ebbtide.tui.commands.sessions import pick_session
from ebbtide.tui.plain.command_context import LineContext
from ebbtide.tui.plain.jobs import LineJobs
from ebbtide.tui.plain.print_events import PrintState, event_lines
from ebbtide.tui.plain.questions import (
    ANSWER_PROMPT,
    MORE_RULES_ANSWER,
    answer_confirmation,
    answer_help,
    looks_like_answer,
    more_rules_lines,
    parse_answer,
    question_lines,
)
from ebbtide.tui.plain.reader import PROMPT, PromptReader
from ebbtide.tui.prompt.double_press import ExitKeys
from ebbtide.tui.prompt.history import History
from ebbtide.tui.prompt.key_arrivals import ANSWER_GUARD_S, KeyArrival
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.session.drafts import Drafts
from ebbtide.tui.slash_commands import Invocation, parse_command
from ebbtide.tui.text.sanitise import sanitise
from ebbtide.tui.view.blocks import Failure, OpenQuestion, TurnTotal
from ebbtide.tui.view.plain_lines import block_lines
from ebbtide.tui.view.question import Answer, TextEntry
from ebbtide.tui.view.questions import build_question_spec
from ebbtide.tui.view.reduce import with_relative_paths

if TYPE_CHECKING:  # imported for types only: session modules are imported after the first paint
    from ebbtide.agent.compose.sessions import ProjectSessions
    from ebbtide.agent.session import Session


@dataclass(frozen=True, slots=True)
class CommandQuestion:
    """A question that a command asks the user."""

    prompt: str
    answer: asyncio.Future[str]
    asked_at: float


class PrintingController(SessionController):
    """A controller that also prints events."""

    def __init__(
        self,
        sessions: "ProjectSessions",
        on_change: Callable[[], None],
        drafts: Drafts | None,
        emit: Callable[[Event], None],
        print_lines: Callable[[Sequence[str]], None],
    ) -> None:
        super().__init__(sessions, on_change, drafts)
        self._emit, self._print_lines = emit, print_lines

    def show_event(self, event: Event) -> None:
        self._emit(with_relative_paths(event, self.folder))  # print the event before the question that it opens
        super().show_event(event)

    def show_turn_total(self, elapsed_seconds: float) -> None:
        super().show_turn_total(elapsed_seconds)
        last_block = self.view.turn_blocks[-1] if self.view.turn_blocks else None
        if isinstance(last_block, TurnTotal):
            self._print_lines(block_lines(last_block))


class LineModeApp(LineJobs):
    """Line mode. `run` returns the id of the session to resume, if it has messages.

    The arguments have the same meaning as for `EbbApp`. `session`: the open session to show. `piped_text`: text piped
    into the program.
    """

    def __init__(
        self,
        sessions: "ProjectSessions",
        history: History,
        *,
        session: "Session | None" = None,
        chooses_from_list: bool = False,
        model: str | None = None,
        first_message: str | None = None,
        piped_text: str = "",
        guard_s: float = ANSWER_GUARD_S,
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
            self._prefill_prompt,
            model,
            self.send,
            self.invoke,
            settings,
            self.exit,
            self.greeter,
            self._get_reader,
        )
        self.greeter.settings = settings
        self.model = model
        self._history = history
        self._initial_session = session
        self._chooses_from_list = chooses_from_list
        self._guard_s = guard_s
        self._print_state = PrintState()
        self._exit_keys = ExitKeys()
        self._open_question: OpenQuestion | None = None
        """The open question that was last printed."""
        self._question_printed_at = 0.0
        self._answered_ids: set[str] = set()
        """Ids of the questions whose answers were sent."""
        self._command_questions: list[CommandQuestion] = []
        """Commands' questions that have not been answered, in the order in which they are asked."""
        self._editing_task: asyncio.Task[None] | None = None
        """The task in which the user edits a call or writes a reason for denying it."""
        self._piped_entries = split_piped_input(piped_text) if not first_message else ()
        """The messages and commands in piped input, to be sent one after another. Empty if the input contains no
        commands."""
        self._piped_task: asyncio.Task[None] | None = None
        texts = (
            []
            if self._piped_entries
            else [first_message, self.controller.pastes.collapse(piped_text) if piped_text else ""]
        )
        if any(texts):
            self.controller.queue.add("\n\n".join(filter(None, texts)))

    async def run(self, reader: PromptReader) -> str | None:
        self._reader = reader
        self.start(self._open_session)
        self._piped_task = asyncio.create_task(self._send_piped())
        try:
            while True:
                self._handle_line(await reader.read(), reader.arrival)
        except EOFError:
            pass
        finally:
            self._piped_task.cancel()
            session_id = await self.close_session(reader.draft)
            await reader.wait_until_printed()
        if self._failure is not None:
            raise self._failure
        return session_id

    async def wait_for_piped_input(self) -> None:
        """Wait until all piped input has been sent and all work is done."""
        if self._piped_task is not None:
            await asyncio.wait([self._piped_task])
        await self.wait_until_done()

    async def _send_piped(self) -> None:
        for entry in self._piped_entries:
            await self.wait_until_done()
            if entry.startswith("/") and isinstance(parse_command(entry), Invocation):
                self.handle_input(entry)
            else:
                self.controller.queue.add(self.controller.pastes.collapse(entry))
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
        """Handle Ctrl-C on an empty line: cancel the question, stop the turn, or exit at the second press."""
        if self._command_questions:
            self._command_questions.pop(0).answer.set_result("")
            return
        match self._exit_keys.press_ctrl_c(has_text=False, is_running=self.is_busy):
            case "stop":
                self.is_paused = True
                self.print_lines(("Interrupting.",))
                self.controller.interrupt()
            case "leave":
                self.exit()
            case _:
                self.print_lines(("Press Ctrl-C again to quit.",))

    def handle_ctrl_d(self) -> bool:
        """Handle Ctrl-D on an empty line. Returns whether to stop reading."""
        if self._exit_keys.press_ctrl_d(is_running=self.is_busy) == "leave":
            return True
        self.print_lines(("Press Ctrl-D again to quit.",))
        return False

    async def _open_session(self) -> None:
        if self._initial_session is not None:
            await self.controller.switch_to_open_session(self._initial_session)
        else:
            if (
                self.model is None and not self._chooses_from_list and self._get_reader().has_line_editing
            ):  # if there is a user to ask
                self.model = await choose_first_model(self.context)
            resume = await pick_session(self.context) if self._chooses_from_list else ""
            if self._chooses_from_list and not resume:
                self.is_paused = True  # the messages for the session that was not chosen must not go to a new one
            await self.controller.open(resume or None, self.model)
        await self.greeter.collect()
        self.context.show_session()
        if self.controller.session is not None:
            self.start_background(self.controller.session.prepare())

    # User input

    def _handle_line(self, line: str, arrival: KeyArrival) -> None:
        """Handle a line. It counts as an answer only if the user could have typed it in response to the question."""
        is_too_early = (
            self._open_question is not None
            and not self._command_questions
            and arrival.time < self._question_printed_at + self._guard_s
        )
        if not self._guard_s or not (is_too_early or self._is_typeahead(arrival)):
            self._handle_prompted_line(line)
        elif looks_like_answer(line):
            self.print_lines((f"{line.strip()!r} was typed too soon to be an answer. Type it again.",))
        elif is_too_early:
            self.handle_input(line)  # typed before the question appeared
        else:
            self._stash_line(line)

    def _is_typeahead(self, arrival: KeyArrival) -> bool:
        """Whether a line was typed too early, or as part of a paste, and so is not an answer. Lines that arrive
        together, or before a command asked its question, are never answers."""
        if self._command_questions:
            return arrival.time < self._command_questions[0].asked_at or not arrival.is_alone
        return self._open_question is not None and not arrival.is_alone

    def _stash_line(self, line: str) -> None:
        """Move a line of a multi-line paste to the prompt."""
        draft = self._reader.draft if self._reader is not None else ""
        if self._reader is not None and self._reader.prefill("\n".join(filter(None, (draft, line)))):
            self.print_lines(
                ("Several lines at once are not an answer. They will be in the prompt after this question.",)
            )
        else:
            self.print_lines((f"Not sent, because several lines arrived at once: {line}",))

    def _handle_prompted_line(self, line: str) -> None:
        if self._command_questions:
            self._command_questions.pop(0).answer.set_result(line)
            self.show_prompt()
        elif self._open_question is not None:
            self._answer(self._open_question, line)
        elif line.strip():
            self._history.add(line)
            self.handle_input(line)
        elif self.controller.queue and not self.is_busy:
            self.start()
        else:
            self.show_prompt()

    def _answer(self, question: OpenQuestion, line: str) -> None:
        if line.startswith("/") and isinstance(parse_command(line), Invocation):
            self.handle_input(line)
            return
        spec = build_question_spec(question)
        if line.strip().lower() == MORE_RULES_ANSWER and (rules := more_rules_lines(spec)):
            self.print_lines(rules)
            return
        answer = parse_answer(spec, line)
        if isinstance(answer, TextEntry):
            self._editing_task = self.start_background(self._write_answer(question, answer))
        else:
            self._submit_answer(question, answer)

    async def _write_answer(self, question: OpenQuestion, text_entry: TextEntry) -> None:
        """Let the user edit a call or plan, or write a reason. If they cancel, the question stays open."""
        try:
            answer = await self.context.write_answer(text_entry)
        except UsageError as error:
            answer = None
            self.print_lines((f"Error: {error}",))
        self._submit_answer(question, answer)

    def _submit_answer(self, question: OpenQuestion, answer: Answer | None) -> None:
        if answer is None or isinstance(answer, bool):
            self.print_lines(answer_help(build_question_spec(question)))
            return
        self._open_question = None
        self._answered_ids.add(question.id)
        self.show_prompt()
        self.print_lines(answer_confirmation(answer))
        self.controller.answer(question.id, answer)

    # Output

    def _print_event(self, event: Event) -> None:
        settings = self.context.settings
        is_full = settings is not None and settings.config.tui_detail == "full"
        self._print_state, lines = event_lines(self._print_state, event, is_full=is_full)
        self.print_lines(lines)

    def _ask_open_question(self) -> None:
        """Print the next open question."""
        questions = self.controller.view.open_questions
        self._answered_ids &= {question.id for question in questions}
        next_question = next((question for question in questions if question.id not in self._answered_ids), None)
        if next_question != self._open_question:
            self._open_question = next_question
            if self._editing_task is not None:
                self._editing_task.cancel()  # the question being edited is no longer open
                self._editing_task = None
            if next_question is not None:
                self._question_printed_at = monotonic()
                self.print_lines(question_lines(build_question_spec(next_question)))
            self.show_prompt()

    async def _ask(self, prompt: str) -> str:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._command_questions.append(CommandQuestion(prompt, answer, monotonic()))
        self.show_prompt()
        try:
            return await answer
        finally:
            self._command_questions = [
                question for question in self._command_questions if question.answer is not answer
            ]
            self.show_prompt()

    def _prefill_prompt(self, text: str, is_unsent: bool = False) -> None:
        if self._reader is not None and not self._reader.prefill(text):
            if is_unsent:
                self.controller.queue.add(text)
                self.is_paused = True
            else:
                self.print_lines((text,))

    def _get_reader(self) -> PromptReader:
        assert self._reader is not None
        return self._reader

    def print_lines(self, lines: Sequence[str]) -> None:
        if self._reader is not None:
            self._reader.print_lines([sanitise(line) for line in lines])

    def show_prompt(self) -> None:
        if self._reader is not None:
            if self._command_questions:
                self._reader.set_prompt(self._command_questions[0].prompt)
            elif self._open_question is not None and not self._running_command_count:
                self._reader.set_prompt(ANSWER_PROMPT)
            else:
                self._reader.set_prompt("" if self.is_busy or self._running_command_count else PROMPT)


def split_piped_input(text: str) -> Sequence[str]:
    """Split piped input into messages and commands, in order. Empty if no line is a slash command. Lines that start
    with `!` or `#` are not commands, because ordinary text may start like that."""
    entries: list[str] = []
    message_lines: list[str] = []

    def end_message() -> None:
        if message := "\n".join(message_lines).strip("\n"):
            entries.append(message)
        message_lines.clear()

    for line in text.split("\n"):
        if line.startswith("/") and isinstance(parse_command(line), Invocation):
            end_message()
            entries.append(line.strip())
        else:
            message_lines.append(line)
    end_message()
    return (
        entries
        if any(isinstance(parse_command(entry), Invocation) and entry.startswith("/") for entry in entries)
        else ()
    )
