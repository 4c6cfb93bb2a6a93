"""Manual view edits: the effect of each action, and why some are refused. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ebbtide.agent.context.compaction import FLOOR, MIN_CAP_TOKENS
from ebbtide.agent.context.edit_cost import EditPricing, ViewEditPlan, price_edit
from ebbtide.agent.context.mask import is_at_length, one_line, output_stub, visible_messages
from ebbtide.agent.context.offload import is_recall_tool
from ebbtide.agent.context.pins import open_request, preview_form, size_of_pins
from ebbtide.agent.context.references import BadReference, MessageRef, parse_reference
from ebbtide.agent.context.steps import starts_step
from ebbtide.agent.context.summary import summary_messages
from ebbtide.agent.context.summary_cost import ASKS
from ebbtide.agent.context.tool_selection import unwrapped_call
from ebbtide.agent.context.view_items import ABOUT, MessagePart, OutputPart, PinnedPart, ViewPart, view_parts
from ebbtide.agent.events.view import Act
from ebbtide.agent.messages import Conversation, Form, Image, Message, Note, ShortenedPart, Text, ToolOutput, User
from ebbtide.tools.outputs.extent import pluralize

ITEM_SUMMARY_TOKENS = 400
"""Typical tokens of a model's summary of one item."""
MAX_REMAINING_SHARE = 0.9
"""A replacement must take less than this share of the item."""


@dataclass(frozen=True, slots=True)
class EditRequest:
    """An edit that the user asked for."""

    act: Act
    key: str = ""
    """Key of an item, or the name of a tool or server."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an edit is refused, and what to do instead."""

    why: str


def plan_act(wish: EditRequest, conversation: Conversation, terms: EditPricing) -> ViewEditPlan | Refusal:
    """Return the effect and price of an edit, or why it is refused."""
    key = key_of(wish.key, conversation)
    part = next((one for one in view_parts(conversation) if one.key == key), None)
    if part is None:
        return Refusal(f"`{wish.key}` is not in view: `/bring` brings back removed content, `/archive` lists it")
    match wish.act:
        case "pin":
            return _pin(part, conversation, terms)
        case "unpin":
            return _unpin(part, conversation, terms)
        case "evict":
            return _evict(part, conversation, terms)
        case "offload":
            return _offload(part, conversation, terms)
        case "summarise":
            return _summarise(part, conversation, terms)
        case "summarise_before":
            return _summarise_before(part, conversation, terms)
        case "defer" | "offer":
            return Refusal(f"`{wish.act}` is for tools, not for `{wish.key}`")


def key_of(name: str, conversation: Conversation) -> str | None:
    """Return the key that a name means in a view: a key, or a reference, for which the newest matching message
    counts."""
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


def _pin(part: ViewPart, conversation: Conversation, terms: EditPricing) -> ViewEditPlan | Refusal:
    if part.is_pinned:
        return Refusal(f"`{part.ref}` is already pinned")
    if isinstance(part, OutputPart) and part.state == "masked":
        return Refusal(f"`{part.ref}` is not in view: use `/bring {part.ref}` first, then pin the result")
    if isinstance(part, MessagePart) and not _is_pinnable(part.original):
        return Refusal(f"`{part.ref}` has no text to pin; pin its outputs")
    after = replace(conversation, pinned=conversation.pinned | {part.key})
    pinned, room = round(size_of_pins(after) * terms.scale), room_for_pins(terms)
    if pinned > room:
        return Refusal(
            f"with `{part.ref}` pins would take {pinned:,} tokens, and there is room for {max(room, 0):,} beside the "
            "required content; unpin something, or offload it first and pin its preview"
        )
    return price_edit("pin", part.ref, part.what, conversation, after, terms)


def room_for_pins(terms: EditPricing) -> int:
    """Tokens that all pins may take so that a compaction still leaves room for work."""
    return int(FLOOR * terms.effective) - terms.fixed - 2 * MIN_CAP_TOKENS


def _is_pinnable(message: Message) -> bool:
    return bool(message.text) or any(isinstance(part, Image) for part in message.parts)


def _unpin(part: ViewPart, conversation: Conversation, terms: EditPricing) -> ViewEditPlan | Refusal:
    if not part.is_pinned:
        return Refusal(f"`{part.ref}` is not pinned")
    after = replace(conversation, pinned=conversation.pinned - {part.key})
    return price_edit("unpin", part.ref, part.what, conversation, after, terms)


def _evict(part: ViewPart, conversation: Conversation, terms: EditPricing) -> ViewEditPlan | Refusal:
    if part.is_pinned:
        return Refusal(f"`{part.ref}` is pinned: unpin it first")
    if isinstance(part, PinnedPart):
        summary = conversation.summary
        kept, carried = (tuple(one for one in ones if one.key != part.key) for ones in (summary.kept, summary.carried))
        after = replace(conversation, summary=replace(summary, kept=kept, carried=carried))
        return price_edit("evict", part.ref, part.what, conversation, after, terms)
    if isinstance(part, OutputPart):
        if part.state == "masked":
            return Refusal(f"`{part.ref}` is already a single line")
        if not _is_shorter(output_stub(part.found), part.visible, terms):
            return Refusal(f"the line for `{part.ref}` would be hardly shorter than what is shown")
        masked = conversation.masked | {part.visible.call_id}
        after = replace(conversation, masked=masked, retold=without(conversation.retold, part.key))
        return price_edit("evict", part.ref, part.what, conversation, after, terms)
    return _shorten_message("evict", "line", part, conversation, terms)


def _offload(part: ViewPart, conversation: Conversation, terms: EditPricing) -> ViewEditPlan | Refusal:
    if part.is_pinned:
        return Refusal(f"`{part.ref}` is pinned: unpin it first")
    if not isinstance(part, OutputPart):
        return _shorten_message("offload", "preview", part, conversation, terms)
    output, call = part.found.output, unwrapped_call(part.found.call)
    if part.visible is not output:
        return Refusal(f"`{part.ref}` is not shown in full")
    if part.state == "preview":
        return Refusal(f"`{part.ref}` is already a preview: evict it to leave a single line")
    if is_recall_tool(call.name):
        return Refusal(f"`{part.ref}` is an excerpt of stored content: evict it instead")
    text = preview_form(output.text, part.ref, call.name)
    if not _is_shorter(text, output, terms):
        return Refusal(f"the preview of `{part.ref}` would be hardly shorter than the full text")
    return price_edit(
        "offload", part.ref, part.what, conversation, with_replacement(conversation, part.key, "preview", text), terms
    )


def _shorten_message(
    act: Act, form: Form, part: ViewPart, conversation: Conversation, terms: EditPricing
) -> ViewEditPlan | Refusal:
    """Plan a shorter form of a user message."""
    said = _shortenable_text(part, conversation)
    if isinstance(said, Refusal):
        return said
    text = _line_of(part, said) if form == "line" else preview_form(said, part.ref, "the user")
    if terms.size(User((Text(text),))) > MAX_REMAINING_SHARE * terms.size(User((Text(said),))):
        return Refusal(f"the replacement for `{part.ref}` would be hardly shorter")
    return price_edit(
        act, part.ref, part.what, conversation, with_replacement(conversation, part.key, form, text), terms
    )


def _shortenable_text(part: ViewPart, conversation: Conversation) -> str | Refusal:
    """Return the text of a message that a shorter form may replace, as it is shown now."""
    if isinstance(part, PinnedPart):
        return Refusal(f"`{part.ref}` is stored with the summary: unpin it, and the next compaction removes it")
    if not isinstance(part, MessagePart) or not isinstance(part.original, User):
        return Refusal("the model's text stays with its step: summarise everything up to here instead")
    if part.is_pinned:
        return Refusal(f"`{part.ref}` is pinned: unpin it first")
    if part.index in open_request(conversation):
        return Refusal(f"`{part.ref}` is not answered yet: until then it is shown in full")
    if part.state == "masked":
        return Refusal(f"`{part.ref}` is already a single line")
    if not part.original.text and not part.recalled_ref:
        return Refusal("notes of the program stay: they have no reference to bring them back with")
    return "\n".join(one.text for one in part.visible.parts if isinstance(one, Text | Note) and is_at_length(one))


def _line_of(part: ViewPart, said: str) -> str:
    """Return the line that replaces a message."""
    if isinstance(part, MessagePart) and part.recalled_ref:
        return f"[What was brought back has left the view again [recall:{part.ref}]]"
    return f"[The user said here, in {pluralize(len(said), 'character')}: {one_line(said, ABOUT)} [recall:{part.ref}]]"


def _summarise(part: ViewPart, conversation: Conversation, terms: EditPricing) -> ViewEditPlan | Refusal:
    if part.is_pinned:
        return Refusal(f"`{part.ref}` is pinned: unpin it first")
    if isinstance(part, OutputPart):
        if part.state == "masked":
            return Refusal(f"`{part.ref}` is already a single line: `/bring {part.ref}` shows it again")
        output = part.found.output
        whole, shown = terms.size(User((output,))), terms.size(User((part.visible,)))
        whole = max(whole, output.stored.size // 4 if output.stored else 0)
    else:
        said = _shortenable_text(part, conversation)
        if isinstance(said, Refusal):
            return said
        whole = shown = terms.size(User((Text(said),)))
    if shown * MAX_REMAINING_SHARE <= ITEM_SUMMARY_TOKENS:
        return Refusal(f"`{part.ref}` is about as short as its summary would be")
    told = with_replacement(conversation, part.key, "summary", "word " * ITEM_SUMMARY_TOKENS)
    plan = replace(
        price_edit("summarise", part.ref, part.what, conversation, told, terms), after=conversation, key=part.key
    )
    freed = round((shown - ITEM_SUMMARY_TOKENS) * terms.scale)
    asked = terms.scale * whole + ASKS + terms.prices.output * ITEM_SUMMARY_TOKENS
    return replace(plan, freed=freed, saves=terms.prices.read * freed, cost=plan.cost + asked, asks=True)


def with_item_summary(plan: ViewEditPlan, said: str) -> Conversation:
    """Return the conversation with an item replaced by a model's summary of it."""
    text = f"{said}\n[A summary of {plan.name} by a model; `recall` shows all of it: [recall:{plan.name}]]"
    return replace(with_replacement(plan.after, plan.key, "summary", text), anchor=None, anchored=0)


def _summarise_before(part: ViewPart, conversation: Conversation, terms: EditPricing) -> ViewEditPlan | Refusal:
    if part.index < 0:
        return Refusal(f"`{part.ref}` is already stored with the summary")
    cut = cut_after(conversation, part.index)
    if cut is None:
        return Refusal(f"`{part.ref}` is in the newest step, which stays; `/compact` summarises what is before it")
    caps = terms.caps
    tail = conversation.messages[cut:]
    covered = visible_messages(conversation)[:cut]
    gone = sum(map(terms.size, (*summary_messages(conversation.summary), *covered))) - size_of_pins(conversation, cut)
    written = caps.summary
    freed = round((gone - written) * terms.scale)
    if gone <= written / MAX_REMAINING_SHARE:
        return Refusal(f"everything up to `{part.ref}` is about as short as its summary would be")
    stays = round(sum(map(terms.size, tail)) * terms.scale)
    prices = terms.prices
    reading = prices.write if terms.is_cold else prices.read
    asked = reading * terms.used + prices.write * ASKS + prices.output * written
    behind = stays + written
    rewritten = 0.0 if terms.is_cold else (prices.write - prices.read) * behind
    return ViewEditPlan(
        "summarise_before",
        part.ref,
        f"everything up to: {part.what}",
        conversation,
        0,
        freed,
        behind,
        rewritten + asked,
        terms.prices.read * freed,
        asks=True,
        cut=cut,
    )


def cut_after(conversation: Conversation, index: int) -> int | None:
    """Return where the tail begins if a message and everything before it is summarised: at the next step. None if there
    is none."""
    messages = conversation.messages
    bounds = (place for place in range(index + 1, len(messages)) if starts_step(messages[place]))
    return next(bounds, None)


def plan_tools(
    act: Act, name: str, names: frozenset[str], conversation: Conversation, terms: EditPricing, before: int, after: int
) -> ViewEditPlan:
    """Plan deferring tools, or offering them again. `before`, `after`: tokens of all definitions that the model
    sees."""
    wished = conversation.held_back | names if act == "defer" else conversation.held_back - names
    freed = before - after
    stays = 0 if terms.cached is not None else max(terms.used - before, 0) + after
    behind = 0 if terms.is_cold else stays
    cost = (terms.prices.write - terms.prices.read) * behind
    what = f"{len(names)} tools" if len(names) != 1 else next(iter(names))
    changed = replace(conversation, held_back=wished, anchor=None, anchored=0)
    return ViewEditPlan(act, name, what, changed, 0, freed, behind, cost, terms.prices.read * freed)


def _is_shorter(text: str, output: ToolOutput, terms: EditPricing) -> bool:
    less = replace(output, text=text, images=())
    return terms.size(User((less,))) <= MAX_REMAINING_SHARE * terms.size(User((output,)))


def with_replacement(conversation: Conversation, key: str, form: Form, text: str) -> Conversation:
    """Return the conversation with an item replaced by a text."""
    return replace(conversation, retold=(*without(conversation.retold, key), ShortenedPart(key, form, text)))


def without(retold: Sequence[ShortenedPart], key: str) -> tuple[ShortenedPart, ...]:
    return tuple(one for one in retold if one.key != key)
