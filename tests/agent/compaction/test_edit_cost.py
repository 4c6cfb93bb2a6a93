"""What it means to take a rewrite back, over arbitrary budgets."""

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.budget.request_budget import ContextBudget, Window
from ebbtide.agent.compaction.edit_cost import (
    HOLD_WINDOW_DIVISOR,
    MAX_UNDO_GROWTH_TOKENS,
    min_size_after_undo,
    tokens_after_prefix,
    undo_refusal,
)

tokens = st.integers(0, 300_000)
budgets = st.builds(
    ContextBudget,
    st.builds(Window, st.integers(1, 400_000), st.integers(0, 20_000), st.integers(0, 9_000)),
    **dict.fromkeys(["system", "instructions", "memories", "skills", "tools", "retain", "summary"], tokens),
    history=tokens,
    pending=tokens,
    has_output_overflow=st.booleans(),
)


@given(budgets)
def test_what_is_written_again_is_what_stands_behind_the_tools(budget: ContextBudget) -> None:
    behind = budget.retain + budget.summary + budget.history + budget.pending
    assert tokens_after_prefix(budget) == behind
    assert 0 <= tokens_after_prefix(budget) <= budget.used


@given(budgets)
def test_what_is_shown_again_leaves_room_for_a_request(budget: ContextBudget) -> None:
    refusal = undo_refusal(budget)
    assert bool(refusal) == (budget.verdict != "fits")
    if refusal:
        assert f"{budget.used:,}" in refusal
    else:
        assert budget.used <= budget.effective_window


@given(tokens, tokens)
def test_something_must_come_before_it_happens_again_and_never_more_than_a_part_of_the_window(
    used: int, effective: int
) -> None:
    more = min_size_after_undo(used, effective) - used
    assert 1 <= more <= max(MAX_UNDO_GROWTH_TOKENS, 1)
    assert more <= max(effective // HOLD_WINDOW_DIVISOR, 1)
