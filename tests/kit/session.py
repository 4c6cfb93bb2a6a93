"""Sessions of real parts: a database, files, tools, and a model whose replies the test has written.

`home`, a fixture, opens them and closes them with the test.
"""

import time
from collections import ChainMap
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, Self, TypeVar

from ebbtide.agent.archive.archive import Archive
from ebbtide.agent.archive.recall import SessionRecall, create_fetch_function
from ebbtide.agent.archive.session_archive import SessionArchive
from ebbtide.agent.budget.prices import Prices
from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.execute import CallRunner, no_checkpoint
from ebbtide.agent.calls.loop_guard import LoopGuard
from ebbtide.agent.calls.output_intake import OutputArchiver
from ebbtide.agent.calls.output_reader import OutputReader
from ebbtide.agent.calls.policy import Policy, Rule
from ebbtide.agent.channel import Channel
from ebbtide.agent.compose.optional_parts import create_tool_hooks
from ebbtide.agent.config.load import load_config
from ebbtide.agent.config.option_values import AfterToolHook
from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.events.permissions import Decision, PermissionAsked
from ebbtide.agent.events.session import Event, ToolFinished, TurnFinished
from ebbtide.agent.events.view import ContextCompacted, PrefixDrifted
from ebbtide.agent.eviction.settings import CompactionCaps, CompactionSettings, RewritePatience, RewritePolicy
from ebbtide.agent.logs.debug_log import DebugLog
from ebbtide.agent.messages import Assistant, Image, Note, ToolOutput, User
from ebbtide.agent.prompt.build import Instructions
from ebbtide.agent.prompt.reminder_notes import ReminderFacts
from ebbtide.agent.prompt.secret_tokens import SecretTokens
from ebbtide.agent.providers.base import ModelFacts, Provider, Request
from ebbtide.agent.providers.fallbacks import SessionModels
from ebbtide.agent.providers.learned_limits import SummariserSource
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.records.call_progress import CallProgress
from ebbtide.agent.records.job_reports import create_job_end_reporter
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.session_state import workspace_state
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.records.write_queue import WriteQueue
from ebbtide.agent.session import Session
from ebbtide.agent.view.previews import OffloadLimits
from ebbtide.agent.window.deferral import ToolDeferral, create_specs
from ebbtide.agent.window.prefix_watch import PrefixWatch
from ebbtide.agent.window.reminders import Reminders, build_reminder_facts
from ebbtide.agent.window.server_tools import ServerTools, searchable_tools
from ebbtide.agent.window.session_context import (
    CallContext,
    ModelContext,
    RecordContext,
    SessionContext,
    SessionTools,
    TurnContext,
    WindowContext,
)
from ebbtide.store.blobs import BlobStore
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import Tool, Workspace, no_user
from ebbtide.tools.catalog import create_builtin_tools
from ebbtide.tools.outputs.stored_content import StoredContent
from ebbtide.tools.submit_plan import SubmitPlan
from ebbtide.tools.tool_output_cache import create_unlisted_tools

E = TypeVar("E")
BRIEF, USUAL = Instructions("Be brief."), OffloadLimits()
ID, OTHER = "aa11bb22cc33", "aa11ffeeddcc"
PROJECT = "/home/me/app"
ROW = SessionRow(ID, PROJECT, "", "scripted/script", "ask", 1.0, 1.0)
SMALL = CompactionCaps(tail=200, ledger=900, protected_output_tokens=200)
PRICED = CompactionCaps(tail=1_000, ledger=900, retain=300, summary=300, protected_output_tokens=3_500)
EAGER = RewritePatience(mask=1.0, recall=0.01)
"""A mask is done as soon as sending what it removes has cost as much: these conversations are short."""
SUMMARY: dict[str, Any] = {"text": "<retain>a.txt</retain><summary>Files were read; nothing is open.</summary>"}
COMPACTING, UNCUT = CompactionSettings(SMALL), OffloadLimits(max_output_bytes=10**9)
ASKED = "context window is nearly full"
"""What a request for a summary says, and none else."""
USUAL_TOOLS = tuple(tool for tool in create_builtin_tools() if tool.name != "task")
"""Sessions of the kit have nobody to give work to, and many a window of theirs is measured to the token."""
CONFIG = load_config(Path("/"), {"EBB_HOME": "/nowhere"}, {"recall.scope": "all"})


async def assembled(
    model: Provider | SessionModels,
    workspace: Workspace,
    thread: StoreThread,
    store: SessionStore,
    row: SessionRow,
    *,
    is_new: bool = True,
    ask_again: bool = False,
    interactive: bool = False,
    keeps: bool = True,
    instructions: Instructions = BRIEF,
    tools: Sequence[Tool] | None = None,
    policy: Policy | None = None,
    offloading: OffloadLimits = USUAL,
    hooks: Sequence[AfterToolHook] = (),
    surroundings: Callable[[], ReminderFacts] = ReminderFacts,
    now: Callable[[], float] = time.monotonic,
    debug: DebugLog | None = None,
    summarisers: SummariserSource | None = None,
    deferral: ToolDeferral | None = None,
    served: ServerTools | None = None,
    loop_guard: LoopGuard | None = None,
    **parts: Any,
) -> Session:
    """A session in a store, new or as it was left there. `keeps`: whether it keeps what leaves the view. `repeats`:
    counts calls that are the same; scripts repeat themselves. `parts`: more of what its steps work with."""
    tools = USUAL_TOOLS if tools is None else tools
    targets = model if isinstance(model, SessionModels) else SessionModels(model)
    channel = Channel(is_interactive=interactive)
    emit, interrupt = channel.emit, channel.interrupt
    look = partial(workspace_state, workspace)
    writes = WriteQueue(thread, store, channel.show_notice, interrupt)
    recorder = Recorder(
        thread,
        store,
        row,
        is_new=is_new,
        get_workspace_state=look,
        on_jobs_reported=workspace.jobs.mark_reported,
        write_queue=writes,
    )
    workspace.jobs.on_end = create_job_end_reporter(channel, recorder, SecretTokens())
    conversation = None if is_new else await recorder.load(ask_again=ask_again)
    debug, deferral, served = debug or DebugLog(), deferral or ToolDeferral(), served or ServerTools()
    archive = SessionArchive.open(thread, store, recorder, workspace, CONFIG, debug) if keeps else None
    workspace = replace(
        archive.with_recall(workspace) if archive else workspace,
        get_deferred_tools=lambda: searchable_tools(tools, served, deferral.deferred_names),
        ask=channel.questions.ask_text if interactive else no_user,
        ask_multiple=channel.questions.ask_choices if interactive else no_user,
    )
    progress = CallProgress(recorder.record_call_states)
    ask = channel.questions.ask_permission if interactive else None
    approval = Approver(policy or Policy(str(workspace.root), "auto"), ask, record_question=progress.record_question)
    approval.ask_about_plan = channel.questions.ask_plan if interactive else None
    approval.record_mode = lambda mode: recorder.switch_model(targets.provider.facts.id, mode)
    reader = OutputReader(lambda: targets.provider, row.id, interrupt, emit, summarisers)
    runner = CallRunner(
        ChainMap({tool.name: tool for tool in (*tools, SubmitPlan(), *create_unlisted_tools())}, served.callable_tools),
        workspace,
        approval,
        interrupt,
        emit,
        OutputArchiver(
            archive.archive if archive else None,
            offloading,
            emit,
            reader,
            debug,
            create_tool_hooks(None, hooks, row.id, workspace.root, workspace, channel, no_checkpoint, {}),
        ),
        progress=progress,
        loop_guard=loop_guard,
    )
    window = WindowContext(
        ModelContext(targets, recorder.fork_root_id, **parts_of(ModelContext, parts)),
        instructions,
        SessionTools(create_specs(tools), served, deferral),
        summarisers=summarisers,
        debug=debug,
        prefix_watch=PrefixWatch(
            emit, debug, now, instructions.sections, recorder.last_request_mark, recorder.previous_model_use
        ),
        reminders=Reminders(
            partial(build_reminder_facts, surroundings, approval, tools, deferral, served), conversation
        ),
        **parts_of(WindowContext, parts),
    )
    calls = CallContext(runner, **parts_of(CallContext, parts))
    records = RecordContext(recorder, archive, **parts_of(RecordContext, parts))
    turn = TurnContext(records, interrupt, emit, **parts_of(TurnContext, parts))
    assert not parts, f"no context has the field {min(parts)}"
    return Session(SessionContext(window, calls, turn), channel, conversation)


def parts_of(context: type, parts: dict[str, Any]) -> dict[str, Any]:
    """Takes those that a context has as fields."""
    return {part.name: parts.pop(part.name) for part in fields(context) if part.name in parts}


class Home:
    """A database with its files and a project, from which sessions are opened as after a new start of the program."""

    def __init__(self, folder: Path) -> None:
        self.root, self.outputs = folder / "project", folder / "outputs"
        self.root.mkdir(exist_ok=True)
        self.blobs = BlobStore(folder / "blobs")
        self.thread = StoreThread(lambda: SessionStore(folder / "sessions.db", blobs=self.blobs))
        self.sessions: list[Session] = []

    async def session(
        self, model: Provider | SessionModels, *extra: Tool, resume: bool = False, **parts: Any
    ) -> Session:
        """A session as users have it, with the built-in tools and some more. `parts`: what `assembled` takes."""
        workspace = Workspace(
            self.root,
            self.outputs,
            get_stored_content=self.found,
            fetch_stored_content=lambda ref, scope: self.found(ref),
        )
        usual: dict[str, Any] = {"row": ROW, "is_new": not resume, "tools": (*USUAL_TOOLS, *extra)}
        session = await assembled(model, workspace, self.thread, self.store, **{**usual, **parts})
        self.sessions.append(session)
        return session

    async def open(self, model: Provider | SessionModels, *extra: Tool, **parts: Any) -> Session:
        """One that is compacted down to little, and whose outputs are never cut."""
        return await self.session(model, *extra, **{"compaction_settings": COMPACTING, "offloading": UNCUT, **parts})

    async def attended(
        self, model: Provider, *extra: Tool, mode: PermissionMode = "auto", deny: tuple[Rule, ...] = (), **parts: Any
    ) -> Session:
        """One where somebody looks on and may be asked; it keeps nothing of what leaves the view."""
        usual = {
            "policy": Policy(str(self.root), mode, deny_rules=deny),
            "compaction_settings": CompactionSettings(CompactionCaps(tail=200, ledger=900)),
            "interactive": True,
            "keeps": False,
        }
        return await self.session(model, *extra, **{**usual, **parts})

    def recorder(self, session: str = ID, project: str = PROJECT, *, is_new: bool = True) -> Recorder:
        return Recorder(self.thread, self.store, replace(ROW, id=session, project=project), is_new=is_new)

    async def said(self, *messages: User | Assistant, session: str = ID, project: str = PROJECT) -> Recorder:
        """Writes down what was said, in a session that nobody opened."""
        recorder = self.recorder(session, project)
        for message in messages:
            await (
                recorder.record_user_message(message) if isinstance(message, User) else recorder.record_reply(message)
            )
        return recorder

    async def row(self) -> SessionRow:
        """The first session as it is stored."""
        row = await self.thread.run(self.store.session, ID)
        assert row is not None, "something was said"
        return row

    def archive(self, session: str = ID, project: str = PROJECT) -> Archive:
        return Archive(self.thread, self.store, session, project)

    async def found(self, ref: str) -> StoredContent:
        """What a reference stands for, as tools find it."""
        recall = SessionRecall(self.thread, self.store, self.archive(), ID, PROJECT, "all")
        return await create_fetch_function(recall)(ref, None)

    async def __aenter__(self) -> Self:
        self.store = await self.thread.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        for session in self.sessions:
            await session.close()
        await self.thread.close()


class Priced(ScriptedProvider):
    """A scripted model that costs something."""

    @property
    def facts(self) -> ModelFacts:
        return replace(super().facts, prices=Prices(3.0, 15.0, 0.3, 3.75))


class PricedHome(Home):
    """One with large files, a model that costs something, and a clock that is set."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for name in "abcdefghijkl":
            (self.root / f"{name}.txt").write_text("".join(f"{name} line {n} of a long text\n" for n in range(300)))
        self.now = 0.0
        self.lines = StringIO()
        self.events: list[Event] = []

    async def opened(
        self,
        *replies: dict[str, object],
        policy: RewritePolicy = "cost",
        patience: RewritePatience = EAGER,
        window: int = 200_000,
        ago: float | None = None,
        model: type[ScriptedProvider] = Priced,
    ) -> Session:
        """`ago`: seconds since the session was left; None for a new one."""
        return await self.session(
            model.from_replies(*replies, context_window=window),
            row=ROW if ago is None else replace(ROW, updated=time.time() - ago),
            is_new=ago is None,
            keeps=False,
            compaction_settings=CompactionSettings(PRICED, policy=policy, patience=patience),
            now=lambda: self.now,
            debug=DebugLog(echo=self.lines),
        )

    async def say(self, session: Session, text: str = "go") -> list[ContextCompacted]:
        """The rewrites of a turn that ends answered."""
        self.events = await events_of(session, text)
        assert isinstance(self.events[-1], TurnFinished)
        assert not [event for event in self.events if isinstance(event, PrefixDrifted)]
        return [event for event in self.events if isinstance(event, ContextCompacted)]


MANY = "abcdefghijkl" * 2
"""Files after which old outputs have cost as much as a mask of them."""


def reads(names: str) -> list[dict[str, Any]]:
    """A reply for each of these files, which reads it."""
    return [calls(call("read", path=f"{name}.txt")) for name in names]


def shows(names: str) -> list[dict[str, Any]]:
    """The same by a command: hardly one will be wanted again."""
    return [calls(call("bash", command=f"cat {name}.txt")) for name in names]


def masked_in(session: Session) -> list[str]:
    """The files whose outputs are shown as one line."""
    return [
        output.text.lstrip("\t 0123456789")[0]
        for output in outputs_of(session)
        if output.call_id in session.history.masked
    ]


def call(tool: str, **arguments: object) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments}


def bash(command: str) -> dict[str, Any]:
    return call("bash", command=command)


READ = call("read", path="a.txt")


def calls(*wanted: dict[str, Any]) -> dict[str, Any]:
    """A reply that makes these calls."""
    return {"calls": list(wanted)}


async def events_of(session: Session, text: str = "go", images: Sequence[Image | Note] = ()) -> list[Event]:
    """All that happens in a turn."""
    return [event async for event in session.send(text, images)]


async def turn_in_which(session: Session, happens: type[E], do: Callable[[E], object], text: str = "go") -> list[Event]:
    """All that happens in a turn, in which something is done whenever an event of a kind comes."""
    events: list[Event] = []
    async for event in session.send(text):
        events.append(event)
        if isinstance(event, happens):
            do(event)
    return events


def decides(session: Session, decision: Decision) -> Callable[[PermissionAsked], None]:
    """Answers what is asked so."""
    return lambda asked: session.answer(asked.id, decision)


async def first_turn(opening: Awaitable[Session], text: str = "go") -> tuple[Session, list[Event]]:
    """A session that is opened and told something, and all that happens then."""
    session = await opening
    return session, await events_of(session, text)


def compactions(events: Sequence[Event]) -> list[tuple[str, tuple[str, ...]]]:
    """Why each was made, and with which strategies."""
    return [(event.cause, event.strategies) for event in events if isinstance(event, ContextCompacted)]


def outputs_of(session: Session) -> list[ToolOutput]:
    """Every output in view."""
    return [output for message in session.history.messages if isinstance(message, User) for output in message.outputs]


def finished(events: Sequence[Event]) -> list[tuple[str, str, str]]:
    """Of each call its tool, its status and what it gave back."""
    return [(event.name, event.status, event.text) for event in events if isinstance(event, ToolFinished)]


def offered(request: Request) -> tuple[str, ...]:
    return tuple(spec.name for spec in request.tools)


def notes_in(request: Request, *words: str) -> list[str]:
    """The notes that a request holds, of those with one of these words."""
    parts = [part for message in request.messages if isinstance(message, User) for part in message.parts]
    return [part.text for part in parts if isinstance(part, Note) and any(word in part.text for word in words)]


def notes_of(session: Session) -> list[str]:
    """Every note in view: what the model was told beside what the user said."""
    messages = session.history.messages
    return [part.text for m in messages if isinstance(m, User) for part in m.parts if isinstance(part, Note)]


def prints(text: str, count: int = 1500) -> dict[str, Any]:
    """A reply that runs a command which prints a text so often."""
    return calls(bash(f"printf '%.0s{text} ' $(seq {count})"))


def fill(last: int = 9000) -> list[dict[str, Any]]:
    """Steps that leave a window of 14,200 tokens full: for the last output there is no room."""
    return [prints("a", 2500), prints("b", 2500), prints("c", 2500), prints("d", last)]


def said_last(request: Request) -> str:
    last = request.messages[-1]
    return last.text if isinstance(last, User) else ""
