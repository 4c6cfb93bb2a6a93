"""What it means to take a rewrite back. Pure."""

from agent.context.budget import ContextBudget

MOST, PART = 20_000, 10
"""Tokens that must come before a rewrite that was undone may happen again unasked: at most so many, or that part of
what a request may take."""


def hold_after(used: int, effective: int) -> int:
    """The size of a request below which nothing is rewritten unasked, after an undo has made it `used` tokens. A window
    that is nearly full does not wait for it."""
    return used + max(min(effective // PART, MOST), 1)


def written_again(budget: ContextBudget) -> int:
    """Tokens of a request that stand behind its system text and its tools, which a rewrite leaves in the cache."""
    fixed = budget.system + budget.instructions + budget.memories + budget.skills + budget.tools
    return max(budget.used - fixed, 0)


def why_not(before: ContextBudget) -> str:
    """Why the view from before cannot be shown again; empty when it can."""
    if before.verdict == "fits":
        return ""
    return (
        f"the view from before takes about {before.used:,} tokens by now, and a request has room for "
        f"{before.window.effective:,}: nothing was undone; `/bring` shows single parts of it again"
    )
