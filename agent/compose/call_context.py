"""Creates what a session's tool calls need: approval, workspace, checkpoints, and the contexts of turns and calls."""

from collections import ChainMap
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ebbtide.agent import providers
from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.execute import CallRunner, CheckpointGuard, no_checkpoint
from ebbtide.agent.calls.loop_guard import LoopGuard
from ebbtide.agent.calls.output_intake import OutputArchiver
from ebbtide.agent.calls.output_reader import OutputReader
from ebbtide.agent.calls.policy import Policy, parse_rule
from ebbtide.agent.calls.project_rules import ProjectRules
from ebbtide.agent.checkpoints.checkpoint_thread import CheckpointThread
from ebbtide.agent.checkpoints.session_checkpoints import SessionCheckpoints, open_project
from ebbtide.agent.compose.optional_parts import apply_skill_limits, create_hooks, create_tool_hooks
from ebbtide.agent.compose.session_parts import SessionParts
from ebbtide.agent.compose.session_tools import SessionTooling
from ebbtide.agent.compose.settings import (
    after_tool_hooks,
    build_offload_limits,
    build_policy,
    build_turn_limits,
    no_sandbox_reason,
)
from ebbtide.agent.records.session_log import past_tool_calls
from ebbtide.agent.window.server_tools import searchable_tools
from ebbtide.agent.window.session_context import CallContext, RecordContext, TurnContext
from ebbtide.agent.window.turn_limits import TurnUsage
from ebbtide.tools.base import ReadLimits, Workspace, no_user
from ebbtide.tools.submit_plan import SubmitPlan
from ebbtide.tools.task import Task
from ebbtide.tools.tool_output_cache import create_unlisted_tools

if TYPE_CHECKING:  # types only: few sessions have these
    from ebbtide.agent.subagents.role import SubagentContext


def create_approver(parts: SessionParts, tooling: SessionTooling) -> tuple[Approver, str]:
    """Create the approver. Also return a message if the project's rules could not be read."""
    setup = parts.setup
    role = parts.agent_role
    grants = parts.grants
    outputs_folder = parts.workspace.outputs_folder
    policy = build_policy(setup.config, setup.root, parts.initial_mode, outputs_folder)
    readable_folders = (*policy.readable_folders, *tooling.skill_folders)
    policy = replace(policy, added_folders=tuple(map(str, grants.added_folders)), readable_folders=readable_folders)
    if role is None:
        approver, rules_problem = _create_user_approver(policy, parts)
        approver.added_folders = grants.added_folders
        approver.record_mode = lambda mode: parts.recorder.switch_model(parts.models.model, mode)
    else:
        approver, rules_problem = role.create_approver(outputs_folder), ""
    apply_skill_limits(tooling.extensions, approver, parts.channel, setup.root)
    return approver, rules_problem


def _create_user_approver(policy: Policy, parts: SessionParts) -> tuple[Approver, str]:
    """Create the approver. Also return a message if the project's rules could not be read. If a user is present, the
    approver also accepts what the user has allowed before, either for the project or for this session since the program
    was started. Headless runs use only settings and flags."""
    setup = parts.setup
    row = parts.session_row
    channel = parts.channel
    granted_rules = parts.grants.rules
    get_unsandboxed_reason = partial(no_sandbox_reason, setup.config)
    if not channel.is_interactive:
        return Approver(policy, get_sandbox_problem=get_unsandboxed_reason), ""
    project_rules = ProjectRules(setup.config.folders.config, setup.root)
    saved_rules = project_rules.read()
    policy = replace(policy, allow_rules=(*policy.allow_rules, *map(parse_rule, saved_rules.allow), *granted_rules))
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
    approver.can_ask = lambda: channel.can_ask
    return approver, saved_rules.problem


def create_record_context(parts: SessionParts) -> RecordContext:
    """Open the checkpoints of the session; a sub-agent uses its parent's."""
    checkpoints = _create_checkpoints(parts) if parts.agent_role is None else None
    return RecordContext(parts.recorder, parts.archive, checkpoints)


def _create_checkpoints(parts: SessionParts) -> SessionCheckpoints | None:
    setup = parts.setup
    recorder = parts.recorder
    workspace = parts.workspace
    channel = parts.channel
    if setup.is_ephemeral or not setup.config.checkpoints_enabled:
        return None
    checkpoints = SessionCheckpoints(
        CheckpointThread(partial(open_project, setup.config, workspace.root)),
        recorder.session_id,
        lambda: recorder.message_count,
        lambda: bool(workspace.jobs.running_jobs),
        channel.emit,
        channel.interrupt,
        workspace.root if channel.is_interactive else None,
    )
    channel.observe_events(checkpoints.observe)
    return checkpoints


def create_tool_workspace(parts: SessionParts, tooling: SessionTooling) -> Workspace:
    """Return the workspace with the functions that tools use to look up content and ask the user."""
    config, questions, is_interactive = parts.setup.config, parts.channel.questions, parts.is_interactive
    return replace(
        parts.archive.with_recall(parts.workspace),
        estimate_tokens=parts.connected_model.meter.estimate_text,
        read_limits=ReadLimits(config.max_message_bytes, config.max_line_length),
        get_deferred_tools=lambda: searchable_tools(
            tooling.tools, tooling.server_tools, tooling.deferral.deferred_names
        ),
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
    parts: SessionParts, tooling: SessionTooling, approver: Approver, records: RecordContext, workspace: Workspace
) -> TurnContext:
    """Create the turn context: start the hooks, and set the limits of turns."""
    setup, role, channel = parts.setup, parts.agent_role, parts.channel
    config = setup.config
    hooks = create_hooks(
        config, parts.recorder, workspace, channel, setup.secrets, lambda: approver.policy.mode, parts.exit_stack,
        tooling.trust, checkpoint_guard(records, role), parts.start_source,
    )  # fmt: skip
    return TurnContext(
        records,
        channel.interrupt,
        channel.emit,
        build_turn_limits(config, is_interactive=parts.is_interactive) if role is None else role.turn_limits(config),
        TurnUsage(role.parent.turn.allowance if role is not None else None),
        hooks,
    )


def create_call_context(
    parts: SessionParts, tooling: SessionTooling, approver: Approver, turn: TurnContext, workspace: Workspace
) -> CallContext:
    """Create the call context, which connects the tools with the parts that approve, run and store their calls."""
    setup = parts.setup
    role = parts.agent_role
    models = parts.models
    archive = parts.archive
    config = setup.config
    emit, interrupt, session_id = turn.emit, turn.interrupt, parts.session_row.id
    guard = checkpoint_guard(turn.records, role)
    output_reader = OutputReader(lambda: models.provider, session_id, interrupt, emit, parts.summarisers)
    record_file_changes = (
        archive.file_history.record_changes if role is None else role.parent.calls.runner.record_file_changes
    )
    tool_hooks = create_tool_hooks(
        turn.hooks if role is None else role.hooks,
        after_tool_hooks(config),
        session_id,
        config.project_folder,
        workspace,
        parts.channel,
        guard,
        agent_input={} if role is None else role.hook_fields,
    )
    output_intake = OutputArchiver(
        archive.archive, build_offload_limits(config), emit, output_reader, parts.debug, tool_hooks
    )
    tools = (Task(), *tooling.tools, SubmitPlan(), *create_unlisted_tools())
    runner = CallRunner(
        tools=ChainMap({tool.name: tool for tool in tools}, tooling.server_tools.callable_tools),
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
    servers, agents, extensions = tooling.servers, tooling.agents, tooling.extensions
    return CallContext(runner, servers, agents, extensions, tooling.trust, parts.language_service)


def checkpoint_guard(records: RecordContext, role: "SubagentContext | None") -> CheckpointGuard:
    """Return the guard that makes a checkpoint around a call; a sub-agent uses its parent's."""
    if role is not None:
        return role.checkpoint_guard
    return records.checkpoints.guard_call if records.checkpoints is not None else no_checkpoint
