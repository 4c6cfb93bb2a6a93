"""Uses another model for one turn, if a command asks for it. Afterwards, the session returns to its own model."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from ebbtide.agent import providers
from ebbtide.agent.budget.preflight import ModelTarget, choose_target
from ebbtide.agent.errors import ProviderError, UsageError
from ebbtide.agent.events.session import Event, ModelSwitched, Noticed
from ebbtide.agent.messages import Conversation
from ebbtide.agent.providers.fallbacks import TurnModelRequest
from ebbtide.agent.providers.token_meter import TokenMeter
from ebbtide.agent.request.fit import reset_measurements, with_shares
from ebbtide.agent.window.measure import measure_budget
from ebbtide.agent.window.session_context import TurnContext, WindowContext


async def switch_to_requested_model(
    conversation: Conversation, window: WindowContext, turn: TurnContext
) -> Conversation:
    """Switch to the model that a command asked for, and adapt the conversation to it. If that model is unavailable or
    has no room, notify the user and keep the session's own model."""
    model, models = window.model, window.model.models
    model_request, models.turn_request = models.turn_request, None
    if model_request is None:
        return conversation
    own_facts = model.facts
    model_id = providers.choices.resolve_model_name(model_request.model, own_facts.id)
    if model_id == own_facts.id:
        return conversation
    if model_id is None:
        problem = f"`{own_facts.provider}` has no known model by that name"
        return _keep_model(conversation, model_request, problem, turn.emit)
    if models.session_model is not None:
        return _keep_model(conversation, model_request, "this turn already uses another model", turn.emit)
    try:
        connected = await models.connect(model_id)
    except (UsageError, ProviderError) as error:
        return _keep_model(conversation, model_request, str(error), turn.emit)
    budget, requested_provider = measure_budget(conversation, window), connected.provider
    (target,) = with_shares(
        (ModelTarget(own_facts.provider, requested_provider.facts.name, requested_provider.window),), window
    )
    if choose_target(model.meter.counters, (target,)).target is None:
        problem_text = (
            f"the conversation takes about {budget.used:,} tokens, and it has room for "
            f"{requested_provider.window.available_tokens:,}"
        )
        return _keep_model(conversation, model_request, problem_text, turn.emit)
    calibration = model.encoded_calibration
    own_meter = TokenMeter(model.meter.estimator, model.meter.token_counter)
    models.begin_turn_with(
        requested_provider, ModelTarget(own_facts.provider, own_facts.name, budget.window), own_meter
    )
    await turn.recorder.record_calibration(own_facts.id, calibration)
    turn.emit(
        ModelSwitched(
            own_facts.id, model_id, f"{model_request.requested_by} asks for it until this turn ends", budget.used
        )
    )
    return reset_measurements(conversation, connected.meter, window, turn.emit)


def _keep_model(
    conversation: Conversation, model_request: TurnModelRequest, reason: str, emit: Callable[[Event], None]
) -> Conversation:
    emit(
        Noticed(
            f"{model_request.requested_by} asks for the model `{model_request.model}` but runs with yours: {reason}"
        )
    )
    return conversation


@asynccontextmanager
async def restoring_own_model(window: WindowContext, turn: TurnContext) -> AsyncGenerator[None]:
    """Restore the session's own model when the `with` block ends, for any reason. Another model may run the turn inside
    the block."""
    model = window.model
    learned_window = model.learned_limits.window
    try:
        yield
    finally:
        turn_model, calibration = model.facts.id, model.encoded_calibration
        own_model = model.models.end_turn()
        if own_model is not None:
            reset_measurements(Conversation(), own_model.meter, window, turn.emit)
            model.learned_limits.window = learned_window
            turn.emit(ModelSwitched(turn_model, own_model.provider.facts.id, "the turn has ended", 0))
            await turn.recorder.record_calibration(turn_model, calibration)
