"""A run controlled by a client program through lines on standard input: messages, answers, interrupts and mode changes,
until the input ends."""

import asyncio
import errno
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from ebbtide.agent import providers
from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.errors import AgentError, UsageError
from ebbtide.agent.events.permissions import PermissionAnswered, PermissionAsked, QuestionAnswered, QuestionAsked
from ebbtide.agent.events.plan import PlanAnswered, PlanSubmitted
from ebbtide.agent.events.session import Steered, TurnFailed, TurnStarted
from ebbtide.agent.headless.input_messages import (
    ClientAnswer,
    ControlRequest,
    InputProtocol,
    InputRequest,
    InterruptRequest,
    ModelRequest,
    ModeRequest,
    Question,
    RefusedLineError,
    SetupRequest,
    refusal_at_end_of_input,
)
from ebbtide.agent.headless.line_reader import InputLine
from ebbtide.agent.headless.message_queue import MessageQueue, UserMessage
from ebbtide.agent.headless.result import RunOutcome
from ebbtide.agent.headless.stop import RunStopper
from ebbtide.agent.headless.stream_events import ControlDone, ControlFailed, InputRefused, ModeChanged, OutputEvent
from ebbtide.agent.headless.turns import HeadlessTurns
from ebbtide.agent.messages import Image, User
from ebbtide.agent.session import Session

_PIPE_CLOSE_GRACE_S = 0.1
"""Seconds to wait after the input ends, because a client that is exiting may be about to close the output as well."""


class ClientDrivenRun:
    """A run of one session, until its input ends and all messages are answered."""

    def __init__(
        self,
        sessions: ProjectSessions,
        session: Session,
        outcome: RunOutcome,
        show: Callable[[OutputEvent], None],
        stopper: RunStopper,
        has_reader: Callable[[], bool],
        protocol: InputProtocol,
        schema: Mapping[str, object] | None = None,
        end_turn: Callable[[RunOutcome], None] = lambda outcome: None,
    ) -> None:
        """`sessions`: the object that opened the session. `has_reader`: returns whether the output is still being read.
        `schema`: the JSON Schema for answers, as in `HeadlessTurns`. `end_turn`: reports the outcome of a turn.
        """
        self._session = session
        self._sessions = sessions
        self._initial_model = session.model
        self._applied_setup: SetupRequest | None = None
        self._fatal_error = ""
        """Why no further turns can run; empty if they can."""
        self._session_lock = asyncio.Lock()
        """Held while a turn runs or the session is reopened."""
        self._outcome = outcome
        self._show = show
        self._stopper = stopper
        self._has_reader = has_reader
        self._protocol = protocol
        self._end_turn = end_turn
        self._turns = HeadlessTurns(session, outcome, self.show, stopper, schema)
        self._queue = MessageQueue()
        self._open_questions: dict[str, Question] = {}
        """Open questions, by id."""
        self._answered_ids: set[str] = set()
        self._has_input_ended = False
        self._has_started_turn = False
        """Whether any turn has begun."""
        self._wake_up = asyncio.Event()
        self._is_turn_running = False
        self._interrupts_next_turn = False
        """Whether an interrupt arrived while a message was queued but its turn had not begun."""

    async def run(self, first_message: User | None, lines: AsyncGenerator[InputLine, None]) -> None:
        """Run a turn for the first message and for each later one. If a turn fails, the run continues."""
        if first_message is not None:
            self._queue.add(UserMessage(first_message))
        reading_task = asyncio.create_task(self._read_input(lines))
        try:
            if self._session.has_open_question:
                await self._run_turn(None)
            while (message := await self._next_message()) is not None:
                await self._run_turn(message)
                if self._queue.has_messages:
                    # The next message was sent during a turn, so it can wait. If it cancelled the compaction, a client
                    # that sends its messages quickly would never get one.
                    await self._session.finish_background_compaction()
            if self._has_input_ended:
                await reading_task
            if self._fatal_error:
                self._outcome.record_failure("usage", self._fatal_error, 2)
            elif self._stopper.interrupt.is_requested():
                self._outcome.mark_interrupted()
            elif not self._has_started_turn:
                self._outcome.record_failure("usage", "no message on standard input: nothing to do", 2)
        finally:
            reading_task.cancel()
            await asyncio.gather(reading_task, return_exceptions=True)

    def show(self, event: OutputEvent) -> None:
        """Print an event, and track the open questions."""
        if isinstance(event, Question) and (answer := self._protocol.answer_without_client(event)) is not None:
            self._session.answer(event.id, answer)
            return
        self._show(event)
        match event:
            case PermissionAsked() | PlanSubmitted() | QuestionAsked():
                if self._has_input_ended:
                    self._session.answer(event.id, refusal_at_end_of_input(event))
                else:
                    self._open_questions[event.id] = event
            case PermissionAnswered(id=question_id) | PlanAnswered(id=question_id) | QuestionAnswered(id=question_id):
                self._open_questions.pop(question_id, None)
            case Steered(text=text):
                self._queue.acknowledge(text)
            case TurnStarted() if self._interrupts_next_turn:
                self._interrupts_next_turn = False
                self._session.interrupt()
            case _:
                pass

    async def _run_turn(self, message: User | None) -> None:
        """Run a turn; None continues a turn that stopped at a question."""
        async with self._session_lock:
            self._has_started_turn = self._is_turn_running = True
            try:
                if message is None:
                    await self._turns.process_events(self._session.resume_turn(self._queue.take_steering_messages))
                else:
                    images = tuple(part for part in message.parts if isinstance(part, Image))
                    await self._turns.run_turn(message.text, images, self._queue.take_steering_messages)
            except AgentError as error:
                self._outcome.record_failure(error.code, str(error), error.exit_code)
                self.show(TurnFailed.from_error(error))
            finally:
                self._is_turn_running = False
                self._queue.requeue()
                self._open_questions.clear()
        self._end_turn(self._outcome)

    async def _next_message(self) -> User | None:
        """Wait for the message of the next turn; None if no more messages will arrive."""
        while not self._stopper.interrupt.is_requested() and not self._fatal_error:
            if (message := self._queue.pop()) is not None:
                return message
            if self._has_input_ended:
                return None
            self._wake_up.clear()
            await self._stopper.interrupt.race(self._wake_up.wait())
        return None

    async def _read_input(self, lines: AsyncGenerator[InputLine, None]) -> None:
        try:
            await self._handle_lines(lines)
            self._has_input_ended = True
            self._protocol.end_input()
            if self._open_questions:
                await self._deny_open_questions()
        except OSError:  # the output cannot be written, for example because its reader is gone
            self._session.end_turn_for_exit()  # keeps the question open until the session is resumed
            raise
        finally:
            self._has_input_ended = True
            self._protocol.end_input()
            self._wake_up.set()

    async def _handle_lines(self, lines: AsyncGenerator[InputLine, None]) -> None:
        line_number = 0
        async with aclosing(lines):
            async for line in lines:
                line_number += 1
                try:
                    if (request := self._protocol.parse_line(line)) is not None:
                        await self._handle_request(request)
                except RefusedLineError as error:
                    self._report_refusal(line_number, str(error))
                except AgentError as error:
                    self._report_refusal(line_number, f"the request failed: {error}")

    async def _deny_open_questions(self) -> None:
        """Deny the open questions, because no more answers can arrive. Raises `BrokenPipeError` if nothing reads the
        output any more, which means that the client is gone."""
        await asyncio.sleep(_PIPE_CLOSE_GRACE_S)
        if not self._has_reader():
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        for question in self._open_questions.values():
            self._session.answer(question.id, refusal_at_end_of_input(question))

    async def _handle_request(self, request: InputRequest) -> None:
        match request:
            case UserMessage():
                if not self._queue.has_room_for(request):
                    raise RefusedLineError(
                        "more than 64 MB of messages are queued; send this one again after some are answered"
                    )
                self._queue.add(request)
                self._wake_up.set()
            case ClientAnswer(id=question_id, content=content):
                question = self._open_questions.get(question_id)
                if question is None:
                    reason = "already answered" if question_id in self._answered_ids else "not an open question"
                    raise RefusedLineError(f"`{question_id}` is {reason}")
                self._deliver_answer(question, content)
            case InterruptRequest() if self._is_turn_running:
                self._session.interrupt()
            case InterruptRequest():
                self._session.interrupt()  # ends a compaction between turns
                self._interrupts_next_turn = self._queue.has_messages
            case ControlRequest():
                await self._handle_control(request)
            case ModeRequest(mode=mode):
                await self._session.change_mode(mode)
                self.show(ModeChanged(mode))
            case ModelRequest(model=model):
                await self._switch_model(model)
            case SetupRequest():
                await self._apply_setup(request)

    async def _switch_model(self, model: str) -> None:
        """Switch to a model. If it raises `AgentError`, the session keeps its old model."""
        if self._session_lock.locked():
            raise UsageError("a turn is running; change the model after it ends")
        await self._reopen(_qualified_model(model, self._session.model) if model else self._initial_model)

    async def _apply_setup(self, setup: SetupRequest) -> None:
        """Apply the setup before the first turn. Raises `AgentError`."""
        if self._has_started_turn or self._applied_setup is not None:
            raise UsageError("the session has already begun")
        self._applied_setup = setup
        if setup.schema is not None:
            self._turns = replace(self._turns, schema=setup.schema)
        if not setup.system_prompt and not setup.append_system_prompt:
            self._use_session(self._session)
            return
        config = self._sessions.config
        self._sessions.config = replace(
            config,
            system_prompt=setup.system_prompt or config.system_prompt,
            append_system_prompt=setup.append_system_prompt or config.append_system_prompt,
        )
        await self._reopen(self._session.model)

    async def _reopen(self, model: str) -> None:
        async with self._session_lock:
            old_session = self._session
            await old_session.close(None)
            try:
                self._use_session(await self._sessions.reopen(old_session, model))
            except AgentError:
                self._use_session(await self._sessions.reopen(old_session, old_session.model))
                raise

    def _use_session(self, session: Session) -> None:
        self._session = self._stopper.session = session
        self._turns = replace(self._turns, session=session)
        session.set_listener(self.show)
        if self._applied_setup is not None and self._applied_setup.hooks:
            assert session.hooks is not None, "the session was opened with `takes_hooks`"
            session.hooks.add_client_hooks(self._applied_setup.hooks, self._applied_setup.call_client_hook)

    def _deliver_answer(self, question: Question, content: Mapping[str, Any]) -> None:
        """Deliver an answer to the session. Raises `RefusedLineError`; if only part of the answer is valid, that part
        is delivered first."""
        try:
            answer = self._protocol.convert_answer(question, content)
            refusal = None
        except RefusedLineError as error:
            if error.answer is None:
                raise
            answer = error.answer
            refusal = error
        self._session.answer(question.id, answer)
        self._answered_ids.add(question.id)
        del self._open_questions[question.id]
        if content.get("interrupt") is True:
            self._session.interrupt()
        if refusal is not None:
            raise refusal

    async def _handle_control(self, request: ControlRequest) -> None:
        """Carry out a control request, and report success or the reason for its failure."""
        problem = request.refusal
        try:
            if request.action is not None:
                await self._handle_request(request.action)
        except AgentError as error:
            problem = str(error)
        self.show(ControlFailed(request.id, problem) if problem else ControlDone(request.id, request.response))
        if problem and request.is_required:
            self._fatal_error = problem
            self._session.interrupt()
            self._wake_up.set()

    def _report_refusal(self, line_number: int, reason: str) -> None:
        self._outcome.record_refused_line(line_number, reason)
        self.show(InputRefused(line_number, reason))


def _qualified_model(name: str, default_model: str) -> str:
    """Return `name` as PROVIDER/NAME. Raises `UsageError`."""
    model = name if "/" in name else providers.choices.resolve_model_name(name, default_model)
    if model is None:
        raise UsageError(f"{default_model.partition('/')[0]} has no known model `{name}`; use PROVIDER/NAME")
    return model
