"""The projection before requests and outputs: over any counters, in any order of operations."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.budget.preflight import (
    BlockedTarget,
    ContextCounters,
    ModelTarget,
    OutputFit,
    PreflightResult,
    Reservation,
    ToolBudget,
    can_execute_tool,
    check_output_fit,
    choose_target,
    counters_for_final_turn,
    create_tool_budget,
    reserve_tool_output,
)
from ebbtide.agent.budget.request_budget import ContextBudget, Window

amounts = st.integers(-1000, 300_000)
counters = st.builds(
    ContextCounters,
    finished_turn_tokens=st.integers(0, 300_000),
    pending_tokens=st.integers(0, 300_000),
    new_tokens=st.integers(0, 300_000),
    tool_tokens=st.integers(0, 50_000),
    is_schema_counted=st.booleans(),
)
targets = st.builds(
    ModelTarget,
    st.sampled_from(["anthropic", "openai"]),
    st.sampled_from("abc"),
    st.builds(Window, st.integers(1, 400_000), st.integers(1, 20_000), st.integers(0, 9000)),
)
SMALL, LARGE = ModelTarget("p", "small", Window(1200, 100, 100)), ModelTarget("p", "large", Window(5200, 100, 100))


def test_the_projection_has_the_names_of_the_debug_log() -> None:
    found = ContextCounters(45_000, 2000, 0, 3000, True).debug_projection(extra=3000)
    assert found == {
        "projectedTokens": 50_000,
        "currentCtxTokens": 45_000,
        "pendingCtxTokens": 2000,
        "newCtxTokens": 0,
        "schemaCtxTokens": 3000,
        "extraTokens": 3000,
        "currentReasoningTokens": 0,
    }
    assert ModelTarget("openai", "gpt-4", Window(128_000, 16_384, 8192)).debug_fields() == {
        "provider": "openai",
        "model": "gpt-4",
        "contextWindow": 128_000,
        "bufferTokens": 8192,
        "maxOutputTokens": 16_384,
        "limit": 103_424,
    }


@given(counters, st.lists(st.tuples(st.sampled_from(["plus", "begun", "measured", "enforced"]), amounts)))
def test_counters_only_grow_until_the_turn_commits(start: ContextCounters, operations: list[tuple[str, int]]) -> None:
    now = start
    for name, amount in operations:
        before = now
        budget = ContextBudget(Window(200_000, 8000), tools=max(amount // 10, 0), history=max(amount, 0))
        match name:
            case "plus":
                now = before.plus(amount)
            case "begun":
                now = before.at_turn_start(amount)
            case "measured":
                now = before.with_measurement(budget)
            case _:
                now = counters_for_final_turn(before)
        assert now.projected_tokens() >= before.projected_tokens()
        assert now.tool_tokens >= before.tool_tokens
        if name != "enforced":
            assert (now.finished_turn_tokens, now.pending_tokens, now.new_tokens) >= (
                before.finished_turn_tokens,
                before.pending_tokens,
                before.new_tokens,
            )
    assert now.at_turn_end().projected_tokens() == now.projected_tokens()
    assert now.at_turn_end(123) == ContextCounters(123, 0, 0, now.tool_tokens, True, now.reasoning)


@given(counters, st.integers(0, 300_000), st.integers(0, 50_000))
def test_a_measured_request_is_never_larger_than_its_projection(now: ContextCounters, history: int, tools: int) -> None:
    budget = ContextBudget(Window(200_000, 8000), tools=tools, history=history)
    after = now.with_measurement(budget)
    assert after.projected_tokens() + (0 if after.is_schema_counted else after.tool_tokens) >= budget.used


@given(counters, st.lists(targets, max_size=4), st.integers(0, 1000), st.booleans())
def test_a_request_goes_to_the_first_target_that_takes_it(
    now: ContextCounters, chain: list[ModelTarget], extra: int, excuse: bool
) -> None:
    found = choose_target(now, chain, extra, allow_large_tools=excuse)
    base = now.projected_tokens(extra) - (now.tool_tokens if now.is_schema_counted else 0)
    whole = base + now.tool_tokens
    fitting = [target for target in chain if whole <= target.max_request_tokens]
    excused = [
        target
        for target in chain
        if excuse and base <= target.max_request_tokens and whole <= target.limit + target.window.buffer
    ]
    going = [*fitting, *([] if fitting else excused)][:1]
    assert found.target == (going[0] if going else None)
    assert found.is_over_by_tools == (not fitting and bool(excused))
    before = chain[: chain.index(going[0])] if going else chain
    assert found.verdict == ("final" if not going else "skip" if before else "ok")
    assert found.blocked == tuple(
        BlockedTarget(target.provider, target.model, target.limit, whole) for target in before
    )


@given(counters, targets, st.floats(0.5, 1.0))
def test_a_share_only_ever_lowers_what_goes_to_a_target(
    now: ContextCounters, target: ModelTarget, share: float
) -> None:
    strict = choose_target(now, [replace(target, share=share)])
    assert strict.verdict == "final" or choose_target(now, [target]).verdict == "ok"


def test_a_chain_of_targets_is_tried_in_order() -> None:
    chain = (SMALL, LARGE)
    assert choose_target(ContextCounters(finished_turn_tokens=900), chain) == PreflightResult("ok", SMALL)
    blocked = BlockedTarget("p", "small", 1000, 1500)
    assert choose_target(ContextCounters(finished_turn_tokens=1500), chain) == PreflightResult(
        "skip", LARGE, (blocked,)
    )
    both = (BlockedTarget("p", "small", 1000, 6000), BlockedTarget("p", "large", 5000, 6000))
    assert choose_target(ContextCounters(finished_turn_tokens=6000), chain) == PreflightResult("final", None, both)
    assert choose_target(ContextCounters(), ()) == PreflightResult("final", None)


def test_what_only_the_tool_definitions_put_over_the_limit_may_go() -> None:
    counted = ContextCounters(finished_turn_tokens=1100, tool_tokens=300, is_schema_counted=True)
    assert choose_target(counted, (SMALL,)) == PreflightResult("ok", SMALL, is_over_by_tools=True)
    uncounted = ContextCounters(pending_tokens=900, tool_tokens=200)
    assert choose_target(uncounted, (SMALL,)) == PreflightResult("ok", SMALL, is_over_by_tools=True)
    blocked = BlockedTarget("p", "small", 1000, 1100)
    assert choose_target(counted, (SMALL,), allow_large_tools=False) == PreflightResult("final", None, (blocked,))
    assert choose_target(counted, (SMALL, LARGE)) == PreflightResult("skip", LARGE, (blocked,))
    assert (
        choose_target(
            ContextCounters(finished_turn_tokens=1301, tool_tokens=300, is_schema_counted=True), (SMALL,)
        ).verdict
        == "final"
    )
    more_than_the_buffer = ContextCounters(finished_turn_tokens=1101, tool_tokens=300, is_schema_counted=True)
    assert choose_target(more_than_the_buffer, (SMALL,)).verdict == "final"


@given(counters)
def test_the_final_turn_settles_everything_and_loses_nothing(now: ContextCounters) -> None:
    settled = counters_for_final_turn(now)
    assert (settled.pending_tokens, settled.new_tokens, settled.projected_tokens()) == (0, 0, now.projected_tokens())


@given(counters, st.lists(amounts))
def test_outputs_never_take_more_than_there_is(now: ContextCounters, outputs: list[int]) -> None:
    budget = create_tool_budget(now, Window(200_000, 8000))
    for tokens in outputs:
        preview = check_output_fit(budget, tokens)
        reservation = reserve_tool_output(budget, tokens)
        assert preview.fits == reservation.is_accepted
        assert preview == check_output_fit(budget, tokens)
        if not can_execute_tool(budget):
            assert not reservation.is_accepted
        budget = reservation.budget
        assert can_execute_tool(budget) == (reservation.is_accepted and can_execute_tool(budget))
    assert budget.is_exceeded or budget.used + budget.reserved <= budget.limit


def test_an_output_that_does_not_fit_ends_the_running_of_calls() -> None:
    budget = ToolBudget(1000, 600)
    assert check_output_fit(budget, 500) == OutputFit(False, 500, -100)
    reservation = reserve_tool_output(budget, 300)
    assert reservation == Reservation(True, 300, ToolBudget(1000, 600, 300))
    refused = reserve_tool_output(reservation.budget, 101)
    assert refused == Reservation(False, 101, ToolBudget(1000, 600, 300, is_exceeded=True))
    assert (can_execute_tool(reservation.budget), can_execute_tool(refused.budget)) == (True, False)
    assert not reserve_tool_output(refused.budget, 1).is_accepted
