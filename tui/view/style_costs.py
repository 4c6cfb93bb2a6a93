"""What a session would have cost in each context style, as lines."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ebbtide.agent.config.options import CONTEXT_STYLES, ContextStyle
from ebbtide.agent.messages import Recalls
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.numbers import format_dollars, format_tokens
from ebbtide.tui.text.spans import Line, Span, parse_inline_code

if TYPE_CHECKING:  # types only: the estimates are made in a session
    from ebbtide.agent.compaction.style_costs import StyleCost, StyleCosts

STYLE_DESCRIPTIONS: dict[ContextStyle, str] = {
    "frugal": "removes older parts once that saves money",
    "balanced": "removes them once that clearly saves money",
    "careful": "removes them only if that saves far more",
}
"""What each style does, in a few words."""
_NAME_WIDTH, _COST_WIDTH, _REGRETS_WIDTH = 11, 13, 9
COUNTING_LINE: Line = (("Style", "strong"), ("  counting…", "dim"))
"""Shown until the costs are known."""


def next_style(style: ContextStyle) -> ContextStyle:
    return CONTEXT_STYLES[(CONTEXT_STYLES.index(style) + 1) % len(CONTEXT_STYLES)]


def style_lines(costs: "StyleCosts", recalls: Recalls, how_to_change: str) -> tuple[Line, ...]:
    """Format a heading and a row for each style. `how_to_change`: how to choose another style."""
    if not costs.styles:
        return (_no_effect_line(),)
    heading = f"{'cost so far':>{_COST_WIDTH}}{'regrets':>{_REGRETS_WIDTH}}  regret: an output needed again; "
    return (
        ((f"{'Style':<{_NAME_WIDTH}}", "strong"), (heading, "dim"), *parse_inline_code(how_to_change, "dim")),
        *(_style_row(costs, cost, recalls) for cost in costs.styles),
        *_basis_lines(costs),
    )


def _style_row(costs: "StyleCosts", cost: "StyleCost", recalls: Recalls) -> Line:
    is_active = cost.style == costs.active
    note = STYLE_DESCRIPTIONS[cost.style]
    if cost.style == costs.recorded and recalls.back:
        note += f"; {pluralize(len(recalls.back), 'output')} recalled"
    return (
        ("● " if is_active else "  ", "good"),
        (f"{cost.style:<{_NAME_WIDTH - 2}}", "strong" if is_active else "text"),
        (f"{_cost_text(costs, cost):>{_COST_WIDTH}}{cost.regrets:>{_REGRETS_WIDTH}}", "text"),
        (f"  {note}", "dim"),
    )


def _basis_lines(costs: "StyleCosts") -> Iterator[Line]:
    """Say where the figures come from, if that is not the whole session."""
    if costs.replayed_count < costs.message_count:
        yield (
            (
                f"  estimated from the newest {costs.replayed_count:,} of {pluralize(costs.message_count, 'message')}; "
                "regrets are those in them",
                "dim",
            ),
        )


def short_style_line(costs: "StyleCosts") -> Line:
    """Format all styles in one line, for a screen with little height."""
    if not costs.styles:
        return _no_effect_line()
    spans: list[Span] = [("Style", "strong")]
    for cost in costs.styles:
        is_active = cost.style == costs.active
        spans += [("  ● " if is_active else "  ", "good"), (cost.style, "strong" if is_active else "text")]
        spans.append((f" {_cost_text(costs, cost)}, {cost.regrets}", "dim"))
    return (*spans, (" regrets", "dim"))


def _no_effect_line() -> Line:
    return (("Style", "strong"), *parse_inline_code("  no effect, because `rewrite.policy` is not `cost`", "dim"))


def _cost_text(costs: "StyleCosts", cost: "StyleCost") -> str:
    """Format dollars, or tokens if no prices are known. A tilde marks an estimate."""
    mark = "" if cost.style == costs.recorded else "~"
    return f"{mark}{format_dollars(cost.dollars)}" if cost.dollars else f"{mark}{format_tokens(cost.tokens)} tokens"
