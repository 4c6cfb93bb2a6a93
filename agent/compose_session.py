"""Builds the contexts of a session, and the parts that they share."""

import shutil
import tempfile
import time
from collections import ChainMap
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.agent.archive.session_archive import SessionArchive
from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.execute import (
    CallRunner,
    CheckpointGuard,
    DiagnoseChanges,
    SaveOpenFiles,
    no_checkpoint,
    no_diagnostics,
    no_open_editors,
)
from ebbtide.agent.calls.git_secrets import learn_git_passwords
from ebbtide.agent.calls.loop_guard import LoopGuard
from ebbtide.agent.calls.output_reader import OutputReader
from ebbtide.agent.calls.output_view import OutputIntake
from ebbtide.agent.calls.policy import Policy, Rule, parse_rule
from ebbtide.agent.calls.project_rules import ProjectRules
from ebbtide.agent.channel import Channel, EventSink
from ebbtide.agent.checkpoints.checkpoint_thread import CheckpointThread
from ebbtide.agent.checkpoints.session_checkpoints import SessionCheckpoints, open_project
from ebbtide.agent.compose_project import (
    AgentsOnDemand,
    apply_skill_limits,
    extensions_of,
    hooks_for_session,
    language_servers_of,
    project_trust,
    servers_of,
    skill_folders,
    tool_hooks_for,
)
from ebbtide.agent.config.options import Mode
from ebbtide.agent.config.values import Config
from ebbtide.agent.control_calls import PLAN
from ebbtide.agent.debug import DebugLog
from ebbtide.agent.events.session import Resumed
from ebbtide.agent.input.instruction_updates import FileInstructionUpdates
from ebbtide.agent.messages import Conversation
from ebbtide.agent.prompt.secret_tokens import SecretTokens
from ebbtide.agent.providers.base import Provider
from ebbtide.agent.providers.factory import build_summarisers, session_models
from ebbtide.agent.providers.fallbacks import ConnectedModel, SessionModels
from ebbtide.agent.providers.learned_limits import LearnedLimits, SummariserSource, learned_window
from ebbtide.agent.providers.stream import RetryPolicy
from ebbtide.agent.providers.usage import without_foreign_counts
from ebbtide.agent.records.call_progress import CallProgress
from ebbtide.agent.records.job_log import JobPortsOnDemand, job_listener
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.resume import restore
from ebbtide.agent.records.session_reader import past_tool_calls
from ebbtide.agent.records.session_state import workspace_state
from ebbtide.agent.records.store_access import outputs_folder
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.records.write_queue import WriteQueue
from ebbtide.agent.session_settings import (
    SystemText,
    compaction_settings,
    debug_log,
    effort_for,
    environment_facts,
    hooks_for_calls,
    is_in_cache,
    mode_of,
    no_sandbox_reason,
    offered_tools,
    offload_limits,
    policy_of,
    resumed_system_text,
    retry_limits,
    tools_for,
    turn_limits,
)
from ebbtide.agent.window.deferral import Deferral, specs_of
from ebbtide.agent.window.prefix_watch import PrefixWatch
from ebbtide.agent.window.reminders import Reminders, current_facts
from ebbtide.agent.window.server_tools import ServerTools, searchable_tools
from ebbtide.agent.window.session_context import (
    CallContext,
    LanguageService,
    ModelContext,
    RecordContext,
    Servers,
    SessionContext,
    SessionTools,
    TurnContext,
    WindowContext,
)
from ebbtide.agent.window.turn_limits import Allowance
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import ReadLimits, Tool, Workspace, no_user
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.recalled import no_progress
from ebbtide.tools.sandbox.network import SessionNetwork
from ebbtide.tools.sandbox.sandbox import Sandbox
from ebbtide.tools.submit_plan import SubmitPlan
from ebbtide.tools.task import Task
from ebbtide.tools.tool_output_cache import unlisted_tools

if TYPE_CHECKING:  # types only: few sessions have these
    from ebbtide.agent.extensions.session_extensions import SessionExtensions
    from ebbtide.agent.extensions.session_trust import SessionTrust
    from ebbtide.agent.hooks.session_hooks import StartSource
    from ebbtide.agent.subagents.role import AgentRole
    from ebbtide.agent.subagents.session_agents import ComposeAgentSession

NEW_SESSION = ("startup", "clear")
"""Start sources of sessions that begin without a conversation."""


@dataclass(frozen=True, slots=True)
class ProjectSetup:
    """What all sessions of a project are created from."""

    config: Config
    root: Path
    environment: Mapping[str, str]
    thread: StoreThread
    store: SessionStore
    interactive: bool
    """Whether a user is present to answer."""
    ephemeral: bool
    """Whether nothing is stored."""
    secrets: SecretTokens = field(default_factory=SecretTokens)
    """Replaces secrets in what models see."""
    extra_tools: tuple[Tool, ...] = ()
    """Tools in addition to the built-in ones."""
    save_open_files: SaveOpenFiles = no_open_editors
    sinks: tuple[EventSink, ...] = ()
    progress: Callable[[int, int], None] = no_progress
    """Called while a session is resumed, with the number of messages read so far and in total."""


@dataclass(frozen=True, slots=True)
class SessionGrants:
    """What the user has allowed for one session since the program was started."""

    rules: list[Rule]
    roots: list[Path]
    """Additional working folders."""
    was_open: bool
    """Whether the session has been open before since the program was started."""


@dataclass(frozen=True, slots=True)
class OpeningSession:
    """The parts of a session that is being opened; its contexts are created from them."""

    setup: ProjectSetup
    row: SessionRow
    model: str
    connected: ConnectedModel
    closing: AsyncExitStack
    """Closes everything that was opened for the session when the session closes."""
    grants: SessionGrants
    source: "StartSource | None"
    """How the session starts; None if it is reopened right after closing."""
    role: "AgentRole | None"
    """The definition and parent of a sub-agent; None for other sessions."""
    channel: Channel
    debug: DebugLog
    workspace: Workspace
    """The workspace with folders and sandbox. `tool_workspace` adds the functions that look up stored content."""
    languages: LanguageService | None
    recorder: Recorder
    archive: SessionArchive
    progress: CallProgress
    targets: SessionModels
    summarisers: SummariserSource

    @property
    def look_at_changes(self) -> DiagnoseChanges:
        return self.languages.after_edit if self.languages is not None else no_diagnostics

    @property
    def is_new(self) -> bool:
        return self.source in NEW_SESSION

    @property
    def is_interactive(self) -> bool:
        """Whether a user is present to answer this session."""
        return self.channel.is_interactive

    @property
    def is_from_other_run(self) -> bool:
        """Whether the user resumes a session that was not open before in this run of the program."""
        return self.is_interactive and not self.is_new and not self.grants.was_open

    @property
    def provider(self) -> Provider:
        return self.connected.provider


@dataclass(frozen=True, slots=True)
class ProjectParts:
    """The tools of a session, and what the user's and the project's files add to it."""

    tools: tuple[Tool, ...]
    """All tools except those of MCP servers."""
    server_tools: ServerTools
    deferral: Deferral
    trust: "SessionTrust | None"
    extensions: "SessionExtensions | None"
    agents: AgentsOnDemand
    servers: Servers | None

    @property
    def skill_folders(self) -> tuple[str, ...]:
        return () if self.extensions is None else tuple(str(skill.path.parent) for skill in self.extensions.skills)


async def open_session(
    setup: ProjectSetup,
    connect: Callable[[str], Awaitable[ConnectedModel]],
    row: SessionRow,
    model: str,
    connected: ConnectedModel,
    closing: AsyncExitStack,
    grants: SessionGrants,
    source: "StartSource | None",
    role: "AgentRole | None",
) -> OpeningSession:
    """Create what the contexts of a session share. `connect`: connects a fallback."""
    config, is_interactive = setup.config, setup.interactive and role is None
    channel, outputs = Channel(interactive=is_interactive), _outputs_folder(setup, row.id, closing)
    for sink in setup.sinks:
        sink.follow(channel)
    sandbox = _sandbox(setup, outputs, grants.roots, closing)
    workspace = Workspace(setup.root, outputs, sandbox=sandbox, max_output_bytes=config.archive_max_output_bytes)
    if role is not None:
        workspace = role.workspace(workspace)
    languages = _languages(setup, workspace, role, closing)
    recorder = _recorder(setup, row, channel, workspace, is_new=source in NEW_SESSION)
    await learn_git_passwords(setup.secrets, setup.root)  # the user may mention passwords before any call
    workspace.jobs.on_end = job_listener(channel, recorder, setup.secrets)
    port_rule = (
        "off" if config.sandbox_ports == "ask" and not is_interactive else config.sandbox_ports
    )  # without a user, nothing can be asked
    ports = JobPortsOnDemand(workspace, port_rule, channel.notice)
    closing.push_async_callback(ports.close)
    debug = debug_log(config, setup.environment, interactive=is_interactive)
    archive = SessionArchive.open(setup.thread, setup.store, recorder, workspace, config, debug)
    targets = session_models(config, model, connected.provider, connect)
    closing.push_async_callback(targets.close)
    summarisers = build_summarisers(config, setup.environment, lambda: targets.provider.facts, secrets=setup.secrets)
    closing.push_async_callback(summarisers.close)
    return OpeningSession(
        setup, row, model, connected, closing, grants, source, role, channel, debug, workspace, languages, recorder,
        archive, CallProgress(recorder.record_call_states), targets, summarisers,
    )  # fmt: skip


def _outputs_folder(setup: ProjectSetup, session: str, closing: AsyncExitStack) -> Path:
    """Return the folder that holds command output until the output is stored."""
    if not setup.ephemeral:
        folder = outputs_folder(setup.config, session).resolve()
        closing.callback(_remove_if_empty, folder)
        return folder
    folder = Path(tempfile.mkdtemp(prefix="ebb-")).resolve()
    closing.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):  # the folder does not exist, or still contains command output
        folder.rmdir()


def _sandbox(setup: ProjectSetup, outputs: Path, roots: list[Path], closing: AsyncExitStack) -> Sandbox | None:
    """Return the sandbox for a session's commands; its /tmp is removed when the session ends."""
    if setup.config.sandbox == "off":
        return None
    folders, scratch = setup.config.folders, outputs / "tmp"
    closing.callback(shutil.rmtree, scratch, ignore_errors=True)
    scripts = (folders.data / "plugins", *skill_folders(setup.config))  # skills contain scripts that commands run
    readable_paths = (setup.root, outputs, *(each.resolve() for each in scripts if each.is_dir()))
    program_folders = (folders.config, folders.data, folders.logs)
    network = SessionNetwork(setup.config.web_private)
    closing.push_async_callback(network.close)
    return Sandbox(setup.root, scratch, roots, program_folders, readable_paths, has_network=False, network=network)


def _languages(
    setup: ProjectSetup, workspace: Workspace, role: "AgentRole | None", closing: AsyncExitStack
) -> LanguageService | None:
    """Return the language servers; a sub-agent uses its parent's."""
    shared = role.parent.calls.languages if role is not None else None
    if shared is not None:
        return shared
    logs = workspace.outputs / "language-servers" if setup.ephemeral else None
    languages = language_servers_of(setup.config, setup.root, workspace.sandbox, setup.environment, logs)
    if languages is not None:
        closing.push_async_callback(languages.close)
    return languages


def _recorder(
    setup: ProjectSetup, row: SessionRow, channel: Channel, workspace: Workspace, *, is_new: bool
) -> Recorder:
    writes = WriteQueue(setup.thread, setup.store, channel.notice, channel.interrupt)
    read_workspace_state = partial(workspace_state, workspace)
    recorder = Recorder(
        setup.thread,
        setup.store,
        row,
        is_new=is_new,
        get_workspace_state=read_workspace_state,
        on_jobs_reported=workspace.jobs.mark_reported,
        writes=writes,
    )
    recorder.log.progress = setup.progress
    return recorder


async def load_project_parts(opening: OpeningSession, compose_agent: "ComposeAgentSession") -> ProjectParts:
    """Find the user's and the project's tools and extensions, and create what they need."""
    setup, role, channel = opening.setup, opening.role, opening.channel
    config = setup.config
    settings = compaction_settings(config, opening.provider.window.effective)
    tools = tools_for(settings, config, opening.languages, can_store=not setup.ephemeral, extra=setup.extra_tools)
    server_tools = ServerTools() if role is None else role.server_tools()
    trust = await project_trust(config, channel, opening.languages) if role is None else None
    extensions = await extensions_of(config, trust)
    agents = AgentsOnDemand(extensions, config.agents_concurrent, compose_agent)
    tools = agents.with_task_tool(tools) if role is None else role.select_tools(tools)
    servers = servers_of(config, setup.environment, setup.root, server_tools, channel, opening.closing, trust)
    deferral = Deferral(
        config.tool_deferral_threshold,
        await opening.recorder.last_tool_uses(),
        offers_search=bool(servers.entries if servers is not None else server_tools.present),
        reduces_tools=not config.tools_allowed,
    )
    return ProjectParts(tools, server_tools, deferral, trust, extensions, agents, servers)


def create_approver(opening: OpeningSession, project: ProjectParts) -> tuple[Approver, str]:
    """Return the approver, and a problem text if the project's rules could not be read."""
    setup, role, grants, outputs = opening.setup, opening.role, opening.grants, opening.workspace.outputs
    policy = policy_of(setup.config, setup.root, _mode(opening), outputs)
    readable = (*policy.readable_folders, *project.skill_folders)
    policy = replace(policy, added_folders=tuple(map(str, grants.roots)), readable_folders=readable)
    if role is None:
        approval, problem = _user_approval(policy, opening)
        approval.added_folders = grants.roots
        approval.record_mode = lambda mode: opening.recorder.switch_model(opening.targets.model, mode)
    else:
        approval, problem = role.create_approver(outputs), ""
    apply_skill_limits(project.extensions, approval, opening.channel, setup.root)
    return approval, problem


def _user_approval(policy: Policy, opening: OpeningSession) -> tuple[Approver, str]:
    """Return the approver, and a problem text if the project's rules could not be read. With a user present, it also
    accepts earlier approvals: those stored for the project, and those given for this session since the program was
    started. Headless runs use only settings and flags."""
    setup, row, channel, granted_rules = opening.setup, opening.row, opening.channel, opening.grants.rules
    why_unsandboxed = partial(no_sandbox_reason, setup.config)
    if not channel.is_interactive:
        return Approver(policy, why_unsandboxed=why_unsandboxed), ""
    rules = ProjectRules(setup.config.folders.config, setup.root)
    saved_rules = rules.read()
    policy = replace(policy, allow=(*policy.allow, *map(parse_rule, saved_rules.allow), *granted_rules))
    earlier = partial(past_tool_calls, setup.thread, setup.store, row.project, row.id)
    ask, about_plan = channel.questions.ask_permission, channel.questions.ask_plan
    approval = Approver(
        policy,
        ask,
        earlier,
        rules,
        opening.progress.record_question,
        granted_rules,
        about_plan,
        why_unsandboxed=why_unsandboxed,
    )
    approval.can_ask = lambda: channel.is_open
    return approval, saved_rules.problem


def _mode(opening: OpeningSession) -> Mode:
    """Return the permission mode: the session's own, unless the user resumes a session that an earlier run left; then
    the configured one."""
    config = opening.setup.config
    return config.permission_mode if opening.is_from_other_run else mode_of(config, opening.row.mode)


def record_context(opening: OpeningSession) -> RecordContext:
    """Open the checkpoints of the session; a sub-agent uses its parent's."""
    checkpoints = _checkpoints(opening) if opening.role is None else None
    return RecordContext(opening.recorder, opening.archive, checkpoints)


def _checkpoints(opening: OpeningSession) -> SessionCheckpoints | None:
    setup, recorder, workspace, channel = opening.setup, opening.recorder, opening.workspace, opening.channel
    if setup.ephemeral or not setup.config.checkpoints_enabled:
        return None
    checkpoints = SessionCheckpoints(
        CheckpointThread(partial(open_project, setup.config, workspace.root)),
        recorder.session_id,
        lambda: recorder.message_count,
        lambda: bool(workspace.jobs.running),
        channel.emit,
        channel.interrupt,
        workspace.root if channel.is_interactive else None,
    )
    channel.observe_events(checkpoints.note_event)
    return checkpoints


def tool_workspace(opening: OpeningSession, project: ProjectParts) -> Workspace:
    """Return the workspace with the functions by which tools look up content and ask the user."""
    config, questions, is_interactive = opening.setup.config, opening.channel.questions, opening.is_interactive
    return replace(
        opening.archive.with_lookup(opening.workspace),
        estimate_tokens=opening.connected.meter.text_tokens,
        read_limits=ReadLimits(config.max_message_bytes, config.max_line_length),
        deferred_tools=lambda: searchable_tools(project.tools, project.server_tools, project.deferral.deferred),
        ask=questions.ask_text if is_interactive else no_user,
        ask_multiple=questions.ask_choices if is_interactive else no_user,
    )


def turn_context(
    opening: OpeningSession, project: ProjectParts, approval: Approver, records: RecordContext, workspace: Workspace
) -> TurnContext:
    """Create the turn context: start the hooks, and set the limits of turns."""
    setup, role, channel = opening.setup, opening.role, opening.channel
    config = setup.config
    hooks = hooks_for_session(
        config, opening.recorder, workspace, channel, setup.secrets, lambda: approval.policy.mode, opening.closing,
        project.trust, checkpoint_guard(records, role), opening.source,
    )  # fmt: skip
    return TurnContext(
        records,
        channel.interrupt,
        channel.emit,
        turn_limits(config, interactive=opening.is_interactive) if role is None else role.turn_limits(config),
        Allowance(role.parent.turn.allowance if role is not None else None),
        hooks,
    )


def call_context(
    opening: OpeningSession, project: ProjectParts, approval: Approver, turn: TurnContext, workspace: Workspace
) -> CallContext:
    """Create the call context: connect the tools with the parts that approve, run and store their calls."""
    setup, role, targets, archive = opening.setup, opening.role, opening.targets, opening.archive
    config = setup.config
    emit, interrupt, session = turn.emit, turn.interrupt, opening.row.id
    guard = checkpoint_guard(turn.records, role)
    reader = OutputReader(lambda: targets.provider, session, interrupt, emit, opening.summarisers)
    note_files = archive.files.record_changes if role is None else role.parent.calls.runner.record_file_changes
    tool_hooks = tool_hooks_for(
        turn.hooks if role is None else role.hooks, hooks_for_calls(config), session, config.project, workspace,
        opening.channel, guard, {} if role is None else role.hook_input,
    )  # fmt: skip
    intake = OutputIntake(archive.archive, offload_limits(config), emit, reader, opening.debug, tool_hooks)
    tools = (Task(), *project.tools, SubmitPlan(), *unlisted_tools())
    runner = CallRunner(
        ChainMap({tool.name: tool for tool in tools}, project.server_tools.callable), workspace, approval,
        interrupt, emit, intake, note_files, opening.progress, LoopGuard(), setup.secrets, guard, config.web_private,
        emits_diffs=opening.is_interactive, diagnose_changes=opening.look_at_changes, hooks=tool_hooks,
        save_open_files=setup.save_open_files,
    )  # fmt: skip
    servers, agents, extensions = project.servers, project.agents, project.extensions
    return CallContext(runner, servers, agents, extensions, project.trust, opening.languages)


def checkpoint_guard(records: RecordContext, role: "AgentRole | None") -> CheckpointGuard:
    """Return the guard that makes a checkpoint around a call; a sub-agent uses its parent's."""
    if role is not None:
        return role.checkpoint_guard
    return records.checkpoints.around_call if records.checkpoints is not None else no_checkpoint


async def restore_conversation(
    opening: OpeningSession, approval: Approver, workspace: Workspace
) -> tuple[Conversation, Mode, Resumed | None]:
    """Load the conversation. Return it with the mode in which it continues and a report for the user."""
    mode, row, model = _mode(opening), opening.row, opening.model
    if opening.is_new:
        return Conversation(), mode, None
    recorder, is_interactive = opening.recorder, opening.is_interactive
    conversation, resumed = await restore(recorder, workspace, model, mode, opening.debug, ask_again=is_interactive)
    if any(call.name == PLAN for call in conversation.unanswered_calls):
        mode = "plan"  # so the question about the plan is asked again
        await approval.change_mode(mode)
    mode_before = row.mode if opening.is_from_other_run and mode != row.mode else ""
    if model != row.model or mode_before:
        await recorder.switch_model(model, mode)  # stored, because listings of sessions show it
    conversation = without_foreign_counts(conversation, opening.provider.facts.id)
    return conversation, mode, replace(resumed, mode=mode, mode_before=mode_before)


def window_context(
    opening: OpeningSession, project: ProjectParts, approval: Approver, conversation: Conversation, mode: Mode
) -> WindowContext:
    """Create the window context: the system prompt, and the parts that measure and rewrite the conversation."""
    setup, recorder, tools, deferral = opening.setup, opening.recorder, project.tools, project.deferral
    config = setup.config
    text = _system_text(opening, mode)
    emit, debug, instructions = opening.channel.emit, opening.debug, text.instructions
    read_environment = partial(environment_facts, config, attended=opening.is_interactive)
    read_facts = partial(current_facts, read_environment, approval, tools, deferral, project.server_tools)
    own = specs_of(offered_tools(tools, text.mode, attended=text.attended))
    return WindowContext(
        _model_context(opening),
        instructions,
        SessionTools(own, project.server_tools, deferral),
        watch=PrefixWatch(
            emit, debug, time.monotonic, instructions.sections, recorder.last_request_mark, recorder.previous_model_use
        ),
        compaction_settings=compaction_settings(config, opening.provider.window.effective),
        summarisers=opening.summarisers,
        reminders=Reminders(read_facts, conversation, config.context_note_at, text.mode, text.attended),
        instruction_updates=FileInstructionUpdates(
            setup.root, config.project, lambda: approval.policy.added_folders, instructions, emit
        ),
        debug=debug,
    )


def _model_context(opening: OpeningSession) -> ModelContext:
    """Create the model context. For a restored session, it includes what its last request has revealed about the
    model."""
    config, connected, provider, last_request = (
        opening.setup.config,
        opening.connected,
        opening.provider,
        opening.recorder.last_request_mark,
    )
    retries = retry_limits(config, interactive=opening.is_interactive)
    return ModelContext(
        opening.targets,
        opening.recorder.family,
        connected.meter,
        RetryPolicy(retries, reached_models=connected.answered_models(last_request)),
        LearnedLimits(learned_window(last_request, provider)),
        effort_for(config, provider.facts),
    )


def _system_text(opening: OpeningSession, mode: Mode) -> SystemText:
    setup, provider, recorder = opening.setup, opening.provider, opening.recorder
    targets, role = opening.targets, opening.role
    text = resumed_system_text(
        setup.config,
        setup.root,
        opening.model,
        mode,
        (provider.window, *(target.window for target in targets.fallbacks)),
        recorder.last_request_mark,
        attended=opening.is_interactive,
        is_cached=is_in_cache(recorder.previous_model_use, provider.facts),
        is_small_model=provider.facts.is_small,
    )
    return text if role is None else replace(text, instructions=role.instructions(text.instructions, text.mode))


def startup_notices(setup: ProjectSetup, ctx: SessionContext, problem: str) -> Iterator[str]:
    """Yield the notices for the user before the first turn. `problem`: a problem with the project's rules."""
    archive, extensions = ctx.records.archive, ctx.calls.extensions
    yield from ctx.model.provider.window.notices
    yield from filter(None, (setup.store.notice, *(archive.problems if archive is not None else ()), problem))
    yield from ctx.window.instructions.problems
    yield from extensions.problems if extensions is not None else ()
