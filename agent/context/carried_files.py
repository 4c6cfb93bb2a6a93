"""Files that stay in view over a summary, as they were read. Pure.

Of what recorded sessions needed again behind a summary, a fifth to a third were files that had been read not long
before and not been touched since: to read each of them again costs a request.
"""

from collections.abc import Iterator
from dataclasses import replace

from ebbtide.agent.context.compaction import MAX_REMAINING_SHARE, CompactionPlan, apply_compaction
from ebbtide.agent.context.dropped_outputs import dropped_outputs
from ebbtide.agent.context.inventory import Inventory
from ebbtide.agent.context.mask import one_line
from ebbtide.agent.context.pins import LINE
from ebbtide.agent.context.settings import Caps
from ebbtide.agent.context.strategies import size_of
from ebbtide.agent.context.summary import Draft
from ebbtide.agent.context.view_items import OutputPart, view_parts
from ebbtide.agent.messages import CarriedPart, Conversation, Text

MAX_FILES, MAX_AGE_REQUESTS = 5, 20
"""How many files, and the requests since the oldest of them was read."""
_WORTH = 0.26
"""What it would cost to miss a file for each token that it takes, in tokens written to the cache, above which it stays:
what it takes is written once more and read for some twenty requests, and missing something counts ten times what
reading it again costs."""
_RECALL_COST_TOKENS, _MAX_FETCHED_TOKENS = 2_440, 2_500
"""What reading it again costs whatever its size, and the most of it that is read then, likewise."""


def with_carried_files(conversation: Conversation, plan: CompactionPlan, caps: Caps) -> CompactionPlan:
    """The plan with the files that its summary leaves in view, and the names in other outputs: none where it would save
    too little with them."""
    cut = len(plan.covered)
    files = carried_files(conversation, cut, caps.carried)
    stays = frozenset(one.ref for one in (*files, *plan.rest.summary.kept))
    told = "\n".join(part.text for one in files for part in one.parts if isinstance(part, Text))
    carrying = replace(plan, carried=files, names=dropped_outputs(conversation, cut, caps.names, stays, told))
    largest = size_of(apply_compaction(carrying, Draft("", ""), caps)) + caps.retain + caps.summary
    return carrying if largest < MAX_REMAINING_SHARE * size_of(conversation) else plan


def carried_files(conversation: Conversation, cut: int, most: int) -> tuple[CarriedPart, ...]:
    """What of the first `cut` messages stays, in the order in which it was read: the newest reads that are shown whole,
    of files that no call of ours has touched since, in so many tokens together."""
    return tuple(reversed(tuple(_newest(conversation, cut, most))))


def _newest(conversation: Conversation, cut: int, room: int) -> Iterator[CarriedPart]:
    parts = {part.key: part for part in view_parts(conversation) if isinstance(part, OutputPart)}
    stock, left = Inventory().of(conversation), MAX_FILES
    for item in reversed(stock.items):
        part = parts.get(item.key)
        if part is None or item.content != "file" or item.is_stale or item.is_repeated or item.place >= cut:
            continue
        if not left or stock.age(item) > MAX_AGE_REQUESTS:
            return
        is_whole = part.state == "visible" and part.found.output.status == "done" and not part.visible.images
        wanted = stock.reread_probability(item) * (_RECALL_COST_TOKENS + min(item.tokens, _MAX_FETCHED_TOKENS))
        if is_whole and item.tokens <= room and wanted >= _WORTH * item.tokens:
            room, left = room - item.tokens, left - 1
            yield CarriedPart(part.key, one_line(part.what, LINE), part.ref, (Text(part.visible.text),))
