"""Plans manual view edits: the effect of each action, or the reason why it is refused. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ebbtide.agent.budget.summary_cost import SUMMARY_REQUEST_TOKENS
from ebbtide.agent.compaction.edit_cost import EditPricing, ViewEditPlan, price_edit
from ebbtide.agent.compaction.plan import MIN_CAP_TOKENS, TARGET_SHARE
from ebbtide.agent.events.view import Act
from ebbtide.agent.messages import (
    Conversation,
    Image,
    Message,
    Note,
    ShortenedForm,
    ShortenedPart,
    Text,
    ToolOutput,
    User,
)
from ebbtide.agent.tool_specs import unwrapped_call
from ebbtide.agent.view.items import (
    MAX_QUOTE_CHARS,
    MessagePart,
    OutputPart,
    PinnedPart,
    ViewPart,
    pin_tokens,
    preview_text,
    unanswered_indices,
    view_parts,
)
from ebbtide.agent.view.previews import reads_archive
from ebbtide.agent.view.references import BadReference, MessageRef, parse_reference
from ebbtide.agent.view.stubs import one_line
from ebbtide.agent.view.visible import is_replaceable, output_stub, starts_step, summary_messages, visible_messages
from ebbtide.tools.outputs.extent import pluralize

ITEM_SUMMARY_TOKENS = 400
"""Usual size of a model's summary of one item, in tokens."""
MAX_REMAINING_SHARE = 0.9
"""A replacement must be smaller than this share of the item."""


@dataclass(frozen=True, slots=True)
class EditRequest:
    """An edit that the user asked for."""

    act: Act
    key: str = ""
    """Key of an item, or the name of a tool or server."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why an edit is refused, and what to do instead."""

    reason: str


def plan_view_edit(request: EditRequest, conversation: Conversation, pricing: EditPricing) -> ViewEditPlan | Refusal:
    """Plan an edit. Return its effect and price, or the reason why it is refused."""
    key = item_key(request.key, conversation)
    part = next((part for part in view_parts(conversation) if part.key == key), None)
    if part is None:
        return Refusal(f"`{request.key}` is not in view: `/bring` restores removed content, `/archive` lists it")
    match request.act:
        case "pin":
            return _plan_pin(part, conversation, pricing)
        case "unpin":
            return _plan_unpin(part, conversation, pricing)
        case "evict":
            return _plan_evict(part, conversation, pricing)
        case "offload":
            return _plan_offload(part, conversation, pricing)
        case "summarise":
            return _plan_item_summary(part, conversation, pricing)
        case "summarise_before":
            return _plan_summary_before(part, conversation, pricing)
        case "defer" | "offer":
            return Refusal(f"`{request.act}` is for tools, not for `{request.key}`")


def item_key(name: str, conversation: Conversation) -> str | None:
    """Return the key of the item that a name refers to. The name can be the key itself or a reference. If several items
    match, return the key of the newest. None if a message reference matches nothing."""
    try:
        target = parse_reference(name).target
    except BadReference:
        return name.strip() or None
    if not isinstance(target, MessageRef):
        return str(target)
    for part in reversed(view_parts(conversation)):
        ref = part.message_ref if isinstance(part, MessagePart) else part.ref
        if ref.startswith(str(target)):
            return part.key
    return None


def _plan_pin(part: ViewPart, conversation: Conversation, pricing: EditPricing) -> ViewEditPlan | Refusal:
    if part.is_pinned:
        return Refusal(f"`{part.ref}` is already pinned")
    if isinstance(part, OutputPart) and part.state == "masked":
        return Refusal(f"`{part.ref}` is not in view: use `/bring {part.ref}` first, then pin the result")
    if isinstance(part, MessagePart) and not _is_pinnable(part.original):
        return Refusal(f"`{part.ref}` has no text to pin; pin its outputs")
    edited = replace(conversation, pinned=conversation.pinned | {part.key})
    pinned_tokens, max_tokens = round(pin_tokens(edited) * pricing.scale), max_pin_tokens(pricing)
    if pinned_tokens > max_tokens:
        return Refusal(
            f"with `{part.ref}` pins would take {pinned_tokens:,} tokens, and there is room for {max(max_tokens, 0):,} "
            "beside the required content; unpin something, or offload it first and pin its preview"
        )
    return price_edit("pin", part.ref, part.description, conversation, edited, pricing)


def max_pin_tokens(pricing: EditPricing) -> int:
    """Return how many tokens all pins together may take. If they took more, compaction might not free enough room for
    work."""
    return int(TARGET_SHARE * pricing.effective_tokens) - pricing.fixed_tokens - 2 * MIN_CAP_TOKENS


def _is_pinnable(message: Message) -> bool:
    return bool(message.text) or any(isinstance(part, Image) for part in message.parts)


def _plan_unpin(part: ViewPart, conversation: Conversation, pricing: EditPricing) -> ViewEditPlan | Refusal:
    if not part.is_pinned:
        return Refusal(f"`{part.ref}` is not pinned")
    edited = replace(conversation, pinned=conversation.pinned - {part.key})
    return price_edit("unpin", part.ref, part.description, conversation, edited, pricing)


def _plan_evict(part: ViewPart, conversation: Conversation, pricing: EditPricing) -> ViewEditPlan | Refusal:
    if part.is_pinned:
        return Refusal(f"`{part.ref}` is pinned: unpin it first")
    if isinstance(part, PinnedPart):
        summary = conversation.summary
        pinned, carried = (
            tuple(carried_part for carried_part in carried_parts if carried_part.key != part.key)
            for carried_parts in (summary.pinned, summary.carried)
        )
        edited = replace(conversation, summary=replace(summary, pinned=pinned, carried=carried))
        return price_edit("evict", part.ref, part.description, conversation, edited, pricing)
    if isinstance(part, OutputPart):
        if part.state == "masked":
            return Refusal(f"`{part.ref}` is already a single line")
        if not _is_much_shorter(output_stub(part.numbered_output), part.visible_form, pricing):
            return Refusal(f"the line for `{part.ref}` would be hardly shorter than what is shown")
        masked = conversation.masked | {part.visible_form.call_id}
        edited = replace(conversation, masked=masked, retold=without_key(conversation.retold, part.key))
        return price_edit("evict", part.ref, part.description, conversation, edited, pricing)
    return _plan_shorter_message("evict", "line", part, conversation, pricing)


def _plan_offload(part: ViewPart, conversation: Conversation, pricing: EditPricing) -> ViewEditPlan | Refusal:
    if part.is_pinned:
        return Refusal(f"`{part.ref}` is pinned: unpin it first")
    if not isinstance(part, OutputPart):
        return _plan_shorter_message("offload", "preview", part, conversation, pricing)
    output, call = part.numbered_output.output, unwrapped_call(part.numbered_output.call)
    if part.visible_form is not output:
        return Refusal(f"`{part.ref}` is not shown in full")
    if part.state == "preview":
        return Refusal(f"`{part.ref}` is already a preview: remove it to leave a single line")
    if reads_archive(call.name):
        return Refusal(f"`{part.ref}` is an excerpt of stored content: remove it instead")
    text = preview_text(output.text, part.ref, call.name)
    if not _is_much_shorter(text, output, pricing):
        return Refusal(f"the preview of `{part.ref}` would be hardly shorter than the full text")
    return price_edit(
        "offload",
        part.ref,
        part.description,
        conversation,
        replace_item(conversation, part.key, "preview", text),
        pricing,
    )


def _plan_shorter_message(
    act: Act, form: ShortenedForm, part: ViewPart, conversation: Conversation, pricing: EditPricing
) -> ViewEditPlan | Refusal:
    """Plan to show a user message in a shorter form."""
    original = _shortenable_text(part, conversation)
    if isinstance(original, Refusal):
        return original
    text = _replacement_line(part, original) if form == "line" else preview_text(original, part.ref, "the user")
    if pricing.count_tokens(User((Text(text),))) > MAX_REMAINING_SHARE * pricing.count_tokens(User((Text(original),))):
        return Refusal(f"the replacement for `{part.ref}` would be hardly shorter")
    return price_edit(
        act, part.ref, part.description, conversation, replace_item(conversation, part.key, form, text), pricing
    )


def _shortenable_text(part: ViewPart, conversation: Conversation) -> str | Refusal:
    """Return the visible text of a message if a shorter form may replace it, otherwise the reason why not."""
    if isinstance(part, PinnedPart):
        return Refusal(f"`{part.ref}` is stored with the summary: unpin it, and the next compaction removes it")
    if not isinstance(part, MessagePart) or not isinstance(part.original, User):
        return Refusal("the model's text stays with its step: summarise everything up to here instead")
    if part.is_pinned:
        return Refusal(f"`{part.ref}` is pinned: unpin it first")
    if part.message_index in unanswered_indices(conversation):
        return Refusal(f"`{part.ref}` is not answered yet: until then it is shown in full")
    if part.state == "masked":
        return Refusal(f"`{part.ref}` is already a single line")
    if not part.original.text and not part.recalled_ref:
        return Refusal("program notes stay: they have no reference to restore them by")
    return "\n".join(
        message_part.text
        for message_part in part.visible_form.parts
        if isinstance(message_part, Text | Note) and is_replaceable(message_part)
    )


def _replacement_line(part: ViewPart, text: str) -> str:
    """Return the line that replaces a message."""
    if isinstance(part, MessagePart) and part.recalled_ref:
        return f"[What was brought back has left the view again [recall:{part.ref}]]"
    quote = one_line(text, MAX_QUOTE_CHARS)
    return f"[User message of {pluralize(len(text), 'character')}, beginning: {quote} [recall:{part.ref}]]"


def _plan_item_summary(part: ViewPart, conversation: Conversation, pricing: EditPricing) -> ViewEditPlan | Refusal:
    if part.is_pinned:
        return Refusal(f"`{part.ref}` is pinned: unpin it first")
    if isinstance(part, OutputPart):
        if part.state == "masked":
            return Refusal(f"`{part.ref}` is already a single line: `/bring {part.ref}` shows it again")
        output = part.numbered_output.output
        input_tokens = pricing.count_tokens(User((output,)))
        visible_size = pricing.count_tokens(User((part.visible_form,)))
        input_tokens = max(input_tokens, output.stored.size // 4 if output.stored else 0)
    else:
        original = _shortenable_text(part, conversation)
        if isinstance(original, Refusal):
            return original
        input_tokens = visible_size = pricing.count_tokens(User((Text(original),)))
    if visible_size * MAX_REMAINING_SHARE <= ITEM_SUMMARY_TOKENS:
        return Refusal(f"`{part.ref}` is about as short as its summary would be")
    sample = replace_item(conversation, part.key, "summary", "word " * ITEM_SUMMARY_TOKENS)
    plan = replace(
        price_edit("summarise", part.ref, part.description, conversation, sample, pricing),
        edited_conversation=conversation,
        key=part.key,
    )
    freed = round((visible_size - ITEM_SUMMARY_TOKENS) * pricing.scale)
    summary_cost = pricing.scale * input_tokens + SUMMARY_REQUEST_TOKENS + pricing.prices.output * ITEM_SUMMARY_TOKENS
    return replace(
        plan,
        freed_tokens=freed,
        saving_per_request=pricing.prices.read * freed,
        cost=plan.cost + summary_cost,
        asks_model=True,
    )


def with_item_summary(plan: ViewEditPlan, summary_text: str) -> Conversation:
    """Replace an item with a model's summary of it."""
    text = f"{summary_text}\n[A summary of {plan.name} by a model; `recall` shows all of it: [recall:{plan.name}]]"
    return replace(replace_item(plan.edited_conversation, plan.key, "summary", text), anchor=None, anchored=0)


def _plan_summary_before(part: ViewPart, conversation: Conversation, pricing: EditPricing) -> ViewEditPlan | Refusal:
    if part.message_index < 0:
        return Refusal(f"`{part.ref}` is already stored with the summary")
    cut = cut_after(conversation, part.message_index)
    if cut is None:
        return Refusal(f"`{part.ref}` is in the newest step, which stays; `/compact` summarises what is before it")
    caps = pricing.caps
    visible = visible_messages(conversation)
    covered, tail = visible[:cut], visible[cut:]
    removed_tokens = sum(map(pricing.count_tokens, (*summary_messages(conversation.summary), *covered))) - pin_tokens(
        conversation, cut
    )
    summary_tokens = caps.summary
    freed = round((removed_tokens - summary_tokens) * pricing.scale)
    if removed_tokens <= summary_tokens / MAX_REMAINING_SHARE:
        return Refusal(f"everything up to `{part.ref}` is about as short as its summary would be")
    tail_tokens = round(sum(map(pricing.count_tokens, tail)) * pricing.scale)
    prices = pricing.prices
    read_price = prices.write if pricing.is_cache_cold else prices.read
    summary_cost = (
        read_price * pricing.used_tokens + prices.write * SUMMARY_REQUEST_TOKENS + prices.output * summary_tokens
    )
    cache_write_tokens = tail_tokens + summary_tokens
    cache_write_cost = 0.0 if pricing.is_cache_cold else (prices.write - prices.read) * cache_write_tokens
    return ViewEditPlan(
        "summarise_before",
        part.ref,
        f"everything up to: {part.description}",
        conversation,
        0,
        freed,
        cache_write_tokens,
        cache_write_cost + summary_cost,
        pricing.prices.read * freed,
        asks_model=True,
        cut=cut,
    )


def cut_after(conversation: Conversation, index: int) -> int | None:
    """Find the first step after the message at `index`; None if there is no such step. If everything before that step
    is summarised, the step begins the tail."""
    messages = conversation.messages
    step_starts = (step_index for step_index in range(index + 1, len(messages)) if starts_step(messages[step_index]))
    return next(step_starts, None)


def plan_tool_deferral(
    act: Act,
    name: str,
    names: frozenset[str],
    conversation: Conversation,
    pricing: EditPricing,
    tokens_before: int,
    tokens_after: int,
) -> ViewEditPlan:
    """Plan to defer tools or to offer them again. `tokens_before`, `tokens_after`: tokens of all tool definitions that
    the model sees before and after the edit."""
    new_excluded = conversation.excluded_tools | names if act == "defer" else conversation.excluded_tools - names
    freed = tokens_before - tokens_after
    resent_tokens = (
        0 if pricing.cached_message_count is not None else max(pricing.used_tokens - tokens_before, 0) + tokens_after
    )
    cache_write_tokens = 0 if pricing.is_cache_cold else resent_tokens
    cost = (pricing.prices.write - pricing.prices.read) * cache_write_tokens
    description = f"{len(names)} tools" if len(names) != 1 else next(iter(names))
    edited = replace(conversation, excluded_tools=new_excluded, anchor=None, anchored=0)
    return ViewEditPlan(act, name, description, edited, 0, freed, cache_write_tokens, cost, pricing.prices.read * freed)


def _is_much_shorter(text: str, output: ToolOutput, pricing: EditPricing) -> bool:
    shortened = replace(output, text=text, images=())
    return pricing.count_tokens(User((shortened,))) <= MAX_REMAINING_SHARE * pricing.count_tokens(User((output,)))


def replace_item(conversation: Conversation, key: str, form: ShortenedForm, text: str) -> Conversation:
    """Replace an item with `text`."""
    return replace(conversation, retold=(*without_key(conversation.retold, key), ShortenedPart(key, form, text)))


def without_key(retold: Sequence[ShortenedPart], key: str) -> tuple[ShortenedPart, ...]:
    return tuple(part for part in retold if part.key != key)
