"""Makes requests fit: frees space in the window, chooses the model, and ends the turn with a report if the window is
full. `ebbtide.agent.eviction` decides what to cut, and `ebbtide.agent.budget.preflight` decides which model may receive
the request."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Literal, TypeAlias

from ebbtide.agent.budget.preflight import ModelTarget, PreflightResult, choose_target
from ebbtide.agent.budget.request_budget import ContextBudget
from ebbtide.agent.compaction.rewrite import (
    add_budget_correction,
    compact_and_measure,
    compact_to_fit,
    force_strategy,
    rewrite_if_due,
)
from ebbtide.agent.errors import ContextExhausted, ProviderError, UsageError
from ebbtide.agent.events.session import ContextMeasured, Event, FinalTurn, ModelSwitched, Noticed
from ebbtide.agent.messages import Conversation, Note, User
from ebbtide.agent.providers.fallbacks import ConnectedModel
from ebbtide.agent.providers.token_meter import TokenMeter
from ebbtide.agent.view.message_text import is_steering_message
from ebbtide.agent.window.measure import (
    MeasuredConversation,
    choose_tools,
    last_request_record,
    measure_budget,
)
from ebbtide.agent.window.session_context import CallContext, ModelContext, SessionContext, TurnContext, WindowContext

FINAL_TURN_NOTE = Note(
    "The context window is full, so this is the final turn. No other tool runs any more: call `final_report` with your "
    "whole answer, what is done and what is left open, or write it as plain text.",
    kind="final",
)

FinalTurnState: TypeAlias = Literal["none", "announced", "overdue"]
"""Whether the window is so full that the turn must end with a report. `none`: no. `announced`: this step ends the turn.
`overdue`: an earlier step should have ended it."""

NEW_SESSION_HINT = "start a new session or use a model with a larger window"


async def make_room(conversation: Conversation, ctx: SessionContext) -> MeasuredConversation:
    """Free space in the window, and return the conversation with its budget. If it still does not fit, switch to the
    next model that has room. If a full window should end the turn with a report, compact only when there is no room for
    the report. Raises `ContextExhausted`."""
    window, model, turn = ctx.window, ctx.model, ctx.turn
    is_automatic, problem = window.compaction_settings.is_automatic, ""
    budget = measure_budget(conversation, window)
    conversation, budget = await rewrite_if_due(conversation, budget, window, turn)
    if window.compaction_settings.on_full == "final" and budget.exceeds_budget:
        conversation, budget = await choose_model(conversation, budget, window, turn)
    if budget.verdict != "fits" and is_automatic and not ends_in_report(budget, window):
        conversation, budget, problem = await compact_to_fit(conversation, budget, window, turn)
    previous_provider = model.provider
    conversation, budget = await choose_model(conversation, budget, window, turn)
    if is_automatic and is_out_of_room(budget, window):
        # As a last resort, shorten long user text in the open request; otherwise the session would be stuck.
        compacted, budget = await compact_and_measure(
            conversation, budget, window, turn, "full", force_strategy("shorten_text")
        )
        conversation = compacted.conversation
    if model.provider is not previous_provider:
        # The new model's cache is empty, so masking now has no additional cost.
        conversation, budget = await rewrite_if_due(conversation, budget, window, turn)
    conversation, budget = await add_budget_correction(conversation, budget, window, turn)
    components = tuple((name, size) for name, size in budget.components.items() if size)
    turn.emit(ContextMeasured(budget.used, budget.window.size, budget.window.available_tokens, components))
    if is_out_of_room(budget, window) and not turn.interrupt.is_requested():
        policy_problem = "" if is_automatic else "`rewrite.policy` is `off`; `/compact` makes room"
        raise ContextExhausted(window_full_message(budget, problem or policy_problem, model))
    return conversation, budget


def is_out_of_room(budget: ContextBudget, window: WindowContext) -> bool:
    """Whether no model has room for the request and no report will be requested."""
    return run_preflight(budget, window).verdict == "final" and not ends_in_report(budget, window)


def window_full_message(budget: ContextBudget, problem: str, model: ModelContext) -> str:
    reason = f" ({problem})" if problem else " even after compaction"
    return (
        f"the conversation takes about {budget.used:,} tokens, and `{model.facts.id}` has room for "
        f"{budget.window.available_tokens:,}{reason}; {NEW_SESSION_HINT}"
    )


async def choose_model(
    conversation: Conversation, budget: ContextBudget, window: WindowContext, turn: TurnContext
) -> MeasuredConversation:
    """Switch to the first model that has room: the session's own or a fallback. If none has room, the conversation and
    the budget stay unchanged."""
    while True:
        decision = run_preflight(budget, window)
        log_preflight(decision, budget, window)
        if decision.verdict != "skip" or decision.target is None or turn.interrupt.is_requested():
            return conversation, budget
        switched = await _switch_model(conversation, decision.target, budget, window, turn)
        conversation, budget = switched or (conversation, budget)


async def switch_to_fallback(
    conversation: Conversation, budget: ContextBudget, window: WindowContext, turn: TurnContext, failure: str = ""
) -> MeasuredConversation | None:
    """Switch to the next fallback that has room, because the current model has permanently rejected the request or does
    not answer. None if there is no such fallback. `failure`: the reason, for the user."""
    while not turn.interrupt.is_requested():
        decision = choose_target(window.model.meter.counters, with_shares(window.model.models.fallbacks, window))
        if decision.target is None:
            return None
        switched = await _switch_model(conversation, decision.target, budget, window, turn, failure)
        if switched is not None:
            return switched
    return None


def run_preflight(budget: ContextBudget, window: WindowContext) -> PreflightResult:
    """Choose a model for the request that was just measured. If a full window ends the turn with a report, the current
    model receives only the request for the report. In that case, limits apply even if only the tool definitions exceed
    them."""
    model = window.model
    facts = model.facts
    targets = with_shares((ModelTarget(facts.provider, facts.name, budget.window), *model.models.fallbacks), window)
    if ends_in_report(budget, window):
        # If the window is full because an output did not fit, this model must not get even a small request.
        targets = (replace(targets[0], share=0.0), *targets[1:])
    return choose_target(model.meter.counters, targets, allow_large_tools=not ends_in_report(budget, window))


def ends_in_report(budget: ContextBudget, window: WindowContext) -> bool:
    """Whether the window is full, the user wants a report in that case, and there is room to ask for it."""
    return window.compaction_settings.on_full == "final" and budget.verdict != "fits" and budget.remaining >= 0


def with_shares(targets: Sequence[ModelTarget], window: WindowContext) -> tuple[ModelTarget, ...]:
    """For each model, set the share of its limit that a request may take before the next model is tried."""
    if window.compaction_settings.on_full == "final":
        return tuple(replace(target, share=target.window.compact_trigger) for target in targets)
    return tuple(replace(target, share=target.window.hard_block) for target in targets)


async def _switch_model(
    conversation: Conversation,
    requested_target: ModelTarget,
    budget: ContextBudget,
    window: WindowContext,
    turn: TurnContext,
    failure: str = "",
) -> MeasuredConversation | None:
    """Switch to another model, and return the conversation for it with its budget. None if the model cannot be reached
    or its window turns out to be too small."""
    model = window.model
    previous_id, reason = model.facts.id, failure or _full_reason(budget, window)
    target = next(target for target in model.models.fallbacks if target.id == requested_target.id)
    connected = await _connect_target(target, window, turn.emit)
    if connected is None:
        model.models.drop_fallback(target)
        return None
    new_id = connected.provider.facts.id
    calibration = model.encoded_calibration
    model.models.switch_to(target, connected.provider)
    await turn.recorder.record_calibration(previous_id, calibration)
    conversation = reset_measurements(conversation, connected.meter, window, turn.emit)
    turn.emit(ModelSwitched(previous_id, new_id, reason, budget.used))
    await turn.recorder.switch_model(new_id)
    await turn.recorder.record_snapshot(conversation, User(()), last_request_record(window))
    return conversation, measure_budget(conversation, window)


def _full_reason(budget: ContextBudget, window: WindowContext) -> str:
    """Return why the current model does not get the next request, with the numbers behind the decision."""
    facts, meter, window_tokens = window.model.facts, window.model.meter, budget.window.available_tokens
    if budget.used > window_tokens:
        return f"the conversation takes about {budget.used:,} tokens, and `{facts.id}` has room for {window_tokens:,}"
    if meter.is_output_truncated:
        return f"an output did not fit into `{facts.id}`: about {budget.used:,} of {window_tokens:,} tokens are in use"
    (current_target,) = with_shares((ModelTarget(facts.provider, facts.name, budget.window),), window)
    expected_tokens = meter.counters.projected_tokens()
    return (
        f"the next request would take about {expected_tokens:,} tokens, but `{facts.id}` accepts at most "
        f"{current_target.max_request_tokens:,}"
    )


async def _connect_target(
    target: ModelTarget, window: WindowContext, emit: Callable[[Event], None]
) -> ConnectedModel | None:
    try:
        connected = await window.model.models.connect(target.id)
    except (UsageError, ProviderError) as error:
        emit(Noticed(f"`{target.id}` cannot take over: {error}"))
        return None
    actual_window = connected.provider.window
    (target,) = with_shares((replace(target, window=actual_window),), window)
    if choose_target(window.model.meter.counters, (target,)).target is None:
        emit(Noticed(f"`{target.id}` cannot take over: it has room for only {actual_window.available_tokens:,} tokens"))
        return None
    return connected


def reset_measurements(
    conversation: Conversation, meter: TokenMeter, window: WindowContext, emit: Callable[[Event], None]
) -> Conversation:
    """Reset all measurements after a switch to another model. That model counts tokens differently and has an empty
    cache."""
    window.model.learned_limits.reset_for_new_model()
    window.model.meter.use_estimates_of(meter)
    window.prefix_watch.allow_rewrite()
    window.carrying_cost_tracker.reset()
    choose_tools(window, emit)
    return replace(conversation, anchor=None, anchored=0)


async def announce_final_turn(
    conversation: Conversation, budget: ContextBudget, window: WindowContext, turn: TurnContext
) -> tuple[Conversation, FinalTurnState]:
    """If a full window should end the turn, add a note that this is the final step. The tools stay the same, so that
    the provider's cache stays valid. Calls that are not allowed in the final step are rejected with a message."""
    if not ends_in_report(budget, window):
        return conversation, "none"
    if is_final_turn_announced(conversation):
        return conversation, "overdue"
    blocked = [asdict(target) for target in run_preflight(budget, window).blocked]
    window.model.meter.enter_final_turn()
    note_message = User((FINAL_TURN_NOTE,))
    await turn.recorder.record_user_message(note_message)
    turn.emit(FinalTurn(budget.used, budget.window.available_tokens))
    window.debug.log("context-guard/enforce", reason="context", blocked=blocked)
    window.debug.log(
        "context/final-turn", reason="context", projectedTokens=budget.used, limit=budget.window.available_tokens
    )
    return conversation.plus(note_message), "announced"


def is_final_turn_announced(conversation: Conversation) -> bool:
    """Whether a note in this turn has announced the final step."""
    for message in reversed(conversation.messages):
        if isinstance(message, User) and message.has_note("final"):
            return True
        if isinstance(message, User) and message.text and not is_steering_message(message):
            return False
    return False


def begin_session(conversation: Conversation, window: WindowContext, emit: Callable[[Event], None]) -> Conversation:
    """Choose a session's tools, and start its token counters. Provider counts for another system prompt or other tools
    are discarded."""
    model = window.model
    window.tools.deferral.user_deferred = conversation.excluded_tools
    choose_tools(window, emit)
    mark, facts = window.prefix_watch.mark, model.facts
    has_same_prefix = window.prefix_watch.has_same_prefix(window.instructions.text, window.tools.offered_specs)
    if not has_same_prefix:
        conversation = replace(conversation, anchor=None, anchored=0)
    elif mark is not None and mark.tool_tokens is not None:
        model.meter.restore_tool_tokens(window.tools.offered_specs, mark.tool_tokens)
    if mark is not None and (mark.model, mark.server) == (facts.id, facts.server_digest):
        model.meter.restore_counts(mark.record, mark.scale, is_prefix_unchanged=has_same_prefix)
    model.meter.end_turn(conversation)
    window.debug.log("context-guard/init-counters", **model.meter.counters.debug_fields())
    return conversation


def begin_turn(message: User, calls: CallContext, window: WindowContext) -> None:
    """Start the counters of a turn with the user's message."""
    if calls.runner.loop_guard is not None:
        calls.runner.loop_guard.reset()
    seed = window.model.meter.begin_turn(message)
    window.debug.log("context-guard/loop-init", seedTokens=seed, **window.model.meter.counters.debug_fields())


def log_preflight(decision: PreflightResult, budget: ContextBudget, window: WindowContext) -> None:
    """Log the predicted size of the next request and the decision."""
    model = window.model
    if not window.debug.is_enabled:
        return
    facts = model.facts
    scale = model.meter.take_schema_scale(window.tools.offered_specs)
    if scale is not None:
        window.debug.log("context-guard/schema-estimate", scale=scale, **model.meter.counters.debug_fields())
    window.debug.log("context-guard/evaluate", **model.meter.counters.debug_projection())
    for target in (ModelTarget(facts.provider, facts.name, budget.window), *model.models.fallbacks):
        window.debug.log("context-guard/evaluate-target", **target.debug_fields())
    window.debug.log(
        "context-guard/provider-eval",
        provider=facts.provider,
        model=facts.name,
        status=decision.verdict,
        blocked=[asdict(blocked_target) for blocked_target in decision.blocked],
    )
