"""A session in an editor: prompts become turns, events become updates, and questions are put to the editor."""

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

from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import AgentError, UsageError
from ebbtide.agent.events.permissions import PermissionAnswered, PermissionAsked, QuestionAnswered, QuestionAsked
from ebbtide.agent.events.plan import PlanAnswered, PlanSubmitted
from ebbtide.agent.events.session import AgentActivity, Event, ReplyFinished, TurnEnd, TurnFailed, TurnFinished
from ebbtide.agent.messages import Conversation, Image, Note, Text, Usage, User
from ebbtide.agent.session import Session
from ebbtide.agent.sessions import Sessions
from ebbtide.tui.acp.commands import available_commands, own_command, prompt_for_model, run_command
from ebbtide.tui.acp.content import Block, message_of
from ebbtide.tui.acp.open_questions import OpenQuestions
from ebbtide.tui.acp.options import SessionOptions, effort_named, mode_named, with_effort
from ebbtide.tui.acp.options import options_of as choices_of
from ebbtide.tui.acp.updates import Update, UpdateState, notice_updates, replay_updates, updates_of, with_cost
from ebbtide.tui.prompt.pastes import Pastes

ASKED_AGAIN = "this session was left at a question; it is asked again with your next message"


@dataclass(frozen=True, slots=True)
class EndedPrompt:
    """How a prompt ended."""

    end: TurnEnd
    usage: Usage = field(default_factory=Usage)
    failure: TurnFailed | None = None


@dataclass(slots=True, eq=False)
class WaitingPrompt:
    """A prompt that arrived during a turn."""

    message: User
    ended: EndedPrompt | None = None
    """Set once it needs no turn of its own."""


class EditorSession:
    """Runs one turn at a time; `cancel` and option changes are accepted at any time."""

    def __init__(
        self, sessions: Sessions, session: Session, client: Client, *, has_forms: bool, has_terminals: bool
    ) -> None:
        """`sessions` are its own. `has_forms`: the editor can show questions with free text; `has_terminals`: it can
        show command output as a terminal."""
        self.sessions = sessions
        self._client, self._config = client, sessions.config
        self._told = UpdateState(str(sessions.root), has_terminals)
        self._pastes, self._title = Pastes(), session.title
        self._commands: list[AvailableCommand] = []
        """The commands last sent to the editor."""
        self._turns = asyncio.Lock()
        self._waiting: list[WaitingPrompt] = []
        self._questions = OpenQuestions(client, self._told.root, lambda: self.session, has_forms=has_forms)
        self._aside: set[asyncio.Task[None]] = set()
        self._adopt(session)

    def _adopt(self, session: Session) -> None:
        self.session = session
        self._known = self._mode_and_model
        session.listen(self._on_event)
        if session.servers is not None:
            session.servers.watch(lambda: self._begin(self._send_commands))

    @property
    def id(self) -> str:
        return self.session.id

    @property
    def current_options(self) -> SessionOptions:
        effort = self.sessions.config.reasoning_effort or ""
        return SessionOptions(self.session.mode, self.session.model, effort, self.sessions.models())

    @property
    def _mode_and_model(self) -> tuple[str, str]:
        return self.session.mode, self.session.model

    # What the editor asks for

    async def prompt(self, blocks: Sequence[Block]) -> EndedPrompt:
        """Run a turn. A prompt during a turn is delivered at its next step, or else gets its own turn. Raises
        `AgentError`."""
        said = message_of(blocks, str(self.sessions.root), self._pastes)
        command, waiting = own_command(said.text), WaitingPrompt(said)
        if command is None:
            self._waiting.append(waiting)
        async with self._turns:
            if waiting.ended is not None:
                return waiting.ended
            if command is None:
                self._waiting.remove(waiting)
                return await self._turn(said)
            if text := prompt_for_model(*command, self._pastes):
                return await self._turn(User((Text(text), *self._pastes.attachments(text), *said.parts[1:])))
            told = await run_command(*command, self.sessions, self.session, self._on_event)
            await self._send(update_agent_message_text(told))
            return EndedPrompt("answered")

    def cancel(self) -> None:
        """Interrupt the turn; prompts waiting for its end are dropped."""
        self._drop_waiting()
        self.session.interrupt()

    def _drop_waiting(self) -> None:
        for waiting in self._waiting:
            waiting.ended = EndedPrompt("interrupted")
        self._waiting.clear()

    async def change_mode(self, name: str) -> None:
        """Raises `AgentError`."""
        await self.session.change_mode(mode_named(name))
        await self._send_options()

    async def change_model(self, name: str) -> None:
        """Raises `AgentError`, also while a turn runs."""
        await self._reopen(self.sessions.config, name)

    async def change_effort(self, name: str) -> None:
        """Like `change_model`."""
        await self._reopen(with_effort(self._config, effort_named(name)), self.session.model)

    async def greet(self, notices: Sequence[str] = ()) -> None:
        """Send the initial updates of a newly opened session."""
        again = (ASKED_AGAIN,) if self.session.is_at_question else ()
        for update in notice_updates((*notices, *self.session.news, *again)):
            await self._send(update)
        await self._send_commands()

    async def replay(self) -> None:
        """Send all messages of the session, including those no longer in context. Raises `AgentError`."""
        log = await self.sessions.log(self.id)
        shown = await asyncio.to_thread(self.sessions.visible, Conversation(log.messages))
        for update in chain(
            replay_updates(shown.messages, self._told), notice_updates((log.problem,) if log.problem else ())
        ):
            await self._send(update)

    def begin_to_greet(self, notices: Sequence[str] = ()) -> None:
        """Send the greeting after the current response."""
        self._begin(lambda: self.greet(notices))

    async def close(self) -> None:
        """Stop the current work and close; a question about a call stays open. Raises `AgentError`."""
        self._drop_waiting()
        self.session.leave_turn()
        async with self._turns:
            await self._questions.close()
            for task in self._aside:
                task.cancel()
            await asyncio.gather(*self._aside, return_exceptions=True)
            try:
                await self.session.close()
            finally:
                await self.sessions.close()

    # Turns

    async def _turn(self, said: User) -> EndedPrompt:
        heard: list[WaitingPrompt] = []

        def said_meanwhile() -> tuple[User, ...]:
            taken, self._waiting = self._waiting, []
            heard.extend(taken)
            return tuple(waiting.message for waiting in taken)

        ended, beside = EndedPrompt("failed"), [part for part in said.parts if isinstance(part, Image | Note)]
        try:
            async with aclosing(self.session.send(said.text, beside, pending_messages=said_meanwhile)) as events:
                async for event in events:
                    await self._send_event(event)
                    ended = _record_event(ended, event)
        finally:
            for waiting in heard:
                waiting.ended = replace(ended, usage=Usage())
            await self._questions.close()
        await self._send_title()
        await self._send_commands()  # some of the project's may be approved by now
        return ended

    async def _reopen(self, config: Config, model: str) -> None:
        if self._turns.locked():
            raise UsageError("a turn is running; choose again when it is over")
        async with self._turns:
            before, was = self.session, self.sessions.config
            await before.close(None)
            self.sessions.config = config
            try:
                self._adopt(await self.sessions.reopen(before, model))
            except AgentError:
                self.sessions.config = was
                self._adopt(await self.sessions.reopen(before, before.model))
                raise
            await self._send_options()

    # What the editor is told

    def _on_event(self, event: Event) -> None:
        """Handle events between turns and while a command runs."""
        self._begin(lambda: self._send_event(event))

    async def _send_event(self, event: Event) -> None:
        self._told, updates = updates_of(self._told, event)
        for update in updates:
            await self._send(with_cost(update, self.session.cost) if isinstance(update, UsageUpdate) else update)
        match event:
            case PermissionAsked() | PlanSubmitted() | QuestionAsked():
                self._questions.ask(event)
            case PermissionAnswered(id=id) | PlanAnswered(id=id) | QuestionAnswered(id=id):
                self._questions.drop(id)
        if self._mode_and_model != self._known:
            await self._send_options()

    async def _send_options(self) -> None:
        self._known = self._mode_and_model
        chosen = self.current_options
        await self._send(CurrentModeUpdate(session_update="current_mode_update", current_mode_id=chosen.mode))
        options = choices_of(chosen)
        await self._send(ConfigOptionUpdate(session_update="config_option_update", config_options=[*options]))

    async def _send_commands(self) -> None:
        commands = available_commands(self.session)
        if commands != self._commands:
            self._commands = commands
            update = AvailableCommandsUpdate(session_update="available_commands_update", available_commands=commands)
            await self._send(update)

    async def _send_title(self) -> None:
        if self.session.title != self._title:
            self._title, now = self.session.title, datetime.now(UTC).isoformat(timespec="seconds")
            info = SessionInfoUpdate(session_update="session_info_update", title=self._title, updated_at=now)
            await self._send(info)

    async def _send(
        self, update: Update | CurrentModeUpdate | ConfigOptionUpdate | AvailableCommandsUpdate | SessionInfoUpdate
    ) -> None:
        await self._client.session_update(self.id, update)

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def until_gone() -> None:
            with suppress(ConnectionError):  # nobody is there any more to be told
                await work()

        task = asyncio.create_task(until_gone())
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)


def _record_event(ended: EndedPrompt, event: Event) -> EndedPrompt:
    """Update the outcome of a prompt with an event of its turn."""
    match event:
        case ReplyFinished(usage=usage) | AgentActivity(event=ReplyFinished(usage=usage)):
            return replace(ended, usage=ended.usage + usage)
        case TurnFinished(end=end):
            return replace(ended, end=end)
        case TurnFailed():
            return replace(ended, failure=event)
        case _:
            return ended
