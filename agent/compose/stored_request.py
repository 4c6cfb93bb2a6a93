"""The next request of a session that is not open, and what a session would have cost in each context style. It is
loaded late, because few runs ask for them."""

import asyncio

from ebbtide.agent.budget.last_request import RequestRecord
from ebbtide.agent.compaction.style_costs import (
    MAX_REPLAYED_MESSAGES,
    StyleCosts,
    create_replay_log,
    estimate_style_costs,
)
from ebbtide.agent.compose.optional_parts import create_language_service
from ebbtide.agent.compose.session_parts import ProjectSetup
from ebbtide.agent.compose.session_tools import offered_tools, select_session_tools
from ebbtide.agent.compose.settings import build_compaction_settings
from ebbtide.agent.compose.system_prompt import build_resumed_system_text
from ebbtide.agent.eviction.settings import StyleChoice
from ebbtide.agent.providers.factory import configured_fallbacks, known_facts_and_window
from ebbtide.agent.providers.learned_limits import next_request_window
from ebbtide.agent.providers.setup import searches_web
from ebbtide.agent.providers.token_meter import TokenMeter
from ebbtide.agent.records.session_log import SessionLog
from ebbtide.agent.tokens.estimate import decode_estimator
from ebbtide.agent.window.deferral import ToolDeferral, create_specs
from ebbtide.agent.window.overview import Overview, RequestSetup
from ebbtide.agent.window.session_context import SessionContext


async def request_setup(project: ProjectSetup, model: str, last_request: RequestRecord | None) -> RequestSetup:
    """Return the request setup of a session that is not open. Only its last request shows which flags and servers it
    used."""
    config = project.config
    facts, window = known_facts_and_window(config, model)
    meter = await _stored_meter(project, model)
    initial_window = (
        last_request.window
        if last_request is not None and last_request.window is not None and last_request.believed is None
        else window
    )
    system_text = build_resumed_system_text(
        config,
        project.root,
        model,
        config.permission_mode,
        (initial_window, *(target.window for target in configured_fallbacks(config, model))),
        last_request,
        is_interactive=project.is_interactive,
        is_small_model=facts.is_small,
    )
    window = window if last_request is None else next_request_window(last_request, window)
    own_tools = select_session_tools(
        build_compaction_settings(config, window.available_tokens),
        config,
        create_language_service(config, project.root, None),
        provider_searches=searches_web(facts.provider, facts.name, config, project.environment),
        extra_tools=project.extra_tools,
    )
    tools = create_specs(offered_tools(own_tools, system_text.mode, is_interactive=system_text.is_interactive))
    deferral = ToolDeferral(config.tool_deferral_threshold, reduces_tools=not config.tools_allowed)
    deferral.choose_tools(
        tools, window.available_tokens, meter.estimate_definition, lambda event: None, is_small_model=facts.is_small
    )
    has_same_prefix = last_request is None or last_request.has_system_prompt(system_text.instructions.text)
    return RequestSetup(
        facts, window, meter, system_text.instructions, tools, (), deferral, last_request, has_same_prefix
    )


async def style_costs(project: ProjectSetup, ctx: SessionContext | None, overview: Overview) -> StyleCosts:
    """Estimate what a session would have cost in each context style. `ctx`: the context of the session, if it is
    open; `overview`: its overview."""
    if ctx is not None:
        facts, meter = ctx.model.facts, ctx.model.meter.fresh_copy()
        settings, choice = ctx.window.compaction_settings, ctx.window.style or StyleChoice()
    else:
        facts, _ = known_facts_and_window(project.config, overview.model)
        meter = await _stored_meter(project, overview.model)
        settings = build_compaction_settings(project.config, overview.effective)
        choice = StyleChoice(project.config.context_style)
    log = SessionLog(project.store_thread, project.store, overview.session)
    messages, message_count = await log.newest_messages_with_times(MAX_REPLAYED_MESSAGES), await log.message_count()

    def estimate() -> StyleCosts:
        prices, cache_ttl, window_tokens = facts.prices, facts.cache_ttl, overview.effective
        replay_log = create_replay_log(messages, overview, settings, prices, cache_ttl, meter.estimate_message)
        active, recorded = choice.style_for(window_tokens), choice.initial_style_for(window_tokens)
        return estimate_style_costs(replay_log, overview, active, recorded, message_count)

    # Replaying a long session takes a while, so it is done in a thread.
    return await asyncio.to_thread(estimate)


async def _stored_meter(project: ProjectSetup, model: str) -> TokenMeter:
    """Return a token meter with what is stored about a model."""
    return TokenMeter(decode_estimator(await project.store_thread.run(project.store.calibration, model)))
