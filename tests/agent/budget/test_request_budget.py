"""Windows and budgets: what is free, what follows, and that no reserve is ever forgotten."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.budget.request_budget import (
    REPORTED_BY_SERVER,
    BudgetSection,
    ContextBudget,
    Window,
    build_budget,
    count_summary,
    fit_reserves,
    window_after_overflow,
)
from ebbtide.agent.messages import Conversation, Usage
from ebbtide.agent.prompt.build import Instructions, build_prompt
from ebbtide.agent.providers.token_meter import TokenMeter
from ebbtide.agent.tokens.estimate import Estimator, TextCounts, count_messages, count_text, count_tools
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.agent.view.visible import visible_messages
from tests.kit.conversations import conversations

sizes = st.integers(0, 3_000_000)
windows = st.builds(
    Window,
    size=st.integers(1, 3_000_000),
    output=st.integers(1, 100_000),
    buffer=st.integers(0, 20_000),
    max_input=st.none() | st.integers(1, 3_000_000),
    price_tier=st.none() | st.integers(1, 3_000_000),
)
counts = st.builds(TextCounts, letters=sizes, symbols=sizes, others=sizes, items=st.integers(0, 5000))


def test_a_budget_says_what_each_component_takes() -> None:
    budget = ContextBudget(Window(10_000, 1000, 1000), 1, 2, 3, 4, 5, 6, 7, 8, 9)
    assert budget.components == {
        "system": 1,
        "instructions": 2,
        "memories": 3,
        "skills": 4,
        "tools": 5,
        "retain": 6,
        "summary": 7,
        "history": 8,
        "pending": 9,
    }
    assert (budget.used, budget.effective_window, budget.remaining, budget.used_share) == (
        45,
        8000,
        7955,
        45 / 8000,
    )
    assert (budget.window.output, budget.buffer) == (1000, 1000)


@pytest.mark.parametrize(
    ("used", "compact", "blocked", "exceeded", "verdict"),
    [
        (7600, False, False, False, "fits"),
        (7601, True, False, False, "compact"),
        (7840, True, False, False, "compact"),
        (7841, True, True, False, "block"),
        (8000, True, True, False, "block"),
        (8001, True, True, True, "block"),
    ],
)
def test_the_verdict_follows_the_two_thresholds(
    used: int, compact: bool, blocked: bool, exceeded: bool, verdict: str
) -> None:
    budget = ContextBudget(Window(10_000, 1000, 1000), history=used)
    assert (budget.should_compact, budget.is_blocked, budget.exceeds_budget) == (compact, blocked, exceeded)
    assert budget.verdict == verdict


@given(windows)
def test_the_buffer_and_the_output_reserve_are_always_subtracted(window: Window) -> None:
    limit = min(n for n in (window.size, window.max_input, window.price_tier) if n is not None)
    assert window.available_tokens == max(limit - window.output - window.buffer, 0)


@given(st.integers(1, 3_000_000), st.integers(1, 3_000_000), st.integers(0, 3_000_000))
def test_reserves_leave_a_quarter_of_any_window(limit: int, output: int, buffer: int) -> None:
    fitted = fit_reserves(limit, output, buffer)
    assert 1 <= fitted[0] <= output
    assert 0 <= fitted[1] <= buffer
    assert limit - sum(fitted) >= limit // 4 - 1
    assert fit_reserves(limit, *fitted) == fitted


@given(windows, st.integers(1, 3_000_000), st.none() | st.integers(-5, 3_000_000))
def test_an_overflow_only_ever_lowers_the_window(window: Window, sent: int, most: int | None) -> None:
    learned = window_after_overflow(window, sent, most)
    assert learned.size <= max(min(window.size, sent), 1)
    assert learned.source_of("context_window") == REPORTED_BY_SERVER
    assert (learned.output, learned.buffer) <= (window.output, window.buffer)


def test_an_overflow_without_a_smaller_maximum_teaches_nine_tenths_of_what_was_sent() -> None:
    window = Window(200_000, 1000, 1000, sources=(("context_window", "registry"),))
    lowered = replace(window, size=100_000, sources=(("context_window", REPORTED_BY_SERVER),))
    assert window_after_overflow(window, 150_000, 100_000) == lowered
    assert window_after_overflow(window, 150_000, 150_000) == replace(lowered, size=135_000)
    assert window_after_overflow(window, 150_000) == replace(lowered, size=135_000)


@given(
    st.dictionaries(st.sampled_from(["system", "instructions", "tools", "summary"]), counts),
    counts,
    counts,
    st.none() | sizes,
    st.none() | sizes,
)
def test_what_was_counted_is_taken_as_counted(
    sections: dict[BudgetSection, TextCounts],
    seen: TextCounts,
    unseen: TextCounts,
    counted: int | None,
    schema: int | None,
) -> None:
    estimator = Estimator()
    budget = build_budget(sections, seen, unseen, counted, Window(200_000, 8000), estimator, schema)
    assert min(budget.components.values()) >= 0
    assert budget.pending == estimator.estimate(unseen)
    if counted is not None:
        assert budget.used == counted + budget.pending
    else:
        assert budget.history == estimator.estimate(seen)


@given(conversations(), st.none() | st.integers(0, 20_000), st.integers(0, 20))
def test_a_meter_measures_what_the_request_alone_says(
    conversation: Conversation, counted: int | None, anchored: int
) -> None:
    if counted is not None:
        anchored = min(anchored, len(conversation.messages))
        conversation = replace(conversation, anchor=Usage(counted), anchored=anchored)
    tools = (ToolSpec("echo", "Says it again.", {"type": "object"}),)
    prompt = build_prompt(conversation, Instructions("base", "here", "rules"))
    window = Window(200_000, 8000)
    sections: dict[BudgetSection, TextCounts] = {
        "system": count_text(prompt.system),
        "tools": count_tools(tools),
        **count_summary(conversation.summary),
    }
    new = count_messages(visible_messages(conversation)[conversation.anchored :])
    seen, unseen = (new, TextCounts()) if counted is None else (TextCounts(), new)
    expected = build_budget(sections, seen, unseen, counted, window, Estimator())
    assert TokenMeter().measure(prompt, conversation, tools, window) == expected
