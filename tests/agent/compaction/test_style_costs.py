"""What a session would have cost in each context style, and what it would have missed."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.budget.prices import Prices, UnitPrices, unit_prices
from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.compaction.style_costs import (
    ReplayedStyle,
    ReplayLog,
    StyleCost,
    StyleCosts,
    compare_styles,
    create_replay_log,
    estimate_style_costs,
    replay_styles,
)
from ebbtide.agent.config.options import CONTEXT_STYLES, ContextStyle
from ebbtide.agent.eviction.settings import CompactionSettings, RewritePolicy
from ebbtide.agent.messages import Assistant, Message, Text, ToolCall, ToolOutput, Usage, User
from ebbtide.agent.tokens.estimate import estimate_message
from tests.kit.conversations import conversations
from tests.kit.fake_sessions import overview

PRICES = UnitPrices()
FILLER = "".join(f"{number} lines of no interest at all\n" for number in range(500))


def log_of(messages: Sequence[Message], seconds: float = 10.0, window: int = 200_000) -> ReplayLog:
    times = tuple(seconds * number for number in range(len(messages)))
    return ReplayLog(tuple(messages), times, Window(window, 0, 0), 8_000, PRICES, 300.0, CompactionSettings())


def step(number: int, output: str, text: str = "", tool: str = "bash", argument: str = "make") -> tuple[Message, ...]:
    call = ToolCall(f"c{number}", tool, {"command": argument})
    said = (Text(text),) if text else ()
    return Assistant((*said, call)), User((ToolOutput(call.id, output),))


def session(step_count: int, wanted: dict[int, str], output: str = "fetch_retry_budget\n" + FILLER) -> list[Message]:
    """A session that reads the same name in its first output, and then works on large other ones. `wanted`: what some
    steps say."""
    messages: list[Message] = [User((Text("go"),)), *step(0, output)]
    for number in range(1, step_count):
        messages += step(number, f"run {number}\n{FILLER}", wanted.get(number, ""))
    return [*messages, Assistant((Text("done"),))]


logs = st.builds(
    lambda conversation, seconds: log_of([message for message in conversation.messages if message.parts], seconds),
    conversations(),
    st.sampled_from([1.0, 200.0, 400.0]),
)


@given(logs)
def test_a_session_without_large_outputs_costs_the_same_in_each_style(log: ReplayLog) -> None:
    replays = replay_styles(log)
    assert tuple(replays) == CONTEXT_STYLES
    assert len(set(replays.values())) == 1
    assert all(replay.regrets == replay.rewrites == 0 for replay in replays.values())
    assert replay_styles(log) == replays


steps_of_sizes = st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 9), st.booleans()), max_size=40)


@given(steps_of_sizes, st.sampled_from([5.0, 400.0]), st.sampled_from([12_000, 30_000, 200_000]))
def test_a_replay_is_repeatable_and_without_a_rewrite_there_is_nothing_to_regret(
    sizes: list[tuple[int, int, bool]], seconds: float, window: int
) -> None:
    messages: list[Message] = [User((Text("go"),))]
    for number, (words, name, speaks) in enumerate(sizes):
        messages += step(number, f"load_index_{name} " + "word " * words, f"load_index_{name}" if speaks else "")
    log = log_of(messages, seconds, window)
    replays = replay_styles(log)
    assert replay_styles(log) == replays
    replies = sum(isinstance(message, Assistant) for message in messages)
    for replay in replays.values():
        assert replay.rewrites or not replay.regrets
        assert replay.regrets <= len(sizes) * (replay.rewrites + 1)
        assert replay.usage.output >= sum(estimate_message(m) for m in messages if isinstance(m, Assistant))
        assert replay.usage.prompt >= 8_000 * replies


def test_a_careful_session_rewrites_later_and_pays_for_what_it_keeps() -> None:
    frugal, balanced, careful = replay_styles(log_of(session(60, {}))).values()
    assert frugal.rewrites >= balanced.rewrites > careful.rewrites > 0
    assert frugal.usage.cache_read < careful.usage.cache_read


def test_a_name_that_only_a_removed_output_contained_is_regretted_once_until_the_next_rewrite() -> None:
    plain, wanting = (
        replay_styles(log_of(session(40, wanted)))["frugal"]
        for wanted in ({}, {34: "now fetch_retry_budget", 35: "fetch_retry_budget again"})
    )
    assert plain.regrets == 0
    # The line of the masked output lists its names, so that only a name that found no room there is missed.
    assert wanting.regrets == 0
    many = " ".join(f"other_function_{chr(97 + a)}{chr(97 + b)}" for a in range(26) for b in range(26))
    hidden = f"{many}\nfetch_retry_budget\n{FILLER}"
    plain, wanting = (
        replay_styles(log_of(session(40, wanted, hidden)))["frugal"]
        for wanted in ({}, {34: "now fetch_retry_budget", 35: "fetch_retry_budget again"})
    )
    assert (plain.regrets, wanting.regrets) == (0, 1)
    assert wanting.cost > plain.cost


def test_what_was_said_elsewhere_is_not_regretted() -> None:
    many = " ".join(f"other_function_{chr(97 + a)}{chr(97 + b)}" for a in range(26) for b in range(26))
    messages = session(40, {34: "now fetch_retry_budget"}, f"{many}\nfetch_retry_budget\n{FILLER}")
    messages[0] = User((Text("look at fetch_retry_budget"),))
    frugal = replay_styles(log_of(messages))["frugal"]
    assert frugal.rewrites
    assert frugal.regrets == 0


def test_a_request_after_a_pause_writes_everything_to_the_cache_again() -> None:
    messages = session(3, {}, "short")
    quick, slow = (replay_styles(log_of(messages, seconds))["balanced"].usage for seconds in (10.0, 400.0))
    assert quick.cache_read > 0
    assert (slow.cache_read, slow.prompt) == (0, quick.prompt)


def test_a_long_session_is_summarised_when_its_window_is_full() -> None:
    for replay in replay_styles(log_of(session(60, {}), window=30_000)).values():
        assert replay.rewrites > 1
        assert replay.usage.prompt < (60 + replay.rewrites) * 30_000


def test_the_recorded_style_costs_what_was_recorded_and_the_others_in_proportion() -> None:
    replays: dict[ContextStyle, ReplayedStyle] = {
        "frugal": ReplayedStyle(Usage(0, 80, 10, 10), 50.0, 3, 4),
        "balanced": ReplayedStyle(Usage(0, 180, 10, 10), 100.0, 1, 2),
        "careful": ReplayedStyle(Usage(0, 380, 10, 10), 150.0, 0, 0),
    }
    assert compare_styles(replays, "balanced", 1_000, 2.0) == (
        StyleCost("frugal", 1.0, 500, 3),
        StyleCost("balanced", 2.0, 1_000, 1),
        StyleCost("careful", 3.0, 2_000, 0),
    )
    assert [cost.dollars for cost in compare_styles(replays, "careful", 1_000, None)] == [None] * 3
    nothing = dict.fromkeys(replays, ReplayedStyle())
    assert {(cost.dollars, cost.tokens) for cost in compare_styles(nothing, "careful", 7, 0.5)} == {(0.5, 7)}


@pytest.mark.parametrize("policy", ["cost", "off", "fixed", "total_budget"])
def test_only_with_the_cost_policy_there_is_something_to_compare(policy: RewritePolicy) -> None:
    whole, prices = overview("abc"), Prices(3, 15, 0.3, 3.75)
    settings = replace(CompactionSettings(), policy=policy)
    rows = [(message, 10.0 * number) for number, message in enumerate((*session(2, {}), User(())))]
    log = create_replay_log(rows, whole, settings, prices, 300.0, lambda message: 2 * estimate_message(message))
    assert (log.fixed_tokens, len(log.messages), log.token_ratio, log.prices) == (5_340, 6, 2.0, unit_prices(prices))
    costs = estimate_style_costs(log, whole, "careful", "balanced", 6)
    assert (costs.active, costs.recorded) == ("careful", "balanced")
    if policy != "cost":
        assert costs == StyleCosts("careful", "balanced", ())
        return
    recorded = sum(request.cost or 0.0 for request in whole.requests)
    assert [cost.dollars for cost in costs.styles] == [pytest.approx(recorded)] * len(CONTEXT_STYLES)
    assert (costs.replayed_count, costs.message_count) == (6, 6)
