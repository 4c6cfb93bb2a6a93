"""What names the outputs that leave with a summary: a line for each, with names that stand in it. Pure.

A summary tells what was found out; what a later step needs is often a single name in an output, which it then searches
for, reads or changes. With the names in view it knows what to bring back, or needs nothing more.
"""

from collections.abc import Iterator
from dataclasses import replace

from ebbtide.agent.context.estimate import estimate_text
from ebbtide.agent.context.inventory import Inventory
from ebbtide.agent.context.mask import numbered_outputs, outcome_with_ref
from ebbtide.agent.context.name_index import name_index
from ebbtide.agent.messages import Conversation

SHARE, MIN_NAME_BYTES, MAX_NAME_BYTES = 0.12, 40, 900
"""The part of an output that its names take, and bytes of them at least and at most."""


def dropped_outputs(conversation: Conversation, cut: int, most: int, stays: frozenset[str], told: str) -> str:
    """Lines of the outputs in the first `cut` messages, those first that are wanted most, in so many tokens. `stays`:
    references of outputs that stay in view as they are; `told`: what stays of words, whose names are not said again."""
    lines, room = list[str](), most
    for line in _lines(conversation, cut, stays, told):
        room -= estimate_text(line) + 1
        if room < 0:
            break
        lines.append(line)
    return "\n".join(lines)


def _lines(conversation: Conversation, cut: int, stays: frozenset[str], told: str) -> Iterator[str]:
    whole = replace(conversation, masked=frozenset(), retold=(), pinned=frozenset())
    stock = Inventory().of(whole)
    found = {one.ref: one for one in numbered_outputs(whole)}
    leaving = [
        item
        for item in stock.items
        if item.key in found and item.place < cut and item.key not in stays and not item.is_repeated
    ]
    for item in sorted(leaving, key=lambda item: (-stock.reread_probability(item), -item.place)):
        text = found[item.key].output.text
        room = min(int(SHARE * len(text)), MAX_NAME_BYTES)
        names = name_index(text, told, room, "names in it") if room >= MIN_NAME_BYTES else ""
        if names:
            told += names
            yield f"- {outcome_with_ref(found[item.key])} {names[1:]}"
