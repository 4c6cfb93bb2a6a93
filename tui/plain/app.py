"""The session in lines: what is typed goes in, what happens is printed."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from time import monotonic

from agent.config.settings import Settings
from agent.errors import AgentError, UsageError
from agent.events import Decision, Event, PermissionAsked
from tools.extent import counted
from tui.commands import Invocation, Unknown, parse
from tui.plain.desk import LineContext
from tui.plain.edit_call import change
from tui.plain.heard_session import HeardController, WantedAnswer
from tui.plain.print_events import Printing, lines_of
from tui.plain.questions import (
    ANSWER,
    answer_of,
    answer_text,
    how_to_answer,
    is_short,
    lines_of_question,
    wants_to_change,
)
from tui.plain.reader import PROMPT, PromptReader
from tui.plain.registry import ACTIONS
from tui.plain.sessions import greet, pick_session
from tui.prompt.history import History
from tui.prompt.key_arrivals import GUARD, Arrival
from tui.session.drafts import Drafts
from tui.session.ports import Session, Sessions
from tui.text.sanitise import visible
from tui.view.blocks import Failure, OpenQuestion

TWICE = 2.0
"""Seconds within which a second Ctrl-C means it."""

_PATIENCE = 5.0
"""Seconds that leaving waits for an interrupted turn to end."""


class PlainFront:
    """The terminal in lines. `run` gives the id of the session to go on with, if anything was said in it.

    The arguments are those of `EbbApp`.
    """

    def __init__(
        self,
        sessions: Sessions,
        history: History,
        *,
        session: Session | None = None,
        choose: bool = False,
        model: str | None = None,
        first_message: str | None = None,
        piped: str = "",
        guard: float = GUARD,
        drafts: Drafts | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.talk = HeardController(sessions, self._changed, drafts, self._hear)
        self.desk = LineContext(
            self.talk, history, self._say, self._ask, self._write, model, self.send, settings, self.leave, self._read_by
        )
        self._history = history
        self._given, self._choose, self._model = session, choose, model
        self._guard = guard
        self._reader: PromptReader | None = None
        self._printing = Printing()
        self._job: asyncio.Task[None] | None = None
        self._asides: set[asyncio.Task[None]] = set()
        self._commands = 0
        """How many commands run beside a job."""
        self._asked: OpenQuestion | None = None
        """The question of the session that was printed last and is open."""
        self._asked_at = 0.0
        self._answered: set[str] = set()
        """Questions whose answer is on its way."""
        self._wanted: list[WantedAnswer] = []
        """What commands ask."""
        self._changing: asyncio.Task[None] | None = None
        """What lets the user change a call."""
        self._is_held = False
        """What waits is not sent before the user wants it."""
        self._interrupted_at: float | None = None
        self._failure: BaseException | None = None
        self._id: str | None = None
        said = [text for text in (first_message, self.talk.pastes.fold(piped) if piped else "") if text]
        if said:
            self.talk.queue.add("\n\n".join(said))

    async def run(self, reader: PromptReader) -> str | None:
        self._reader = reader
        self._start(self._open_first)
        try:
            while True:
                self._hear_line(await reader.read(), reader.arrival)
        except EOFError:
            pass
        finally:
            await self._end()
            await reader.rest()
        if self._failure is not None:
            raise self._failure
        return self._id

    async def finished(self) -> None:
        """Returns once nothing is left to be done."""
        while self._job is not None:
            await asyncio.wait({self._job})

    @property
    def has_failed(self) -> bool:
        """Whether the last thing that was done went wrong."""
        blocks = self.talk.view.blocks
        return bool(blocks) and isinstance(blocks[-1], Failure)

    def interrupt(self) -> None:
        """What Ctrl-C does: it ends what runs; pressed again, it quits."""
        now = monotonic()
        is_second = self._interrupted_at is not None and now - self._interrupted_at < TWICE
        self._interrupted_at = now
        if is_second:
            self.leave()
        elif self._wanted:
            self._wanted.pop(0).answer.set_result("")
        elif self.is_working:
            self._is_held = True
            self._say(("Interrupting. Ctrl-C again quits.",))
            self.talk.interrupt()
        else:
            self._say(("Ctrl-C again quits.",))

    def leave(self) -> None:
        """Ends all that runs, and the program."""
        if self._reader is not None:
            self._reader.close()

    @property
    def is_working(self) -> bool:
        return self._job is not None

    # Jobs: one at a time, and after each what waits in the queue

    def _start(self, work: Callable[[], Awaitable[None]]) -> None:
        self._is_held = False
        self._job = asyncio.get_running_loop().create_task(self._run(work))
        self._prompt()

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
            if not self._is_held:
                await self.talk.go_on()
            while self.talk.queue and not self._is_held and await self._say_next():
                pass
        except AgentError as error:
            self.talk.fail(error)
        except Exception as error:  # noqa: BLE001  # a bug ends the program, which tells it
            self._fail(error)
        finally:
            self._job = None
        self._prompt()
        self._take_back_queue()

    def _take_back_queue(self) -> None:
        """Puts what waits back into the prompt, where it can be edited; elsewhere it goes on waiting."""
        if self.talk.queue and self._reader is not None:
            if self._reader.put("\n\n".join(item.text for item in self.talk.queue.items)):
                self.talk.queue.take_back()
                self._say(("What was not sent yet is in the prompt again.",))
            else:
                waiting = counted(len(self.talk.queue), "message")
                self._say((f"{waiting} not sent yet. An empty line sends what waits.",))

    async def _say_next(self) -> bool:
        if self.talk.session is None and not await self.talk.open(None, self._model):
            return False
        return await self.talk.say(self.talk.queue.pop())

    async def _open_first(self) -> None:
        if self._given is not None:
            await self.talk.adopt(self._given)
        else:
            resume = await pick_session(self.desk) if self._choose else ""
            if self._choose and not resume:
                self._is_held = True  # what was to be said in an earlier session is not said in a new one unasked
            await self.talk.open(resume or None, self._model)
        greet(self.desk)
        if self.talk.session is not None:
            self._aside(self.talk.session.prepare())

    async def _nothing(self) -> None:
        """The job of only sending what is queued."""

    def _aside(self, work: Awaitable[None]) -> "asyncio.Task[None]":
        async def guarded() -> None:
            try:
                await work
            except AgentError as error:
                self.talk.notice(str(error))
            except Exception as error:  # noqa: BLE001  # a bug ends the program, which tells it
                self._fail(error)

        task = asyncio.get_running_loop().create_task(guarded())
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)
        return task

    async def _beside(self, work: Awaitable[None]) -> None:
        try:
            await work
        finally:
            self._commands -= 1
            self._prompt()

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self.leave()

    async def _end(self) -> None:
        """Ends the turn and closes the session."""
        self.talk.put_by(self._reader.written if self._reader is not None else "")
        if self._job is not None:
            self.talk.leave_turn()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.talk.rests(), _PATIENCE)
        tasks = {task for task in (self._job, *self._asides) if task is not None}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        session = self.talk.session
        self._id = session.id if session is not None and session.history.messages else None
        await self.talk.close()

    # What the user types

    def _hear_line(self, line: str, came: Arrival) -> None:
        """Takes a line for what is asked only if it can have been typed for that."""
        is_ahead = self._asked is not None and not self._wanted and came.at < self._asked_at + self._guard
        if not self._guard or not (is_ahead or self._is_type_ahead(came)):
            self._take(line)
        elif is_short(line):
            self._say((f"{line.strip()!r} came too soon to be an answer. Type it again.",))
        elif is_ahead:
            self._do(line)  # typed before the question was there
        else:
            self._put_by(line)

    def _is_type_ahead(self, came: Arrival) -> bool:
        """Whether a line came before what a command asks, or at a question with other lines. What a command asks
        follows a line of the user: the next one may come at once."""
        if self._wanted:
            return came.at < self._wanted[0].asked_at or not came.is_alone
        return self._asked is not None and not came.is_alone

    def _put_by(self, line: str) -> None:
        """Keeps a line for the prompt that came with others, as a part of what is pasted does."""
        written = self._reader.written if self._reader is not None else ""
        if self._reader is not None and self._reader.put("\n".join(filter(None, (written, line)))):
            self._say(
                ("What came at once with other lines answers nothing. It is in the prompt behind this question.",)
            )
        else:
            self._say((f"This came at once with other lines: it answers nothing, and was not sent: {line}",))

    def _take(self, line: str) -> None:
        if self._wanted:
            self._wanted.pop(0).answer.set_result(line)
            self._prompt()
        elif self._asked is not None:
            self._answer(self._asked, line)
        elif line.strip():
            self._history.add(line)
            self._do(line)
        elif self.talk.queue and not self.is_working:
            self._start(self._nothing)
        else:
            self._prompt()

    def _do(self, line: str) -> None:
        match parse(line):
            case Unknown() as unknown:
                self.talk.notice(unknown.message)
            case Invocation(command=command, argument=argument) as invocation:
                if command.when_busy:
                    self._commands += 1
                    self._aside(self._beside(ACTIONS[command.name](self.desk, argument)))
                    self._prompt()
                elif self.is_working:
                    self.talk.notice(f"`/{command.name}` has to wait until the session is free. Ctrl-C interrupts it.")
                    if argument:
                        self._put_back(invocation.written)
                else:
                    self._start(lambda: ACTIONS[command.name](self.desk, argument))
            case None:
                self.send(line)

    def send(self, text: str, *, later: bool = False) -> None:
        """Says it at once, or with the next step of what runs; `later` only when that is over."""
        self.talk.queue.add(text, later=later)
        if self.is_working:
            self._say((f"Queued: {'it is sent when the turn is over' if later else 'the model sees it next'}.",))
        else:
            self._start(self._nothing)

    def _answer(self, question: OpenQuestion, line: str) -> None:
        if isinstance(question, PermissionAsked) and wants_to_change(question, line):
            self._changing = self._aside(self._change(question))
            return
        answer = answer_of(question, line)
        if answer is None:
            self._say(how_to_answer(question))
        else:
            self._take_answer(question, answer)

    async def _change(self, question: PermissionAsked) -> None:
        """Lets the user change a call before it runs; without a change, the question stays."""
        try:
            decision = await change(self.desk, question)
        except UsageError as error:
            decision = None
            self._say((f"Error: {error}",))
        if decision is None:
            self._say(how_to_answer(question))
        else:
            self._take_answer(question, decision)

    def _take_answer(self, question: OpenQuestion, answer: Decision | str) -> None:
        self._asked = None
        self._answered.add(question.id)
        self._prompt()
        self._say(answer_text(answer))
        self.talk.answer(question.id, answer)

    # What the user is told

    def _hear(self, event: Event) -> None:
        self._printing, lines = lines_of(self._printing, event)
        self._say(lines)

    def _changed(self) -> None:
        """Asks what is to be asked now."""
        questions = self.talk.view.asked
        self._answered &= {question.id for question in questions}
        due = next((question for question in questions if question.id not in self._answered), None)
        if due != self._asked:
            self._asked = due
            if self._changing is not None:
                self._changing.cancel()  # what is changed is asked about no more
                self._changing = None
            if due is not None:
                self._asked_at = monotonic()
                self._say(lines_of_question(due))
            self._prompt()

    async def _ask(self, prompt: str) -> str:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._wanted.append(WantedAnswer(prompt, answer, monotonic()))
        self._prompt()
        try:
            return await answer
        finally:
            self._wanted = [wanted for wanted in self._wanted if wanted.answer is not answer]
            self._prompt()

    def _write(self, text: str, unsent: bool = False) -> None:
        if self._reader is not None and not self._reader.put(text):
            if unsent:
                self.talk.queue.add(text)
                self._is_held = True
            else:
                self._say((text,))

    def _read_by(self) -> PromptReader:
        assert self._reader is not None
        return self._reader

    def _put_back(self, written: str) -> None:
        """Lets the user go on with what could not be done, where that can be."""
        if self._reader is not None and not self._reader.written:
            self._reader.put(written)

    def _say(self, lines: Sequence[str]) -> None:
        if self._reader is not None:
            self._reader.show([visible(line) for line in lines])

    def _prompt(self) -> None:
        if self._reader is not None:
            if self._wanted:
                self._reader.ask(self._wanted[0].prompt)
            elif self._asked is not None:
                self._reader.ask(ANSWER)
            else:
                self._reader.ask("" if self.is_working or self._commands else PROMPT)
