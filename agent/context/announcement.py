"""One-line reports of context rewrites, for runs without the interface. Pure."""

from collections.abc import Mapping

from ebbtide.agent.context.pins import PINS_STRATEGY
from ebbtide.agent.context.strategies import TOOLS
from ebbtide.agent.events.view import Cause, ContextCompacted

_STRATEGY_TEXTS: Mapping[str, str] = {
    TOOLS: "tools were held back",
    PINS_STRATEGY: "pins were shortened",
    "mask": "old outputs became one line each",
    "share": "new outputs were cut to their share",
    "summary": "a summary stands for what came before",
    "chunks": "a summary, written in pieces, stands for what came before",
    "ledger": "collected facts stand for what came before",
    "mask_all": "all outputs that were seen became one line each",
    "attachments": "what came with your message is shown in part",
    "cut": "new outputs were cut to what was left",
    "drop": "the older half of the turns left",
    "last": "all but your last message and the newest step left",
    "pictures": "pictures of your message are named only",
    "least": "new outputs were cut as far as possible",
    "references": "new outputs became one line each",
    "step": "the newest step left, and its outputs are named",
    "words": "long words of yours are shown by both ends",
}
_CAUSES: Mapping[Cause, str] = {
    "full": "the window was full",
    "background": "the window was full",
    "asked": "it was asked for",
    "overflow": "the provider found the request too large",
    "rent": "that pays for itself",
    "cold": "nothing was cached any more",
    "budget": "old outputs took more than they may",
    "pictures": "the provider refused a picture",
}


def announcement(event: ContextCompacted) -> str:
    """Return a line that says what was rewritten, why, and the sizes before and after."""
    done = [_STRATEGY_TEXTS[name] for name in dict.fromkeys(event.strategies)]
    sizes = f"about {event.before_tokens:,} tokens became {event.after_tokens:,}"
    return f"context rewritten, since {_CAUSES[event.cause]}: {sizes}; {', '.join(done)}. All of it is kept"
