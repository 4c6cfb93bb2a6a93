"""What a user may do to a view by hand: what each act makes of it, and why some cannot be done. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.context.compaction import FLOOR, LEAST_CAP
from agent.context.edit_cost import Terms, ViewEditPlan, priced
from agent.context.mask import (
    Numbered,
    as_shown,
    condensed,
    is_at_length,
    message_key,
    numbered_outputs,
    one_line,
    what_happened,
)
from agent.context.offload import is_brought_back
from agent.context.pins import open_request, preview_form, size_of_pins
from agent.context.references import BadReference, MessageRef, message_digits, message_ref, parse_reference
from agent.context.steps import starts_step
from agent.context.summary import shown_summary
from agent.context.summary_cost import ASKS
from agent.context.tool_selection import meant
from agent.messages import Conversation, Form, Image, Kept, Message, Note, Retold, Text, ToolOutput, User
from agent.view_events import Act
from tools.extent import counted

SUMMED_UP = 400
"""Tokens that a model's summary of one item usually takes."""
WORTH = 0.9
"""What stands for an item must take less than this of what the item takes."""
ABOUT = 60
"""Characters of a message that its line tells."""
_BROUGHT = "[The user brings `"


@dataclass(frozen=True, slots=True)
class EditRequest:
    """What the user wants done."""

    act: Act
    key: str = ""
    """Of an item; the name of a tool or of a server where tools are meant."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an act cannot be done, and what can."""

    why: str


@dataclass(frozen=True, slots=True)
class EditTarget:
    """An output, a message or what is pinned, as an act sees it."""

    key: str
    ref: str
    what: str
    index: int
    """Of its message; -1 for what stands in none any more."""
    found: Numbered | None = None
    message: Message | None = None
    kept: Kept | None = None


def plan_act(wish: EditRequest, conversation: Conversation, terms: Terms) -> ViewEditPlan | Refusal:
    """What an act on an item would do, and at what price; or why it cannot be done."""
    key = key_of(wish.key, conversation)
    thing = _thing(key, conversation) if key is not None else None
    if thing is None:
        return Refusal(f"`{wish.key}` is not in view: `/bring` brings back what left it, `/archive` lists it")
    match wish.act:
        case "pin":
            return _pin(thing, conversation, terms)
        case "unpin":
            return _unpin(thing, conversation, terms)
        case "evict":
            return _evict(thing, conversation, terms)
        case "offload":
            return _offload(thing, conversation, terms)
        case "summarise":
            return _summarise(thing, conversation, terms)
        case "summarise_before":
            return _summarise_before(thing, conversation, terms)
        case "defer" | "offer":
            return Refusal(f"`{wish.act}` is for tools, not for `{wish.key}`")


def key_of(name: str, conversation: Conversation) -> str | None:
    """The key of what a name means in a view: a key, or a reference of which the newest message counts."""
    try:
        target = parse_reference(name).target
    except BadReference:
        return name.strip() or None
    if isinstance(target, MessageRef):
        messages = conversation.messages
        for index in range(len(messages) - 1, -1, -1):
            if message_digits(messages[index]).startswith(target.prefix):
                return message_key(conversation.messages_before + index)
        return next((one.key for one in conversation.summary.kept if one.ref.startswith(str(target))), None)
    return str(target)


def _thing(key: str, conversation: Conversation) -> EditTarget | None:
    for one in conversation.summary.kept:
        if one.key == key:
            return EditTarget(key, one.ref, one.what, -1, kept=one)
    if key.startswith("r"):
        by_call = {
            output.call_id: index
            for index, message in enumerate(conversation.messages)
            if isinstance(message, User)
            for output in message.outputs
        }
        for found in numbered_outputs(conversation):
            if found.ref == key:
                return EditTarget(
                    key, key, what_happened(found.call, found.output), by_call[found.output.call_id], found
                )
    for index, message in enumerate(conversation.messages):
        if message_key(conversation.messages_before + index) == key:
            ref = _brought(message) or message_ref(message)
            return EditTarget(key, ref, one_line(message.text, ABOUT) or "a message", index, message=message)
    return None


def _pin(thing: EditTarget, conversation: Conversation, terms: Terms) -> ViewEditPlan | Refusal:
    if thing.key in conversation.pinned:
        return Refusal(f"`{thing.ref}` is pinned already")
    if thing.found is not None and thing.found.output.call_id in conversation.masked:
        return Refusal(f"`{thing.ref}` is not in view: `/bring {thing.ref}` first, and pin what comes back")
    if thing.message is not None and not _can_be_kept(thing.message):
        return Refusal(f"there are no words in `{thing.ref}` that could be pinned; pin its outputs")
    after = replace(conversation, pinned=conversation.pinned | {thing.key})
    pinned, room = round(size_of_pins(after) * terms.scale), room_for_pins(terms)
    if pinned > room:
        return Refusal(
            f"with `{thing.ref}` pins would take {pinned:,} tokens, and there is room for {max(room, 0):,} beside what "
            "has to stay; unpin something, or offload it first and pin its preview"
        )
    return priced("pin", thing.ref, thing.what, conversation, after, terms)


def room_for_pins(terms: Terms) -> int:
    """Tokens that pins may take together, so that a compaction still leaves room to work in."""
    return int(FLOOR * terms.effective) - terms.fixed - 2 * LEAST_CAP


def _can_be_kept(message: Message) -> bool:
    return bool(message.text) or any(isinstance(part, Image) for part in message.parts)


def _unpin(thing: EditTarget, conversation: Conversation, terms: Terms) -> ViewEditPlan | Refusal:
    if thing.key not in conversation.pinned:
        return Refusal(f"`{thing.ref}` is not pinned")
    after = replace(conversation, pinned=conversation.pinned - {thing.key})
    return priced("unpin", thing.ref, thing.what, conversation, after, terms)


def _evict(thing: EditTarget, conversation: Conversation, terms: Terms) -> ViewEditPlan | Refusal:
    if thing.key in conversation.pinned:
        return Refusal(f"`{thing.ref}` is pinned: unpin it first")
    if thing.kept is not None:
        kept = tuple(one for one in conversation.summary.kept if one.key != thing.key)
        after = replace(conversation, summary=replace(conversation.summary, kept=kept))
        return priced("evict", thing.ref, thing.what, conversation, after, terms)
    if thing.found is not None:
        output = thing.found.output
        if output.call_id in conversation.masked:
            return Refusal(f"a line stands for `{thing.ref}` already")
        if not _is_shorter(condensed(thing.found), _shown_output(thing, conversation), terms):
            return Refusal(f"the line of `{thing.ref}` would hardly be shorter than what is shown")
        told = without(conversation.retold, thing.key)
        return priced(
            "evict",
            thing.ref,
            thing.what,
            conversation,
            replace(conversation, masked=conversation.masked | {output.call_id}, retold=told),
            terms,
        )
    return _retell("evict", "line", thing, conversation, terms)


def _offload(thing: EditTarget, conversation: Conversation, terms: Terms) -> ViewEditPlan | Refusal:
    if thing.key in conversation.pinned:
        return Refusal(f"`{thing.ref}` is pinned: unpin it first")
    if thing.found is None:
        return _retell("offload", "preview", thing, conversation, terms)
    output, call = thing.found.output, meant(thing.found.call)
    if output.call_id in conversation.masked or any(one.key == thing.key for one in conversation.retold):
        return Refusal(f"`{thing.ref}` is not shown in full")
    if output.is_part:
        return Refusal(f"`{thing.ref}` is a preview already: evict leaves a line of it")
    if is_brought_back(call.name):
        return Refusal(f"`{thing.ref}` is a part of what is kept elsewhere: evict it instead")
    text = preview_form(output.text, thing.ref, call.name)
    if not _is_shorter(text, output, terms):
        return Refusal(f"the preview of `{thing.ref}` would hardly be shorter than all of it")
    return priced(
        "offload", thing.ref, thing.what, conversation, with_told(conversation, thing.key, "preview", text), terms
    )


def _retell(
    act: Act, form: Form, thing: EditTarget, conversation: Conversation, terms: Terms
) -> ViewEditPlan | Refusal:
    """What becomes of a message of the user when less of it is shown."""
    said = _said_at_length(thing, conversation)
    if isinstance(said, Refusal):
        return said
    text = _line_of(thing, said) if form == "line" else preview_form(said, thing.ref, "the user")
    if terms.size(User((Text(text),))) > WORTH * terms.size(User((Text(said),))):
        return Refusal(f"what would stand for `{thing.ref}` would hardly be shorter")
    return priced(act, thing.ref, thing.what, conversation, with_told(conversation, thing.key, form, text), terms)


def _said_at_length(thing: EditTarget, conversation: Conversation) -> str | Refusal:
    """What a line may stand for in a message, as it is shown now."""
    if thing.kept is not None:
        return Refusal(f"`{thing.ref}` is kept beside the summary: unpin it, and the next compaction takes it out")
    if not isinstance(thing.message, User):
        return Refusal("what the model said stays with its step: summarise everything up to here instead")
    if thing.key in conversation.pinned:
        return Refusal(f"`{thing.ref}` is pinned: unpin it first")
    if thing.index in open_request(conversation):
        return Refusal(f"`{thing.ref}` is not answered yet: until then it is shown as it was said")
    if any(one.key == thing.key and one.form == "line" for one in conversation.retold):
        return Refusal(f"a line stands for `{thing.ref}` already")
    if not thing.message.text and not _brought(thing.message):
        return Refusal("what the program has told stays: there is no reference by which it could come back")
    shown = as_shown(conversation)[thing.index]
    return "\n".join(part.text for part in shown.parts if isinstance(part, Text | Note) and is_at_length(part))


def _brought(message: Message) -> str:
    """The reference of what was brought back with a message; nothing when it is another one."""
    notes = (part.text for part in message.parts if isinstance(part, Note))
    return next((note.removeprefix(_BROUGHT).partition("`")[0] for note in notes if note.startswith(_BROUGHT)), "")


def _line_of(thing: EditTarget, said: str) -> str:
    """The one line that stands for a message."""
    if said.startswith(_BROUGHT):
        return f"[What was brought back has left the view again [recall:{thing.ref}]]"
    return f"[The user said here, in {counted(len(said), 'character')}: {one_line(said, ABOUT)} [recall:{thing.ref}]]"


def _summarise(thing: EditTarget, conversation: Conversation, terms: Terms) -> ViewEditPlan | Refusal:
    if thing.key in conversation.pinned:
        return Refusal(f"`{thing.ref}` is pinned: unpin it first")
    if thing.found is not None:
        if thing.found.output.call_id in conversation.masked:
            return Refusal(f"a line stands for `{thing.ref}` already: `/bring {thing.ref}` shows it again")
        output = thing.found.output
        whole, shown = terms.size(User((output,))), terms.size(User((_shown_output(thing, conversation),)))
        whole = max(whole, output.stored.size // 4 if output.stored else 0)
    else:
        said = _said_at_length(thing, conversation)
        if isinstance(said, Refusal):
            return said
        whole = shown = terms.size(User((Text(said),)))
    if shown * WORTH <= SUMMED_UP:
        return Refusal(f"`{thing.ref}` is about as short as its summary would be")
    told = with_told(conversation, thing.key, "summary", "word " * SUMMED_UP)
    plan = replace(
        priced("summarise", thing.ref, thing.what, conversation, told, terms), after=conversation, key=thing.key
    )
    freed = round((shown - SUMMED_UP) * terms.scale)
    asked = terms.scale * whole + ASKS + terms.prices.output * SUMMED_UP
    return replace(plan, freed=freed, saves=terms.prices.read * freed, cost=plan.cost + asked, asks=True)


def summed_up(plan: ViewEditPlan, said: str) -> Conversation:
    """The conversation with what a model made of an item in its place."""
    text = f"{said}\n[A summary of {plan.name} by a model; `recall` shows all of it: [recall:{plan.name}]]"
    return replace(with_told(plan.after, plan.key, "summary", text), anchor=None, anchored=0)


def _summarise_before(thing: EditTarget, conversation: Conversation, terms: Terms) -> ViewEditPlan | Refusal:
    if thing.index < 0:
        return Refusal(f"`{thing.ref}` is kept beside the summary already")
    cut = cut_after(conversation, thing.index)
    if cut is None:
        return Refusal(f"`{thing.ref}` is in the newest step, which stays; `/compact` summarises what is before it")
    caps = terms.caps
    tail = conversation.messages[cut:]
    covered = as_shown(conversation)[:cut]
    gone = sum(map(terms.size, (*shown_summary(conversation.summary), *covered))) - size_of_pins(conversation, cut)
    written = caps.summary
    freed = round((gone - written) * terms.scale)
    if gone <= written / WORTH:
        return Refusal(f"what is before and with `{thing.ref}` is about as short as its summary would be")
    stays = round(sum(map(terms.size, tail)) * terms.scale)
    prices = terms.prices
    reading = prices.write if terms.is_cold else prices.read
    asked = reading * terms.used + prices.write * ASKS + prices.output * written
    behind = stays + written
    rewritten = 0.0 if terms.is_cold else (prices.write - prices.read) * behind
    return ViewEditPlan(
        "summarise_before",
        thing.ref,
        f"everything up to: {thing.what}",
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
    """Where the tail begins when a message and all before it are summarised: at the next step. None when there is
    none."""
    messages = conversation.messages
    bounds = (place for place in range(index + 1, len(messages)) if starts_step(messages[place]))
    return next(bounds, None)


def plan_tools(
    act: Act, name: str, names: frozenset[str], conversation: Conversation, terms: Terms, before: int, after: int
) -> ViewEditPlan:
    """What it would do to keep tools out of requests, or to let them in again. `before`, `after`: tokens of all
    definitions that the model is shown."""
    wished = conversation.held_back | names if act == "defer" else conversation.held_back - names
    freed = before - after
    stays = 0 if terms.cached is not None else max(terms.used - before, 0) + after
    behind = 0 if terms.is_cold else stays
    cost = (terms.prices.write - terms.prices.read) * behind
    what = f"{len(names)} tools" if len(names) != 1 else next(iter(names))
    changed = replace(conversation, held_back=wished, anchor=None, anchored=0)
    return ViewEditPlan(act, name, what, changed, 0, freed, behind, cost, terms.prices.read * freed)


def _shown_output(thing: EditTarget, conversation: Conversation) -> ToolOutput:
    assert thing.found is not None
    output = thing.found.output
    told = next((one.text for one in conversation.retold if one.key == thing.key), None)
    return output if told is None else replace(output, text=told, images=())


def _is_shorter(text: str, output: ToolOutput, terms: Terms) -> bool:
    less = replace(output, text=text, images=())
    return terms.size(User((less,))) <= WORTH * terms.size(User((output,)))


def with_told(conversation: Conversation, key: str, form: Form, text: str) -> Conversation:
    """The conversation with a text in the place of an item."""
    return replace(conversation, retold=(*without(conversation.retold, key), Retold(key, form, text)))


def without(retold: Sequence[Retold], key: str) -> tuple[Retold, ...]:
    return tuple(one for one in retold if one.key != key)
