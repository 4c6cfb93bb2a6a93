"""Temporary model for one turn: a command may ask for another model, and the session returns to its own afterwards."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ebbtide.agent.context.preflight import ModelTarget, turn_preflight
from ebbtide.agent.errors import ProviderError, UsageError
from ebbtide.agent.events.session import ModelSwitched, Noticed
from ebbtide.agent.messages import Conversation
from ebbtide.agent.providers.fallbacks import TurnModelRequest
from ebbtide.agent.providers.meter import Meter
from ebbtide.agent.window.measure import budget_of
from ebbtide.agent.window.model_choice import reset_measurements, with_shares
from ebbtide.agent.window.session_context import SessionContext


async def with_requested_model(conversation: Conversation, env: SessionContext) -> Conversation:
    """Switch to the model that a command asked for and return the conversation for it. If it is not available or has no
    room, the session's model stays and the user gets a notice."""
    wish, env.targets.wish = env.targets.wish, None
    if wish is None:
        return conversation
    from ebbtide.agent.providers.choices import model_called  # noqa: PLC0415  # deferred: few commands name a model

    own = env.provider.facts
    model = model_called(wish.model, own.id)
    if model == own.id:
        return conversation
    if model is None:
        where = f"`{own.provider}` has no known model by that name"
        return _keep_model(conversation, wish, where, env)
    if env.targets.own is not None:
        return _keep_model(conversation, wish, "this turn already uses another model", env)
    try:
        connected = await env.targets.connect(model)
    except (UsageError, ProviderError) as error:
        return _keep_model(conversation, wish, str(error), env)
    budget, window = budget_of(conversation, env), connected.provider.window
    (target,) = with_shares((ModelTarget(own.provider, connected.provider.facts.name, window),), env)
    if turn_preflight(env.meter.counters, (target,)).target is None:
        room = f"the conversation takes about {budget.used:,} tokens, and it has room for {window.effective:,}"
        return _keep_model(conversation, wish, room, env)
    learned = env.encoded_calibration
    own_meter = Meter(env.meter.estimator, env.meter.ruler)
    env.targets.lend_turn(connected.provider, ModelTarget(own.provider, own.name, budget.window), own_meter)
    await env.recorder.record_learned(own.id, learned)
    env.emit(ModelSwitched(own.id, model, f"{wish.by} asks for it until this turn ends", budget.used))
    return reset_measurements(conversation, connected.meter, env)


def _keep_model(conversation: Conversation, wish: TurnModelRequest, why: str, env: SessionContext) -> Conversation:
    env.emit(Noticed(f"{wish.by} asks for the model `{wish.model}` but runs with yours: {why}"))
    return conversation


@asynccontextmanager
async def own_model_afterwards(env: SessionContext) -> AsyncGenerator[None]:
    """Return to the session's own model when the turn ends, for whatever reason."""
    learned_window = env.learned_limits.window
    try:
        yield
    finally:
        guest, learned = env.provider.facts.id, env.encoded_calibration
        own = env.targets.end_turn()
        if own is not None:
            reset_measurements(Conversation(), own.meter, env)
            env.learned_limits.window = learned_window
            env.emit(ModelSwitched(guest, own.provider.facts.id, "the turn has ended", 0))
            await env.recorder.record_learned(guest, learned)
