"""A run that a program drives by lines on standard input: messages, answers, interrupts and changes of the mode, as
long as there are any."""

import asyncio
import errno
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from agent.errors import AgentError
from agent.events.plan import PlanAnswered, PlanSubmitted
from agent.events.session import (
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
    Steered,
    TurnFailed,
    TurnStarted,
)
from agent.headless.input_messages import (
    AnswerGiven,
    ControlRequest,
    InputProtocol,
    InputRequest,
    InterruptWanted,
    ModeWanted,
    Question,
    RefusedLine,
    no_answer_to,
)
from agent.headless.line_reader import InputLine
from agent.headless.message_queue import MessageQueue, UserMessage
from agent.headless.result import RunOutcome
from agent.headless.stop import RunStopper
from agent.headless.stream_events import ControlDone, ControlFailed, InputRefused, ModeChanged, Shown
from agent.headless.turns import Turns
from agent.messages import Image, User
from agent.session import Session

_BOTH_ENDS = 0.1
"""Seconds in which a program that dies closes the other pipe, too."""


class DrivenRun:
    """One session that goes on until its input ends and what was asked is done."""

    def __init__(
        self,
        session: Session,
        outcome: RunOutcome,
        show: Callable[[Shown], None],
        stop: RunStopper,
        has_reader: Callable[[], bool],
        protocol: InputProtocol,
        schema: Mapping[str, object] | None = None,
        end_turn: Callable[[RunOutcome], None] = lambda outcome: None,
    ) -> None:
        """As `Turns`: `schema` is what each answer must meet. `has_reader`: whether somebody reads what is printed.
        `end_turn` tells what a turn came to."""
        self._session = session
        self._outcome = outcome
        self._show = show
        self._stop = stop
        self._has_reader = has_reader
        self._protocol = protocol
        self._end_turn = end_turn
        self._turns = Turns(session, outcome, self.show, stop, schema)
        self._queue = MessageQueue()
        self._questions: dict[str, Question] = {}
        """Those that are open."""
        self._answered: set[str] = set()
        self._is_ended = False
        self._has_begun = False
        """A turn has."""
        self._news = asyncio.Event()
        self._runs_turn = False
        self._ends_next_turn = False
        """The interrupt came behind a message whose turn has not begun."""

    async def work(self, first: User | None, lines: AsyncGenerator[InputLine, None]) -> None:
        """Has a turn for the first message and for each that comes. What a turn fails with is told, and the run goes
        on."""
        if first is not None:
            self._queue.add(UserMessage(first))
        reading = asyncio.create_task(self._read(lines))
        try:
            if self._session.is_at_question:
                await self._turn(None)
            while (said := await self._next()) is not None:
                await self._turn(said)
            if self._is_ended:
                await reading
            if self._stop.wish.requested():
                self._outcome.interrupted()
            elif not self._has_begun:
                self._outcome.fail("usage", "no message came on standard input: there was nothing to do", 2)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    def show(self, event: Shown) -> None:
        """Tells what happens, and keeps account of what the program was asked."""
        if isinstance(event, Question) and (answer := self._protocol.answer_at_once(event)) is not None:
            self._session.answer(event.id, answer)
            return
        self._show(event)
        match event:
            case PermissionAsked() | PlanSubmitted() | QuestionAsked():
                if self._is_ended:
                    self._session.answer(event.id, no_answer_to(event))
                else:
                    self._questions[event.id] = event
            case PermissionAnswered(id=id) | PlanAnswered(id=id) | QuestionAnswered(id=id):
                self._questions.pop(id, None)
            case Steered(text=text):
                self._queue.heard(text)
            case TurnStarted() if self._ends_next_turn:
                self._ends_next_turn = False
                self._session.interrupt()
            case _:
                pass

    async def _turn(self, said: User | None) -> None:
        """None: the one that was left at a question goes on."""
        self._has_begun = self._runs_turn = True
        try:
            if said is None:
                await self._turns.follow(self._session.go_on(self._queue.take_for_step))
            else:
                images = tuple(part for part in said.parts if isinstance(part, Image))
                await self._turns.answer(said.text, images, self._queue.take_for_step)
        except AgentError as error:
            self._outcome.fail(error.code, str(error), error.exit_code)
            self.show(TurnFailed(error.code, str(error), error.exit_code, error.cause))
        finally:
            self._runs_turn = False
            self._queue.give_back()
            self._questions.clear()
        self._end_turn(self._outcome)

    async def _next(self) -> User | None:
        """The message that the next turn is about; None where there will be none."""
        while not self._stop.wish.requested():
            if (said := self._queue.pop()) is not None:
                return said
            if self._is_ended:
                return None
            self._news.clear()
            await self._stop.wish.race(self._news.wait())
        return None

    async def _read(self, lines: AsyncGenerator[InputLine, None]) -> None:
        try:
            await self._take_all(lines)
            self._is_ended = True
            if self._questions:
                await self._answer_no()
        except OSError:  # nobody reads, or nothing takes, what is printed
            self._session.leave_turn()  # a question stays open, for whoever goes on with the session
            raise
        finally:
            self._is_ended = True
            self._news.set()

    async def _take_all(self, lines: AsyncGenerator[InputLine, None]) -> None:
        number = 0
        async with aclosing(lines):
            async for line in lines:
                number += 1
                try:
                    if (request := self._protocol.read(line)) is not None:
                        await self._take(request)
                except RefusedLine as error:
                    self._refuse(number, str(error))
                except AgentError as error:
                    self._refuse(number, f"it could not be done: {error}")

    async def _answer_no(self) -> None:
        """Nobody answers any more what is open. Raises `BrokenPipeError` where nobody reads any more either: the
        program at the other end is gone."""
        await asyncio.sleep(_BOTH_ENDS)
        if not self._has_reader():
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        for question in self._questions.values():
            self._session.answer(question.id, no_answer_to(question))

    async def _take(self, request: InputRequest) -> None:
        match request:
            case UserMessage():
                if not self._queue.has_room_for(request):
                    raise RefusedLine("more than 64 MB of messages wait already; send it again when some are answered")
                self._queue.add(request)
                self._news.set()
            case AnswerGiven(id=id, said=said):
                question = self._questions.get(id)
                if question is None:
                    raise RefusedLine(f"`{id}` is {'answered already' if id in self._answered else 'no open question'}")
                self._session.answer(id, self._protocol.answer(question, said))
                self._answered.add(id)
                del self._questions[id]
            case InterruptWanted() if self._runs_turn:
                self._session.interrupt()
            case InterruptWanted():
                self._ends_next_turn = self._queue.is_waiting
            case ControlRequest():
                await self._control(request)
            case ModeWanted(mode=mode):
                await self._session.change_mode(mode)
                self.show(ModeChanged(mode))

    async def _control(self, request: ControlRequest) -> None:
        """Does what is wanted, and says that it is done or why not."""
        try:
            if request.wanted is not None:
                await self._take(request.wanted)
        except AgentError as error:
            self.show(ControlFailed(request.id, str(error)))
        else:
            refused = ControlFailed(request.id, request.refusal) if request.refusal else None
            self.show(refused or ControlDone(request.id, request.response))

    def _refuse(self, line: int, why: str) -> None:
        self._outcome.refuse(line, why)
        self.show(InputRefused(line, why))
