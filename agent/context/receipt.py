"""What a rewrite did to each part of the view, for people to read. Pure."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ebbtide.agent.context.estimate import estimate_message, estimate_messages, output_size
from ebbtide.agent.context.mask import message_key, numbered_outputs, one_line, visible_messages
from ebbtide.agent.context.steps import turn_starts
from ebbtide.agent.context.tool_selection import unwrapped_call
from ebbtide.agent.context.unseen_outputs import unseen_outputs
from ebbtide.agent.context.view_items import MessagePart, OutputPart, view_parts
from ebbtide.agent.events.view import ReceiptItem
from ebbtide.agent.messages import Assistant, Conversation, Message, User
from ebbtide.tools.outputs.extent import pluralize

WORDS_ALONE = "your request; its attachments are shortened"
ENDS = "an older, long reply; shortened, with a reference to the full text"
LEFT_OF_IT = "a step with a long reply: shortened text, and its calls"
OLDER = "an older output; its line has the reference"
NO_ROOM = "a new output without room; its line has the reference"
CUT_SHORT = "a new output larger than its share; shortened, with a reference to the full text"
CARRIED_REASON = "a recently read file, unchanged as far as known"
DEFERRED_TOOLS_REASON = "too little room for the rest; `tool_search` finds them"


def receipt(
    before: Conversation, after: Conversation, strategies: Sequence[str], deferred: int = 0, ratio: float = 1.0
) -> tuple[ReceiptItem, ...]:
    """Return what became of each part of the view: one item for each removed turn, and one for each remaining step.
    `deferred`: tokens of the tool definitions deferred now; `ratio`: actual tokens per estimated token."""
    cut = len(before.messages) - len(after.messages)
    by_model = bool({"summary", "chunks"} & set(strategies))
    stays = {one.key for one in after.summary.carried}
    carried = {one.output.call_id: output_size(one.output) for one in numbered_outputs(before) if one.ref in stays}
    gone = _removed_items(visible_messages(before)[:cut], by_model, carried)
    tools = (ReceiptItem("tool definitions", "deferred", deferred, DEFERRED_TOOLS_REASON),) if deferred else ()
    counted = [replace(item, tokens=round(item.tokens * ratio)) for item in (*gone, *_less(before, after))]
    kept = [replace(item, tokens=round(item.tokens * ratio)) for item in _remaining_items(after, strategies)]
    return (*counted, *tools, *kept)


def _removed_items(messages: Sequence[Message], by_model: bool, carried: Mapping[str, int]) -> Iterator[ReceiptItem]:
    """Yield the removed turns. `carried`: tokens of outputs that stay, by call id; they have items of their own."""
    starts = [start for start in turn_starts(messages) if start] if messages else []
    bounds = [0, *starts, len(messages)] if messages else []
    for start, end in itertools.pairwise(bounds):
        outputs = (output for one in messages[start:end] if isinstance(one, User) for output in one.outputs)
        tokens = estimate_messages(messages[start:end]) - sum(carried.get(output.call_id, 0) for output in outputs)
        item = f"{_name(messages[start])} ({pluralize(end - start, 'message')})"
        if by_model:
            yield ReceiptItem(item, "summarised", tokens, "older steps, replaced by a summary")
        else:
            yield ReceiptItem(item, "dropped", tokens, "older steps; key facts kept")


def _less(before: Conversation, after: Conversation) -> Iterator[ReceiptItem]:
    """Yield the outputs and replies that are now shown in shorter form."""
    new, was = {found.ref for found in unseen_outputs(after)}, {part.key: part.visible for part in view_parts(before)}
    for part in view_parts(after):
        if part.state == "visible" or part.visible == was.get(part.key):
            continue
        if isinstance(part, OutputPart):
            name, tokens = f"{part.what} [{part.ref}]", output_size(part.found.output)
            if part.state == "masked":
                yield ReceiptItem(name, "masked", tokens, NO_ROOM if part.ref in new else OLDER)
            elif part.ref in new:
                yield ReceiptItem(name, "cut", tokens, CUT_SHORT)
        elif isinstance(part, MessagePart) and isinstance(part.original, Assistant):
            yield ReceiptItem(f"{_name(part.original)} [{part.ref}]", "cut", estimate_message(part.original), ENDS)


def _remaining_items(after: Conversation, strategies: Sequence[str]) -> Iterator[ReceiptItem]:
    if after.summary.request.parts:
        tokens = estimate_message(after.summary.request)
        is_whole = {"attachments", "pictures", "words"}.isdisjoint(strategies)
        why = "your request, unchanged" if is_whole else WORDS_ALONE
        yield ReceiptItem(_name(after.summary.request), "kept", tokens, why)
    for one in after.summary.carried:
        yield ReceiptItem(one.title, "kept", estimate_message(User(one.parts)), CARRIED_REASON)
    shown, cut = visible_messages(after), {one.key for one in after.retold}
    for position, (message, following) in enumerate(itertools.zip_longest(shown, shown[1:]), after.messages_before):
        if not _holds_outputs(message):
            tokens = estimate_messages((message, following) if _holds_outputs(following) else (message,))
            is_cut = isinstance(message, Assistant) and message_key(position) in cut
            yield ReceiptItem(_name(message), "kept", tokens, LEFT_OF_IT if is_cut else "among the newest steps")


def _holds_outputs(message: Message | None) -> bool:
    """Whether a message belongs to the step before it."""
    return isinstance(message, User) and bool(message.outputs)


def _name(message: Message) -> str:
    text = one_line(message.text, 60)
    if isinstance(message, User):
        return f"you: {text}" if text else "outputs"
    calls = ", ".join(unwrapped_call(call).name for call in message.calls)
    return f"step: {calls}" if calls else f"answer: {text}"
