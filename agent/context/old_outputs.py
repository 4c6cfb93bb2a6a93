"""Which outputs and long texts of the model leave the view by a mask, and the view without them. Pure.

Where the window is full, the least wanted go first until there is enough room. What stands behind the first that goes
is written to the cache again then, so of that also goes what is not worth it. Whether what is old has cost more than it
is worth, while there is room, is decided in `ebbtide.agent.context.carrying_costs`.
"""

from ebbtide.agent.context.inventory import Inventory, MaskableItem, MaskableOutputs, maskable
from ebbtide.agent.context.mask import mask_by_keys
from ebbtide.agent.messages import Conversation

_RECALL_COST_TOKENS, _MAX_FETCHED_TOKENS = 2_000, 2_500
"""What it costs to bring something back whatever its size, in tokens of an output, and the most that is fetched."""
WORTH = 1.0
"""What it would cost to miss something for each token that it takes, above which it is written to the cache again, in
tokens written: what stays is written once and read for some twenty requests, which together cost two and a half times
as much as to write it, and to miss it counts two and a half times, too (`RewritePatience.wanted`)."""


def old_items(conversation: Conversation, protect: int, newest: int = 0) -> list[MaskableItem]:
    """What is behind the newest `protect` tokens of outputs (and for texts, of both), and what something newer shows
    however new it is; the newest first. `newest`: messages that stay."""
    stock = Inventory().of(conversation)
    return [
        item for item in maskable(conversation, stock, newest) if item.is_repeated or stock.tokens_since(item) > protect
    ]


def least_wanted(conversation: Conversation, protect: int, enough: int, newest: int = 0) -> list[MaskableItem]:
    """Of `old_items`, what is least likely to be wanted again for what it takes, until `enough` tokens have gone, and
    what stands behind the first of these and is not worth being written to the cache again; all of it where that is not
    enough."""
    stock, chosen = Inventory().of(conversation), list[MaskableItem]()
    first = len(conversation.messages)
    for item in sorted(old_items(conversation, protect, newest), key=lambda item: worth(item, stock)):
        if enough > 0 or (item.place >= first and worth(item, stock) < WORTH):
            first = min(first, item.place)
            chosen.append(item)
            enough -= item.freed_tokens
    return chosen


def worth(item: MaskableItem, stock: MaskableOutputs) -> float:
    """What it would cost to miss it, for each token that it takes."""
    if item.is_reply or item.is_repeated:
        return 0.0
    return (
        stock.reread_probability(item)
        * (_RECALL_COST_TOKENS + min(item.tokens, _MAX_FETCHED_TOKENS))
        / max(item.freed_tokens, 1)
    )


def mask_outputs(conversation: Conversation, protect: int, newest: int = 0) -> Conversation:
    """The conversation with all that is `old_items` masked. The same conversation when there is nothing."""
    return mask_by_keys(conversation, {item.key for item in old_items(conversation, protect, newest)})
