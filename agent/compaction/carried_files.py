"""Files that stay in view across a summary, with the content that was read. No I/O.

Much of what a model needs again after a summary is in files that it read shortly before and that have not changed: a
fifth to a third of it in recorded sessions. Reading such a file again takes another request.
"""

from collections.abc import Iterator
from dataclasses import replace

from ebbtide.agent.compaction.plan import MAX_REMAINING_SHARE, CompactionPlan, apply_compaction
from ebbtide.agent.compaction.room import conversation_tokens
from ebbtide.agent.compaction.summary import Draft
from ebbtide.agent.eviction.inventory import MeasurementCache
from ebbtide.agent.eviction.settings import CompactionCaps
from ebbtide.agent.messages import CarriedPart, Conversation, Text
from ebbtide.agent.tokens.estimate import estimate_text
from ebbtide.agent.view.items import MAX_PIN_LINE_CHARS, OutputPart, view_parts
from ebbtide.agent.view.name_index import build_name_index
from ebbtide.agent.view.stubs import one_line
from ebbtide.agent.view.visible import numbered_outputs, outcome_with_ref

MAX_NAME_LIST_SHARE, MIN_NAME_LIST_BYTES, MAX_NAMES_BYTES = 0.12, 40, 900
"""Limits for the names listed for an output: a share of the output's size, and a minimum and maximum in bytes. If there
is less room than the minimum, no names are listed."""


def list_dropped_outputs(
    conversation: Conversation, cut: int, max_tokens: int, retained_refs: frozenset[str], visible_text: str
) -> str:
    """List the outputs in the first `cut` messages, one per line, with the names found in each, within `max_tokens`
    tokens. The outputs most likely to be needed get room first. `retained_refs`: references of outputs that remain in
    view; `visible_text`: text that remains in view, whose names are not repeated."""
    lines, remaining_tokens = list[str](), max_tokens
    for line in _output_lines(conversation, cut, retained_refs, visible_text):
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
            build_name_index(text, visible_text, max_name_bytes, "names in it")
            if max_name_bytes >= MIN_NAME_LIST_BYTES
            else ""
        )
        if names:
            visible_text += names
            yield f"- {outcome_with_ref(numbered_by_ref[item.key])} {names[1:]}"


MAX_FILES, MAX_AGE_REQUESTS = 5, 20
"""Maximum number of carried files, and maximum age of a read, in requests."""
_MIN_REFETCH_COST_SHARE = 0.26
"""A file stays if the expected cost of removing it exceeds this share of its size. Both are measured in tokens written
to the cache. A file that stays is written once more and read about twenty times. Removing a file that is still needed
counts as ten times the cost of reading it again."""
_REFETCH_COST_TOKENS, _MAX_FETCHED_TOKENS = 2_440, 2_500
"""Fixed cost of reading a file again, and the maximum size of what is read again, both in tokens."""


def with_carried_files(conversation: Conversation, plan: CompactionPlan, caps: CompactionCaps) -> CompactionPlan:
    """Add to the plan the files that stay in view, and the names found in other outputs. The plan stays unchanged if
    the compaction would otherwise save too little."""
    cut = len(plan.covered_messages)
    files = carried_files(conversation, cut, caps.carried_file_tokens)
    retained_refs = frozenset(file.ref for file in (*files, *plan.tail_view.summary.pinned))
    visible_text = "\n".join(part.text for file in files for part in file.parts if isinstance(part, Text))
    extended = replace(
        plan,
        carried_files=files,
        output_names=list_dropped_outputs(conversation, cut, caps.output_name_tokens, retained_refs, visible_text),
    )
    max_tokens = conversation_tokens(apply_compaction(extended, Draft("", ""), caps)) + caps.retain + caps.summary
    return extended if max_tokens < MAX_REMAINING_SHARE * conversation_tokens(conversation) else plan


def carried_files(conversation: Conversation, cut: int, max_tokens: int) -> tuple[CarriedPart, ...]:
    """Choose the files from the first `cut` messages that will stay in view, in the order they were read. These are the
    newest complete reads of files that no call has touched since, up to `max_tokens` tokens in total."""
    return tuple(reversed(tuple(_newest_reads(conversation, cut, max_tokens))))


def _newest_reads(conversation: Conversation, cut: int, remaining_tokens: int) -> Iterator[CarriedPart]:
    parts = {part.key: part for part in view_parts(conversation) if isinstance(part, OutputPart)}
    measurements, remaining_file_count = MeasurementCache().measure(conversation), MAX_FILES
    for item in reversed(measurements.items):
        part = parts.get(item.key)
        if part is None or item.content != "file" or item.is_stale or item.is_superseded or item.message_index >= cut:
            continue
        if not remaining_file_count or measurements.replies_since(item) > MAX_AGE_REQUESTS:
            return
        is_complete = (
            part.state == "visible" and part.numbered_output.output.status == "done" and not part.visible_form.images
        )
        refetch_cost = measurements.reread_probability(item) * (
            _REFETCH_COST_TOKENS + min(item.tokens, _MAX_FETCHED_TOKENS)
        )
        if is_complete and item.tokens <= remaining_tokens and refetch_cost >= _MIN_REFETCH_COST_SHARE * item.tokens:
            remaining_tokens, remaining_file_count = remaining_tokens - item.tokens, remaining_file_count - 1
            yield CarriedPart(
                part.key, one_line(part.description, MAX_PIN_LINE_CHARS), part.ref, (Text(part.visible_form.text),)
            )
