"""What leaves the view when it gets too large, and what the conversation is afterwards. Pure.

From the cheapest to the last resort: outputs as one line each, what the model has not seen yet cut to a fair share, a
summary by a model, the facts that code can tell, what came with the open request in part, unseen outputs cut to what is
left, the older half of the turns dropped, nothing but the user's last message and the newest step, that message without
its pictures, the newest outputs by their references; and only then the step itself, which is named. Where no
model takes even that, long words of the user are shown by both ends.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ebbtide.agent.context.attachments import as_request, has_large_parts, named_pictures, shrink_attachments
from ebbtide.agent.context.budget import ContextBudget
from ebbtide.agent.context.estimate import estimate_message, estimate_messages
from ebbtide.agent.context.ledger import Ledger, keep_ledger, missing_facts, render_ledger
from ebbtide.agent.context.mask import visible_messages
from ebbtide.agent.context.message_text import is_steering_message
from ebbtide.agent.context.pins import PinSize, size_of_pins, smaller_pins, view_from
from ebbtide.agent.context.settings import Caps
from ebbtide.agent.context.steps import is_request, starts_step, turn_starts, unseen_from
from ebbtide.agent.context.strategies import Room, room_of, size_of
from ebbtide.agent.context.summary import Draft, non_empty_summary, truncate_lines, with_facts
from ebbtide.agent.context.unseen_outputs import (
    cut_to_fit,
    size_of_unseen,
    without_pictures,
)
from ebbtide.agent.messages import Assistant, CarriedPart, Conversation, Image, Message, Summary, Text, User

MAX_REMAINING_SHARE = 0.9
"""A summary must leave less than this of what there was."""

OUTPUT_SHARE = 0.5
"""Of the room that messages have in a window, what the outputs of one step may take when not all of them fits."""

MIN_OUTPUT_SHARE = 0.2
"""Of the window, what they should have before anything else that was said stays beside them."""

FLOOR = 0.6
"""What is there after any compaction should take no more than this share of the window."""

MIN_CAP_TOKENS = 900

MIN_SUMMARY_TOKENS = 200
"""Tokens below which a summary says nothing that is worth its price."""

_HEADINGS = 40
"""Tokens that a summary's own headings take at most."""

MESSAGE, STEP = "your message", "the newest step"
"""What may be the largest part of what stays."""


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Where a conversation is cut: always between steps, so that no call is parted from its output."""

    earlier: Summary
    """What already stood for what came before."""
    covered: tuple[Message, ...]
    """What the new summary will stand for."""
    tail: tuple[Message, ...]
    """What stays as it is."""
    request: User
    """The open turn's user message, when it is covered: it is kept unchanged."""
    facts: Ledger
    """What code can tell of all of it, the tail included."""
    rest: Conversation = Conversation()  # noqa: RUF009  # a frozen value
    """The tail as it is shown, with what is pinned of all before it in the place of a summary."""
    outputs_before: int = 0
    """How many outputs the session had before what is covered."""
    carried: tuple[CarriedPart, ...] = ()
    """Files of what is covered that a model's summary leaves as they were read."""
    names: str = ""
    """The outputs of what is covered, a line for each, with names that stand in them."""


def plan_compaction(
    conversation: Conversation, tail_tokens: int, *, least: int = 1, newest: int = 1
) -> CompactionPlan | None:
    """The plan that keeps the newest whole steps up to `tail_tokens`, and at least the last finished one; of the turns
    before the last only whole ones, and no more than the `newest`. None when nothing stands before them. With `least` 0
    a message that nothing has answered yet may stand alone, unless outputs that the model has not seen stand before
    it."""
    cut = _tail_start(conversation, tail_tokens, least, newest)
    return plan_at(conversation, cut) if cut else None


def _tail_start(conversation: Conversation, tail_tokens: int, least: int, newest: int) -> int:
    """The index at which the tail begins: what the model has not seen is always tail."""
    return min(
        _tail_start_by_size(visible_messages(conversation), tail_tokens, least, newest),
        unseen_from(conversation.messages),
    )


def _tail_start_by_size(messages: Sequence[Message], tail_tokens: int, least: int, newest: int) -> int:
    """The index at which the tail begins; 0 when all of it is tail."""
    turns = turn_starts(messages)
    last_turn, first_turn = (turns[-1], turns[-newest:][0]) if turns else (0, 0)
    bounds = {*turns, *(index for index in range(last_turn, len(messages)) if starts_step(messages[index]))}
    cut, size, steps = len(messages), 0, 0
    for index in range(len(messages) - 1, -1, -1):
        size += estimate_message(messages[index])
        has_enough = cut < len(messages) and steps >= least
        if has_enough and (size > tail_tokens or index < first_turn):
            break
        steps += isinstance(messages[index], Assistant)
        if index in bounds or (steps == least == 1 and isinstance(messages[index], Assistant)):
            cut = index
    return 0 if cut == len(messages) else cut


def plan_at(conversation: Conversation, cut: int) -> CompactionPlan:
    """The plan that keeps all messages from an index on, which is the beginning of a step."""
    messages, earlier = conversation.messages, conversation.summary
    facts = keep_ledger(earlier.facts or earlier.ledger, messages, conversation.outputs_before)
    request = _open_request(conversation, cut)
    rest, before = view_from(conversation, cut), conversation.outputs_before
    return CompactionPlan(earlier, messages[:cut], messages[cut:], request, facts, rest, before)


def _open_request(conversation: Conversation, cut: int) -> User:
    """What the user wants now, when the tail does not show it: their last message, with those right before it and what
    they said while it was worked on, unless it has been answered."""
    messages = conversation.messages
    if messages and _is_answer(messages[-1]):
        return User(())
    starts = turn_starts(messages)
    start = starts[-1] if starts else 0
    if starts and start >= cut:
        return User(())
    asked = list(conversation.summary.request.parts if start == 0 else ())
    for index, message in _iter_open_request(messages):
        asked += as_request(message) if index < cut else ()
    return User(tuple(asked))


def _iter_open_request(messages: Sequence[Message]) -> Iterator[tuple[int, User]]:
    """What the user wants now, as far as it stands in the messages, with their indices."""
    if messages and _is_answer(messages[-1]):
        return
    starts = turn_starts(messages)
    is_beginning = bool(starts)
    for index in range(starts[-1] if starts else 0, len(messages)):
        message = messages[index]
        is_beginning = is_beginning and is_request(message)
        if isinstance(message, User) and (is_beginning or is_steering_message(message)):
            yield index, message


def _is_answer(message: Message) -> bool:
    """Whether the message ends a turn: it says something and asks for nothing."""
    if not isinstance(message, Assistant) or message.is_paused:
        return False
    return not message.calls and isinstance(message.parts[-1], Text)


@dataclass(frozen=True, slots=True)
class Floor:
    """What will be there whatever a summary says, and the caps with which it fits."""

    caps: Caps
    least: int
    """Finished steps that the tail must hold."""
    problem: str = ""
    """Which component is too large, when even the smallest caps leave too little room."""
    deferred: int = 0
    """Tokens of the tool definitions that must be held back for it."""
    pins: PinSize = "whole"
    """How much of what is pinned there is room for."""
    request: int = MIN_CAP_TOKENS
    """Tokens that the open request may take with all that came with it, before anything else of the turn must go."""


def solve_floor(conversation: Conversation, caps: Caps, room: Room) -> Floor:
    """Caps with which system text, tools, ledger and tail take at most 60 % of the window: those of tail and ledger are
    halved until they do, down to one step and 900 tokens; then tools are held back, and then what is pinned is shown
    by its ends, and then by a line each; then what came with the open request is shown in part. What the model has not
    seen yet counts with its share of the window. It always ends."""
    least, whole, leaner = 1, room.tools, 0
    conversation = limit_unseen_outputs(conversation, room)
    pins: PinSize = "whole"
    while True:
        sizes = _floor_sizes(conversation, caps, least)
        request = _room_for_request(sizes, room)
        if room.request_tokens(sum(sizes.values())) <= FLOOR * room.effective:
            return Floor(caps, least, deferred=whole - room.tools, pins=pins, request=request)
        if caps.ledger > MIN_CAP_TOKENS or caps.tail > MIN_CAP_TOKENS:
            caps = replace(caps, tail=_halve_cap(caps.tail), ledger=_halve_cap(caps.ledger))
        elif room.deferrable:
            room = room.with_tools_deferred
        elif pins != "line" and conversation.pinned:
            pins = "line" if pins == "preview" else "preview"
            conversation = smaller_pins(conversation, pins)
        elif least:
            least = 0
        elif leaner < 2:
            conversation = lean_request(conversation, caps, request, pictures=False, words=leaner > 0) or conversation
            leaner += 1
        else:
            break
    sizes[STEP] = max(sizes[STEP] - size_of_unseen(conversation), 0)  # these can be cut further
    if room.request_tokens(sum(sizes.values())) <= FLOOR * room.effective:
        return Floor(caps, 0, deferred=whole - room.tools, pins=pins, request=request)
    share = round(100 * room.request_tokens(sum(sizes.values())) / max(room.effective, 1))
    taken = {name: round(size * room.scale) for name, size in sizes.items()}
    taken |= {"the system text": room.system, "the tool definitions": room.tools}
    name, size = max(taken.items(), key=lambda item: item[1])
    return Floor(
        caps,
        0,
        f"what stays after a compaction takes {share} % of what a request may; the largest part of it is {name} with "
        f"about {size:,} tokens",
        whole - room.tools,
        pins,
        request,
    )


def _halve_cap(cap: int) -> int:
    return min(cap, max(cap // 2, MIN_CAP_TOKENS))


def fitting_caps(caps: Caps, room: Room) -> Caps:
    """The caps with which the newest outputs get their share of what messages may take, whatever else stays."""
    messages = room.with_tools_deferred.messages
    return replace(
        caps,
        tail=min(caps.tail, messages // 3),
        ledger=min(caps.ledger, messages // 6),
        retain=min(caps.retain, messages // 12),
        summary=min(caps.summary, messages // 6),
        carried=min(caps.carried, messages // 10),
        names=min(caps.names, messages // 20),
    )


def _room_for_request(sizes: Mapping[str, int], room: Room) -> int:
    """Tokens that are left to the open request by everything else."""
    others = sum(size for name, size in sizes.items() if name != MESSAGE)
    return max(int((FLOOR * room.effective - room.fixed_tokens) / room.scale) - others, MIN_CAP_TOKENS)


def _floor_sizes(conversation: Conversation, caps: Caps, least: int) -> dict[str, int]:
    """Estimated tokens of what stays behind system text and tools, by its names."""
    messages, cut = visible_messages(conversation), _tail_start(conversation, caps.tail, least, caps.turns)
    tail, request = messages[cut:], _open_request(conversation, cut)
    asked, newest = estimate_message(request) if request.parts else 0, estimate_messages(tail)
    ends_in_request = bool(tail) and is_request(tail[-1])
    return {
        "the ledger": caps.ledger,
        "what is pinned": size_of_pins(conversation, cut),
        MESSAGE: asked + (newest if ends_in_request else 0),
        STEP: 0 if ends_in_request else newest,
    }


def apply_compaction(plan: CompactionPlan, draft: Draft | None, caps: Caps) -> Conversation:
    """The conversation after the compaction: what a model wrote, with what it left out of what must be said, and half
    of the ledger, the rest of which is kept for the next one; the open request; the tail. Without a draft the ledger
    stands for everything that was said since."""
    kept = plan.rest.summary.kept
    ledger = whole = render_ledger(plan.facts, caps.ledger)
    if draft is None:
        retain, said = (
            truncate_lines(plan.earlier.retain, caps.retain),
            truncate_lines(plan.earlier.summary, caps.summary),
        )
        summary = Summary(retain, said, ledger, plan.request, kept=kept)
    else:
        ledger = render_ledger(plan.facts, caps.ledger // 2)
        retain, said = truncate_lines(draft.retain, caps.retain), truncate_lines(draft.summary, caps.summary)
        said = with_facts(said, missing_from_summary(plan, draft, caps), caps.summary)
        facts = whole if whole != ledger else ""
        summary = Summary(retain, said, ledger, plan.request, facts, kept, plan.carried, plan.names)
    return replace(plan.rest, summary=non_empty_summary(summary, plan.rest.messages_before))


def missing_from_summary(plan: CompactionPlan, draft: Draft, caps: Caps) -> tuple[str, ...]:
    """What a summary and the half of the ledger beside it leave out of what must be said, as lines to be added."""
    retain, said = truncate_lines(draft.retain, caps.retain), truncate_lines(draft.summary, caps.summary)
    return missing_facts(plan.facts, "\n".join((retain, said, render_ledger(plan.facts, caps.ledger // 2))))


def is_worth_it(before: Conversation, after: Conversation) -> bool:
    """Whether a tenth is saved at least."""
    return size_of(after) < MAX_REMAINING_SHARE * size_of(before)


def can_save_enough(conversation: Conversation, plan: CompactionPlan) -> bool:
    """Whether a tenth could be saved if the summary were empty."""
    return is_worth_it(conversation, replace(plan.rest, summary=replace(plan.rest.summary, request=plan.request)))


def worthwhile_caps(conversation: Conversation, plan: CompactionPlan, caps: Caps) -> Caps | None:
    """The caps with no more room for a summary than saves a tenth; None where too little is left for one."""
    least = apply_compaction(replace(plan, carried=(), names=""), Draft("", ""), caps)
    room = int(MAX_REMAINING_SHARE * size_of(conversation)) - size_of(least) - _HEADINGS
    if room < MIN_SUMMARY_TOKENS:
        return None
    share = min(1.0, room / max(caps.retain + caps.summary, 1))
    return replace(caps, retain=int(caps.retain * share), summary=int(caps.summary * share))


def lean_request(
    conversation: Conversation, caps: Caps, most: int, *, pictures: bool = True, words: bool = False
) -> Conversation | None:
    """The conversation in which all that the user wants now takes so many tokens, as far as less of what came with it
    makes that possible; `pictures`: they stay; `words`: long ones of the user may be
    shown in part. It stands with the summary then, and the facts for whatever was said
    before it. None when nothing gets smaller."""
    seen = unseen_from(conversation.messages)
    large = [
        index
        for index, message in _iter_open_request(conversation.messages)
        if has_large_parts(message) and index < seen
    ]
    moved = apply_compaction(plan_at(conversation, large[-1] + 1), None, caps) if large else conversation
    request = shrink_attachments(moved.summary.request, most, pictures=pictures, words=words)
    return None if request is moved.summary.request else _with_request(moved, request)


def _with_request(conversation: Conversation, request: User) -> Conversation:
    return replace(conversation, summary=replace(conversation.summary, request=request), anchor=None, anchored=0)


def fewer_pictures(conversation: Conversation, caps: Caps, most: int) -> Conversation | None:
    """The conversation in which all that the user wants now takes so many tokens without its pictures. Where it takes
    no more as it is, neither it nor any output that the model has not seen shows one. None when there are none."""
    less = lean_request(conversation, caps, most, pictures=False)
    if less is not None:
        return less
    bare = without_pictures(conversation)
    asked = [index for index, message in _iter_open_request(bare.messages) if index < unseen_from(bare.messages)]
    shows = any(isinstance(part, Image) for index in asked for part in bare.messages[index].parts)
    moved = apply_compaction(plan_at(bare, asked[-1] + 1), None, caps) if shows else bare
    request = named_pictures(moved.summary.request)
    after = moved if request == moved.summary.request else _with_request(moved, request)
    return None if after is conversation else after


def share_of_outputs(conversation: Conversation, room: Room) -> int:
    """Tokens that the outputs of one step may take when not all of them fits: a share of what messages may take beside
    the open request."""
    asked = estimate_message(_open_request(conversation, len(conversation.messages)))
    return int(OUTPUT_SHARE * max(room.messages - asked, 0))


def fair_share(conversation: Conversation, budget: ContextBudget) -> int:
    """Tokens that the outputs of one step may take in the window after a compaction."""
    room = room_of(budget, conversation, None)
    return int(share_of_outputs(conversation, room) * room.scale)


def limit_unseen_outputs(conversation: Conversation, room: Room) -> Conversation:
    """The conversation with its unseen outputs in no more than their share. The same conversation when they take no
    more."""
    return cut_to_fit(conversation, share_of_outputs(conversation, room))
