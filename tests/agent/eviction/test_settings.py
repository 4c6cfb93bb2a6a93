"""The three styles in which older parts leave the context."""

from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.config.options import CONTEXT_STYLES, OPTIONS_BY_KEY, ContextStyle
from ebbtide.agent.eviction.settings import (
    PATIENCE_BY_STYLE,
    CompactionSettings,
    RewritePatience,
    StyleChoice,
    default_style,
    patience_for_style,
)

factors = st.floats(0.01, 100)


def test_each_style_is_at_least_as_patient_as_the_one_before() -> None:
    assert tuple(PATIENCE_BY_STYLE) == CONTEXT_STYLES
    frugal, balanced, careful = map(astuple, PATIENCE_BY_STYLE.values())
    assert all(map(float.__le__, frugal, balanced))
    assert all(map(float.__le__, balanced, careful))
    assert frugal != balanced != careful


def test_the_defaults_of_the_two_factors_are_those_of_the_balanced_style() -> None:
    mask, compact = (OPTIONS_BY_KEY[f"rewrite.kappa_{name}"].default for name in ("mask", "compact"))
    assert (mask, compact) == (PATIENCE_BY_STYLE["balanced"].mask, PATIENCE_BY_STYLE["balanced"].compact)
    assert RewritePatience() == PATIENCE_BY_STYLE["balanced"]


@pytest.mark.parametrize("style", CONTEXT_STYLES)
def test_a_style_keeps_its_factors_unless_the_user_changed_them(style: ContextStyle) -> None:
    assert patience_for_style(style, RewritePatience()) == PATIENCE_BY_STYLE[style]
    doubled = patience_for_style(style, RewritePatience(9.0, 12.0))
    assert doubled == RewritePatience(
        2 * PATIENCE_BY_STYLE[style].mask, 2 * PATIENCE_BY_STYLE[style].compact, PATIENCE_BY_STYLE[style].recall
    )


@given(st.builds(RewritePatience, factors, factors, factors))
def test_the_balanced_style_changes_no_factor(patience: RewritePatience) -> None:
    assert patience_for_style("balanced", patience) == patience


@pytest.mark.parametrize(
    ("window_tokens", "style"), [(0, "balanced"), (599_999, "balanced"), (600_000, "careful"), (2_000_000, "careful")]
)
def test_only_a_large_window_is_careful_by_default(window_tokens: int, style: ContextStyle) -> None:
    assert default_style(window_tokens) == style


def test_a_choice_wins_over_the_window_and_can_change() -> None:
    choice, settings = StyleChoice(), CompactionSettings()
    assert (choice.style_for(200_000), choice.style_for(1_000_000)) == ("balanced", "careful")
    choice.change("frugal")
    assert (choice.style_for(200_000), choice.style_for(1_000_000)) == ("frugal", "frugal")
    assert choice.apply(settings, 1_000_000) == CompactionSettings(patience=PATIENCE_BY_STYLE["frugal"])
    assert choice.initial_style_for(1_000_000) == "careful"

    chosen = StyleChoice("frugal")
    assert chosen.style_for(1_000_000) == "frugal"
    chosen.change(None)
    assert (chosen.style_for(1_000_000), chosen.initial_style_for(1_000_000)) == ("careful", "frugal")
