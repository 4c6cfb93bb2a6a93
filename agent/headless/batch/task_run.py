"""Runs one task of a batch, resuming its session if it has one."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ebbtide.agent.crash import crash_error, secrets_of
from ebbtide.agent.errors import AgentError, StoreFailed
from ebbtide.agent.events.session import Event, ReplyFinished
from ebbtide.agent.headless.answer_schema import read_answer
from ebbtide.agent.headless.batch.tasks import BatchTask
from ebbtide.agent.headless.json_output import result_json
from ebbtide.agent.headless.result import RunOutcome
from ebbtide.agent.headless.stop import RunStopper, stopped_after
from ebbtide.agent.headless.turns import Turns
from ebbtide.agent.messages import Assistant, Conversation
from ebbtide.agent.session import Session
from ebbtide.agent.sessions import Sessions
from ebbtide.tools.sandbox.system import known_kind

RESUME_PROMPT = (
    "The program was stopped while you worked on this. Go on with the task from where it stands, without doing again "
    "what is done, and end as you were asked to."
)

_FATAL_CODES = frozenset({"auth", "quota", "store"})
"""Error codes that do not depend on the task: all later tasks would fail as well."""


@dataclass(eq=False)
class TaskRun:
    """A running or finished task."""

    task: BatchTask
    session: str
    """The id of its session."""
    was_stopped: bool = False
    """Whether it was interrupted before; the last reply in its session may be incomplete."""
    max_time: float | None = None
    """Time limit in seconds."""
    stop: RunStopper = field(default_factory=RunStopper)
    outcome: RunOutcome = field(default_factory=RunOutcome)
    started: float = field(default_factory=time.time)
    """Unix time in seconds."""
    is_soon_over: Callable[[], bool] = lambda: False
    """Called after each complete reply; returns whether no further request should follow."""
    obstacle: str = ""
    """Why the whole batch cannot continue; empty if it can."""
    blocked_reason: str = ""
    """Why the task cannot be resumed now, because another program uses its session or the database; empty if it can."""
    _opened: Session | None = None

    @property
    def cost(self) -> float:
        """Cost of the session so far in US dollars, as far as prices are known."""
        return (self._opened.cost if self._opened is not None else self.outcome.cost) or 0.0

    @property
    def is_done(self) -> bool:
        """Whether the task has ended, successfully or not, and should not be resumed."""
        return not self.obstacle and self.outcome.stop_reason != "interrupted"

    async def work(self, sessions: Sessions, show: Callable[[Event], None]) -> None:
        """Run the task. Errors become its outcome."""
        outcome = self.outcome
        outcome.session = self.session
        try:
            with stopped_after(self.stop, self.max_time):
                await self._in_session(sessions, show)
        except StoreFailed as error:
            outcome.fail(error.code, str(error), error.exit_code)
            if error.reason in ("in use", "locked"):
                outcome.end("interrupted")
                self.blocked_reason = str(error)
        except AgentError as error:
            outcome.fail(error.code, str(error), error.exit_code)
        except Exception as error:  # noqa: BLE001  # a bug ends one task and becomes its result
            fault = crash_error(error, sessions.config.folders.logs, tuple(secrets_of(sessions.config, os.environ)))
            outcome.fail(fault.code, str(fault), fault.exit_code)
        if outcome.stop_reason == "interrupted":
            outcome.end(self.stop.cause)
        if outcome.error is not None and outcome.error.code in _FATAL_CODES:
            self.obstacle = outcome.error.message

    async def _in_session(self, sessions: Sessions, show: Callable[[Event], None]) -> None:
        outcome, library = self.outcome, await sessions.library()
        was_begun = await library.holds(self.session)
        opening = sessions.open(self.session) if was_begun else sessions.open(new_id=self.session)
        session = await self.stop.wish.race(opening)
        if session is None:
            outcome.mark_interrupted()
            return
        self._opened = self.stop.session = session
        outcome.mode, outcome.model = session.mode, session.model

        def heard(event: Event) -> None:
            show(event)
            if isinstance(event, ReplyFinished) and event.stop_reason in ("calls", "pause") and self.is_soon_over():
                self.stop.request()

        session.listen(heard)
        try:
            answer = self._answer_in(session.history) if was_begun else None
            if self.stop.wish.is_requested():
                outcome.mark_interrupted()
            elif answer is not None:
                outcome.result = answer
                outcome.end("answered")
            else:
                # A session may be stored before its first message.
                prompt = RESUME_PROMPT if session.history.messages else self.task.prompt
                await Turns(session, outcome, heard, self.stop, self.task.schema).answer(prompt)
        finally:
            outcome.usage, outcome.cost = session.usage.usage, session.cost
            await session.close()
            self._opened = None
        outcome.sandbox = "off" if sessions.config.sandbox == "off" else known_kind()

    def result(self) -> dict[str, Any]:
        """The task's line in the results file."""
        ended = {"exit_code": self.outcome.exit_code, "seconds": round(time.time() - self.started, 3)}
        return {"id": self.task.given_id, **result_json(self.outcome.as_result), **ended}

    def _answer_in(self, conversation: Conversation) -> str | None:
        """The final answer in the session, if it has one: the task was killed before its result was written."""
        last = conversation.messages[-1] if conversation.messages else None
        if self.was_stopped or not isinstance(last, Assistant) or last.calls or not last.text.strip():
            return None
        if self.task.schema is None:
            return last.text
        text, problems = read_answer(last.text, self.task.schema)
        return None if problems else text
