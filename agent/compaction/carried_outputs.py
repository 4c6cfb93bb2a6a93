"""Outputs that stay in view across a summary, and the names found in those that do not. No I/O.

Much of what a model needs again after a summary is in files that it read before and that have not changed. Reading such
a file again takes another request. In recorded sessions with a window of 200,000 tokens, models needed an output that a
summary had removed a third less often with 16,000 tokens of such outputs and with the names of all others.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from ebbtide.agent.compaction.plan import MAX_REMAINING_SHARE, CompactionPlan, apply_compaction
from ebbtide.agent.compaction.room import conversation_tokens
from ebbtide.agent.compaction.stale_outputs import find_stale_outputs
from ebbtide.agent.compaction.summary import Draft
from ebbtide.agent.eviction.inventory import MaskableItem, MeasurementCache, Measurements
from ebbtide.agent.eviction.settings import CompactionCaps
from ebbtide.agent.messages import CarriedPart, Conversation, Text
from ebbtide.agent.tokens.estimate import estimate_text
from ebbtide.agent.view.items import MAX_PIN_LINE_CHARS, OutputPart, view_parts
from ebbtide.agent.view.name_index import build_name_index
from ebbtide.agent.view.stub_identifiers import NAMES_HEADING
from ebbtide.agent.view.stubs import one_line
from ebbtide.agent.view.visible import numbered_outputs, outcome_with_ref
from ebbtide.tools.tool_traits import OutputContent

MAX_NAME_LIST_SHARE, MIN_NAME_LIST_BYTES, MAX_NAMES_BYTES = 0.35, 40, 3_000
"""Limits for the names listed for an output: a share of the output's size, and a minimum and maximum in bytes. If there
is less room than the minimum, no names are listed."""
_MORE_NAMES = "…"
"""Ends a list that does not have all names."""


def list_dropped_outputs(
    conversation: Conversation, cut: int, max_tokens: int, retained_refs: frozenset[str], visible_text: str
) -> str:
    """List the outputs in the first `cut` messages, one per line, with the names found in each, within `max_tokens`
    tokens. The outputs most likely to be needed get room first, and those of earlier summaries last. `retained_refs`:
    references of outputs that remain in view; `visible_text`: text that remains in view, whose names are not
    repeated."""
    lines, remaining_tokens = list[str](), max_tokens
    new_lines = _output_lines(conversation, cut, retained_refs, visible_text)
    earlier_lines = chain(_carried_output_lines(conversation, retained_refs), conversation.summary.names.splitlines())
    for line in _without_repeated_names(chain(new_lines, earlier_lines)):
        remaining_tokens -= estimate_text(line) + 1
        if remaining_tokens < 0:
            break
        lines.append(line)
    return "\n".join(lines)


def _output_lines(
    conversation: Conversation, cut: int, retained_refs: frozenset[str], visible_text: str
) -> Iterator[str]:
    unmasked = replace(conversation, masked=frozenset(), retold=(), pinned=frozenset())
    measurements = MeasurementCache().measure(unmasked)
    numbered_by_ref = {numbered.ref: numbered for numbered in numbered_outputs(unmasked)}
    removed_items = [
        item
        for item in measurements.items
        if item.key in numbered_by_ref
        and item.message_index < cut
        and item.key not in retained_refs
        and not item.is_superseded
    ]
    for item in sorted(removed_items, key=lambda item: (-measurements.reread_probability(item), -item.message_index)):
        text = numbered_by_ref[item.key].output.text
        max_name_bytes = min(int(MAX_NAME_LIST_SHARE * len(text)), MAX_NAMES_BYTES)
        names = (
            build_name_index(text, visible_text, max_name_bytes, NAMES_HEADING)
            if max_name_bytes >= MIN_NAME_LIST_BYTES
            else ""
        )
        if names:
            visible_text += names
            yield f"- {outcome_with_ref(numbered_by_ref[item.key])} {names[1:]}"


def _without_repeated_names(lines: Iterable[str]) -> Iterator[str]:
    """Remove from each line the names that a line before it lists. Lines without any other names are dropped."""
    listed_names = set[str]()
    for line in lines:
        heading, separator, names_text = line.rpartition(f" {NAMES_HEADING}: ")
        names = [name for name in names_text.split() if name not in listed_names]
        listed_names.update(name for name in names if name != _MORE_NAMES)
        if names and names != [_MORE_NAMES]:
            yield f"{heading}{separator}{' '.join(names)}"


def _carried_output_lines(conversation: Conversation, retained_refs: frozenset[str]) -> Iterator[str]:
    """Yield a line for each output that the earlier summary carried and this one does not."""
    for carried in conversation.summary.carried:
        text = "\n".join(part.text for part in carried.parts if isinstance(part, Text))
        names = build_name_index(text, "", min(int(MAX_NAME_LIST_SHARE * len(text)), MAX_NAMES_BYTES), NAMES_HEADING)
        if names and carried.ref not in retained_refs:
            yield f"- {carried.title} {names[1:]}"


CARRIED_CONTENTS: tuple[OutputContent, ...] = ("file", "view", "search", "report")
"""What carried outputs show."""
_MIN_REFETCH_COST_SHARE = 0.2
"""An output stays if the expected cost of removing it exceeds this share of its size. Both are measured in tokens
written to the cache. An output that stays is written once more and read about twenty times. Removing an output that is
still needed counts as ten times the cost of fetching it again."""
_REFETCH_COST_TOKENS, _MAX_FETCHED_TOKENS = 2_440, 2_500
"""Fixed cost of fetching an output again, and the maximum size of what is fetched again, both in tokens."""


def with_carried_outputs(conversation: Conversation, plan: CompactionPlan, caps: CompactionCaps) -> CompactionPlan:
    """Add to the plan the outputs that stay in view, and the names found in others. They take at most three quarters of
    what the compaction may add and still save enough."""
    cut, max_summary_tokens = len(plan.covered_messages), caps.retain + caps.summary
    max_tokens = int(MAX_REMAINING_SHARE * conversation_tokens(conversation))
    smallest_view = apply_compaction(plan, Draft("", ""), caps)
    spare_tokens = max_tokens - conversation_tokens(smallest_view) - max_summary_tokens
    outputs = carried_outputs(conversation, cut, min(caps.carried_output_tokens, spare_tokens // 2))
    retained_refs = frozenset(output.ref for output in (*outputs, *plan.tail_view.summary.pinned))
    visible_text = "\n".join(part.text for output in outputs for part in output.parts if isinstance(part, Text))
    max_name_tokens = min(caps.output_name_tokens, spare_tokens // 4)
    names = list_dropped_outputs(conversation, cut, max_name_tokens, retained_refs, visible_text)
    extended = replace(plan, carried_outputs=outputs, output_names=names)
    extended_view = apply_compaction(extended, Draft("", ""), caps)
    return extended if conversation_tokens(extended_view) + max_summary_tokens < max_tokens else plan


def carried_outputs(conversation: Conversation, cut: int, max_tokens: int) -> tuple[CarriedPart, ...]:
    """Choose the outputs from the first `cut` messages that will stay in view, in the order in which they came. These
    are complete and unchanged files and search results that are needed most for their size, up to `max_tokens` tokens
    in total."""
    stale_refs = find_stale_outputs(conversation)
    parts = {
        part.key: part
        for part in view_parts(conversation)
        if isinstance(part, OutputPart) and part.message_index < cut and part.ref not in stale_refs
    }
    measurements = MeasurementCache().measure(conversation)
    chosen_parts, chosen_texts = dict[str, CarriedPart](), set[str]()
    for item in sorted(measurements.items, key=lambda item: _refetch_cost_share(item, measurements), reverse=True):
        if _refetch_cost_share(item, measurements) < _MIN_REFETCH_COST_SHARE:
            break
        part = parts.get(item.key)
        if part is None or item.tokens > max_tokens or not _can_be_carried(item, part):
            continue
        text = part.visible_form.text
        if text in chosen_texts:
            continue  # a command was repeated, and printed the same
        max_tokens -= item.tokens
        title = one_line(part.description, MAX_PIN_LINE_CHARS)
        chosen_parts[item.key] = CarriedPart(part.key, title, part.ref, (Text(text),))
        chosen_texts.add(text)
    return tuple(chosen_parts[item.key] for item in measurements.items if item.key in chosen_parts)


def _refetch_cost_share(item: MaskableItem, measurements: Measurements) -> float:
    """Return the expected cost of fetching an output again, per token of its size."""
    refetch_cost = _REFETCH_COST_TOKENS + min(item.tokens, _MAX_FETCHED_TOKENS)
    return measurements.reread_probability(item) * refetch_cost / max(item.tokens, 1)


def _can_be_carried(item: MaskableItem, part: OutputPart) -> bool:
    """Whether an output is shown in full, and no later one shows the same."""
    return (
        item.content in CARRIED_CONTENTS
        and not item.is_superseded
        and part.state == "visible"
        and part.numbered_output.output.status == "done"
        and not part.visible_form.images
    )
