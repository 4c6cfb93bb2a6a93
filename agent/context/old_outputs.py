"""Which outputs and long replies are masked, and the view without them. Pure.

If the window is full, the least needed ones are masked until there is enough room. Everything after the first of them
is then written to the cache again, so whatever is not worth that is masked as well. Whether old content has cost more
than it is worth while there is room is decided in `ebbtide.agent.context.carrying_costs`.
"""

from ebbtide.agent.context.inventory import Inventory, MaskableItem, MaskableOutputs, maskable
from ebbtide.agent.context.mask import mask_by_keys
from ebbtide.agent.messages import Conversation

_RECALL_COST_TOKENS, _MAX_FETCHED_TOKENS = 2_000, 2_500
"""Fixed cost of recalling something, in tokens of an output, and the most that is fetched."""
WORTH = 1.0
"""Cost of missing an item per token of its size, in tokens written, above which it is written to the cache again. What
stays is written once and read for about twenty requests, which together cost two and a half times as much as writing;
missing it is weighted two and a half times as well (`RewritePatience.wanted`)."""


def old_items(conversation: Conversation, protect: int, newest: int = 0) -> list[MaskableItem]:
    """Return the items beyond the newest `protect` tokens of outputs (for replies, of outputs and replies), and those
    that something newer repeats, whatever their age; the newest first. `newest`: number of messages that stay."""
    stock = Inventory().of(conversation)
    return [
        item for item in maskable(conversation, stock, newest) if item.is_repeated or stock.tokens_since(item) > protect
    ]


def least_wanted(conversation: Conversation, protect: int, enough: int, newest: int = 0) -> list[MaskableItem]:
    """Return the `old_items` least likely to be needed for their size, until `enough` tokens are freed, and those after
    the first of them that are not worth writing to the cache again. All of them if that is not enough."""
    stock, chosen = Inventory().of(conversation), list[MaskableItem]()
    first = len(conversation.messages)
    for item in sorted(old_items(conversation, protect, newest), key=lambda item: worth(item, stock)):
        if enough > 0 or (item.place >= first and worth(item, stock) < WORTH):
            first = min(first, item.place)
            chosen.append(item)
            enough -= item.freed_tokens
    return chosen


def worth(item: MaskableItem, stock: MaskableOutputs) -> float:
    """Expected cost of missing an item, per token freed."""
    if item.is_reply or item.is_repeated:
        return 0.0
    return (
        stock.reread_probability(item)
        * (_RECALL_COST_TOKENS + min(item.tokens, _MAX_FETCHED_TOKENS))
        / max(item.freed_tokens, 1)
    )


def mask_outputs(conversation: Conversation, protect: int, newest: int = 0) -> Conversation:
    """Mask all `old_items`. Returns the same conversation if there are none."""
    return mask_by_keys(conversation, {item.key for item in old_items(conversation, protect, newest)})
