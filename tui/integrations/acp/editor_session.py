"""A session in an editor: prompts become turns, events become updates, and the editor shows the questions."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from acp import Client, update_agent_message_text
from acp.schema import (
    AvailableCommand,
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    SessionInfoUpdate,
    UsageUpdate,
)

from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import AgentError, UsageError
from ebbtide.agent.events.permissions import PermissionAnswered, PermissionAsked, QuestionAnswered, QuestionAsked
from ebbtide.agent.events.plan import PlanAnswered, PlanSubmitted
from ebbtide.agent.events.session import AgentActivity, Event, ReplyFinished, TurnEnd, TurnFailed, TurnFinished
from ebbtide.agent.messages import Conversation, Image, Note, Text, Usage, User
from ebbtide.agent.session import Session
from ebbtide.tui.integrations.acp.commands import available_commands, model_prompt, parse_command, run_command
from ebbtide.tui.integrations.acp.content import ContentBlock, user_message
from ebbtide.tui.integrations.acp.open_questions import OpenQuestions
from ebbtide.tui.integrations.acp.options import (
    SessionOptions,
    build_config_options,
    parse_effort,
    parse_mode,
    with_effort,
)
from ebbtide.tui.integrations.acp.updates import (
    Update,
    UpdateState,
    event_updates,
    notice_updates,
    replay_updates,
    with_cost,
)
from ebbtide.tui.prompt.pastes import Pastes

QUESTION_ASKED_AGAIN = "this session has an open question; it is asked again with your next message"


@dataclass(frozen=True, slots=True)
class PromptOutcome:
    """How a prompt ended."""

    end: TurnEnd
    usage: Usage = field(default_factory=Usage)
    failure: TurnFailed | None = None


@dataclass(slots=True, eq=False)
class PendingPrompt:
    """A prompt that arrived during a turn."""

    message: User
    outcome: PromptOutcome | None = None
    """How the prompt ended, if it was delivered to a running turn or dropped."""


class EditorSession:
    """A session in an editor. It runs one turn at a time. `cancel` and `change_mode` may be called at any time."""

    def __init__(
        self, sessions: ProjectSessions, session: Session, client: Client, *, has_forms: bool, has_terminals: bool
    ) -> None:
        """`sessions`: used only by this editor session. `has_forms`: whether the editor can ask for free text.
        `has_terminals`: whether it can show command output as a terminal."""
        self.sessions = sessions
        self._client, self._config = client, sessions.config
        self._updates = UpdateState(str(sessions.root), has_terminals)
        self._pastes, self._title = Pastes(), session.title
        self._sent_commands: list[AvailableCommand] = []
        """The list of commands that was last sent to the editor."""
        self._turn_lock = asyncio.Lock()
        self._pending_prompts: list[PendingPrompt] = []
        self._questions = OpenQuestions(client, self._updates.root, lambda: self.session, has_forms=has_forms)
        self._background_tasks: set[asyncio.Task[None]] = set()
        self._use_session(session)

    def _use_session(self, session: Session) -> None:
        self.session = session
        self._sent_mode_and_model = self._mode_and_model
        session.set_listener(self._on_event)
        if session.servers is not None:
            session.servers.set_watcher(lambda: self._run_in_background(self._send_commands))

    @property
    def id(self) -> str:
        return self.session.id

    @property
    def current_options(self) -> SessionOptions:
        effort = self.sessions.config.reasoning_effort or ""
        return SessionOptions(self.session.mode, self.session.model, effort, self.sessions.available_models())

    @property
    def _mode_and_model(self) -> tuple[str, str]:
        return self.session.mode, self.session.model

    # Requests from the editor

    async def prompt(self, blocks: Sequence[ContentBlock]) -> PromptOutcome:
        """Run a turn. If a turn is already running, the prompt is delivered at its next step. If there is no next step,
        the prompt gets its own turn. Raises `AgentError`."""
        message = user_message(blocks, str(self.sessions.root), self._pastes)
        command, pending = parse_command(message.text), PendingPrompt(message)
        if command is None:
            self._pending_prompts.append(pending)
        async with self._turn_lock:
            if pending.outcome is not None:
                return pending.outcome
            if command is None:
                self._pending_prompts.remove(pending)
                return await self._run_turn(message)
            if text := model_prompt(*command, self._pastes):
                return await self._run_turn(User((Text(text), *self._pastes.attachments(text), *message.parts[1:])))
            output = await run_command(*command, self.sessions, self.session, self._on_event)
            await self._send(update_agent_message_text(output))
            return PromptOutcome("answered")

    def cancel(self) -> None:
        """Interrupt the turn, and drop prompts that are waiting for it to end."""
        self._drop_pending_prompts()
        self.session.interrupt()

    def _drop_pending_prompts(self) -> None:
        for pending in self._pending_prompts:
            pending.outcome = PromptOutcome("interrupted")
        self._pending_prompts.clear()

    async def change_mode(self, name: str) -> None:
        """Change the permission mode. Raises `AgentError`."""
        await self.session.change_mode(parse_mode(name))
        await self._send_options()

    async def change_model(self, name: str) -> None:
        """Change the model. Raises `AgentError`, for example during a turn."""
        await self._reopen(self.sessions.config, name)

    async def change_effort(self, name: str) -> None:
        """Change the reasoning effort. Raises `AgentError`, for example during a turn."""
        await self._reopen(with_effort(self._config, parse_effort(name)), self.session.model)

    async def send_initial_updates(self, notices: Sequence[str] = ()) -> None:
        """Send the first updates of a session that was just opened."""
        question_notice = (QUESTION_ASKED_AGAIN,) if self.session.has_open_question else ()
        for update in notice_updates((*notices, *self.session.changes_while_closed, *question_notice)):
            await self._send(update)
        await self._send_commands()

    async def replay(self) -> None:
        """Send all messages of the session, including those that have left the context. Raises `AgentError`."""
        log = await self.sessions.all_messages(self.id)
        redacted = await asyncio.to_thread(self.sessions.hide_secrets, Conversation(log.messages))
        for update in chain(
            replay_updates(redacted.messages, self._updates), notice_updates((log.problem,) if log.problem else ())
        ):
            await self._send(update)

    def schedule_initial_updates(self, notices: Sequence[str] = ()) -> None:
        """Send the first updates after the current response."""
        self._run_in_background(lambda: self.send_initial_updates(notices))

    async def close(self) -> None:
        """Stop the current work and close the session. Questions about calls stay open until the session is resumed.
        Raises `AgentError`."""
        self._drop_pending_prompts()
        self.session.end_turn_for_exit()
        async with self._turn_lock:
            await self._questions.close()
            for task in self._background_tasks:
                task.cancel()
            await asyncio.gather(*self._background_tasks, return_exceptions=True)
            try:
                await self.session.close()
            finally:
                await self.sessions.close()

    # Turns

    async def _run_turn(self, message: User) -> PromptOutcome:
        delivered: list[PendingPrompt] = []

        def take_pending_messages() -> tuple[User, ...]:
            prompts, self._pending_prompts = self._pending_prompts, []
            delivered.extend(prompts)
            return tuple(prompt.message for prompt in prompts)

        outcome = PromptOutcome("failed")
        attachments = [part for part in message.parts if isinstance(part, Image | Note)]
        try:
            async with aclosing(
                self.session.send(message.text, attachments, pending_messages=take_pending_messages)
            ) as events:
                async for event in events:
                    await self._send_event(event)
                    outcome = _record_event(outcome, event)
        finally:
            for prompt in delivered:
                prompt.outcome = replace(outcome, usage=Usage())
            await self._questions.close()
        await self._send_title()
        await self._send_commands()  # the user may have approved project commands meanwhile
        return outcome

    async def _reopen(self, config: Config, model: str) -> None:
        if self._turn_lock.locked():
            raise UsageError("a turn is running; try again when it is over")
        async with self._turn_lock:
            previous, previous_config = self.session, self.sessions.config
            await previous.close(None)
            self.sessions.config = config
            try:
                self._use_session(await self.sessions.reopen(previous, model))
            except AgentError:
                self.sessions.config = previous_config
                self._use_session(await self.sessions.reopen(previous, previous.model))
                raise
            await self._send_options()

    # Messages to the editor

    def _on_event(self, event: Event) -> None:
        """Handle events that occur between turns or while a command runs."""
        self._run_in_background(lambda: self._send_event(event))

    async def _send_event(self, event: Event) -> None:
        self._updates, updates = event_updates(self._updates, event)
        for update in updates:
            await self._send(with_cost(update, self.session.cost) if isinstance(update, UsageUpdate) else update)
        match event:
            case PermissionAsked() | PlanSubmitted() | QuestionAsked():
                self._questions.ask(event)
            case PermissionAnswered(id=question_id) | PlanAnswered(id=question_id) | QuestionAnswered(id=question_id):
                self._questions.withdraw(question_id)
        if self._mode_and_model != self._sent_mode_and_model:
            await self._send_options()

    async def _send_options(self) -> None:
        self._sent_mode_and_model = self._mode_and_model
        current_options = self.current_options
        await self._send(CurrentModeUpdate(session_update="current_mode_update", current_mode_id=current_options.mode))
        options = build_config_options(current_options)
        await self._send(ConfigOptionUpdate(session_update="config_option_update", config_options=[*options]))

    async def _send_commands(self) -> None:
        commands = available_commands(self.session)
        if commands != self._sent_commands:
            self._sent_commands = commands
            update = AvailableCommandsUpdate(session_update="available_commands_update", available_commands=commands)
            await self._send(update)

    async def _send_title(self) -> None:
        if self.session.title != self._title:
            self._title = self.session.title
            now = datetime.now(UTC).isoformat(timespec="seconds")
            info = SessionInfoUpdate(session_update="session_info_update", title=self._title, updated_at=now)
            await self._send(info)

    async def _send(
        self, update: Update | CurrentModeUpdate | ConfigOptionUpdate | AvailableCommandsUpdate | SessionInfoUpdate
    ) -> None:
        await self._client.session_update(self.id, update)

    def _run_in_background(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def run() -> None:
            with suppress(ConnectionError):  # the editor has disconnected
                await work()

        task = asyncio.create_task(run())
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)


def _record_event(outcome: PromptOutcome, event: Event) -> PromptOutcome:
    """Update a prompt's outcome with an event of its turn."""
    match event:
        case ReplyFinished(usage=usage) | AgentActivity(event=ReplyFinished(usage=usage)):
            return replace(outcome, usage=outcome.usage + usage)
        case TurnFinished(end=end):
            return replace(outcome, end=end)
        case TurnFailed():
            return replace(outcome, failure=event)
        case _:
            return outcome
