"""One-line reports of context rewrites, for runs without the interface. Pure."""

from collections.abc import Mapping

from ebbtide.agent.context.pins import PINS_STRATEGY
from ebbtide.agent.context.strategies import TOOLS
from ebbtide.agent.events.view import Cause, ContextCompacted

_STRATEGY_TEXTS: Mapping[str, str] = {
    TOOLS: "tools were deferred",
    PINS_STRATEGY: "pins were shortened",
    "mask": "old outputs were reduced to one line each",
    "share": "new outputs were cut to their share",
    "summary": "a summary replaces what came before",
    "chunks": "a summary, written in chunks, replaces what came before",
    "ledger": "collected facts replace what came before",
    "mask_all": "all seen outputs were reduced to one line each",
    "attachments": "attachments of your message were shortened",
    "cut": "new outputs were cut to the remaining room",
    "drop": "the older half of the turns was removed",
    "last": "all but your last message and the newest step was removed",
    "pictures": "pictures of your message were replaced by their names",
    "least": "new outputs were cut as far as possible",
    "references": "new outputs were reduced to one line each",
    "step": "the newest step was removed; its outputs are listed",
    "words": "your long text was shortened in the middle",
}
_CAUSES: Mapping[Cause, str] = {
    "full": "the window was full",
    "background": "the window was full",
    "asked": "it was requested",
    "overflow": "the provider found the request too large",
    "rent": "it saves more than it costs",
    "cold": "nothing was cached",
    "budget": "old outputs exceeded their budget",
    "pictures": "the provider refused a picture",
}


def announcement(event: ContextCompacted) -> str:
    """Return a line that says what was rewritten, why, and the sizes before and after."""
    done = [_STRATEGY_TEXTS[name] for name in dict.fromkeys(event.strategies)]
    sizes = f"about {event.before_tokens:,} tokens became {event.after_tokens:,}"
    return f"context rewritten because {_CAUSES[event.cause]}: {sizes}; {', '.join(done)}. Nothing is lost"
