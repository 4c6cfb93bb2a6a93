"""What a session is made of, put together by the composition root, and what its steps work with."""

import time
from collections import ChainMap
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from agent.archive.archive import Archive
from agent.archive.listing import ArchiveListing
from agent.archive.recall import SessionRecall, fetching, looking_up
from agent.calls.approval import Approval, nothing_earlier
from agent.calls.execute import CallRunner, forget_files
from agent.calls.output_reader import OutputReader
from agent.calls.output_view import Ingest, hooks_of
from agent.calls.policy import Policy, Rule, parse_rule
from agent.calls.project_rules import ProjectRules
from agent.calls.questions import Questions
from agent.config.option_values import AfterTool
from agent.config.values import Config
from agent.context.estimate import count_text
from agent.context.offload import Offloading
from agent.context.prompt import Instructions
from agent.context.reminders import Surroundings
from agent.context.settings import CompactionSettings
from agent.debug import Debug
from agent.events import Event
from agent.interrupt import Interrupt
from agent.mcp.status import ServerControl
from agent.messages import Conversation, ToolCall
from agent.providers.fallbacks import Targets
from agent.providers.learned_limits import LearnedLimits, Summarisers
from agent.providers.meter import Meter
from agent.providers.stream import Retries
from agent.records.call_progress import CallProgress
from agent.records.file_history import FileLog
from agent.records.garbage import excess_to_tell
from agent.records.recorder import Recorder
from agent.records.session_reader import earlier_calls
from agent.records.store_thread import StoreThread
from agent.window.deferral import Deferral, specs_of
from agent.window.env import Env, Servers, TurnLimits
from agent.window.prefix_watch import PrefixWatch
from agent.window.reminders import Reminders
from agent.window.rent import Rent
from agent.window.server_tools import ServerTools
from store.sessions import SessionStore
from tools.base import ReadLimits, Tool, Workspace
from tools.tool_output_cache import unlisted_tools


class SessionServers(Servers, ServerControl, Protocol):
    """The servers of a session: what its turns need of them, and what its user can do with them."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a session is made of."""

    targets: Targets
    """The session's model, and those that follow it when a conversation does not fit."""
    instructions: Instructions
    tools: Sequence[Tool]
    workspace: Workspace
    policy: Policy
    recorder: Recorder
    archive: Archive | None = None
    """What left the view; None where nothing is kept apart."""
    recall: SessionRecall | None = None
    """What may be looked up of everything that was said."""
    shelf: ArchiveListing | None = None
    """All of that, to look through."""
    offloading: Offloading = Offloading()  # noqa: RUF009  # a frozen value
    unlisted: Sequence[Tool] = ()
    """Tools that the model is not told of, but that it may call."""
    limits: TurnLimits = TurnLimits()  # noqa: RUF009  # a frozen value
    compacting: CompactionSettings = CompactionSettings()  # noqa: RUF009  # a frozen value
    summarisers: Summarisers | None = None
    """The models that the user set for summaries."""
    lessons: LearnedLimits = field(default_factory=LearnedLimits)
    """What the session has learnt about its model's window."""
    after_tool: Sequence[AfterTool] = ()
    """The user's programs that see outputs as they came."""
    effort: str | None = None
    retries: Retries = field(default_factory=Retries)
    """How a request that fails is tried again."""
    debug: Debug = field(default_factory=Debug)
    surroundings: Callable[[], Surroundings] = Surroundings
    """What the model is told besides the conversation when it changes; at the start its system text says it."""
    note_at: float = 0.80
    """Share of the usable window at which the model is told how full it is."""
    interactive: bool = True
    """Whether somebody is there to answer questions."""
    meter: Meter = field(default_factory=Meter)
    rent: Rent = field(default_factory=Rent)
    """What decides when a view is rewritten that would still fit."""
    deferral: Deferral = field(default_factory=Deferral)
    """Which of the tools are held back."""
    served: ServerTools = field(default_factory=ServerTools)
    """The tools that servers bring besides."""
    servers: SessionServers | None = None
    now: Callable[[], float] = time.monotonic
    """Seconds on the clock by which caches grow cold."""
    earlier: Callable[[], Awaitable[Sequence[ToolCall]]] = nothing_earlier
    """The newest calls of the project's sessions, to try rules on."""
    files: FileLog | None = None
    """What was in the files that the session changed."""
    rules: ProjectRules | None = None
    """What the user allows in the project; None where nobody is there to allow something."""
    kept_here: list[Rule] = field(default_factory=list)
    """What the user allows in the session, until the program is left."""
    notices: tuple[str, ...] = ()
    """What the user should know before the first turn."""


def with_archive(parts: Parts, thread: StoreThread, store: SessionStore, project: str, config: Config) -> Parts:
    """The parts of a session that keeps what leaves its view. `project` is the session's own."""
    archive = Archive(thread, store, parts.recorder.session, project)
    model, missing = config.recall_embedding_model, ""
    if model is not None:
        from agent.archive.embeddings import what_is_missing  # noqa: PLC0415  # deferred: few runs look for meanings

        missing = what_is_missing(model)
    recall = SessionRecall(
        thread,
        store,
        archive,
        parts.recorder.session,
        project,
        config.recall_scope,
        parts.debug,
        None if missing else model,
    )
    fetch = fetching(recall)
    over = ""
    if store.blobs is not None and config.archive_max_bytes is not None:
        over = excess_to_tell(store.blobs.folder, config.archive_max_bytes)
    return replace(
        parts,
        archive=archive,
        recall=recall,
        notices=(*parts.notices, *filter(None, (missing, over))),
        shelf=ArchiveListing(thread, store, archive, parts.recorder.session),
        files=FileLog(thread, store, parts.recorder, parts.workspace.root),
        offloading=Offloading(
            config.result_offload_threshold, config.preview_bytes, config.max_message_bytes, config.tool_output_mode
        ),
        unlisted=unlisted_tools(),
        workspace=replace(
            parts.workspace,
            kept=lambda ref: fetch(ref, None),
            fetch=fetch,
            look_up=looking_up(recall),
            measure=lambda text: parts.meter.estimator.tokens(count_text(text, parts.meter.ruler)),
            reads=ReadLimits(config.max_message_bytes, config.max_line_length),
        ),
    )


def with_rules(
    parts: Parts, thread: StoreThread, store: SessionStore, project: str, config: Config, kept_here: list[Rule]
) -> Parts:
    """The parts of a session in which somebody is there to allow something, with what was allowed before: in the
    project, and in this session since the program was started (`kept_here`, which grows). Scripts are told what they
    may do by their settings and flags alone."""
    if not parts.interactive:
        return parts
    rules = ProjectRules(config.folders.config, parts.workspace.root)
    kept = rules.read()
    allow = (*parts.policy.allow, *map(parse_rule, kept.allow), *kept_here)
    return replace(
        parts,
        policy=replace(parts.policy, allow=allow),
        rules=rules,
        kept_here=kept_here,
        earlier=partial(earlier_calls, thread, store, project, parts.recorder.session),
        notices=(*parts.notices, kept.problem) if kept.problem else parts.notices,
    )


COMPACT = "compact_context"


def env_of(
    parts: Parts,
    conversation: Conversation,
    asking: Questions,
    interrupt: Interrupt,
    emit: Callable[[Event], None],
    spent: Callable[[], float],
) -> Env:
    """`conversation`: what was said so far. `asking` puts questions to the user, who is there if `parts` say so.
    `spent`: US dollars since the program was started."""
    id, recorder = parts.recorder.session, parts.recorder
    workspace = replace(parts.workspace, held_back=lambda: held_back(parts))
    workspace = replace(workspace, ask=asking.words) if parts.interactive else workspace
    progress = CallProgress(recorder.keep_states)
    ask = asking.permission if parts.interactive else None
    gate = Approval(parts.policy, ask, parts.earlier, parts.rules, progress.asked, parts.kept_here)
    tools = ChainMap({tool.name: tool for tool in (*parts.tools, *parts.unlisted)}, parts.served.callable)
    reader = OutputReader(lambda: parts.targets.provider, id, interrupt, emit, parts.summarisers)
    hooks = hooks_of(parts.after_tool, id, workspace, interrupt, emit)
    keeper = Ingest(parts.archive, parts.offloading, emit, reader, parts.debug, hooks)
    note_files = parts.files.note if parts.files is not None else forget_files

    def surroundings() -> Surroundings:
        deferred, hosted = parts.deferral.counted
        mode, served = gate.policy.mode, parts.served.news()
        can_compact = parts.deferral.offers(COMPACT) and any(tool.name == COMPACT for tool in parts.tools)
        now = replace(parts.surroundings(), mode=mode, deferred=deferred, hosted=hosted, served=served)
        return replace(now, can_compact=can_compact)

    return Env(
        targets=parts.targets,
        instructions=parts.instructions,
        own_tools=specs_of(parts.tools),
        hands=CallRunner(tools, workspace, gate, interrupt, emit, keeper, note_files, progress),
        recorder=recorder,
        interrupt=interrupt,
        emit=emit,
        spent=spent,
        limits=parts.limits,
        compacting=parts.compacting,
        summarisers=parts.summarisers,
        lessons=parts.lessons,
        effort=parts.effort,
        retries=parts.retries,
        debug=parts.debug,
        meter=parts.meter,
        rent=parts.rent,
        watch=PrefixWatch(
            emit, parts.debug, parts.now, parts.instructions.sections, recorder.mark, recorder.used_before
        ),
        tail=Reminders(surroundings, conversation, parts.note_at),
        deferral=parts.deferral,
        served=parts.served,
        servers=parts.servers,
    )


def held_back(parts: Parts) -> tuple[Tool, ...]:
    """The tools that the model is not shown, but may search for."""
    names = parts.deferral.held_back
    own = (tool for tool in parts.tools if tool.name in names)
    return (*own, *parts.served.findable(names))
