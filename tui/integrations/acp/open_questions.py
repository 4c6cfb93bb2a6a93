"""A session's questions that are open in the editor."""

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
    """The open questions of one session."""

    def __init__(self, client: Client, root: str, get_session: Callable[[], Session], *, has_forms: bool) -> None:
        """`root`: the working folder. `get_session` returns the current session. `has_forms`: whether the editor can
        ask for free text."""
        self._client = client
        self._root = root
        self._get_session = get_session
        self._has_forms = has_forms
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """The tasks that ask the editor, by question id."""

    def ask(self, question: OpenQuestion) -> None:
        """Ask the editor, and pass its answer to the session."""
        self._tasks[question.id] = asyncio.create_task(self._ask_and_answer(question))

    def withdraw(self, question_id: str) -> None:
        """Withdraw a question that was answered elsewhere. If the editor answers later, its answer is ignored."""
        task = self._tasks.pop(question_id, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Withdraw all questions."""
        tasks, self._tasks = [*self._tasks.values()], {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask_and_answer(self, question: OpenQuestion) -> None:
        """Ask the editor and pass on its answer. If the editor disconnects, the question stays open until the session
        is resumed."""
        with suppress(ConnectionError):
            self._get_session().answer(question.id, await self._ask_editor(question))

    async def _ask_editor(self, question: OpenQuestion) -> Answer:
        displayed_question = editor_question(question, self._root)
        session_id = self._get_session().id
        try:
            if isinstance(question, QuestionAsked) and self._has_forms:
                response = await self._client.create_elicitation(question.question, question_form(question, session_id))
                is_accepted = isinstance(response, AcceptElicitationResponse)
                return form_answer(question, response.content or {}) if is_accepted else ""
            if not displayed_question.options:
                return displayed_question.default_answer
            answer = await self._client.request_permission(
                session_id, displayed_question.call, list(displayed_question.options)
            )
            return displayed_question.parse_outcome(answer.outcome)
        except (RequestError, ValueError):  # the editor cannot ask this, or its answer is invalid
            return displayed_question.default_answer
