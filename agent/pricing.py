"""By what changes of the view are measured and priced in a session. What they cost is decided in
`agent.context.pricing`."""

from collections.abc import Callable

from agent.context.ladder import size_of
from agent.context.pricing import Terms
from agent.env import Env
from agent.measuring import budget_of
from agent.messages import Conversation, Message
from agent.rent import unit_prices


def terms_of(conversation: Conversation, env: Env) -> Terms:
    """By what acts are measured and priced in a session."""
    budget = budget_of(conversation, env)
    fixed = budget.system + budget.instructions + budget.memories + budget.skills + budget.tools
    facts = env.provider.facts
    return Terms(
        env.meter.size_of,
        budget.used,
        fixed,
        budget.effective_window,
        unit_prices(facts.prices, is_uncached=env.watch.is_uncached),
        env.compacting.caps,
        env.watch.is_cold(facts),
        env.watch.unchanged,
        scale_of(budget.used - fixed, conversation, env.meter.size_of),
    )


def scale_of(counted: int, conversation: Conversation, size: Callable[[Message], int]) -> float:
    """Tokens that a conversation is known to take for one that is estimated."""
    estimated = size_of(conversation, size)
    return min(max(counted / estimated, 0.25), 3.0) if estimated else 1.0
