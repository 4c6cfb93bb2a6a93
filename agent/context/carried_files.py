"""Files that stay in view across a summary, as they were read. Pure.

In recorded sessions, a fifth to a third of what was needed again after a summary were files read shortly before and not
changed since. Each of them costs a request to read again.
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
"""Maximum number of files, and of requests since the oldest of them was read."""
_WORTH = 0.26
"""A file stays if the expected cost of missing it exceeds this share of its own size, both in tokens written to the
cache. A file that stays is written once more and read for about twenty requests; missing something is weighted ten
times the cost of reading it again."""
_RECALL_COST_TOKENS, _MAX_FETCHED_TOKENS = 2_440, 2_500
"""Fixed cost of reading a file again, and the most of its content that is fetched then, both in tokens."""


def with_carried_files(conversation: Conversation, plan: CompactionPlan, caps: Caps) -> CompactionPlan:
    """Add to the plan the files that stay in view and the names found in other outputs. Returns the plan unchanged if
    it would then save too little."""
    cut = len(plan.covered)
    files = carried_files(conversation, cut, caps.carried)
    stays = frozenset(one.ref for one in (*files, *plan.rest.summary.kept))
    told = "\n".join(part.text for one in files for part in one.parts if isinstance(part, Text))
    carrying = replace(plan, carried=files, names=dropped_outputs(conversation, cut, caps.names, stays, told))
    largest = size_of(apply_compaction(carrying, Draft("", ""), caps)) + caps.retain + caps.summary
    return carrying if largest < MAX_REMAINING_SHARE * size_of(conversation) else plan


def carried_files(conversation: Conversation, cut: int, most: int) -> tuple[CarriedPart, ...]:
    """Return what stays of the first `cut` messages, in reading order: the newest reads shown whole, of files that no
    call has touched since, within `most` tokens in total."""
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
