"""Creates the sessions of a project and connects their parts."""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ebbtide.agent import subagents
from ebbtide.agent.budget.cache_lifetime import (
    MAX_REQUESTS,
    CacheLifetime,
    PastRequest,
    choose_lifetime,
    lifetime_of,
    offers_lifetimes,
)
from ebbtide.agent.compose.call_context import (
    create_approver,
    create_call_context,
    create_record_context,
    create_tool_workspace,
    create_turn_context,
)
from ebbtide.agent.compose.optional_parts import enable_hook_judges, unknown_tools_notice
from ebbtide.agent.compose.session_parts import ProjectSetup, SessionGrants, create_session_parts
from ebbtide.agent.compose.session_tools import load_session_tooling
from ebbtide.agent.compose.window_context import create_window_context, restore_conversation
from ebbtide.agent.providers.factory import build_provider, create_token_meter
from ebbtide.agent.providers.fallbacks import ConnectedModel
from ebbtide.agent.records.store_access import lock_session
from ebbtide.agent.session import Session
from ebbtide.agent.tokens.estimate import decode_estimator, server_digest_from_encoded
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.store.session_rows import SessionRow

if TYPE_CHECKING:  # types only: few sessions have these
    from ebbtide.agent.hooks.session_hooks import StartSource
    from ebbtide.agent.subagents.definitions import AgentDefinition
    from ebbtide.agent.subagents.role import SubagentContext


class Composer:
    """Creates the sessions of one project."""

    def __init__(self, setup: ProjectSetup) -> None:
        self.setup = setup

    async def connect_model(self, model: str, *, has_pauses: bool = False) -> ConnectedModel:
        """Connect a model and create its token meter. `has_pauses`: a user writes the messages, so the cache might
        expire between them. Raises `UsageError` and `ProviderError`."""
        setup, config = self.setup, self.setup.config
        estimator = decode_estimator(stored_calibration := await setup.store_thread.run(setup.store.calibration, model))
        is_precise = estimator.is_precise
        lifetime = await self._cache_lifetime(model) if has_pauses else None
        provider = await build_provider(
            config,
            model,
            setup.environment,
            has_accurate_estimates=is_precise,
            secrets=setup.secrets,
            cache_lifetime=lifetime,
        )
        meter = create_token_meter(config, model, estimator, is_interactive=setup.is_interactive)
        return ConnectedModel(provider, meter, server_digest_from_encoded(stored_calibration))

    async def _cache_lifetime(self, model: str) -> CacheLifetime | None:
        """Choose how long the provider should keep its cache; None if it offers no choice."""
        setup, provider = self.setup, model.partition("/")[0]
        if not offers_lifetimes(provider):
            return None
        if setup.config.cache_lifetime != "auto":
            return lifetime_of(setup.config.cache_lifetime)
        rows = await setup.store_thread.run(setup.store.recent_prompt_sizes, provider, MAX_REQUESTS)
        return choose_lifetime([PastRequest(*row) for row in rows])

    async def create_session(
        self,
        row: SessionRow,
        model: str,
        connected_model: ConnectedModel,
        exit_stack: AsyncExitStack,
        grants: SessionGrants,
        *,
        start_source: "StartSource | None",
        agent_role: "SubagentContext | None" = None,
    ) -> tuple[Session, SessionContext]:
        """Create a session and its contexts. `exit_stack` collects everything that must be closed with the session.
        `start_source`: how the session starts; None if it is reopened right after closing. `agent_role`: the definition
        and parent of a sub-agent. Raises `AgentError`."""
        setup = self.setup
        parts = await create_session_parts(
            setup, self.connect_model, row, model, connected_model, exit_stack, grants, start_source, agent_role
        )
        tooling = await load_session_tooling(parts, self.create_agent_session)
        approver, rules_problem = create_approver(parts, tooling)
        records = create_record_context(parts)
        workspace = create_tool_workspace(parts, tooling)
        turn = create_turn_context(parts, tooling, approver, records, workspace)
        calls = create_call_context(parts, tooling, approver, turn, workspace)
        conversation, mode, resumed = await restore_conversation(parts, approver, workspace)
        window = create_window_context(parts, tooling, approver, conversation, mode)

        ctx = SessionContext(window, calls, turn)
        tooling.agents.parent = ctx
        enable_hook_judges(turn.hooks, ctx, self.connect_model, self.create_agent_session)
        if tooling.servers is not None:
            tooling.servers.start(window, turn)
        tools_notice = unknown_tools_notice(tooling.extensions, calls.runner.tools)
        notices = (*_startup_notices(setup, ctx, rules_problem), *filter(None, (tools_notice,)))
        setup.store.notice = ""
        session_exit_stack = AsyncExitStack()
        session = Session(
            ctx,
            parts.channel,
            conversation,
            servers=tooling.servers,
            notices=notices,
            resume_event=resumed,
            on_close=session_exit_stack.aclose,
        )
        session_exit_stack.push_async_exit(exit_stack.pop_all())  # before this line, the caller closes what was opened
        return session, ctx

    async def create_agent_session(
        self, definition: "AgentDefinition", parent: SessionContext, exit_stack: AsyncExitStack
    ) -> Session:
        """Create the session of a sub-agent of `parent`. Raises `AgentError`."""
        role = subagents.role.SubagentContext(definition, parent)
        row = role.session_row(self.setup.config)
        if not self.setup.is_ephemeral:
            exit_stack.callback(lock_session(self.setup.config, row.id).release)
        connected = await self.connect_model(row.model)
        exit_stack.push_async_callback(connected.provider.close)
        grants = SessionGrants([], parent.calls.runner.approver.added_folders, was_opened_before=True)
        session, _ = await self.create_session(
            row, row.model, connected, exit_stack, grants, start_source="startup", agent_role=role
        )
        return session


def _startup_notices(setup: ProjectSetup, ctx: SessionContext, rules_problem: str) -> Iterator[str]:
    """Yield the notices for the user before the first turn. `rules_problem`: a problem with the project's rules."""
    archive, extensions = ctx.records.archive, ctx.calls.extensions
    yield from ctx.model.provider.window.notices
    yield from filter(None, (setup.store.notice, *(archive.problems if archive is not None else ()), rules_problem))
    yield from ctx.window.instructions.problems
    yield from extensions.problems if extensions is not None else ()
