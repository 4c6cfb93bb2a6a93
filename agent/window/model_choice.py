"""Choose the model for the next request, or the final turn, and reserve room for outputs before calls are run. The
decisions are made in `ebbtide.agent.context.preflight`."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Literal, TypeAlias

from ebbtide.agent.calls.execute import CallPosition, run_calls
from ebbtide.agent.calls.output_budget import WINDOW_FULL_NOTE, OutputBudget
from ebbtide.agent.context.budget import ContextBudget
from ebbtide.agent.context.control_calls import FINAL, FULL, is_final_turn_announced
from ebbtide.agent.context.preflight import ModelTarget, Preflight, tool_preflight, turn_preflight
from ebbtide.agent.context.small_window import RECALL_TOOLS
from ebbtide.agent.errors import ProviderError, UsageError
from ebbtide.agent.events.session import FinalTurn, ModelSwitched, Noticed
from ebbtide.agent.messages import Conversation, ToolCall, ToolOutput, User
from ebbtide.agent.providers.fallbacks import ConnectedModel
from ebbtide.agent.providers.meter import Meter
from ebbtide.agent.window.measure import budget_of, choose_tools, request_mark
from ebbtide.agent.window.session_context import SessionContext

TurnEnding: TypeAlias = Literal["none", "announced", "overdue"]
"""Whether the window is so full that the turn ends in a report: with this step, or already with the previous one."""

NOTES, REFUSAL = 800, 60
"""Tokens reserved for notes of the next step, such as the request for a summary or a report, and for each call that is
not run."""


def begin_session(conversation: Conversation, env: SessionContext) -> Conversation:
    """Choose the tools for a session, and count its messages as settled. Counts that a provider made with another
    system prompt or other tools are discarded."""
    env.deferral.wished = conversation.held_back
    choose_tools(env)
    mark, facts = env.watch.mark, env.provider.facts
    begins_as_before = env.watch.has_same_prefix(env.instructions.text, env.offered_tools)
    if not begins_as_before:
        conversation = replace(conversation, anchor=None, anchored=0)
    elif mark is not None and mark.tool_tokens is not None:
        env.meter.remember_tools(env.offered_tools, mark.tool_tokens)
    if mark is not None and (mark.model, mark.server) == (facts.id, facts.server):
        env.meter.remember_counts(mark.record, mark.scale, begins_as_before=begins_as_before)
    env.meter.end_turn(conversation)
    env.debug.log("context-guard/init-counters", **env.meter.counters.debug_fields())
    return conversation


def begin_turn(said: User, env: SessionContext) -> None:
    """Count the user's message as part of the turn's start."""
    if env.call_runner.loop_guard is not None:
        env.call_runner.loop_guard.begin()
    seed = env.meter.begin_turn(said)
    env.debug.log("context-guard/loop-init", seedTokens=seed, **env.meter.counters.debug_fields())


def ends_in_report(budget: ContextBudget, env: SessionContext) -> bool:
    """Whether the window is full, the user wants a report then, and there is room to ask for it."""
    return env.compacting.on_full == "final" and budget.verdict != "fits" and budget.remaining >= 0


def preflight(budget: ContextBudget, env: SessionContext) -> Preflight:
    """Return where the request just measured may go. If a full window ends in a report, it counts as full from the
    share at which there is still room for one, and an excess of tool definitions alone is not excused."""
    own = env.provider.facts
    chain = with_shares((ModelTarget(own.provider, own.name, budget.window), *env.targets.fallbacks), env)
    if ends_in_report(budget, env):
        # It may also be full because an output found no room: then no request goes there, however small.
        chain = (replace(chain[0], share=0.0), *chain[1:])
    return turn_preflight(env.meter.counters, chain, excuse=not ends_in_report(budget, env))


def with_shares(chain: Sequence[ModelTarget], env: SessionContext) -> tuple[ModelTarget, ...]:
    """Return the targets, each with the share of its room that a request may take before the next one is tried."""
    if env.compacting.on_full == "final":
        return tuple(replace(target, share=target.window.compact_trigger) for target in chain)
    return tuple(replace(target, share=target.window.hard_block) for target in chain)


async def choose_model(
    conversation: Conversation, budget: ContextBudget, env: SessionContext
) -> tuple[Conversation, ContextBudget]:
    """Switch to the first model that has room: the session's own or a fallback. If none has, conversation and budget
    are returned unchanged."""
    found = preflight(budget, env)
    log_preflight(found, budget, env)
    while found.verdict == "skip" and found.target is not None and not env.interrupt.is_requested():
        conversation = await _switch(conversation, found.target, budget, env) or conversation
        budget = budget_of(conversation, env)
        found = preflight(budget, env)
        log_preflight(found, budget, env)
    return conversation, budget


async def leave_model(conversation: Conversation, env: SessionContext, failure: str = "") -> Conversation | None:
    """Switch to the next fallback that has room, if the session's own model has rejected the request for good or does
    not answer (`failure` says why). None if there is none."""
    budget = budget_of(conversation, env)
    while not env.interrupt.is_requested():
        found = turn_preflight(env.meter.counters, with_shares(env.targets.fallbacks, env))
        if found.target is None:
            return None
        switched = await _switch(conversation, found.target, budget, env, failure)
        if switched is not None:
            return switched
    return None


async def _switch(
    conversation: Conversation, to: ModelTarget, budget: ContextBudget, env: SessionContext, failure: str = ""
) -> Conversation | None:
    """Switch to another model and return the conversation for it. None if it cannot be connected or is smaller than
    known."""
    target = next(target for target in env.targets.fallbacks if target.id == to.id)
    connected = await _connect_target(target, env)
    if connected is None:
        env.targets.pass_over(target)
        return None
    before, after = env.provider.facts.id, connected.provider.facts.id
    why = failure or _full_reason(budget, env)
    learned = env.encoded_calibration
    env.targets.switch_to(target, connected.provider)
    await env.recorder.record_learned(before, learned)
    conversation = reset_measurements(conversation, connected.meter, env)
    env.emit(ModelSwitched(before, after, why, budget.used))
    await env.recorder.switch_model(after)
    await env.recorder.snapshot(conversation, User(()), request_mark(env))
    return conversation


def _full_reason(budget: ContextBudget, env: SessionContext) -> str:
    """Return why the session's own model does not get the next request, with the figures of that decision."""
    model, room = env.provider.facts.id, budget.window.effective
    if budget.used > room:
        return f"the conversation takes about {budget.used:,} tokens, and `{model}` has room for {room:,}"
    if env.meter.crowded:
        return f"an output did not fit into `{model}`: about {budget.used:,} of {room:,} tokens are in use"
    (own,) = with_shares((ModelTarget(env.provider.facts.provider, env.provider.facts.name, budget.window),), env)
    expected = env.meter.counters.projected_tokens()
    return f"the next request would take about {expected:,} tokens, and `{model}` takes at most {own.most:,}"


def reset_measurements(conversation: Conversation, meter: Meter, env: SessionContext) -> Conversation:
    """Reset all measurements for another model, which counts tokens differently and has an empty cache."""
    env.learned_limits.forget()
    env.meter.replace_with(meter)
    env.watch.note_rewrite()
    env.carrying_cost.reset()
    choose_tools(env)
    return replace(conversation, anchor=None, anchored=0)


async def _connect_target(target: ModelTarget, env: SessionContext) -> ConnectedModel | None:
    try:
        connected = await env.targets.connect(target.id)
    except (UsageError, ProviderError) as error:
        env.emit(Noticed(f"`{target.id}` cannot take over: {error}"))
        return None
    window = connected.provider.window
    (real,) = with_shares((replace(target, window=window),), env)
    if turn_preflight(env.meter.counters, (real,)).target is None:
        env.emit(Noticed(f"`{target.id}` cannot take over: it has room for only {window.effective:,} tokens"))
        return None
    return connected


async def announce_final_turn(
    conversation: Conversation, budget: ContextBudget, env: SessionContext
) -> tuple[Conversation, TurnEnding]:
    """Add a note that this is the final step, if the window is full and the turn is to end then. The tools stay
    unchanged, to keep the provider's cache; other calls are refused with a message."""
    if not ends_in_report(budget, env):
        return conversation, "none"
    if is_final_turn_announced(conversation):
        return conversation, "overdue"
    blocked = [asdict(one) for one in preflight(budget, env).blocked]
    env.meter.force_final()
    note = User((FINAL,))
    await env.recorder.record_user_message(note)
    env.emit(FinalTurn(budget.used, budget.window.effective))
    env.debug.log("context-guard/enforce", reason="context", blocked=blocked)
    env.debug.log("context/final-turn", reason="context", projectedTokens=budget.used, limit=budget.window.effective)
    return conversation.plus(note), "announced"


async def run_calls_within_budget(
    calls: Sequence[ToolCall], conversation: Conversation, env: SessionContext
) -> tuple[ToolOutput, ...]:
    """Return one output per call. If the next step makes room, all calls are run and their outputs share it; if not, no
    call is run after an output that finds no room."""
    room = room_for_outputs(conversation, env)
    env.call_runner.progress.begin(calls)
    outputs = await run_calls(calls, env.call_runner, room, call_position(conversation, env))
    env.meter.crowded = not room.is_open
    return outputs


def room_for_outputs(conversation: Conversation, env: SessionContext) -> OutputBudget:
    """Return the room for the outputs of the conversation's last calls."""
    budget = budget_of(conversation, env)
    coming = [spec for spec in env.tools if spec.name in RECALL_TOOLS and not env.deferral.offers(spec.name)]
    notes = NOTES + REFUSAL * len(conversation.unanswered_calls) + sum(map(env.meter.size_of_tool, coming))
    kept_free = min(notes, max(budget.remaining, 0) // 2)
    room = tool_preflight(env.meter.counters, budget.window, kept_free)

    def spare() -> int:
        from ebbtide.agent.context.compaction import fair_share  # noqa: PLC0415  # deferred: most outputs fit

        return fair_share(conversation, budget)

    def count(output: ToolOutput) -> int:
        return env.meter.size_of(User((output,)))

    if env.compacting.on_full == "final":
        return OutputBudget(room, count, FULL)
    return OutputBudget(room, count, WINDOW_FULL_NOTE, spare if env.compacting.is_automatic else None)


def call_position(conversation: Conversation, env: SessionContext) -> CallPosition:
    """Return the position of the first of the conversation's last calls."""
    said = env.view.last_user_text(conversation)
    reply = conversation.messages[-1].text if conversation.messages else ""
    return CallPosition(env.view.outputs_so_far(conversation) + 1, f"{said}\n\n{reply}".strip())


def log_preflight(found: Preflight, budget: ContextBudget, env: SessionContext) -> None:
    """Log the projection of the next request and the decision."""
    if not env.debug.on:
        return
    facts = env.provider.facts
    scale = env.meter.schema_scale(env.offered_tools)
    if scale is not None:
        env.debug.log("context-guard/schema-estimate", scale=scale, **env.meter.counters.debug_fields())
    env.debug.log("context-guard/evaluate", **env.meter.counters.evaluation())
    for target in (ModelTarget(facts.provider, facts.name, budget.window), *env.targets.fallbacks):
        env.debug.log("context-guard/evaluate-target", **target.evaluation())
    env.debug.log(
        "context-guard/provider-eval",
        provider=facts.provider,
        model=facts.name,
        status=found.verdict,
        blocked=[asdict(one) for one in found.blocked],
    )
