"""Loads the conversation of a session, and creates the context that measures and rewrites it."""

import time
from dataclasses import replace
from functools import partial

from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.compose.session_parts import SessionParts
from ebbtide.agent.compose.session_tools import SessionTooling, offered_tools
from ebbtide.agent.compose.settings import build_compaction_settings, build_retry_limits, effort_for
from ebbtide.agent.compose.system_prompt import SystemText, build_resumed_system_text, environment_facts, is_in_cache
from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.control_calls import PLAN_TOOL
from ebbtide.agent.events.session import Resumed
from ebbtide.agent.input.instruction_updates import InstructionTracker
from ebbtide.agent.messages import Conversation
from ebbtide.agent.providers.learned_limits import LearnedLimits, learned_window
from ebbtide.agent.providers.stream import RetryPolicy
from ebbtide.agent.providers.usage import drop_other_model_anchor
from ebbtide.agent.records.resume import resume_session
from ebbtide.agent.window.deferral import create_specs
from ebbtide.agent.window.prefix_watch import PrefixWatch
from ebbtide.agent.window.reminders import Reminders, build_reminder_facts
from ebbtide.agent.window.session_context import ModelContext, SessionTools, WindowContext
from ebbtide.tools.base import Workspace


async def restore_conversation(
    parts: SessionParts, approver: Approver, workspace: Workspace
) -> tuple[Conversation, PermissionMode, Resumed | None]:
    """Load the conversation. Return it with the mode in which it continues and a report for the user."""
    mode, row, model = parts.initial_mode, parts.session_row, parts.model
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
    conversation = drop_other_model_anchor(conversation, parts.provider.facts.id)
    return conversation, mode, replace(resumed, mode=mode, mode_before=previous_mode)


def create_window_context(
    parts: SessionParts, tooling: SessionTooling, approver: Approver, conversation: Conversation, mode: PermissionMode
) -> WindowContext:
    """Create the window context: the system prompt, and the parts that measure and rewrite the conversation."""
    setup = parts.setup
    recorder = parts.recorder
    tools = tooling.tools
    deferral = tooling.deferral
    config = setup.config
    system_text = _build_system_text(parts, mode)
    emit, debug, instructions = parts.channel.emit, parts.debug, system_text.instructions
    read_environment = partial(environment_facts, config, is_interactive=parts.is_interactive)
    read_facts = partial(build_reminder_facts, read_environment, approver, tools, deferral, tooling.server_tools)
    own_specs = create_specs(offered_tools(tools, system_text.mode, is_interactive=system_text.is_interactive))
    return WindowContext(
        _create_model_context(parts),
        instructions,
        SessionTools(own_specs, tooling.server_tools, deferral),
        prefix_watch=PrefixWatch(
            emit, debug, time.monotonic, instructions.sections, recorder.last_request_mark, recorder.previous_model_use
        ),
        compaction_settings=build_compaction_settings(config, parts.provider.window.available_tokens),
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
    """Create the model context. For a resumed session, it includes the window, token ratio and limits learned from its
    last request."""
    config = parts.setup.config
    connected = parts.connected_model
    provider = parts.provider
    last_request = parts.recorder.last_request_mark
    retries = build_retry_limits(config, is_interactive=parts.is_interactive)
    return ModelContext(
        parts.models,
        parts.recorder.fork_root_id,
        connected.meter,
        RetryPolicy(retries, reached_models=connected.answered_model_ids(last_request)),
        LearnedLimits(learned_window(last_request, provider)),
        effort_for(config, provider.facts),
    )


def _build_system_text(parts: SessionParts, mode: PermissionMode) -> SystemText:
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
