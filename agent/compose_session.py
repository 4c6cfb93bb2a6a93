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
    """What all sessions of a project have in common."""

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
    """Whether the session was already opened in this run of the program."""


@dataclass(frozen=True, slots=True)
class OpeningSession:
    """The parts of a session that is being opened; its contexts are created from them."""

    setup: ProjectSetup
    row: SessionRow
    model: str
    connected: ConnectedModel
    closing: AsyncExitStack
    """Collects everything that must be closed with the session."""
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
        """Whether the user resumes a session that was last open in an earlier run of the program."""
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
    """Create the parts that the contexts of a session share. `connect`: connects a fallback model."""
    config, is_interactive = setup.config, setup.interactive and role is None
    channel, output_folder = Channel(interactive=is_interactive), _create_outputs_folder(setup, row.id, closing)
    for sink in setup.sinks:
        sink.follow(channel)
    sandbox = _create_sandbox(setup, output_folder, grants.roots, closing)
    workspace = Workspace(setup.root, output_folder, sandbox=sandbox, max_output_bytes=config.archive_max_output_bytes)
    if role is not None:
        workspace = role.workspace(workspace)
    language_service = _create_language_service(setup, workspace, role, closing)
    recorder = _create_recorder(setup, row, channel, workspace, is_new=source in NEW_SESSION)
    await learn_git_passwords(setup.secrets, setup.root)  # the user may mention passwords before any call
    workspace.jobs.on_end = job_listener(channel, recorder, setup.secrets)
    port_policy = (
        "off" if config.sandbox_ports == "ask" and not is_interactive else config.sandbox_ports
    )  # without a user, nothing can be asked
    ports = JobPortsOnDemand(workspace, port_policy, channel.notice)
    closing.push_async_callback(ports.close)
    debug = debug_log(config, setup.environment, interactive=is_interactive)
    archive = SessionArchive.open(setup.thread, setup.store, recorder, workspace, config, debug)
    models = session_models(config, model, connected.provider, connect)
    closing.push_async_callback(models.close)
    summarisers = build_summarisers(config, setup.environment, lambda: models.provider.facts, secrets=setup.secrets)
    closing.push_async_callback(summarisers.close)
    return OpeningSession(
        setup, row, model, connected, closing, grants, source, role, channel, debug, workspace, language_service,
        recorder, archive, CallProgress(recorder.record_call_states), models, summarisers,
    )  # fmt: skip


def _create_outputs_folder(setup: ProjectSetup, session_id: str, exit_stack: AsyncExitStack) -> Path:
    """Return the folder for command output that is not stored yet."""
    if not setup.ephemeral:
        folder = outputs_folder(setup.config, session_id).resolve()
        exit_stack.callback(_remove_if_empty, folder)
        return folder
    folder = Path(tempfile.mkdtemp(prefix="ebb-")).resolve()
    exit_stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):  # the folder does not exist, or still contains command output
        folder.rmdir()


def _create_sandbox(
    setup: ProjectSetup, output_folder: Path, added_folders: list[Path], exit_stack: AsyncExitStack
) -> Sandbox | None:
    """Create the sandbox for a session's commands. Its /tmp is removed when the session ends."""
    if setup.config.sandbox == "off":
        return None
    folders, temp_folder = setup.config.folders, output_folder / "tmp"
    exit_stack.callback(shutil.rmtree, temp_folder, ignore_errors=True)
    script_folders = (
        folders.data / "plugins",
        *skill_folders(setup.config),
    )  # skills contain scripts that commands run
    readable_paths = (setup.root, output_folder, *(folder.resolve() for folder in script_folders if folder.is_dir()))
    app_folders = (folders.config, folders.data, folders.logs)
    network = SessionNetwork(setup.config.web_private)
    exit_stack.push_async_callback(network.close)
    return Sandbox(
        setup.root, temp_folder, added_folders, app_folders, readable_paths, has_network=False, network=network
    )


def _create_language_service(
    setup: ProjectSetup, workspace: Workspace, role: "AgentRole | None", exit_stack: AsyncExitStack
) -> LanguageService | None:
    """Return the language service; a sub-agent uses its parent's."""
    shared = role.parent.calls.languages if role is not None else None
    if shared is not None:
        return shared
    log_folder = workspace.outputs / "language-servers" if setup.ephemeral else None
    language_service = language_servers_of(setup.config, setup.root, workspace.sandbox, setup.environment, log_folder)
    if language_service is not None:
        exit_stack.push_async_callback(language_service.close)
    return language_service


def _create_recorder(
    setup: ProjectSetup, row: SessionRow, channel: Channel, workspace: Workspace, *, is_new: bool
) -> Recorder:
    write_queue = WriteQueue(setup.thread, setup.store, channel.notice, channel.interrupt)
    read_workspace_state = partial(workspace_state, workspace)
    recorder = Recorder(
        setup.thread,
        setup.store,
        row,
        is_new=is_new,
        get_workspace_state=read_workspace_state,
        on_jobs_reported=workspace.jobs.mark_reported,
        writes=write_queue,
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
    setup, role, grants, output_folder = opening.setup, opening.role, opening.grants, opening.workspace.outputs
    policy = policy_of(setup.config, setup.root, _initial_mode(opening), output_folder)
    readable_folders = (*policy.readable_folders, *project.skill_folders)
    policy = replace(policy, added_folders=tuple(map(str, grants.roots)), readable_folders=readable_folders)
    if role is None:
        approver, rules_problem = _create_user_approver(policy, opening)
        approver.added_folders = grants.roots
        approver.record_mode = lambda mode: opening.recorder.switch_model(opening.targets.model, mode)
    else:
        approver, rules_problem = role.create_approver(output_folder), ""
    apply_skill_limits(project.extensions, approver, opening.channel, setup.root)
    return approver, rules_problem


def _create_user_approver(policy: Policy, opening: OpeningSession) -> tuple[Approver, str]:
    """Return the approver, and a problem text if the project's rules could not be read. With a user present, it also
    accepts earlier approvals, both those stored for the project and those given for this session since the program was
    started. Headless runs use only settings and flags."""
    setup, row, channel, granted_rules = opening.setup, opening.row, opening.channel, opening.grants.rules
    get_unsandboxed_reason = partial(no_sandbox_reason, setup.config)
    if not channel.is_interactive:
        return Approver(policy, why_unsandboxed=get_unsandboxed_reason), ""
    project_rules = ProjectRules(setup.config.folders.config, setup.root)
    saved_rules = project_rules.read()
    policy = replace(policy, allow=(*policy.allow, *map(parse_rule, saved_rules.allow), *granted_rules))
    find_past_calls = partial(past_tool_calls, setup.thread, setup.store, row.project, row.id)
    ask_permission, ask_about_plan = channel.questions.ask_permission, channel.questions.ask_plan
    approver = Approver(
        policy,
        ask_permission,
        find_past_calls,
        project_rules,
        opening.progress.record_question,
        granted_rules,
        ask_about_plan,
        why_unsandboxed=get_unsandboxed_reason,
    )
    approver.can_ask = lambda: channel.is_open
    return approver, saved_rules.problem


def _initial_mode(opening: OpeningSession) -> Mode:
    """Return the permission mode: the session's own, or the configured one if the user resumes a session from an
    earlier run."""
    config = opening.setup.config
    return config.permission_mode if opening.is_from_other_run else mode_of(config, opening.row.mode)


def record_context(opening: OpeningSession) -> RecordContext:
    """Open the checkpoints of the session; a sub-agent uses its parent's."""
    checkpoints = _create_checkpoints(opening) if opening.role is None else None
    return RecordContext(opening.recorder, opening.archive, checkpoints)


def _create_checkpoints(opening: OpeningSession) -> SessionCheckpoints | None:
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
    """Return the workspace with the functions that tools use to look up content and ask the user."""
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
    """Create the call context, which connects the tools with the parts that approve, run and store their calls."""
    setup, role, models, archive = opening.setup, opening.role, opening.targets, opening.archive
    config = setup.config
    emit, interrupt, session_id = turn.emit, turn.interrupt, opening.row.id
    guard = checkpoint_guard(turn.records, role)
    output_reader = OutputReader(lambda: models.provider, session_id, interrupt, emit, opening.summarisers)
    record_file_changes = archive.files.record_changes if role is None else role.parent.calls.runner.record_file_changes
    tool_hooks = tool_hooks_for(
        turn.hooks if role is None else role.hooks, hooks_for_calls(config), session_id, config.project, workspace,
        opening.channel, guard, {} if role is None else role.hook_input,
    )  # fmt: skip
    output_intake = OutputIntake(
        archive.archive, offload_limits(config), emit, output_reader, opening.debug, tool_hooks
    )
    tools = (Task(), *project.tools, SubmitPlan(), *unlisted_tools())
    runner = CallRunner(
        ChainMap({tool.name: tool for tool in tools}, project.server_tools.callable), workspace, approval,
        interrupt, emit, output_intake, record_file_changes, opening.progress, LoopGuard(), setup.secrets, guard,
        config.web_private, emits_diffs=opening.is_interactive, diagnose_changes=opening.look_at_changes,
        hooks=tool_hooks, save_open_files=setup.save_open_files,
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
    mode, row, model = _initial_mode(opening), opening.row, opening.model
    if opening.is_new:
        return Conversation(), mode, None
    recorder, is_interactive = opening.recorder, opening.is_interactive
    conversation, resumed = await restore(recorder, workspace, model, mode, opening.debug, ask_again=is_interactive)
    if any(call.name == PLAN for call in conversation.unanswered_calls):
        mode = "plan"  # so the question about the plan is asked again
        await approval.change_mode(mode)
    previous_mode = row.mode if opening.is_from_other_run and mode != row.mode else ""
    if model != row.model or previous_mode:
        await recorder.switch_model(model, mode)  # stored, because listings of sessions show it
    conversation = without_foreign_counts(conversation, opening.provider.facts.id)
    return conversation, mode, replace(resumed, mode=mode, mode_before=previous_mode)


def window_context(
    opening: OpeningSession, project: ProjectParts, approval: Approver, conversation: Conversation, mode: Mode
) -> WindowContext:
    """Create the window context: the system prompt, and the parts that measure and rewrite the conversation."""
    setup, recorder, tools, deferral = opening.setup, opening.recorder, project.tools, project.deferral
    config = setup.config
    system_text = _build_system_text(opening, mode)
    emit, debug, instructions = opening.channel.emit, opening.debug, system_text.instructions
    read_environment = partial(environment_facts, config, attended=opening.is_interactive)
    read_facts = partial(current_facts, read_environment, approval, tools, deferral, project.server_tools)
    own_specs = specs_of(offered_tools(tools, system_text.mode, attended=system_text.attended))
    return WindowContext(
        _create_model_context(opening),
        instructions,
        SessionTools(own_specs, project.server_tools, deferral),
        watch=PrefixWatch(
            emit, debug, time.monotonic, instructions.sections, recorder.last_request_mark, recorder.previous_model_use
        ),
        compaction_settings=compaction_settings(config, opening.provider.window.effective),
        summarisers=opening.summarisers,
        reminders=Reminders(read_facts, conversation, config.context_note_at, system_text.mode, system_text.attended),
        instruction_updates=FileInstructionUpdates(
            setup.root, config.project, lambda: approval.policy.added_folders, instructions, emit
        ),
        debug=debug,
    )


def _create_model_context(opening: OpeningSession) -> ModelContext:
    """Create the model context. For a resumed session, it includes what the last request revealed about the model."""
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


def _build_system_text(opening: OpeningSession, mode: Mode) -> SystemText:
    setup, provider, recorder = opening.setup, opening.provider, opening.recorder
    models, role = opening.targets, opening.role
    system_text = resumed_system_text(
        setup.config,
        setup.root,
        opening.model,
        mode,
        (provider.window, *(target.window for target in models.fallbacks)),
        recorder.last_request_mark,
        attended=opening.is_interactive,
        is_cached=is_in_cache(recorder.previous_model_use, provider.facts),
        is_small_model=provider.facts.is_small,
    )
    return (
        system_text
        if role is None
        else replace(system_text, instructions=role.instructions(system_text.instructions, system_text.mode))
    )


def startup_notices(setup: ProjectSetup, ctx: SessionContext, problem: str) -> Iterator[str]:
    """Yield the notices for the user before the first turn. `problem`: a problem with the project's rules."""
    archive, extensions = ctx.records.archive, ctx.calls.extensions
    yield from ctx.model.provider.window.notices
    yield from filter(None, (setup.store.notice, *(archive.problems if archive is not None else ()), problem))
    yield from ctx.window.instructions.problems
    yield from extensions.problems if extensions is not None else ()
