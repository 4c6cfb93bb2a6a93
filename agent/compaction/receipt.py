"""Describes what a rewrite did to each part of the view, as a list and as one line for the user."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ebbtide.agent.compaction.room import DEFER_TOOLS, unseen_outputs
from ebbtide.agent.events.view import Cause, ContextCompacted, ReceiptItem
from ebbtide.agent.messages import Assistant, Conversation, Message, User
from ebbtide.agent.tokens.estimate import estimate_message, estimate_messages, estimate_output
from ebbtide.agent.tool_specs import unwrapped_call
from ebbtide.agent.view.items import PINS_STRATEGY, MessagePart, OutputPart, view_parts
from ebbtide.agent.view.stubs import one_line
from ebbtide.agent.view.visible import message_key, numbered_outputs, turn_starts, visible_messages
from ebbtide.tools.outputs.extent import pluralize

SHORTENED_REQUEST_REASON = "your request; its attachments are shortened"
SHORTENED_REPLY_REASON = "an older, long reply; shortened, with a reference to the full text"
SHORTENED_STEP_REASON = "a step with a long reply: shortened text, and its calls"
MASKED_OUTPUT_REASON = "an older output; its line has the reference"
NO_ROOM_REASON = "a new output without room; its line has the reference"
CUT_OUTPUT_REASON = "a new output larger than its share; shortened, with a reference to the full text"
CARRIED_REASON = "likely to be needed again; no change to it is known"
DEFERRED_TOOLS_REASON = "too little room for the rest; `tool_search` finds them"


def build_receipt(
    old_view: Conversation,
    new_view: Conversation,
    strategies: Sequence[str],
    deferred_tokens: int = 0,
    token_ratio: float = 1.0,
) -> tuple[ReceiptItem, ...]:
    """Return an item for each removed turn, shortened part and remaining step of the view. `deferred_tokens`: tokens of
    the tool definitions that were deferred; `token_ratio`: actual tokens per estimated token."""
    cut = len(old_view.messages) - len(new_view.messages)
    is_by_model = bool({"summary", "chunks"} & set(strategies))
    carried_keys = {carried.key for carried in new_view.summary.carried}
    carried_tokens = {
        numbered.output.call_id: estimate_output(numbered.output)
        for numbered in numbered_outputs(old_view)
        if numbered.ref in carried_keys
    }
    removed_items = _removed_items(visible_messages(old_view)[:cut], is_by_model, carried_tokens)
    tool_items = (
        (ReceiptItem("tool definitions", "deferred", deferred_tokens, DEFERRED_TOOLS_REASON),)
        if deferred_tokens
        else ()
    )
    changed_items = [
        replace(item, tokens=round(item.tokens * token_ratio))
        for item in (*removed_items, *_shortened_items(old_view, new_view))
    ]
    remaining_items = [
        replace(item, tokens=round(item.tokens * token_ratio)) for item in _remaining_items(new_view, strategies)
    ]
    return (*changed_items, *tool_items, *remaining_items)


def _removed_items(
    messages: Sequence[Message], is_by_model: bool, carried_tokens: Mapping[str, int]
) -> Iterator[ReceiptItem]:
    """Yield an item for each removed turn. `carried_tokens`: tokens of the outputs that stay, by call id; they are not
    counted here, because they have items of their own."""
    starts = [start for start in turn_starts(messages) if start] if messages else []
    bounds = [0, *starts, len(messages)] if messages else []
    for start, end in itertools.pairwise(bounds):
        outputs = (output for message in messages[start:end] if isinstance(message, User) for output in message.outputs)
        tokens = estimate_messages(messages[start:end]) - sum(
            carried_tokens.get(output.call_id, 0) for output in outputs
        )
        item = f"{_message_label(messages[start])} ({pluralize(end - start, 'message')})"
        if is_by_model:
            yield ReceiptItem(item, "summarised", tokens, "older steps, replaced by a summary")
        else:
            yield ReceiptItem(item, "dropped", tokens, "older steps; key facts kept")


def _shortened_items(old_view: Conversation, new_view: Conversation) -> Iterator[ReceiptItem]:
    """Yield an item for each output and reply that is now shown in a shorter form."""
    unseen_refs = {numbered.ref for numbered in unseen_outputs(new_view)}
    visible_before = {part.key: part.visible_form for part in view_parts(old_view)}
    for part in view_parts(new_view):
        if part.state == "visible" or part.visible_form == visible_before.get(part.key):
            continue
        if isinstance(part, OutputPart):
            name, tokens = f"{part.description} [{part.ref}]", estimate_output(part.numbered_output.output)
            if part.state == "masked":
                yield ReceiptItem(
                    name, "masked", tokens, NO_ROOM_REASON if part.ref in unseen_refs else MASKED_OUTPUT_REASON
                )
            elif part.ref in unseen_refs:
                yield ReceiptItem(name, "cut", tokens, CUT_OUTPUT_REASON)
        elif isinstance(part, MessagePart) and isinstance(part.original, Assistant):
            yield ReceiptItem(
                f"{_message_label(part.original)} [{part.ref}]",
                "cut",
                estimate_message(part.original),
                SHORTENED_REPLY_REASON,
            )


def _remaining_items(new_view: Conversation, strategies: Sequence[str]) -> Iterator[ReceiptItem]:
    if new_view.summary.request.parts:
        tokens = estimate_message(new_view.summary.request)
        is_unchanged = {"attachments", "pictures", "shorten_text"}.isdisjoint(strategies)
        reason = "your request, unchanged" if is_unchanged else SHORTENED_REQUEST_REASON
        yield ReceiptItem(_message_label(new_view.summary.request), "kept", tokens, reason)
    for carried in new_view.summary.carried:
        yield ReceiptItem(carried.title, "kept", estimate_message(User(carried.parts)), CARRIED_REASON)
    messages = visible_messages(new_view)
    shortened_keys = {shortened.key for shortened in new_view.retold}
    for position, (message, following) in enumerate(
        itertools.zip_longest(messages, messages[1:]), new_view.messages_before
    ):
        if not _has_outputs(message):
            tokens = estimate_messages((message, following) if _has_outputs(following) else (message,))
            is_cut = isinstance(message, Assistant) and message_key(position) in shortened_keys
            yield ReceiptItem(
                _message_label(message), "kept", tokens, SHORTENED_STEP_REASON if is_cut else "among the newest steps"
            )


def _has_outputs(message: Message | None) -> bool:
    """Whether a message contains outputs, so that it belongs to the step before it."""
    return isinstance(message, User) and bool(message.outputs)


def _message_label(message: Message) -> str:
    text = one_line(message.text, 60)
    if isinstance(message, User):
        return f"you: {text}" if text else "outputs"
    calls = ", ".join(unwrapped_call(call).name for call in message.calls)
    return f"step: {calls}" if calls else f"answer: {text}"


_STRATEGY_TEXTS: Mapping[str, str] = {
    DEFER_TOOLS: "tools were deferred",
    PINS_STRATEGY: "pins were shortened",
    "mask": "old outputs were reduced to one line each",
    "cut_to_share": "new outputs were cut to their share",
    "summary": "a summary replaces what came before",
    "chunks": "a summary, written in chunks, replaces what came before",
    "ledger": "collected facts replace what came before",
    "mask_all": "all seen outputs were reduced to one line each",
    "attachments": "attachments of your message were shortened",
    "cut_to_room": "new outputs were cut to the remaining room",
    "drop_older_turns": "the older half of the turns was removed",
    "keep_last_message": "all but your last message and the newest step was removed",
    "pictures": "images in your message were replaced by their names",
    "cut_to_minimum": "new outputs were cut as far as possible",
    "mask_unseen": "new outputs were reduced to one line each",
    "drop_unseen_step": "the newest step was removed; its outputs are listed",
    "shorten_text": "your long text was shortened in the middle",
}
_CAUSE_TEXTS: Mapping[Cause, str] = {
    "full": "the window was full",
    "background": "the window was full",
    "asked": "it was requested",
    "overflow": "the provider rejected the request as too large",
    "rent": "it saves more than it costs",
    "cold": "nothing was cached",
    "budget": "old outputs exceeded their budget",
    "pictures": "the provider rejected an image",
}


def describe_compaction(event: ContextCompacted) -> str:
    """Describe in one line what was rewritten and why, with the sizes before and after."""
    changes = [_STRATEGY_TEXTS[name] for name in dict.fromkeys(event.strategies)]
    sizes = f"about {event.before_tokens:,} tokens became {event.after_tokens:,}"
    return f"context rewritten because {_CAUSE_TEXTS[event.cause]}: {sizes}; {', '.join(changes)}. Nothing is lost"
