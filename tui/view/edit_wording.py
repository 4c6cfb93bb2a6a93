"""Manual context actions in words: what an action would do and cost, and what it has done."""

from ebbtide.agent.context.edit_cost import ViewEditPlan
from ebbtide.agent.context.view_edits import Refusal
from ebbtide.agent.events.view import Act, ViewChanged
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.numbers import dollars, tokens
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.view.receipts import ACTS

OUTCOME_TEXTS: dict[Act, str] = {
    "pin": "is pinned: it stays whatever leaves the view",
    "unpin": "is not pinned any more",
    "evict": "left the view: a line stands for it",
    "offload": "is shown by its ends",
    "summarise": "is shown as a model sums it up",
    "summarise_before": "is summarised with all before it",
    "defer": "is kept out of requests; the model finds it with `tool_search`",
    "offer": "is sent with requests again",
}


def proposal(plan: ViewEditPlan | Refusal, dollar: float | None) -> str:
    """What an action would do and cost, in one line. `dollar`: US dollars per token of fresh input."""
    if isinstance(plan, Refusal):
        return sanitised_line(plan.why)
    return sanitised_line(f"{ACTS[plan.act].format(plan.name)}: {', '.join(_effects(plan, dollar))}")


def _effects(plan: ViewEditPlan, dollar: float | None) -> list[str]:
    if not plan.is_rewrite:
        return ["changes no request that was sent, costs nothing"]
    about = "about " if plan.asks else ""
    size = (
        f"frees {about}{tokens(plan.freed)} tokens" if plan.freed >= 0 else f"takes {tokens(-plan.freed)} tokens more"
    )
    effects = [size, f"costs {price(plan.cost, dollar)} now" if plan.cost > 0 else "costs nothing now"]
    if plan.cost > 0 and plan.freed > 0:
        after = plan.break_even_requests
        effects.append(f"pays off after {pluralize(after, 'request')}" if after is not None else "saves room, no money")
    return effects


def price(cost: float, dollar: float | None) -> str:
    """An amount in US dollars, or in tokens of fresh input if prices are unknown."""
    return f"what {tokens(round(cost))} fresh tokens do" if dollar is None else dollars(cost * dollar)


def change_of(event: ViewChanged) -> str:
    """What an action has done, in one line."""
    told = f"`{event.name}` {OUTCOME_TEXTS[event.act]}"
    if event.before_tokens != event.after_tokens:
        told += f" ({tokens(event.before_tokens)} → {tokens(event.after_tokens)} tokens)"
    return sanitised_line(told)
