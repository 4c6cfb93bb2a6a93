"""Questions of a session that are open in the editor."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from acp import Client, RequestError
from acp.schema import AcceptElicitationResponse

from ebbtide.agent.channel import Answer
from ebbtide.agent.events.permissions import QuestionAsked
from ebbtide.agent.session import Session
from ebbtide.tui.acp.questions import editor_question, form_answer, form_of
from ebbtide.tui.view.blocks import OpenQuestion


class OpenQuestions:
    """The open questions of the session that `session` returns."""

    def __init__(self, client: Client, root: str, session: Callable[[], Session], *, has_forms: bool) -> None:
        """`root`: the working folder. `has_forms`: the editor can show questions with free text."""
        self._client, self._root, self._session, self._has_forms = client, root, session, has_forms
        self._asking: dict[str, asyncio.Task[None]] = {}
        """Requests by question id."""

    def ask(self, question: OpenQuestion) -> None:
        """Ask the editor and pass on its answer."""
        self._asking[question.id] = asyncio.create_task(self._ask(question))

    def drop(self, id: str) -> None:
        """The question was answered elsewhere: ignore the editor's answer."""
        task = self._asking.pop(id, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Drop all questions."""
        asking, self._asking = [*self._asking.values()], {}
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(self, question: OpenQuestion) -> None:
        """If the editor disconnects, the question stays open until the session continues."""
        with suppress(ConnectionError):
            self._session().answer(question.id, await self._answer_to(question))

    async def _answer_to(self, question: OpenQuestion) -> Answer:
        asked, session = editor_question(question, self._root), self._session().id
        try:
            if isinstance(question, QuestionAsked) and self._has_forms:
                filled = await self._client.create_elicitation(question.question, form_of(question, session))
                accepted = isinstance(filled, AcceptElicitationResponse)
                return form_answer(question, filled.content or {}) if accepted else ""
            if not asked.options:
                return asked.otherwise
            answer = await self._client.request_permission(session, asked.call, list(asked.options))
            return asked.answer(answer.outcome)
        except (RequestError, ValueError):  # the editor cannot ask this, or its answer is none
            return asked.otherwise
