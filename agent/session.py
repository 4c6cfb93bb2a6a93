"""A session: all that a front end holds. It turns what happens inside into one stream of events, and carries answers
back in; what happens is decided elsewhere."""

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

if TYPE_CHECKING:  # types only: few runs ask where a text is, have servers, or rewrite what is shown
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
    """Turns that go on. One turn at a time; `interrupt` and `answer` may be called at any moment of it."""

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
        """`servers`: what brings tools into the session, if any is declared. `notices`: what the user should know
        before the first turn. `resumed` tells how a session that goes on differs from how it was left. `on_close` gives
        back what was opened for the session: its provider, its lock."""
        self._env = env
        self._channel = channel
        self.servers = servers
        self._notices = notices
        self.news = news_for_user(resumed) if resumed else ()
        self._resumed = resumed
        """Told with the next turn, then None."""
        self._on_close = on_close
        self._is_behind = False
        self._busy = asyncio.Lock()
        self._stop_tidying = Interrupt()
        self._tidying: asyncio.Task[None] | None = None
        self._has_answered = False
        """Whether the newest turn was answered, here: another one after it may begin with less."""
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
        """What its commands and tools may reach."""
        return SessionBoundary(self._env.call_runner.approval, self._env.call_runner.workspace)

    async def change_mode(self, mode: Mode) -> int:
        """What runs without a question from now on, also in a turn that runs. The model is told with what is sent
        next. How many open questions that has answered."""
        return await self._env.call_runner.approval.change_mode(mode)

    @property
    def agents(self) -> Agents | None:
        """Those that it has sent off, to look at and to end."""
        return self._env.agents

    @property
    def root(self) -> Path:
        return self._env.call_runner.workspace.root

    @property
    def tools(self) -> tuple[str, ...]:
        """What the model may call now, of its own and of servers."""
        return (*(tool.name for tool in self._env.own_tools), *self._env.server_tools.callable)

    @property
    def limits(self) -> TurnLimits:
        return self._env.limits

    @property
    def history(self) -> Conversation:
        """The conversation so far, as the model is shown it."""
        return self._conversation

    @property
    def usage(self) -> SessionUsage:
        return self._env.recorder.spent

    @property
    def cost(self) -> float | None:
        """US dollars so far; None when the price of any request was not known."""
        return self.usage.cost

    @property
    def background_jobs(self) -> BackgroundJobs:
        return self._env.call_runner.workspace.jobs

    @property
    def running_jobs(self) -> tuple[str, ...]:
        """What runs in the background: names and commands."""
        return tuple(f"{job.id}: {job.command}{job.where}" for job in self.background_jobs.running)

    @property
    def trust(self) -> "SessionTrust | None":
        """What of the project may be used; None where it brings nothing."""
        return self._env.trust

    @property
    def extensions(self) -> "SessionExtensions | None":
        """The user's and the project's commands and skills; None where there are none."""
        return self._env.extensions

    @property
    def language_servers(self) -> "Sequence[LanguageServerState]":
        """Those that were needed so far."""
        return self._env.languages.states if self._env.languages is not None else ()

    @property
    def hooks(self) -> "SessionHooks | None":
        """Programs that are told what happens; None where there are none."""
        return self._env.hooks

    def listen(self, hear: Callable[[Event], None]) -> None:
        """`hear` is told at once what happens between two turns."""
        self._channel.listener = hear

    async def prepare(self) -> None:
        """Loads what the first turn needs, in the background of whatever the front end does meanwhile."""
        self._env.meter.prepare()
        await asyncio.to_thread(count_ahead, self._conversation, self._env.meter)
        await self._env.provider.prepare()

    @property
    def is_at_question(self) -> bool:
        """Whether the session was left while the user was asked whether a call may run; `go_on` asks again."""
        return not self._channel.is_busy and bool(self._conversation.unanswered_calls)

    def send(
        self,
        text: str,
        beside: Sequence[Image | Note] = (),
        steps: int | None = None,
        pending_messages: Callable[[], Sequence[User]] = tuple,
    ) -> AsyncGenerator[Event, None]:
        """The events of a turn, from `TurnStarted` to `TurnFinished` or `TurnFailed`. Leaving the loop early ends the
        turn as an interruption does. `beside`: what comes with the text. `steps`: requests that it may make, in place
        of the configured limit. `pending_messages` takes what the user has said since: it is called when a step begins,
        and what it gives is the turn's when `Steered` says so. Raises `AgentError` while another turn runs."""
        return self._events_of(User((Text(text), *beside)), steps, pending_messages)

    def go_on(self, pending_messages: Callable[[], Sequence[User]] = tuple) -> AsyncGenerator[Event, None]:
        """The events of the turn that was left at a question, which is asked again; otherwise as `send`."""
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
            self._stop_tidying.request()  # nobody waits for a summary that can be made later
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
                with suppress(StoreFailed):  # the first failure is the one to tell; what is unwritten comes next time
                    await self._keep_turn(failed)
            self._channel.emit(failed)
        else:
            self._channel.emit(TurnFinished(end, answer))
            self._has_answered = end == "answered"
            if self._has_answered:
                self._start_background_compaction()

    async def _keep_turn(self, ended: TurnFinished | TurnFailed) -> None:
        """The turn, and what was learnt in it, survive a loss of power."""
        if self._env.checkpoints is not None:
            await self._env.checkpoints.end_turn()
        await self._env.recorder.record_tool_uses(self._env.deferral.take_uses())
        await self._env.recorder.end_turn(self.model, self.mode, self._env.encoded_calibration, ended)

    def _start_background_compaction(self) -> None:
        """Compacts between two turns where somebody will go on, so that the next one need not wait for it."""
        is_wanted = (
            self._channel.is_interactive and background_compaction_due(self._conversation, self._env) is not None
        )
        if is_wanted and (self._tidying is None or self._tidying.done()):
            self._stop_tidying.reset()
            self._tidying = asyncio.create_task(self._compact_in_background())

    async def _compact_in_background(self) -> None:
        """What goes wrong here goes wrong in the next turn, too, and is told then."""
        env = replace(self._env, interrupt=self._stop_tidying, emit=self._channel.emit_now)
        async with self._busy:
            with suppress(AgentError):
                self._conversation = await compact_between_turns(self._conversation, env)
                await self._env.recorder.end_turn(self.model, self.mode)

    def _with_news(self, said: User) -> User:
        """What the user said, with a note on what changed while the session was closed, told once."""
        resumed, self._resumed = self._resumed, None
        if resumed is None:
            return said
        self._channel.emit(resumed)
        note = note_for_model(resumed)
        return User((*said.parts, Note(note))) if note else said

    async def _catch_up(self) -> None:
        """After a turn or a change that failed half-way, what is on disk is the conversation."""
        if self._is_behind:
            conversation = await self._env.recorder.load(ask_again=self._channel.is_interactive)
            for problem in self._env.recorder.problems:
                self._channel.notice(problem)
            self._conversation = counted_for(conversation, self.model)
            self._env.meter.reset_counters()
            self._env.watch.note_reload()
            self._is_behind = False

    async def compact(self, focus: str | None = None, hear: Callable[[Event], None] = ignore_event) -> "CompactResult":
        """Summarises the older part of the conversation now. Raises `AgentError`."""
        from ebbtide.agent.window.rewrite import compact_by_hand  # noqa: PLC0415  # deferred: few users ask for it

        return (await self.change(compact_by_hand, focus, hear)).result

    async def change(
        self,
        work: Callable[Concatenate[Conversation, SessionContext, P], Awaitable[ConversationT]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> ConversationT:
        """What the work makes of the conversation, which goes on from there; a turn that is sent meanwhile begins
        afterwards. Raises `AgentError`, also while a turn runs."""
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
        """Which files the session has changed. Raises `AgentError` where nothing is kept."""
        return require_stored(self._env.archive).files

    @property
    def checkpoints(self) -> SessionCheckpoints:
        """Files as they were before the session changed them. Raises `AgentError` where none are kept."""
        if self._env.checkpoints is None:
            raise AgentError("no checkpoints are kept in this session: see `checkpoints.enabled` in `/settings`")
        return self._env.checkpoints

    @property
    def listing(self) -> ArchiveListing:
        """What the session has kept, to look through. Raises `AgentError` where nothing is kept."""
        return require_stored(self._env.archive).listing

    async def why(self, text: str) -> "Trace":
        """What has become of each place where the text was said. Raises `AgentError`."""
        return await require_stored(self._env.archive).recall.why(text, self._conversation)

    async def bring(self, ref: str, *, only_price: bool = False) -> BroughtBack:
        """Shows the model again what a reference stands for, from the next request on. `only_price`: tells what that
        would take, and changes nothing. Raises `AgentError`."""
        return (
            await self.change(bring_back, ref, require_stored(self._env.archive).recall, only_price=only_price)
        ).event

    def answer(self, question: str, answer: Answer) -> None:
        """Answers a `PermissionAsked`, a `PlanSubmitted` or a `QuestionAsked`. An answer that nobody waits for is
        dropped."""
        self._channel.questions.answer(question, answer)

    def interrupt(self) -> None:
        """Ends the turn soon: the request is cancelled, running calls are stopped, and every call gets an output."""
        self._channel.interrupt.request()
        self._stop_tidying.request()

    def leave_turn(self) -> None:
        """Ends the turn as the end of the program does: like `interrupt`, but a question about a call stays open, to be
        asked again when the session goes on."""
        self._channel.leave_turn()

    async def close(self, reason: "EndReason | None" = "other") -> None:
        """Ends what runs in the background and gives back what the session holds. `reason`: what hooks are told of why;
        None where it is opened again at once."""
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
