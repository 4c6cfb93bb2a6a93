"""The channel between a session and its front end: events out, answers and interrupts in."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, Protocol, TypeAlias, TypeVar

from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.permissions import (
    Decision,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
)
from ebbtide.agent.events.plan import PlanAnswered, PlanDecision, PlanSubmitted
from ebbtide.agent.events.session import Event, Noticed, TurnFinished

T = TypeVar("T")

Answer: TypeAlias = Decision | PlanDecision | str
"""The answer to a question about a call or about a plan, or free text."""


class Interrupt:
    """The user's request to stop. Running work can be raced against it. It is reset at the start of each turn."""

    def __init__(self) -> None:
        self._is_requested = False
        self._races = set[asyncio.Future[None]]()
        """Futures of the running races, which a request completes."""

    def is_requested(self) -> bool:
        return self._is_requested

    def request(self) -> None:
        self._is_requested = True
        for race in self._races:
            if not race.done():
                race.set_result(None)

    def reset(self) -> None:
        self._is_requested = False

    async def race(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of `work`. If the interrupt comes first, cancel `work`, wait for it to stop, and return
        None."""
        if self._is_requested:
            work.close()
            return None
        task = asyncio.ensure_future(work)
        race = asyncio.get_running_loop().create_future()
        self._races.add(race)
        try:
            await asyncio.wait({task, race}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            self._races.discard(race)
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


class Questions:
    """The open questions of a session. Each question and each answer is emitted as an event."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._pending_answers: dict[str, asyncio.Future[Answer]] = {}
        self._numbers = itertools.count(1)

    async def ask_permission(self, question: PermissionAsked) -> Decision:
        """Ask about a call and return the user's decision; free text counts as a denial."""
        answer = await self._wait_for(question)
        decision = answer if isinstance(answer, Decision) else Decision("deny", note=_answer_text(answer))
        mode = decision.mode if decision.mode == question.mode_offer else ""
        self._emit(PermissionAnswered(question.id, decision.verdict, mode))
        return decision

    async def ask_plan(self, question: PlanSubmitted) -> PlanDecision:
        """Ask about a plan and return the user's decision; free text counts as a rejection."""
        answer = await self._wait_for(question)
        decision = answer if isinstance(answer, PlanDecision) else PlanDecision("reject", note=_answer_text(answer))
        self._emit(PlanAnswered(question.id, decision.verdict, decision.mode))
        return decision

    async def ask_choices(self, text: str, options: tuple[str, ...]) -> str:
        """Ask a question with several possible choices. Return the chosen options, one per line, or the user's own
        text."""
        return await self.ask_text(text, options, allows_several=True)

    async def ask_text(
        self,
        text: str,
        options: tuple[str, ...],
        *,
        allows_several: bool = False,
        is_lasting: bool = False,
        accepts_text: bool = True,
    ) -> str:
        """Ask the user a question from the model or a server, and return the answer."""
        question = QuestionAsked(
            f"question-{next(self._numbers)}", text, options, allows_several, is_lasting, accepts_text
        )
        answer = await self._wait_for(question)
        answer_text = _answer_text(answer)
        self._emit(QuestionAnswered(question.id, answer_text))
        return answer_text

    @property
    def has_call_question(self) -> bool:
        """Whether a question about a call or a plan is open."""
        return any(question_id.startswith(("permission-", "plan-")) for question_id in self._pending_answers)

    def answer(self, question_id: str, answer: Answer) -> None:
        """Answer a question. An answer to a question that is not open is ignored."""
        future = self._pending_answers.get(question_id)
        if future is not None and not future.done():
            future.set_result(answer)

    async def _wait_for(self, question: PermissionAsked | PlanSubmitted | QuestionAsked) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._pending_answers[question.id] = future
        try:
            self._emit(question)
            return await future
        finally:
            del self._pending_answers[question.id]


def _answer_text(answer: Answer) -> str:
    return answer if isinstance(answer, str) else answer.note


class EventSink(Protocol):
    """Follows the events of all sessions of a process."""

    def follow(self, channel: "Channel", /) -> None:
        """Start receiving a session's events."""

    async def close(self) -> None:
        """Deliver the remaining events, within a few seconds."""


class Channel:
    """The channel of one session. It is created before the other parts, because they emit events through it."""

    def __init__(self, *, is_interactive: bool = True) -> None:
        """`is_interactive`: whether a user is present to answer."""
        self.is_interactive = is_interactive
        self.interrupt = Interrupt()
        self.questions = Questions(self.emit)
        self.listener: Callable[[Event], None] | None = None
        """Immediately receives events that occur between turns."""
        self._observers: list[Callable[[Event], None]] = []
        self._undelivered: list[Event] = []
        """Events that occurred between turns without a listener, to be delivered with the next turn."""
        self._events: asyncio.Queue[Event | None] | None = None
        self._has_finished = False
        """Whether the end of the running turn has been emitted."""
        self._turn: asyncio.Task[None] | None = None
        """The running turn, or the last one."""

    @property
    def is_busy(self) -> bool:
        """Whether a turn is being streamed."""
        return self._events is not None

    @property
    def can_ask(self) -> bool:
        """Whether a turn is running and its end has not been emitted yet. Only then can questions be asked."""
        return self._events is not None and not self._has_finished

    def observe_events(self, observer: Callable[[Event], None]) -> None:
        """Register a callback for every event, including those outside a turn."""
        self._observers.append(observer)

    def emit(self, event: Event) -> None:
        """Emit an event of the running turn."""
        for observer in self._observers:
            observer(event)
        if self._events is not None and not self._has_finished:
            self._events.put_nowait(event)
            self._has_finished = isinstance(event, TurnFinished)

    def emit_anytime(self, event: Event) -> None:
        """Emit an event that can occur between turns. Between turns, the event goes to the listener, or is delivered
        with the next turn if there is no listener."""
        is_open = self.can_ask
        self.emit(event)
        if not is_open:
            listener = self.listener if self._events is None else None
            (listener or self._undelivered.append)(event)

    def show_notice(self, text: str) -> None:
        """Show the user a notice. May be called at any time, even between turns."""
        if self.can_ask:
            self.emit(Noticed(text))
        else:
            (self.listener or self._undelivered.append)(Noticed(text))

    async def stream_turn(self, turn: Callable[[], Coroutine[Any, Any, None]]) -> AsyncGenerator[Event, None]:
        """Run a turn and yield its events. If the caller leaves the loop early, the turn ends as if interrupted. Raises
        `AgentError` if another turn is running."""
        if self._events is not None:
            raise AgentError("a turn is running; wait for its end, or interrupt it")
        self.interrupt.reset()
        events = self._events = asyncio.Queue()
        for missed in self._undelivered:
            events.put_nowait(missed)
        self._undelivered.clear()
        self._has_finished = False
        turn_task = self._turn = asyncio.create_task(turn())
        turn_task.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            if not turn_task.cancelled():
                await turn_task
        finally:
            self.end_turn_for_exit()
            await asyncio.gather(turn_task, return_exceptions=True)
            self._events = None
            if self.listener is not None:
                for missed in self._undelivered:
                    self.listener(missed)
                self._undelivered.clear()

    def end_turn_for_exit(self) -> None:
        """End the turn because the program exits. Works like an interrupt, except that an open question about a call
        stays open. It is asked again when the session is resumed."""
        if self.questions.has_call_question and self._turn is not None:
            self._turn.cancel()
        self.interrupt.request()
