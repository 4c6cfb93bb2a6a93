"""The line between a session and its front end: events out; answers, and the wish to stop, in."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

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
"""To a question about a call, about a plan, or in words."""


class Interrupt:
    """The user's wish to stop, which running work can race against. It is reset at the start of each turn."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def is_requested(self) -> bool:
        return self._event.is_set()

    def request(self) -> None:
        self._event.set()

    def reset(self) -> None:
        self._event.clear()

    async def race(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of the work, or None when the user was faster; the work is then cancelled and has ended."""
        if self._event.is_set():
            work.close()
            return None
        task = asyncio.ensure_future(work)
        waiter = asyncio.ensure_future(self._event.wait())
        try:
            await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for running in (task, waiter):
                running.cancel()
            await asyncio.gather(task, waiter, return_exceptions=True)


class Questions:
    """The open questions of a session. Each is told as an event, and so is its answer."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._waiting: dict[str, asyncio.Future[Answer]] = {}
        self._numbers = itertools.count(1)

    async def ask_permission(self, question: PermissionAsked) -> Decision:
        """What the user decides about a call; words alone mean no."""
        answer = await self._wait_for(question)
        decision = answer if isinstance(answer, Decision) else Decision("deny", note=_words_of(answer))
        self._emit(PermissionAnswered(question.id, decision.verdict))
        return decision

    async def ask_plan(self, question: PlanSubmitted) -> PlanDecision:
        """What the user decides about a plan; words alone reject it."""
        answer = await self._wait_for(question)
        decision = answer if isinstance(answer, PlanDecision) else PlanDecision("reject", note=_words_of(answer))
        self._emit(PlanAnswered(question.id, decision.verdict, decision.mode))
        return decision

    async def ask_choices(self, text: str, options: tuple[str, ...]) -> str:
        """All that the user chooses of the options, a line each, or says in other words."""
        return await self.ask_text(text, options, several=True)

    async def ask_text(
        self,
        text: str,
        options: tuple[str, ...],
        *,
        several: bool = False,
        is_lasting: bool = False,
        takes_words: bool = True,
    ) -> str:
        """What the user says to a question of the model or of a server."""
        question = QuestionAsked(f"question-{next(self._numbers)}", text, options, several, is_lasting, takes_words)
        answer = await self._wait_for(question)
        said = _words_of(answer)
        self._emit(QuestionAnswered(question.id, said))
        return said

    @property
    def is_about_a_call(self) -> bool:
        """Whether the user is being asked whether a call may run, or a plan is to be carried out."""
        return any(id.startswith(("permission-", "plan-")) for id in self._waiting)

    def answer(self, question: str, answer: Answer) -> None:
        """An answer that nobody waits for is dropped."""
        waiting = self._waiting.get(question)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def _wait_for(self, question: PermissionAsked | PlanSubmitted | QuestionAsked) -> Answer:
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[question.id] = waiting
        try:
            self._emit(question)
            return await waiting
        finally:
            del self._waiting[question.id]


def _words_of(answer: Answer) -> str:
    return answer if isinstance(answer, str) else answer.note


class Channel:
    """That of one session. It is there before the session is: what a session is made of speaks through it."""

    def __init__(self, *, interactive: bool = True) -> None:
        """`interactive`: somebody is there to answer."""
        self.is_interactive = interactive
        self.interrupt = Interrupt()
        self.questions = Questions(self.emit)
        self.listener: Callable[[Event], None] | None = None
        """Is told at once what happens between two turns."""
        self._notes: list[Callable[[Event], None]] = []
        self._unheard: list[Event] = []
        """What happened between two turns, told with the next one where nobody listens meanwhile."""
        self._events: asyncio.Queue[Event | None] | None = None
        self._is_told = False
        """Whether the end of the running turn has been told."""
        self._turn: asyncio.Task[None] | None = None
        """The turn that runs, or ran last."""

    @property
    def is_busy(self) -> bool:
        """Whether somebody follows a turn."""
        return self._events is not None

    @property
    def is_open(self) -> bool:
        """Whether a turn runs whose end was not told: then questions are heard."""
        return self._events is not None and not self._is_told

    def on_note(self, note: Callable[[Event], None]) -> None:
        """Every event is noted there, also those that nobody hears."""
        self._notes.append(note)

    def emit(self, event: Event) -> None:
        """Tells what happens in a turn."""
        for note in self._notes:
            note(event)
        if self._events is not None and not self._is_told:
            self._events.put_nowait(event)
            self._is_told = isinstance(event, TurnFinished)

    def emit_now(self, event: Event) -> None:
        """Tells what may happen between two turns, too: to whoever listens then, or else with the next turn."""
        is_open = self.is_open
        self.emit(event)
        if not is_open:
            hear = self.listener if self._events is None else None
            (hear or self._unheard.append)(event)

    def notice(self, text: str) -> None:
        """Tells the user something, also between two turns and while the session is closed."""
        if self.is_open:
            self.emit(Noticed(text))
        else:
            (self.listener or self._unheard.append)(Noticed(text))

    async def stream_turn(self, turn: Callable[[], Coroutine[Any, Any, None]]) -> AsyncGenerator[Event, None]:
        """Runs a turn; what is told meanwhile. Leaving the loop early ends the turn as an interruption does. Raises
        `AgentError` while another turn runs."""
        if self._events is not None:
            raise AgentError("a turn is running; wait for its end, or interrupt it")
        self.interrupt.reset()
        events = self._events = asyncio.Queue()
        for missed in self._unheard:
            events.put_nowait(missed)
        self._unheard.clear()
        self._is_told = False
        running = self._turn = asyncio.create_task(turn())
        running.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            if not running.cancelled():
                await running
        finally:
            self.leave_turn()
            await asyncio.gather(running, return_exceptions=True)
            self._events = None
            if self.listener is not None:
                for missed in self._unheard:
                    self.listener(missed)
                self._unheard.clear()

    def leave_turn(self) -> None:
        """Ends the turn as the end of the program does: like the interrupt, but a question about a call stays open, to
        be asked again when the session goes on."""
        if self.questions.is_about_a_call and self._turn is not None:
            self._turn.cancel()
        self.interrupt.request()
