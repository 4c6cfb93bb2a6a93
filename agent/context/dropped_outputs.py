"""Names for the outputs that a summary removes: one line each, with identifiers found in it. Pure.

A summary reports results; a later step often needs a single name from an output, which it then searches for, reads or
changes. With these names in view the model knows what to fetch, or needs nothing more.
"""

from collections.abc import Iterator
from dataclasses import replace

from ebbtide.agent.context.estimate import estimate_text
from ebbtide.agent.context.inventory import Inventory
from ebbtide.agent.context.mask import numbered_outputs, outcome_with_ref
from ebbtide.agent.context.name_index import name_index
from ebbtide.agent.messages import Conversation

SHARE, MIN_NAME_BYTES, MAX_NAME_BYTES = 0.12, 40, 900
"""Share of an output that its names may take, and their minimum and maximum size in bytes."""


def dropped_outputs(conversation: Conversation, cut: int, most: int, stays: frozenset[str], told: str) -> str:
    """Return lines for the outputs in the first `cut` messages, the most likely needed first, within `most` tokens.
    `stays`: references of outputs that remain in view; `told`: text that remains in view, whose names are not
    repeated."""
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
