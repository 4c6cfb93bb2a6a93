"""Questions to the user that wait for their answers."""

import asyncio
import itertools
from collections.abc import Callable

from agent.events import Decision, Event, PermissionAnswered, PermissionAsked, QuestionAnswered, QuestionAsked


class Questions:
    """The open questions of a session. Each is told as an event, and so is its answer."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._waiting: dict[str, asyncio.Future[Decision | str]] = {}
        self._numbers = itertools.count(1)

    async def permission(self, question: PermissionAsked) -> Decision:
        """What the user decides about a call; words alone mean no."""
        answer = await self._wait_for(question)
        decision = answer if isinstance(answer, Decision) else Decision("deny", note=answer)
        self._emit(PermissionAnswered(question.id, decision.verdict))
        return decision

    async def words(self, text: str, options: tuple[str, ...]) -> str:
        """What the user says to a question of the model or of a server."""
        question = QuestionAsked(f"question-{next(self._numbers)}", text, options)
        answer = await self._wait_for(question)
        said = answer if isinstance(answer, str) else answer.note
        self._emit(QuestionAnswered(question.id, said))
        return said

    @property
    def is_about_a_call(self) -> bool:
        """Whether the user is being asked whether a call may run."""
        return any(id.startswith("permission-") for id in self._waiting)

    def answer(self, question: str, answer: Decision | str) -> None:
        """An answer that nobody waits for is dropped."""
        waiting = self._waiting.get(question)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def _wait_for(self, question: PermissionAsked | QuestionAsked) -> Decision | str:
        waiting: asyncio.Future[Decision | str] = asyncio.get_running_loop().create_future()
        self._waiting[question.id] = waiting
        try:
            self._emit(question)
            return await waiting
        finally:
            del self._waiting[question.id]
