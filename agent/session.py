"""A session as front ends see it: it emits events, and accepts messages and answers. Other modules make the
decisions."""

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
from ebbtide.agent.compaction.bring_back import bring_back_content, require_stored
from ebbtide.agent.compaction.rewrite import (
    background_compaction_due,
    compact_between_turns,
    compact_manually,
    ignore_event,
    mask_after_turn,
)
from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.errors import AgentError, StoreFailed
from ebbtide.agent.events.session import Event, Noticed, Resumed, TurnFailed, TurnFinished, TurnStarted
from ebbtide.agent.events.view import BroughtBack
from ebbtide.agent.messages import Conversation, Image, Note, Text, User
from ebbtide.agent.providers.usage import drop_other_model_anchor
from ebbtide.agent.records.file_history import FileHistory
from ebbtide.agent.records.session_state import resume_note, resume_notices
from ebbtide.agent.records.usage import SessionUsage
from ebbtide.agent.request.fit import begin_session
from ebbtide.agent.request.turn_model import restoring_own_model
from ebbtide.agent.turn import run_turn
from ebbtide.agent.window.measure import is_compaction_needed, warm_measurement_cache
from ebbtide.agent.window.session_context import (
    CallContext,
    McpServers,
    SessionContext,
    SubAgents,
    TurnContext,
    WindowContext,
)
from ebbtide.agent.window.turn_limits import TurnLimits
from ebbtide.tools.process.jobs import BackgroundJobs

if TYPE_CHECKING:  # types only: few runs use these
    from ebbtide.agent.compaction.compact import CompactionResult
    from ebbtide.agent.extensions.session_extensions import SessionExtensions
    from ebbtide.agent.extensions.session_trust import SessionTrust
    from ebbtide.agent.hooks.session_hooks import EndReason, SessionHooks
    from ebbtide.agent.view.provenance import Occurrences


class HasConversation(Protocol):
    @property
    def conversation(self) -> Conversation: ...


ConversationT = TypeVar("ConversationT", bound=HasConversation)
P = ParamSpec("P")


class Session:
    """A conversation that runs one turn at a time. During a turn, `interrupt` and `answer` may be called at any
    time."""

    def __init__(
        self,
        ctx: SessionContext,
        channel: Channel,
        conversation: Conversation | None = None,
        *,
        servers: McpServers | None = None,
        notices: Sequence[str] = (),
        resume_event: Resumed | None = None,
        on_close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`servers`: the MCP servers, if any. `notices`: messages for the user, emitted with the first turn.
        `resume_event`: what changed while a resumed session was closed. `on_close`: releases the session's resources,
        such as its provider and its lock."""
        self._ctx = ctx
        self._channel = channel
        self.servers = servers
        self._notices = notices
        self.changes_while_closed = resume_notices(resume_event) if resume_event else ()
        self._resume_event = resume_event
        """The event to emit in the next turn; then set to None."""
        self._on_close = on_close
        self._needs_reload = False
        self._conversation_lock = asyncio.Lock()
        self._compaction_interrupt = Interrupt()
        self._background_compaction: asyncio.Task[None] | None = None
        self._has_answered = False
        """Whether the newest turn was answered in this process. If it was, the context may be compacted before the next
        turn."""
        channel.observe_events(ctx.records.recorder.queue_event_rows)
        channel.observe_events(ctx.window.tools.deferral.record_tool_use)
        self._conversation = begin_session(conversation or Conversation(), ctx.window, channel.emit_anytime)

    @property
    def id(self) -> str:
        return self._ctx.records.recorder.session_id

    @property
    def title(self) -> str:
        return self._ctx.records.recorder.title

    @property
    def model(self) -> str:
        """`provider/name`."""
        return self._ctx.model.facts.id

    @property
    def mode(self) -> str:
        return self._ctx.calls.runner.approver.policy.mode

    @property
    def boundary(self) -> SessionBoundary:
        """The limits of what the session's commands and tools may access."""
        return SessionBoundary(self._ctx.calls.runner.approver, self._ctx.calls.runner.workspace)

    async def change_mode(self, mode: PermissionMode) -> int:
        """Change the permission mode, even during a turn. The next request informs the model. Return how many open
        questions the new mode approved automatically."""
        return await self._ctx.calls.runner.approver.change_mode(mode)

    @property
    def calls(self) -> CallContext:
        """The parts that run the session's tool calls."""
        return self._ctx.calls

    @property
    def agents(self) -> SubAgents | None:
        """The running sub-agents, which can be watched and stopped."""
        return self._ctx.calls.agents

    @property
    def working_folder(self) -> Path:
        return self._ctx.calls.runner.workspace.root

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of all tools that the model may call now, including those of MCP servers."""
        return (
            *(tool.name for tool in self._ctx.window.tools.own_specs),
            *self._ctx.window.tools.server_tools.callable_tools,
        )

    @property
    def limits(self) -> TurnLimits:
        return self._ctx.turn.limits

    @property
    def history(self) -> Conversation:
        """The conversation so far, as the model sees it."""
        return self._conversation

    @property
    def usage(self) -> SessionUsage:
        return self._ctx.records.recorder.events.total_usage

    @property
    def cost(self) -> float | None:
        """Cost so far in US dollars; None if the price of any request is unknown."""
        return self.usage.cost

    @property
    def background_jobs(self) -> BackgroundJobs:
        return self._ctx.calls.runner.workspace.jobs

    @property
    def running_jobs(self) -> tuple[str, ...]:
        """Names and commands of the running background jobs."""
        return tuple(f"{job.id}: {job.command}{job.ports_text}" for job in self.background_jobs.running_jobs)

    @property
    def trust(self) -> "SessionTrust | None":
        """Trust state of the project; None if it has nothing that needs trust."""
        return self._ctx.calls.trust

    @property
    def extensions(self) -> "SessionExtensions | None":
        """The user's and the project's commands and skills; None if there are none."""
        return self._ctx.calls.extensions

    @property
    def language_servers(self) -> Sequence[tuple[str, str]]:
        """Pairs of name and status text of the language servers used so far."""
        return self._ctx.calls.language_service.states if self._ctx.calls.language_service is not None else ()

    @property
    def hooks(self) -> "SessionHooks | None":
        """The configured hooks; None if there are none."""
        return self._ctx.turn.hooks

    def set_listener(self, listener: Callable[[Event], None]) -> None:
        """Set the listener for events between turns."""
        self._channel.listener = listener

    async def prepare(self) -> None:
        """Load what the first turn needs, so that the turn starts faster."""
        self._ctx.model.meter.start_loading()
        await asyncio.to_thread(warm_measurement_cache, self._conversation, self._ctx.model.meter)
        await self._ctx.model.provider.prepare()

    @property
    def has_open_question(self) -> bool:
        """Whether the session was closed while the user was being asked about a call. `resume_turn` asks again."""
        return not self._channel.is_busy and bool(self._conversation.unanswered_calls)

    def send(
        self,
        text: str,
        attachments: Sequence[Image | Note] = (),
        max_steps: int | None = None,
        pending_messages: Callable[[], Sequence[User]] = tuple,
    ) -> AsyncGenerator[Event, None]:
        """Run a turn and yield its events, from `TurnStarted` to `TurnFinished` or `TurnFailed`. If the caller leaves
        the loop early, the turn ends as if interrupted. `max_steps`: maximum number of requests, instead of the
        configured limit. `pending_messages`: returns the messages that the user has sent since the turn began. It is
        called at the start of each step; a `Steered` event confirms that the messages are part of the turn. Raises
        `AgentError` if another turn is running."""
        return self._turn_events(User((Text(text), *attachments)), max_steps, pending_messages)

    def resume_turn(self, pending_messages: Callable[[], Sequence[User]] = tuple) -> AsyncGenerator[Event, None]:
        """Continue the turn that ended at an open question, and ask the question again. Yields events like `send`."""
        return self._turn_events(User(()), None, pending_messages)

    def _turn_events(
        self, message: User, max_steps: int | None, pending_messages: Callable[[], Sequence[User]]
    ) -> AsyncGenerator[Event, None]:
        turn = self._ctx.turn
        limits = turn.limits if max_steps is None else replace(turn.limits, max_steps=max_steps)
        ctx = replace(self._ctx, turn=replace(turn, limits=limits, get_pending_messages=pending_messages))
        return self._channel.stream_turn(lambda: self._run_turn_when_free(message, ctx))

    async def _run_turn_when_free(self, message: User, ctx: SessionContext) -> None:
        if not ctx.window.prefix_watch.has_sent:
            await asyncio.to_thread(warm_measurement_cache, self._conversation, ctx.model.meter)
        if not is_compaction_needed(self._conversation, ctx.window):
            self._compaction_interrupt.request()  # the turn does not need the summary now, so it must not wait for it
        async with self._conversation_lock:
            await self._run_turn(message, ctx)

    async def _run_turn(self, message: User, ctx: SessionContext) -> None:
        self._channel.emit(TurnStarted(self.id, self.model, message.text))
        for notice in self._notices:
            self._channel.emit(Noticed(notice))
        self._notices = ()
        message = self._with_resume_note(message)
        try:
            await self._reload_if_needed()
            self._needs_reload = True
            if self._has_answered and not self._channel.is_interactive:
                self._conversation = await compact_between_turns(self._conversation, ctx.window, ctx.turn)
            async with restoring_own_model(ctx.window, ctx.turn):
                conversation, end, answer = await run_turn(message, self._conversation, ctx)
            self._conversation = drop_other_model_anchor(conversation, self.model)
            if not self._channel.is_interactive:
                self._conversation = await mask_after_turn(self._conversation, ctx.window, ctx.turn)
            self._ctx.model.meter.end_turn(self._conversation)
            await self._store_turn(TurnFinished(end, answer))
            self._needs_reload = False
        except AgentError as error:
            failure = TurnFailed.from_error(error)
            if not isinstance(error, StoreFailed):
                with suppress(StoreFailed):  # the first failure is reported; a later turn writes what is missing
                    await self._store_turn(failure)
            self._channel.emit(failure)
        else:
            self._channel.emit(TurnFinished(end, answer))
            self._has_answered = end == "answered"
            if self._has_answered:
                self._start_background_compaction()

    async def _store_turn(self, end_event: TurnFinished | TurnFailed) -> None:
        """Write the turn to disk, with its tool uses and what was learned about the model."""
        if self._ctx.records.checkpoints is not None:
            await self._ctx.records.checkpoints.end_turn()
        await self._ctx.records.recorder.record_tool_uses(self._ctx.window.tools.deferral.take_new_uses())
        await self._ctx.records.recorder.end_turn(self.model, self.mode, self._ctx.model.encoded_calibration, end_event)

    def _start_background_compaction(self) -> None:
        """In an interactive session, start a background compaction if one is due, so that the next turn does not have
        to wait for it."""
        is_due = (
            self._channel.is_interactive and background_compaction_due(self._conversation, self._ctx.window) is not None
        )
        if is_due and (self._background_compaction is None or self._background_compaction.done()):
            self._compaction_interrupt.reset()
            self._background_compaction = asyncio.create_task(self._compact_in_background())

    async def _compact_in_background(self) -> None:
        """Compact between turns. Errors are ignored here, because they will occur again in the next turn, which reports
        them."""
        turn = replace(self._ctx.turn, interrupt=self._compaction_interrupt, emit=self._channel.emit_anytime)
        async with self._conversation_lock:
            with suppress(AgentError):
                self._conversation = await compact_between_turns(self._conversation, self._ctx.window, turn)
                await self._ctx.records.recorder.end_turn(self.model, self.mode)

    def _with_resume_note(self, message: User) -> User:
        """Add a note to the user's message about what changed while the session was closed. Only the first call adds a
        note."""
        resumed, self._resume_event = self._resume_event, None
        if resumed is None:
            return message
        self._channel.emit(resumed)
        note = resume_note(resumed)
        return User((*message.parts, Note(note))) if note else message

    async def _reload_if_needed(self) -> None:
        """Reload the conversation from disk if the last turn or change was not completed."""
        if self._needs_reload:
            conversation = await self._ctx.records.recorder.load(ask_again=self._channel.is_interactive)
            for problem in self._ctx.records.recorder.problems:
                self._channel.show_notice(problem)
            self._conversation = drop_other_model_anchor(conversation, self.model)
            self._ctx.model.meter.reset_counters()
            self._ctx.window.prefix_watch.record_reload()
            self._needs_reload = False

    async def compact(
        self, focus: str | None = None, emit: Callable[[Event], None] = ignore_event
    ) -> "CompactionResult":
        """Summarise the older part of the conversation now. Raises `AgentError`."""
        return (await self.change_conversation(compact_manually, focus, emit)).result

    async def change_conversation(
        self,
        operation: Callable[Concatenate[Conversation, WindowContext, TurnContext, P], Awaitable[ConversationT]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> ConversationT:
        """Apply `operation` to the conversation, and replace the conversation with the result. A turn that starts in
        the meantime waits until this is done. Raises `AgentError`, for example if a turn is running or a question about
        a call is open."""
        if self._channel.is_busy:
            raise AgentError("the conversation cannot be changed while a turn is running; interrupt it first")
        if self._conversation.unanswered_calls:
            raise AgentError(
                "the conversation cannot be changed while a question about a call is open; answer it first"
            )
        self._channel.interrupt.reset()
        async with self._conversation_lock:
            await self._reload_if_needed()
            previous_count = self._ctx.records.recorder.message_count
            try:
                result = await operation(self._conversation, self._ctx.window, self._ctx.turn, *args, **kwargs)
            except BaseException:
                self._needs_reload = self._ctx.records.recorder.message_count != previous_count
                raise
            self._conversation = result.conversation
            await self._ctx.records.recorder.end_turn(self.model, self.mode)
        return result

    @property
    def file_history(self) -> FileHistory:
        """The files that the session has changed, with their previous content. Raises `AgentError` if the session is
        not stored."""
        return require_stored(self._ctx.records.archive).file_history

    @property
    def checkpoints(self) -> SessionCheckpoints:
        """Checkpoints of files, taken before the session changed them. Raises `AgentError` if there are none."""
        if self._ctx.records.checkpoints is None:
            raise AgentError("this session has no checkpoints: see `checkpoints.enabled` in `/settings`")
        return self._ctx.records.checkpoints

    @property
    def archive_listing(self) -> ArchiveListing:
        """The stored outputs and messages, for browsing. Raises `AgentError` if the session is not stored."""
        return require_stored(self._ctx.records.archive).listing

    async def trace_text(self, text: str) -> "Occurrences":
        """Return where the text occurs, and whether the model sees it there. Raises `AgentError`."""
        return await require_stored(self._ctx.records.archive).recall.locate_text(text, self._conversation)

    async def bring_back(self, ref: str, *, is_dry_run: bool = False) -> BroughtBack:
        """Show a reference's content to the model again, with the next request. `is_dry_run`: change nothing, and
        return the cost. Raises `AgentError`."""
        return (
            await self.change_conversation(
                bring_back_content, ref, require_stored(self._ctx.records.archive).recall, is_dry_run=is_dry_run
            )
        ).event

    def answer(self, question_id: str, answer: Answer) -> None:
        """Answer a `PermissionAsked`, `PlanSubmitted` or `QuestionAsked`. An answer to a question that is not open is
        ignored."""
        self._channel.questions.answer(question_id, answer)

    def interrupt(self) -> None:
        """Interrupt the turn: cancel the request, stop running calls, and give every call an output."""
        self._channel.interrupt.request()
        self._compaction_interrupt.request()

    def end_turn_for_exit(self) -> None:
        """End the turn because the program exits. Works like `interrupt`, except that a question about a call stays
        open; it is asked again when the session is resumed."""
        self._channel.end_turn_for_exit()

    async def close(self, reason: "EndReason | None" = "other") -> None:
        """Stop background work and release the session's resources. `reason` is passed to hooks. If it is None, no end
        hooks run, because the session is reopened immediately."""
        if self.hooks is not None:
            self.hooks.end_reason = reason
        self.end_turn_for_exit()
        self._compaction_interrupt.request()
        try:
            if self._background_compaction is not None:
                await self._background_compaction
            await self.background_jobs.close()
            if self._ctx.records.checkpoints is not None:
                await self._ctx.records.checkpoints.close()
            await self._ctx.records.recorder.write_queue.close()
        finally:
            if self._on_close is not None:
                await self._on_close()
