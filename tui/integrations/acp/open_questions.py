"""Questions of a session that are open in the editor."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from acp import Client, RequestError
from acp.schema import AcceptElicitationResponse

from ebbtide.agent.channel import Answer
from ebbtide.agent.events.permissions import QuestionAsked
from ebbtide.agent.session import Session
from ebbtide.tui.integrations.acp.questions import editor_question, form_answer, question_form
from ebbtide.tui.view.blocks import OpenQuestion


class OpenQuestions:
    """The open questions of a session, which the function `session` returns."""

    def __init__(self, client: Client, root: str, session: Callable[[], Session], *, has_forms: bool) -> None:
        """`root`: the working folder. `has_forms`: whether the editor can show questions with free text."""
        self._client, self._root, self._session, self._has_forms = client, root, session, has_forms
        self._requests: dict[str, asyncio.Task[None]] = {}
        """Requests by question id."""

    def ask(self, question: OpenQuestion) -> None:
        """Ask the editor and pass its answer to the session."""
        self._requests[question.id] = asyncio.create_task(self._ask_and_answer(question))

    def drop(self, id: str) -> None:
        """Stop asking, because the question was answered elsewhere. The editor's answer is then ignored."""
        task = self._requests.pop(id, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Drop all questions."""
        requests, self._requests = [*self._requests.values()], {}
        for task in requests:
            task.cancel()
        await asyncio.gather(*requests, return_exceptions=True)

    async def _ask_and_answer(self, question: OpenQuestion) -> None:
        """Ask the editor and pass on its answer. If the editor disconnects, the question stays open until the session
        is resumed."""
        with suppress(ConnectionError):
            self._session().answer(question.id, await self._ask_editor(question))

    async def _ask_editor(self, question: OpenQuestion) -> Answer:
        in_editor, session = editor_question(question, self._root), self._session().id
        try:
            if isinstance(question, QuestionAsked) and self._has_forms:
                filled = await self._client.create_elicitation(question.question, question_form(question, session))
                accepted = isinstance(filled, AcceptElicitationResponse)
                return form_answer(question, filled.content or {}) if accepted else ""
            if not in_editor.options:
                return in_editor.default_answer
            answer = await self._client.request_permission(session, in_editor.call, list(in_editor.options))
            return in_editor.answer(answer.outcome)
        except (RequestError, ValueError):  # the editor cannot ask this, or its answer is invalid
            return in_editor.default_answer
