"""Runs one task of a batch, resuming its session if it has one."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.errors import AgentError, StoreFailed
from ebbtide.agent.events.session import Event, ReplyFinished
from ebbtide.agent.headless.answers import parse_answer
from ebbtide.agent.headless.json_output import result_json
from ebbtide.agent.headless.result import RunOutcome
from ebbtide.agent.headless.stop import RunStopper, stop_after
from ebbtide.agent.headless.turns import HeadlessTurns
from ebbtide.agent.integrations.batch.tasks import BatchTask
from ebbtide.agent.logs.crash_reports import config_secrets, crash_error
from ebbtide.agent.messages import Assistant, Conversation
from ebbtide.agent.session import Session
from ebbtide.tools.sandbox.system import detected_sandbox_kind

RESUME_PROMPT = (
    "The program was stopped while you were working on this task. Continue where you left off without repeating "
    "finished work, and finish as you were asked to."
)

_FATAL_CODES = frozenset({"auth", "quota", "store"})
"""Error codes that have nothing to do with the task: all later tasks would fail as well."""


@dataclass(eq=False)
class TaskRun:
    """A running or finished task."""

    task: BatchTask
    session_id: str
    """The id of its session."""
    was_interrupted: bool = False
    """Whether an earlier run was interrupted, so that the last reply in the session may be incomplete."""
    max_time: float | None = None
    """Time limit in seconds."""
    stopper: RunStopper = field(default_factory=RunStopper)
    outcome: RunOutcome = field(default_factory=RunOutcome)
    started_at: float = field(default_factory=time.time)
    """When the run started, in Unix seconds."""
    should_stop: Callable[[], bool] = lambda: False
    """Returns whether the run should stop. Called after each complete reply, unless the reply ends the task."""
    batch_problem: str = ""
    """Why the batch cannot continue; empty if it can."""
    blocked_reason: str = ""
    """Why the task cannot be resumed now, for example because another program uses its session; empty if it can."""
    _open_session: Session | None = None

    @property
    def cost(self) -> float:
        """Cost of the session so far in US dollars, excluding requests with unknown prices."""
        return (self._open_session.cost if self._open_session is not None else self.outcome.cost) or 0.0

    @property
    def is_done(self) -> bool:
        """Whether the task has ended, successfully or not, so that it need not be resumed."""
        return not self.batch_problem and self.outcome.stop_reason != "interrupted"

    async def run(self, sessions: ProjectSessions, show: Callable[[Event], None]) -> None:
        """Run the task. Errors are recorded in its outcome."""
        outcome = self.outcome
        outcome.session = self.session_id
        try:
            with stop_after(self.stopper, self.max_time):
                await self._run_in_session(sessions, show)
        except StoreFailed as error:
            outcome.record_failure(error.code, str(error), error.exit_code)
            if error.reason in ("in use", "locked"):
                outcome.record_turn_end("interrupted")
                self.blocked_reason = str(error)
        except AgentError as error:
            outcome.record_failure(error.code, str(error), error.exit_code)
        except Exception as error:  # noqa: BLE001  # a bug ends one task and becomes its result
            crash = crash_error(error, sessions.config.folders.logs, tuple(config_secrets(sessions.config, os.environ)))
            outcome.record_failure(crash.code, str(crash), crash.exit_code)
        if outcome.stop_reason == "interrupted":
            outcome.record_turn_end(self.stopper.cause)
        if outcome.error is not None and outcome.error.code in _FATAL_CODES:
            self.batch_problem = outcome.error.message

    async def _run_in_session(self, sessions: ProjectSessions, show: Callable[[Event], None]) -> None:
        outcome, library = self.outcome, await sessions.open_library()
        was_stored = await library.has_session(self.session_id)
        opening = sessions.open(self.session_id) if was_stored else sessions.open(new_id=self.session_id)
        session = await self.stopper.interrupt.race(opening)
        if session is None:
            outcome.mark_interrupted()
            return
        self._open_session = self.stopper.session = session
        outcome.mode, outcome.model = session.mode, session.model

        def on_event(event: Event) -> None:
            show(event)
            if isinstance(event, ReplyFinished) and event.stop_reason in ("calls", "pause") and self.should_stop():
                self.stopper.request_stop()

        session.set_listener(on_event)
        try:
            stored_answer = self._stored_answer(session.history) if was_stored else None
            if self.stopper.interrupt.is_requested():
                outcome.mark_interrupted()
            elif stored_answer is not None:
                outcome.result = stored_answer
                outcome.record_turn_end("answered")
            else:
                # The session may have been stored before its first message.
                prompt = RESUME_PROMPT if session.history.messages else self.task.prompt
                await HeadlessTurns(session, outcome, on_event, self.stopper, self.task.output_schema).run_turn(prompt)
        finally:
            outcome.usage, outcome.cost = session.usage.usage, session.cost
            await session.close()
            self._open_session = None
        outcome.sandbox = "off" if sessions.config.sandbox == "off" else detected_sandbox_kind()

    def build_result(self) -> dict[str, Any]:
        """Return the task's entry in the results file."""
        end_fields = {"exit_code": self.outcome.exit_code, "seconds": round(time.time() - self.started_at, 3)}
        return {"id": self.task.original_id, **result_json(self.outcome.result_so_far), **end_fields}

    def _stored_answer(self, conversation: Conversation) -> str | None:
        """Return the session's final answer, if the run was killed before it wrote the result."""
        last_message = conversation.messages[-1] if conversation.messages else None
        if (
            self.was_interrupted
            or not isinstance(last_message, Assistant)
            or last_message.calls
            or not last_message.text.strip()
        ):
            return None
        if self.task.output_schema is None:
            return last_message.text
        text, problems = parse_answer(last_message.text, self.task.output_schema)
        return None if problems else text
