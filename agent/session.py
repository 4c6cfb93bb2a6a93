"""A session as a front end sees it: one stream of events out, messages and answers in. The decisions are made
elsewhere."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

from ebbtide.agent.archive.listing import ArchiveListing
from ebbtide.agent.calls.boundary import SessionBoundary
from ebbtide.agent.channel import Answer, Channel, Interrupt
from ebbtide.agent.checkpoints.session_checkpoints import SessionCheckpoints
from ebbtide.agent.config.options import Mode
from ebbtide.agent.errors import AgentError, StoreFailed
from ebbtide.agent.events.session import Event, Noticed, Resumed, TurnFailed, TurnFinished, TurnStarted
from ebbtide.agent.events.view import BroughtBack
from ebbtide.agent.messages import Conversation, Image, Note, Text, User
from ebbtide.agent.providers.usage import counted_for
from ebbtide.agent.records.file_history import FileLog
from ebbtide.agent.records.session_state import news_for_user, note_for_model
from ebbtide.agent.records.usage import SessionUsage
from ebbtide.agent.turn import run_turn
from ebbtide.agent.window.bring_back import bring_back, require_stored
from ebbtide.agent.window.measure import count_ahead, is_over_trigger
from ebbtide.agent.window.model_choice import begin_session
from ebbtide.agent.window.session_context import Agents, SessionContext
from ebbtide.agent.window.triggers import (
    background_compaction_due,
    compact_between_turns,
    ignore_event,
    mask_after_turn,
)
from ebbtide.agent.window.turn_limits import TurnLimits
from ebbtide.agent.window.turn_model import own_model_afterwards
from ebbtide.tools.process.jobs import BackgroundJobs

if TYPE_CHECKING:  # types only: few runs use these
    from ebbtide.agent.context.provenance import Trace
    from ebbtide.agent.extensions.session_extensions import SessionExtensions
    from ebbtide.agent.extensions.session_trust import SessionTrust
    from ebbtide.agent.hooks.session_hooks import EndReason, SessionHooks
    from ebbtide.agent.mcp.running import RunningServers
    from ebbtide.agent.window.compact import CompactResult
    from ebbtide.tools.lsp.pool import LanguageServerState


class HasConversation(Protocol):
    @property
    def conversation(self) -> Conversation: ...


ConversationT = TypeVar("ConversationT", bound=HasConversation)
P = ParamSpec("P")


class Session:
    """A conversation in turns, one at a time. `interrupt` and `answer` may be called at any time during a turn."""

    def __init__(
        self,
        env: SessionContext,
        channel: Channel,
        conversation: Conversation | None = None,
        *,
        servers: "RunningServers | None" = None,
        notices: Sequence[str] = (),
        resumed: Resumed | None = None,
        on_close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`servers`: the MCP servers, if any. `notices`: shown to the user before the first turn. `resumed`: what has
        changed since a resumed session was left. `on_close` releases what was opened for the session: its provider, its
        lock."""
        self._env = env
        self._channel = channel
        self.servers = servers
        self._notices = notices
        self.news = news_for_user(resumed) if resumed else ()
        self._resumed = resumed
        """Emitted with the next turn, then None."""
        self._on_close = on_close
        self._is_behind = False
        self._busy = asyncio.Lock()
        self._stop_tidying = Interrupt()
        self._tidying: asyncio.Task[None] | None = None
        self._has_answered = False
        """Whether the newest turn was answered in this process: the context may then be compacted before the next
        one."""
        channel.on_note(env.recorder.note)
        channel.on_note(env.deferral.note)
        self._conversation = begin_session(conversation or Conversation(), replace(env, emit=channel.emit_now))

    @property
    def id(self) -> str:
        return self._env.recorder.session

    @property
    def title(self) -> str:
        return self._env.recorder.title

    @property
    def model(self) -> str:
        """`provider/name`."""
        return self._env.provider.facts.id

    @property
    def mode(self) -> str:
        return self._env.call_runner.approval.policy.mode

    @property
    def boundary(self) -> SessionBoundary:
        """What its commands and tools may access."""
        return SessionBoundary(self._env.call_runner.approval, self._env.call_runner.workspace)

    async def change_mode(self, mode: Mode) -> int:
        """Change the permission mode, also during a turn. The model is told with the next message. Returns how many
        open questions the change has answered."""
        return await self._env.call_runner.approval.change_mode(mode)

    @property
    def agents(self) -> Agents | None:
        """The running sub-agents, to watch and to stop."""
        return self._env.agents

    @property
    def root(self) -> Path:
        return self._env.call_runner.workspace.root

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the tools that the model may call now, those of servers included."""
        return (*(tool.name for tool in self._env.own_tools), *self._env.server_tools.callable)

    @property
    def limits(self) -> TurnLimits:
        return self._env.limits

    @property
    def history(self) -> Conversation:
        """The conversation so far, as the model sees it."""
        return self._conversation

    @property
    def usage(self) -> SessionUsage:
        return self._env.recorder.spent

    @property
    def cost(self) -> float | None:
        """US dollars so far; None if the price of any request is unknown."""
        return self.usage.cost

    @property
    def background_jobs(self) -> BackgroundJobs:
        return self._env.call_runner.workspace.jobs

    @property
    def running_jobs(self) -> tuple[str, ...]:
        """Names and commands of the running background jobs."""
        return tuple(f"{job.id}: {job.command}{job.where}" for job in self.background_jobs.running)

    @property
    def trust(self) -> "SessionTrust | None":
        """Trust state of the project; None if it has nothing that needs trust."""
        return self._env.trust

    @property
    def extensions(self) -> "SessionExtensions | None":
        """The user's and the project's commands and skills; None if there are none."""
        return self._env.extensions

    @property
    def language_servers(self) -> "Sequence[LanguageServerState]":
        """The language servers started so far."""
        return self._env.languages.states if self._env.languages is not None else ()

    @property
    def hooks(self) -> "SessionHooks | None":
        """The configured hooks; None if there are none."""
        return self._env.hooks

    def listen(self, hear: Callable[[Event], None]) -> None:
        """Set the listener for events between turns."""
        self._channel.listener = hear

    async def prepare(self) -> None:
        """Load what the first turn needs, in the background."""
        self._env.meter.prepare()
        await asyncio.to_thread(count_ahead, self._conversation, self._env.meter)
        await self._env.provider.prepare()

    @property
    def is_at_question(self) -> bool:
        """Whether the session was left at a question about a call; `go_on` asks it again."""
        return not self._channel.is_busy and bool(self._conversation.unanswered_calls)

    def send(
        self,
        text: str,
        beside: Sequence[Image | Note] = (),
        steps: int | None = None,
        pending_messages: Callable[[], Sequence[User]] = tuple,
    ) -> AsyncGenerator[Event, None]:
        """Run a turn and yield its events, from `TurnStarted` to `TurnFinished` or `TurnFailed`. Leaving the loop early
        ends the turn like an interrupt. `beside`: attachments of the text. `steps`: maximum number of requests, in
        place of the configured limit. `pending_messages` returns what the user has sent since; it is called when a step
        begins, and its messages belong to the turn once `Steered` confirms them. Raises `AgentError` if another turn is
        running."""
        return self._events_of(User((Text(text), *beside)), steps, pending_messages)

    def go_on(self, pending_messages: Callable[[], Sequence[User]] = tuple) -> AsyncGenerator[Event, None]:
        """Continue the turn that was left at a question, which is asked again. Yields events like `send`."""
        return self._events_of(User(()), None, pending_messages)

    def _events_of(
        self, said: User, steps: int | None, pending_messages: Callable[[], Sequence[User]]
    ) -> AsyncGenerator[Event, None]:
        limits = self._env.limits if steps is None else replace(self._env.limits, steps=steps)
        env = replace(self._env, limits=limits, pending_messages=pending_messages)
        return self._channel.stream_turn(lambda: self._turn(said, env))

    async def _turn(self, said: User, env: SessionContext) -> None:
        if not env.watch.has_sent:
            await asyncio.to_thread(count_ahead, self._conversation, env.meter)
        if not is_over_trigger(self._conversation, env):
            self._stop_tidying.request()  # a summary can be made later: do not wait for it
        async with self._busy:
            await self._run_turn(said, env)

    async def _run_turn(self, said: User, env: SessionContext) -> None:
        self._channel.emit(TurnStarted(self.id, self.model, said.text))
        for notice in self._notices:
            self._channel.emit(Noticed(notice))
        self._notices = ()
        said = self._with_news(said)
        try:
            await self._catch_up()
            self._is_behind = True
            if self._has_answered and not self._channel.is_interactive:
                self._conversation = await compact_between_turns(self._conversation, env)
            async with own_model_afterwards(env):
                conversation, end, answer = await run_turn(said, self._conversation, env)
            self._conversation = counted_for(conversation, self.model)
            if not self._channel.is_interactive:
                self._conversation = await mask_after_turn(self._conversation, env)
            self._env.meter.end_turn(self._conversation)
            await self._keep_turn(TurnFinished(end, answer))
            self._is_behind = False
        except AgentError as error:
            failed = TurnFailed.by(error)
            if not isinstance(error, StoreFailed):
                with suppress(StoreFailed):  # report the first failure; the rest is written later
                    await self._keep_turn(failed)
            self._channel.emit(failed)
        else:
            self._channel.emit(TurnFinished(end, answer))
            self._has_answered = end == "answered"
            if self._has_answered:
                self._start_background_compaction()

    async def _keep_turn(self, ended: TurnFinished | TurnFailed) -> None:
        """Make the turn, and what was learned in it, durable on disk."""
        if self._env.checkpoints is not None:
            await self._env.checkpoints.end_turn()
        await self._env.recorder.record_tool_uses(self._env.deferral.take_uses())
        await self._env.recorder.end_turn(self.model, self.mode, self._env.encoded_calibration, ended)

    def _start_background_compaction(self) -> None:
        """Start compacting in the background if the session is interactive, so that the next turn need not wait for
        it."""
        is_wanted = (
            self._channel.is_interactive and background_compaction_due(self._conversation, self._env) is not None
        )
        if is_wanted and (self._tidying is None or self._tidying.done()):
            self._stop_tidying.reset()
            self._tidying = asyncio.create_task(self._compact_in_background())

    async def _compact_in_background(self) -> None:
        """Compact in the background. Errors are ignored, because they will recur in the next turn and be reported
        then."""
        env = replace(self._env, interrupt=self._stop_tidying, emit=self._channel.emit_now)
        async with self._busy:
            with suppress(AgentError):
                self._conversation = await compact_between_turns(self._conversation, env)
                await self._env.recorder.end_turn(self.model, self.mode)

    def _with_news(self, said: User) -> User:
        """Add a note to the user's message on what changed while the session was closed; only once."""
        resumed, self._resumed = self._resumed, None
        if resumed is None:
            return said
        self._channel.emit(resumed)
        note = note_for_model(resumed)
        return User((*said.parts, Note(note))) if note else said

    async def _catch_up(self) -> None:
        """Reload the conversation from disk after a turn or change that failed halfway."""
        if self._is_behind:
            conversation = await self._env.recorder.load(ask_again=self._channel.is_interactive)
            for problem in self._env.recorder.problems:
                self._channel.notice(problem)
            self._conversation = counted_for(conversation, self.model)
            self._env.meter.reset_counters()
            self._env.watch.note_reload()
            self._is_behind = False

    async def compact(self, focus: str | None = None, hear: Callable[[Event], None] = ignore_event) -> "CompactResult":
        """Summarise the older part of the conversation now. Raises `AgentError`."""
        from ebbtide.agent.window.rewrite import compact_by_hand  # noqa: PLC0415  # deferred: rarely used

        return (await self.change(compact_by_hand, focus, hear)).result

    async def change(
        self,
        work: Callable[Concatenate[Conversation, SessionContext, P], Awaitable[ConversationT]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> ConversationT:
        """Apply `work` to the conversation and continue from the result; a turn sent meanwhile begins afterwards.
        Raises `AgentError`, also if a turn is running."""
        if self._channel.is_busy:
            raise AgentError("the conversation cannot be changed while a turn is running; interrupt it first")
        if self._conversation.unanswered_calls:
            raise AgentError(
                "the conversation cannot be changed while a question about a call is open; answer it first"
            )
        self._channel.interrupt.reset()
        async with self._busy:
            await self._catch_up()
            written = self._env.recorder.count
            try:
                changed = await work(self._conversation, self._env, *args, **kwargs)
            except BaseException:
                self._is_behind = self._env.recorder.count != written
                raise
            self._conversation = changed.conversation
            await self._env.recorder.end_turn(self.model, self.mode)
        return changed

    @property
    def files(self) -> FileLog:
        """The files that the session has changed. Raises `AgentError` if the session is not stored."""
        return require_stored(self._env.archive).files

    @property
    def checkpoints(self) -> SessionCheckpoints:
        """Checkpoints of the files before the session changed them. Raises `AgentError` if there are none."""
        if self._env.checkpoints is None:
            raise AgentError("this session has no checkpoints: see `checkpoints.enabled` in `/settings`")
        return self._env.checkpoints

    @property
    def listing(self) -> ArchiveListing:
        """The stored outputs and messages, to browse. Raises `AgentError` if the session is not stored."""
        return require_stored(self._env.archive).listing

    async def why(self, text: str) -> "Trace":
        """Return what became of each occurrence of the text. Raises `AgentError`."""
        return await require_stored(self._env.archive).recall.why(text, self._conversation)

    async def bring(self, ref: str, *, only_price: bool = False) -> BroughtBack:
        """Show the model the content of a reference again, from the next request on. `only_price`: return the cost and
        change nothing. Raises `AgentError`."""
        return (
            await self.change(bring_back, ref, require_stored(self._env.archive).recall, only_price=only_price)
        ).event

    def answer(self, question: str, answer: Answer) -> None:
        """Answer a `PermissionAsked`, `PlanSubmitted` or `QuestionAsked`. If it is not open, the answer is dropped."""
        self._channel.questions.answer(question, answer)

    def interrupt(self) -> None:
        """End the turn soon: the request is cancelled, running calls are stopped, and every call gets an output."""
        self._channel.interrupt.request()
        self._stop_tidying.request()

    def leave_turn(self) -> None:
        """End the turn because the program exits: like `interrupt`, but a question about a call stays open, to be asked
        again when the session is resumed."""
        self._channel.leave_turn()

    async def close(self, reason: "EndReason | None" = "other") -> None:
        """Stop background work and release the session's resources. `reason`: passed to hooks; None if the session is
        reopened at once."""
        if self.hooks is not None:
            self.hooks.ends = reason
        self.leave_turn()
        self._stop_tidying.request()
        try:
            if self._tidying is not None:
                await self._tidying
            await self.background_jobs.close()
            if self._env.checkpoints is not None:
                await self._env.checkpoints.close()
            await self._env.recorder.writes.close()
        finally:
            if self._on_close is not None:
                await self._on_close()
