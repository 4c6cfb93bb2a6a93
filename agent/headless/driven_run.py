"""A run controlled by a client program through lines on standard input: messages, answers, interrupts and mode changes,
until the input ends."""

import asyncio
import errno
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from ebbtide.agent.errors import AgentError, UsageError
from ebbtide.agent.events.permissions import PermissionAnswered, PermissionAsked, QuestionAnswered, QuestionAsked
from ebbtide.agent.events.plan import PlanAnswered, PlanSubmitted
from ebbtide.agent.events.session import Steered, TurnFailed, TurnStarted
from ebbtide.agent.headless.input_messages import (
    AnswerGiven,
    ControlRequest,
    InputProtocol,
    InputRequest,
    InterruptRequest,
    ModelRequest,
    ModeRequest,
    Question,
    RefusedLine,
    SetupRequest,
    no_answer_to,
)
from ebbtide.agent.headless.line_reader import InputLine
from ebbtide.agent.headless.message_queue import MessageQueue, UserMessage
from ebbtide.agent.headless.result import RunOutcome
from ebbtide.agent.headless.stop import RunStopper
from ebbtide.agent.headless.stream_events import ControlDone, ControlFailed, InputRefused, ModeChanged, OutputEvent
from ebbtide.agent.headless.turns import Turns
from ebbtide.agent.messages import Image, User
from ebbtide.agent.session import Session
from ebbtide.agent.sessions import Sessions

_PIPE_CLOSE_GRACE_S = 0.1
"""How long a dying client may take to close its other pipe, in seconds."""


class DrivenRun:
    """One session that runs until its input ends and all messages are answered."""

    def __init__(
        self,
        sessions: Sessions,
        session: Session,
        outcome: RunOutcome,
        show: Callable[[OutputEvent], None],
        stop: RunStopper,
        has_reader: Callable[[], bool],
        protocol: InputProtocol,
        schema: Mapping[str, object] | None = None,
        end_turn: Callable[[RunOutcome], None] = lambda outcome: None,
    ) -> None:
        """See `Turns` for `schema`. `sessions` opened the session. `has_reader` returns whether the output is still
        read. `end_turn` reports the outcome of a turn."""
        self._session = session
        self._sessions = sessions
        self._first_model = session.model
        self._set_up: SetupRequest | None = None
        self._refused = ""
        """Why no further turn runs; empty if turns may run."""
        self._alone = asyncio.Lock()
        """Held while a turn runs or the session is reopened."""
        self._outcome = outcome
        self._show = show
        self._stop = stop
        self._has_reader = has_reader
        self._protocol = protocol
        self._end_turn = end_turn
        self._turns = Turns(session, outcome, self.show, stop, schema)
        self._queue = MessageQueue()
        self._questions: dict[str, Question] = {}
        """Open questions, by id."""
        self._answered: set[str] = set()
        self._is_ended = False
        self._has_begun = False
        """Whether a turn has begun."""
        self._news = asyncio.Event()
        self._runs_turn = False
        self._ends_next_turn = False
        """Whether an interrupt arrived for a queued message whose turn has not begun."""

    async def work(self, first: User | None, lines: AsyncGenerator[InputLine, None]) -> None:
        """Run a turn for the first message and for each later one. A failed turn is reported, and the run continues."""
        if first is not None:
            self._queue.add(UserMessage(first))
        reading = asyncio.create_task(self._read_input(lines))
        try:
            if self._session.is_at_question:
                await self._turn(None)
            while (said := await self._next()) is not None:
                await self._turn(said)
            if self._is_ended:
                await reading
            if self._refused:
                self._outcome.fail("usage", self._refused, 2)
            elif self._stop.wish.is_requested():
                self._outcome.mark_interrupted()
            elif not self._has_begun:
                self._outcome.fail("usage", "no message on standard input: nothing to do", 2)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    def show(self, event: OutputEvent) -> None:
        """Print an event, and track the open questions."""
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
                self._queue.acknowledge(text)
            case TurnStarted() if self._ends_next_turn:
                self._ends_next_turn = False
                self._session.interrupt()
            case _:
                pass

    async def _turn(self, said: User | None) -> None:
        """Run a turn; None continues a turn that stopped at a question."""
        async with self._alone:
            self._has_begun = self._runs_turn = True
            try:
                if said is None:
                    await self._turns.follow(self._session.go_on(self._queue.take_for_step))
                else:
                    images = tuple(part for part in said.parts if isinstance(part, Image))
                    await self._turns.answer(said.text, images, self._queue.take_for_step)
            except AgentError as error:
                self._outcome.fail(error.code, str(error), error.exit_code)
                self.show(TurnFailed.by(error))
            finally:
                self._runs_turn = False
                self._queue.requeue()
                self._questions.clear()
        self._end_turn(self._outcome)

    async def _next(self) -> User | None:
        """Wait for the message of the next turn; None if there will be none."""
        while not self._stop.wish.is_requested() and not self._refused:
            if (said := self._queue.pop()) is not None:
                return said
            if self._is_ended:
                return None
            self._news.clear()
            await self._stop.wish.race(self._news.wait())
        return None

    async def _read_input(self, lines: AsyncGenerator[InputLine, None]) -> None:
        try:
            await self._take_all(lines)
            self._is_ended = True
            self._protocol.end()
            if self._questions:
                await self._deny_open_questions()
        except OSError:  # the output is no longer read, or cannot be written
            self._session.leave_turn()  # the question stays open for when the session is resumed
            raise
        finally:
            self._is_ended = True
            self._protocol.end()
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

    async def _deny_open_questions(self) -> None:
        """Deny the open questions, since no answers will come. Raises `BrokenPipeError` if the output is not read
        either: the client is gone."""
        await asyncio.sleep(_PIPE_CLOSE_GRACE_S)
        if not self._has_reader():
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        for question in self._questions.values():
            self._session.answer(question.id, no_answer_to(question))

    async def _take(self, request: InputRequest) -> None:
        match request:
            case UserMessage():
                if not self._queue.has_room_for(request):
                    raise RefusedLine("more than 64 MB of messages are queued; send it again when some are answered")
                self._queue.add(request)
                self._news.set()
            case AnswerGiven(id=id, content=said):
                question = self._questions.get(id)
                if question is None:
                    raise RefusedLine(f"`{id}` is {'answered already' if id in self._answered else 'no open question'}")
                self._answer(question, said)
            case InterruptRequest() if self._runs_turn:
                self._session.interrupt()
            case InterruptRequest():
                self._ends_next_turn = self._queue.is_waiting
            case ControlRequest():
                await self._control(request)
            case ModeRequest(mode=mode):
                await self._session.change_mode(mode)
                self.show(ModeChanged(mode))
            case ModelRequest(model=model):
                await self._use_model(model)
            case SetupRequest():
                await self._apply_setup(request)

    async def _use_model(self, model: str) -> None:
        """Switch to a model. Raises `AgentError`; the session then keeps its old model."""
        if self._alone.locked():
            raise UsageError("a turn is running; change the model when it is over")
        await self._reopen(_model_named(model, self._session.model) if model else self._first_model)

    async def _apply_setup(self, wanted: SetupRequest) -> None:
        """Apply the setup before the first turn. Raises `AgentError`."""
        if self._has_begun or self._set_up is not None:
            raise UsageError("the session has begun already")
        self._set_up = wanted
        if wanted.schema is not None:
            self._turns = replace(self._turns, schema=wanted.schema)
        if not wanted.system_prompt and not wanted.append_system_prompt:
            self._adopt(self._session)
            return
        config = self._sessions.config
        self._sessions.config = replace(
            config,
            system_prompt=wanted.system_prompt or config.system_prompt,
            append_system_prompt=wanted.append_system_prompt or config.append_system_prompt,
        )
        await self._reopen(self._session.model)

    async def _reopen(self, model: str) -> None:
        async with self._alone:
            before = self._session
            await before.close(None)
            try:
                self._adopt(await self._sessions.reopen(before, model))
            except AgentError:
                self._adopt(await self._sessions.reopen(before, before.model))
                raise

    def _adopt(self, session: Session) -> None:
        self._session = self._stop.session = session
        self._turns = replace(self._turns, session=session)
        session.listen(self.show)
        if self._set_up is not None and self._set_up.hooks:
            assert session.hooks is not None, "it was opened so that it takes some"
            session.hooks.add(self._set_up.hooks, self._set_up.ask)

    def _answer(self, question: Question, said: Mapping[str, Any]) -> None:
        """Give an answer. Raises `RefusedLine`; if part of the answer is valid, that part is given first."""
        try:
            answer, problem = self._protocol.answer(question, said), None
        except RefusedLine as error:
            if error.answer is None:
                raise
            answer, problem = error.answer, error
        self._session.answer(question.id, answer)
        self._answered.add(question.id)
        del self._questions[question.id]
        if said.get("interrupt") is True:
            self._session.interrupt()
        if problem is not None:
            raise problem

    async def _control(self, request: ControlRequest) -> None:
        """Carry out a control request and report success or the reason for failure."""
        why = request.refusal
        try:
            if request.wanted is not None:
                await self._take(request.wanted)
        except AgentError as error:
            why = str(error)
        self.show(ControlFailed(request.id, why) if why else ControlDone(request.id, request.response))
        if why and request.is_needed:
            self._refused = why
            self._session.interrupt()
            self._news.set()

    def _refuse(self, line: int, why: str) -> None:
        self._outcome.refuse(line, why)
        self.show(InputRefused(line, why))


def _model_named(said: str, usual: str) -> str:
    """Return `said` as PROVIDER/NAME. Raises `UsageError`."""
    from ebbtide.agent.providers.choices import model_called  # noqa: PLC0415  # deferred: few runs change their model

    found = said if "/" in said else model_called(said, usual)
    if found is None:
        raise UsageError(f"{usual.partition('/')[0]} has no known model `{said}`; use PROVIDER/NAME")
    return found
