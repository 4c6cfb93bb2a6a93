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

from ebbtide.agent import providers
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
from ebbtide.agent.calls.git_secrets import add_git_passwords
from ebbtide.agent.calls.loop_guard import LoopGuard
from ebbtide.agent.calls.output_intake import OutputIntake
from ebbtide.agent.calls.output_reader import OutputReader
from ebbtide.agent.calls.policy import Policy, Rule, parse_rule
from ebbtide.agent.calls.project_rules import ProjectRules
from ebbtide.agent.channel import Channel, EventSink
from ebbtide.agent.checkpoints.checkpoint_thread import CheckpointThread
from ebbtide.agent.checkpoints.session_checkpoints import SessionCheckpoints, open_project
from ebbtide.agent.compose_project import (
    AgentsOnDemand,
    apply_skill_limits,
    create_language_service,
    create_servers,
    create_tool_hooks,
    hooks_for_session,
    load_extensions,
    project_trust,
    skill_folders,
)
from ebbtide.agent.config.options import Mode
from ebbtide.agent.config.values import Config
from ebbtide.agent.control_calls import PLAN_TOOL
from ebbtide.agent.debug import DebugLog
from ebbtide.agent.events.session import Resumed
from ebbtide.agent.input.instruction_updates import InstructionTracker
from ebbtide.agent.messages import Conversation
from ebbtide.agent.prompt.secret_tokens import SecretTokens
from ebbtide.agent.providers.base import Provider
from ebbtide.agent.providers.factory import build_summarisers, create_session_models
from ebbtide.agent.providers.fallbacks import ConnectedModel, SessionModels
from ebbtide.agent.providers.learned_limits import LearnedLimits, SummariserSource, learned_window
from ebbtide.agent.providers.stream import RetryPolicy
from ebbtide.agent.providers.usage import without_foreign_counts
from ebbtide.agent.records.call_progress import CallProgress
from ebbtide.agent.records.job_reports import JobPortsOnDemand, create_job_listener
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.resume import resume_session
from ebbtide.agent.records.session_log import past_tool_calls
from ebbtide.agent.records.session_state import workspace_state
from ebbtide.agent.records.store_access import outputs_folder
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.records.write_queue import WriteQueue
from ebbtide.agent.session_settings import (
    SystemText,
    after_tool_hooks,
    build_compaction_settings,
    build_offload_limits,
    build_policy,
    build_resumed_system_text,
    build_retry_limits,
    build_turn_limits,
    choose_mode,
    create_debug_log,
    effort_for,
    environment_facts,
    is_in_cache,
    no_sandbox_reason,
    offered_tools,
    select_session_tools,
)
from ebbtide.agent.window.deferral import Deferral, create_specs
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
from ebbtide.tools.outputs.recall_results import no_progress
from ebbtide.tools.sandbox.network import SessionNetwork
from ebbtide.tools.sandbox.sandbox import Sandbox
from ebbtide.tools.submit_plan import SubmitPlan
from ebbtide.tools.task import Task
from ebbtide.tools.tool_output_cache import unlisted_tools

if TYPE_CHECKING:  # types only: few sessions have these
    from ebbtide.agent.extensions.session_extensions import SessionExtensions
    from ebbtide.agent.extensions.session_trust import SessionTrust
    from ebbtide.agent.hooks.session_hooks import StartSource
    from ebbtide.agent.subagents.role import SubagentContext
    from ebbtide.agent.subagents.session_agents import ComposeAgentSession

NEW_SESSION_SOURCES = ("startup", "clear")
"""Start sources of sessions that begin without a conversation."""


@dataclass(frozen=True, slots=True)
class ProjectSetup:
    """What all sessions of a project have in common."""

    config: Config
    root: Path
    environment: Mapping[str, str]
    store_thread: StoreThread
    store: SessionStore
    is_interactive: bool
    """Whether a user is present to answer."""
    is_ephemeral: bool
    """Whether nothing is stored."""
    secrets: SecretTokens = field(default_factory=SecretTokens)
    """Replaces secrets in what models see."""
    extra_tools: tuple[Tool, ...] = ()
    """Tools in addition to the built-in ones."""
    save_open_files: SaveOpenFiles = no_open_editors
    sinks: tuple[EventSink, ...] = ()
    on_restore_progress: Callable[[int, int], None] = no_progress
    """Called while a session is resumed, with the number of messages read so far and in total."""


@dataclass(frozen=True, slots=True)
class SessionGrants:
    """What the user has allowed for one session since the program was started."""

    rules: list[Rule]
    added_folders: list[Path]
    """Additional working folders."""
    was_opened_before: bool
    """Whether the session was already opened in this run of the program."""


@dataclass(frozen=True, slots=True)
class SessionParts:
    """The parts of a session that is being opened; its contexts are created from them."""

    setup: ProjectSetup
    session_row: SessionRow
    model: str
    connected_model: ConnectedModel
    exit_stack: AsyncExitStack
    """Collects everything that must be closed with the session."""
    grants: SessionGrants
    start_source: "StartSource | None"
    """How the session starts; None if it is reopened right after closing."""
    agent_role: "SubagentContext | None"
    """The definition and parent of a sub-agent; None for other sessions."""
    channel: Channel
    debug: DebugLog
    workspace: Workspace
    """The workspace with folders and sandbox. `create_tool_workspace` adds the functions that look up stored
    content."""
    language_service: LanguageService | None
    recorder: Recorder
    archive: SessionArchive
    call_progress: CallProgress
    models: SessionModels
    summarisers: SummariserSource

    @property
    def diagnose_changes(self) -> DiagnoseChanges:
        return self.language_service.diagnose_changes if self.language_service is not None else no_diagnostics

    @property
    def is_new(self) -> bool:
        return self.start_source in NEW_SESSION_SOURCES

    @property
    def is_interactive(self) -> bool:
        """Whether a user is present to answer this session."""
        return self.channel.is_interactive

    @property
    def is_resumed_from_earlier_run(self) -> bool:
        """Whether the user resumes a session that was last open in an earlier run of the program."""
        return self.is_interactive and not self.is_new and not self.grants.was_opened_before

    @property
    def provider(self) -> Provider:
        return self.connected_model.provider


@dataclass(frozen=True, slots=True)
class SessionTooling:
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


async def create_session_parts(
    setup: ProjectSetup,
    connect_model: Callable[[str], Awaitable[ConnectedModel]],
    session_row: SessionRow,
    model: str,
    connected_model: ConnectedModel,
    exit_stack: AsyncExitStack,
    grants: SessionGrants,
    start_source: "StartSource | None",
    agent_role: "SubagentContext | None",
) -> SessionParts:
    """Create the parts that the contexts of a session share. `connect_model`: connects a fallback model."""
    config, is_interactive = setup.config, setup.is_interactive and agent_role is None
    channel, output_folder = (
        Channel(is_interactive=is_interactive),
        _create_outputs_folder(setup, session_row.id, exit_stack),
    )
    for sink in setup.sinks:
        sink.follow(channel)
    sandbox = _create_sandbox(setup, output_folder, grants.added_folders, exit_stack)
    workspace = Workspace(setup.root, output_folder, sandbox=sandbox, max_output_bytes=config.archive_max_output_bytes)
    if agent_role is not None:
        workspace = agent_role.with_parent_variables(workspace)
    language_service = _create_language_service(setup, workspace, agent_role, exit_stack)
    recorder = _create_recorder(setup, session_row, channel, workspace, is_new=start_source in NEW_SESSION_SOURCES)
    await add_git_passwords(setup.secrets, setup.root)  # the user may mention passwords before any call
    workspace.jobs.on_end = create_job_listener(channel, recorder, setup.secrets)
    port_policy = (
        "off" if config.sandbox_ports == "ask" and not is_interactive else config.sandbox_ports
    )  # without a user, nothing can be asked
    ports = JobPortsOnDemand(workspace, port_policy, channel.notice)
    exit_stack.push_async_callback(ports.close)
    debug = create_debug_log(config, setup.environment, is_interactive=is_interactive)
    archive = SessionArchive.open(setup.store_thread, setup.store, recorder, workspace, config, debug)
    models = create_session_models(config, model, connected_model.provider, connect_model)
    exit_stack.push_async_callback(models.close)
    summarisers = build_summarisers(config, setup.environment, lambda: models.provider.facts, secrets=setup.secrets)
    exit_stack.push_async_callback(summarisers.close)
    return SessionParts(
        setup=setup,
        session_row=session_row,
        model=model,
        connected_model=connected_model,
        exit_stack=exit_stack,
        grants=grants,
        start_source=start_source,
        agent_role=agent_role,
        channel=channel,
        debug=debug,
        workspace=workspace,
        language_service=language_service,
        recorder=recorder,
        archive=archive,
        call_progress=CallProgress(recorder.record_call_states),
        models=models,
        summarisers=summarisers,
    )


def _create_outputs_folder(setup: ProjectSetup, session_id: str, exit_stack: AsyncExitStack) -> Path:
    """Return the folder for command output that is not stored yet."""
    if not setup.is_ephemeral:
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
    setup: ProjectSetup, workspace: Workspace, role: "SubagentContext | None", exit_stack: AsyncExitStack
) -> LanguageService | None:
    """Return the language service; a sub-agent uses its parent's."""
    shared = role.parent.calls.language_service if role is not None else None
    if shared is not None:
        return shared
    log_folder = workspace.outputs_folder / "language-servers" if setup.is_ephemeral else None
    language_service = create_language_service(
        setup.config, setup.root, workspace.sandbox, setup.environment, log_folder
    )
    if language_service is not None:
        exit_stack.push_async_callback(language_service.close)
    return language_service


def _create_recorder(
    setup: ProjectSetup, row: SessionRow, channel: Channel, workspace: Workspace, *, is_new: bool
) -> Recorder:
    write_queue = WriteQueue(setup.store_thread, setup.store, channel.notice, channel.interrupt)
    read_workspace_state = partial(workspace_state, workspace)
    recorder = Recorder(
        setup.store_thread,
        setup.store,
        row,
        is_new=is_new,
        get_workspace_state=read_workspace_state,
        on_jobs_reported=workspace.jobs.mark_reported,
        writes=write_queue,
    )
    recorder.log.on_progress = setup.on_restore_progress
    return recorder


async def load_session_tooling(parts: SessionParts, compose_agent: "ComposeAgentSession") -> SessionTooling:
    """Find the user's and the project's tools and extensions, and create what they need."""
    setup, role, channel = parts.setup, parts.agent_role, parts.channel
    config = setup.config
    settings = build_compaction_settings(config, parts.provider.window.effective)
    tools = select_session_tools(
        settings,
        config,
        parts.language_service,
        can_store=not setup.is_ephemeral,
        provider_searches=parts.provider.facts.searches_web,
        extra_tools=setup.extra_tools,
    )
    server_tools = ServerTools() if role is None else role.server_tools()
    trust = await project_trust(config, channel, parts.language_service) if role is None else None
    extensions = await load_extensions(config, trust)
    agents = AgentsOnDemand(extensions, config.agents_concurrent, compose_agent)
    tools = agents.with_task_tool(tools) if role is None else role.select_tools(tools)
    servers = create_servers(config, setup.environment, setup.root, server_tools, channel, parts.exit_stack, trust)
    deferral = Deferral(
        config.tool_deferral_threshold,
        await parts.recorder.last_tool_uses(),
        offers_search=bool(servers.entries if servers is not None else server_tools.available_specs),
        reduces_tools=not config.tools_allowed,
    )
    return SessionTooling(tools, server_tools, deferral, trust, extensions, agents, servers)


def create_approver(parts: SessionParts, project: SessionTooling) -> tuple[Approver, str]:
    """Return the approver, and a problem text if the project's rules could not be read."""
    setup, role, grants, output_folder = (
        parts.setup,
        parts.agent_role,
        parts.grants,
        parts.workspace.outputs_folder,
    )
    policy = build_policy(setup.config, setup.root, _initial_mode(parts), output_folder)
    readable_folders = (*policy.readable_folders, *project.skill_folders)
    policy = replace(policy, added_folders=tuple(map(str, grants.added_folders)), readable_folders=readable_folders)
    if role is None:
        approver, rules_problem = _create_user_approver(policy, parts)
        approver.added_folders = grants.added_folders
        approver.record_mode = lambda mode: parts.recorder.switch_model(parts.models.model, mode)
    else:
        approver, rules_problem = role.create_approver(output_folder), ""
    apply_skill_limits(project.extensions, approver, parts.channel, setup.root)
    return approver, rules_problem


def _create_user_approver(policy: Policy, parts: SessionParts) -> tuple[Approver, str]:
    """Return the approver, and a problem text if the project's rules could not be read. With a user present, it also
    accepts earlier approvals, both those stored for the project and those given for this session since the program was
    started. Headless runs use only settings and flags."""
    setup, row, channel, granted_rules = parts.setup, parts.session_row, parts.channel, parts.grants.rules
    get_unsandboxed_reason = partial(no_sandbox_reason, setup.config)
    if not channel.is_interactive:
        return Approver(policy, get_sandbox_problem=get_unsandboxed_reason), ""
    project_rules = ProjectRules(setup.config.folders.config, setup.root)
    saved_rules = project_rules.read()
    policy = replace(policy, allow=(*policy.allow, *map(parse_rule, saved_rules.allow), *granted_rules))
    find_past_calls = partial(past_tool_calls, setup.store_thread, setup.store, row.project, row.id)
    ask_permission, ask_about_plan = channel.questions.ask_permission, channel.questions.ask_plan
    approver = Approver(
        policy,
        ask_permission,
        find_past_calls,
        project_rules,
        parts.call_progress.record_question,
        granted_rules,
        ask_about_plan,
        get_sandbox_problem=get_unsandboxed_reason,
    )
    approver.can_ask = lambda: channel.is_open
    return approver, saved_rules.problem


def _initial_mode(parts: SessionParts) -> Mode:
    """Return the permission mode: the session's own, or the configured one if the user resumes a session from an
    earlier run."""
    config = parts.setup.config
    return config.permission_mode if parts.is_resumed_from_earlier_run else choose_mode(config, parts.session_row.mode)


def create_record_context(parts: SessionParts) -> RecordContext:
    """Open the checkpoints of the session; a sub-agent uses its parent's."""
    checkpoints = _create_checkpoints(parts) if parts.agent_role is None else None
    return RecordContext(parts.recorder, parts.archive, checkpoints)


def _create_checkpoints(parts: SessionParts) -> SessionCheckpoints | None:
    setup, recorder, workspace, channel = parts.setup, parts.recorder, parts.workspace, parts.channel
    if setup.is_ephemeral or not setup.config.checkpoints_enabled:
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
    channel.observe_events(checkpoints.observe)
    return checkpoints


def create_tool_workspace(parts: SessionParts, project: SessionTooling) -> Workspace:
    """Return the workspace with the functions that tools use to look up content and ask the user."""
    config, questions, is_interactive = parts.setup.config, parts.channel.questions, parts.is_interactive
    return replace(
        parts.archive.with_lookup(parts.workspace),
        estimate_tokens=parts.connected_model.meter.text_tokens,
        read_limits=ReadLimits(config.max_message_bytes, config.max_line_length),
        get_deferred_tools=lambda: searchable_tools(project.tools, project.server_tools, project.deferral.deferred),
        ask=questions.ask_text if is_interactive else no_user,
        ask_multiple=questions.ask_choices if is_interactive else no_user,
        search_web=partial(_search_web, parts),
    )


async def _search_web(parts: SessionParts, query: str) -> str:
    """Have the provider of the session's current model search the web. Raises `ToolError`."""
    channel, session_id = parts.channel, parts.session_row.id
    search = providers.web_search.ProviderSearch(parts.models.provider, session_id, channel.interrupt, channel.emit)
    return await search.find(query)


def create_turn_context(
    parts: SessionParts, project: SessionTooling, approver: Approver, records: RecordContext, workspace: Workspace
) -> TurnContext:
    """Create the turn context: start the hooks, and set the limits of turns."""
    setup, role, channel = parts.setup, parts.agent_role, parts.channel
    config = setup.config
    hooks = hooks_for_session(
        config, parts.recorder, workspace, channel, setup.secrets, lambda: approver.policy.mode, parts.exit_stack,
        project.trust, checkpoint_guard(records, role), parts.start_source,
    )  # fmt: skip
    return TurnContext(
        records,
        channel.interrupt,
        channel.emit,
        build_turn_limits(config, is_interactive=parts.is_interactive) if role is None else role.turn_limits(config),
        Allowance(role.parent.turn.allowance if role is not None else None),
        hooks,
    )


def create_call_context(
    parts: SessionParts, project: SessionTooling, approver: Approver, turn: TurnContext, workspace: Workspace
) -> CallContext:
    """Create the call context, which connects the tools with the parts that approve, run and store their calls."""
    setup, role, models, archive = parts.setup, parts.agent_role, parts.models, parts.archive
    config = setup.config
    emit, interrupt, session_id = turn.emit, turn.interrupt, parts.session_row.id
    guard = checkpoint_guard(turn.records, role)
    output_reader = OutputReader(lambda: models.provider, session_id, interrupt, emit, parts.summarisers)
    record_file_changes = (
        archive.file_log.record_changes if role is None else role.parent.calls.runner.record_file_changes
    )
    tool_hooks = create_tool_hooks(
        turn.hooks if role is None else role.hooks,
        after_tool_hooks(config),
        session_id,
        config.project_folder,
        workspace,
        parts.channel,
        guard,
        agent_input={} if role is None else role.hook_input,
    )
    output_intake = OutputIntake(
        archive.archive, build_offload_limits(config), emit, output_reader, parts.debug, tool_hooks
    )
    tools = (Task(), *project.tools, SubmitPlan(), *unlisted_tools())
    runner = CallRunner(
        tools=ChainMap({tool.name: tool for tool in tools}, project.server_tools.callable_tools),
        workspace=workspace,
        approver=approver,
        interrupt=interrupt,
        emit=emit,
        output_store=output_intake,
        record_file_changes=record_file_changes,
        progress=parts.call_progress,
        loop_guard=LoopGuard(),
        secrets=setup.secrets,
        checkpoint_guard=guard,
        private_hosts=config.web_private,
        diagnose_changes=parts.diagnose_changes,
        emits_diffs=parts.is_interactive,
        hooks=tool_hooks,
        save_open_files=setup.save_open_files,
    )
    servers, agents, extensions = project.servers, project.agents, project.extensions
    return CallContext(runner, servers, agents, extensions, project.trust, parts.language_service)


def checkpoint_guard(records: RecordContext, role: "SubagentContext | None") -> CheckpointGuard:
    """Return the guard that makes a checkpoint around a call; a sub-agent uses its parent's."""
    if role is not None:
        return role.checkpoint_guard
    return records.checkpoints.around_call if records.checkpoints is not None else no_checkpoint


async def restore_conversation(
    parts: SessionParts, approver: Approver, workspace: Workspace
) -> tuple[Conversation, Mode, Resumed | None]:
    """Load the conversation. Return it with the mode in which it continues and a report for the user."""
    mode, row, model = _initial_mode(parts), parts.session_row, parts.model
    if parts.is_new:
        return Conversation(), mode, None
    recorder, is_interactive = parts.recorder, parts.is_interactive
    conversation, resumed = await resume_session(
        recorder, workspace, model, mode, parts.debug, ask_again=is_interactive
    )
    if any(call.name == PLAN_TOOL for call in conversation.unanswered_calls):
        mode = "plan"  # so the question about the plan is asked again
        await approver.change_mode(mode)
    previous_mode = row.mode if parts.is_resumed_from_earlier_run and mode != row.mode else ""
    if model != row.model or previous_mode:
        await recorder.switch_model(model, mode)  # stored, because listings of sessions show it
    conversation = without_foreign_counts(conversation, parts.provider.facts.id)
    return conversation, mode, replace(resumed, mode=mode, mode_before=previous_mode)


def create_window_context(
    parts: SessionParts, project: SessionTooling, approver: Approver, conversation: Conversation, mode: Mode
) -> WindowContext:
    """Create the window context: the system prompt, and the parts that measure and rewrite the conversation."""
    setup, recorder, tools, deferral = parts.setup, parts.recorder, project.tools, project.deferral
    config = setup.config
    system_text = _build_system_text(parts, mode)
    emit, debug, instructions = parts.channel.emit, parts.debug, system_text.instructions
    read_environment = partial(environment_facts, config, is_interactive=parts.is_interactive)
    read_facts = partial(current_facts, read_environment, approver, tools, deferral, project.server_tools)
    own_specs = create_specs(offered_tools(tools, system_text.mode, is_interactive=system_text.is_interactive))
    return WindowContext(
        _create_model_context(parts),
        instructions,
        SessionTools(own_specs, project.server_tools, deferral),
        prefix_watch=PrefixWatch(
            emit, debug, time.monotonic, instructions.sections, recorder.last_request_mark, recorder.previous_model_use
        ),
        compaction_settings=build_compaction_settings(config, parts.provider.window.effective),
        summarisers=parts.summarisers,
        reminders=Reminders(
            read_facts, conversation, config.context_note_at, system_text.mode, system_text.is_interactive
        ),
        instruction_updates=InstructionTracker(
            setup.root, config.project_folder, lambda: approver.policy.added_folders, instructions, emit
        ),
        debug=debug,
    )


def _create_model_context(parts: SessionParts) -> ModelContext:
    """Create the model context. For a resumed session, it includes what the last request revealed about the model."""
    config, connected, provider, last_request = (
        parts.setup.config,
        parts.connected_model,
        parts.provider,
        parts.recorder.last_request_mark,
    )
    retries = build_retry_limits(config, interactive=parts.is_interactive)
    return ModelContext(
        parts.models,
        parts.recorder.family,
        connected.meter,
        RetryPolicy(retries, reached_models=connected.answered_models(last_request)),
        LearnedLimits(learned_window(last_request, provider)),
        effort_for(config, provider.facts),
    )


def _build_system_text(parts: SessionParts, mode: Mode) -> SystemText:
    setup, provider, recorder = parts.setup, parts.provider, parts.recorder
    models, role = parts.models, parts.agent_role
    system_text = build_resumed_system_text(
        setup.config,
        setup.root,
        parts.model,
        mode,
        (provider.window, *(target.window for target in models.fallbacks)),
        recorder.last_request_mark,
        is_interactive=parts.is_interactive,
        is_cached=is_in_cache(recorder.previous_model_use, provider.facts),
        is_small_model=provider.facts.is_small,
    )
    return (
        system_text
        if role is None
        else replace(system_text, instructions=role.add_agent_prompt(system_text.instructions, system_text.mode))
    )


def startup_notices(setup: ProjectSetup, ctx: SessionContext, rules_problem: str) -> Iterator[str]:
    """Yield the notices for the user before the first turn. `rules_problem`: a problem with the project's rules."""
    archive, extensions = ctx.records.archive, ctx.calls.extensions
    yield from ctx.model.provider.window.notices
    yield from filter(None, (setup.store.notice, *(archive.problems if archive is not None else ()), rules_problem))
    yield from ctx.window.instructions.problems
    yield from extensions.problems if extensions is not None else ()
