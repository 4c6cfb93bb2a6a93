"""What is removed from the view when it gets too large, and the conversation after that. Pure.

The strategies, from the cheapest to the last resort: old outputs become one line each; unseen outputs are cut to a fair
share; a model writes a summary; the ledger's facts replace the history; attachments of the open request are shortened;
unseen outputs are cut to the remaining room; the older half of the turns is dropped; only the user's last message and
the newest step stay; that message loses its pictures; the newest outputs become references; the step itself is dropped
and named. If no model accepts even that, long user text is reduced to head and tail.
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
"""A summary must leave less than this share of the previous size."""

OUTPUT_SHARE = 0.5
"""Share of the room for messages that the outputs of one step may take if they do not all fit."""

MIN_OUTPUT_SHARE = 0.2
"""Share of the window that these outputs get before any other message may stay."""

FLOOR = 0.6
"""Target share of the window after any compaction."""

MIN_CAP_TOKENS = 900

MIN_SUMMARY_TOKENS = 200
"""Below this many tokens a summary is not worth its price."""

_HEADINGS = 40
"""Maximum tokens of a summary's own headings."""

MESSAGE, STEP = "your message", "the newest step"
"""Names of the largest part that may remain."""


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Where a conversation is cut: always between steps, so a call is never separated from its output."""

    earlier: Summary
    """The existing summary of what came before."""
    covered: tuple[Message, ...]
    """Messages that the new summary replaces."""
    tail: tuple[Message, ...]
    """Messages that stay unchanged."""
    request: User
    """The open turn's user message, if it is covered: it is kept unchanged."""
    facts: Ledger
    """Facts that code can extract from all of it, the tail included."""
    rest: Conversation = Conversation()  # noqa: RUF009  # a frozen value
    """The tail as it is shown, with everything pinned before it in place of a summary."""
    outputs_before: int = 0
    """Number of outputs in the session before `covered`."""
    carried: tuple[CarriedPart, ...] = ()
    """Covered files that a model's summary keeps in view as they were read."""
    names: str = ""
    """One line for each covered output, with the names found in it."""


def plan_compaction(
    conversation: Conversation, tail_tokens: int, *, least: int = 1, newest: int = 1
) -> CompactionPlan | None:
    """Return the plan that keeps the newest whole steps up to `tail_tokens`, and at least the last finished one. Of
    earlier turns it keeps only whole ones, and at most the `newest`. None if nothing precedes them. With `least` 0 an
    unanswered message may stay alone, unless unseen outputs precede it."""
    cut = _tail_start(conversation, tail_tokens, least, newest)
    return plan_at(conversation, cut) if cut else None


def _tail_start(conversation: Conversation, tail_tokens: int, least: int, newest: int) -> int:
    """Return the index at which the tail begins. Everything that the model has not seen belongs to the tail."""
    return min(
        _tail_start_by_size(visible_messages(conversation), tail_tokens, least, newest),
        unseen_from(conversation.messages),
    )


def _tail_start_by_size(messages: Sequence[Message], tail_tokens: int, least: int, newest: int) -> int:
    """Return the index at which the tail begins; 0 if everything is tail."""
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
    """Return the plan that keeps all messages from index `cut` on, which must begin a step."""
    messages, earlier = conversation.messages, conversation.summary
    facts = keep_ledger(earlier.facts or earlier.ledger, messages, conversation.outputs_before)
    request = _open_request(conversation, cut)
    rest, before = view_from(conversation, cut), conversation.outputs_before
    return CompactionPlan(earlier, messages[:cut], messages[cut:], request, facts, rest, before)


def _open_request(conversation: Conversation, cut: int) -> User:
    """Return the open request if the tail does not show it: the user's last message, those directly before it and those
    sent while it was worked on. Empty if it has been answered."""
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
    """Yield the messages of the open request with their indices."""
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
    """Whether the message ends a turn: it has text and no calls."""
    if not isinstance(message, Assistant) or message.is_paused:
        return False
    return not message.calls and isinstance(message.parts[-1], Text)


@dataclass(frozen=True, slots=True)
class Floor:
    """Content that remains after any summary, and the caps with which it fits."""

    caps: Caps
    least: int
    """Finished steps that the tail must contain."""
    problem: str = ""
    """Names the component that is too large, if even the smallest caps leave too little room."""
    deferred: int = 0
    """Tokens of the tool definitions that must be deferred."""
    pins: PinSize = "whole"
    """How much of the pinned content fits."""
    request: int = MIN_CAP_TOKENS
    """Tokens that the open request may take with its attachments before anything else of the turn is dropped."""


def solve_floor(conversation: Conversation, caps: Caps, room: Room) -> Floor:
    """Return caps with which system prompt, tools, ledger and tail take at most 60 % of the window. The caps of tail
    and ledger are halved, down to one step and 900 tokens; then tools are deferred; then pinned content is reduced to
    previews and then to one line each; then attachments of the open request are shortened. Unseen outputs count with
    their share of the window. Always terminates."""
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
    taken |= {"the system prompt": room.system, "the tool definitions": room.tools}
    name, size = max(taken.items(), key=lambda item: item[1])
    return Floor(
        caps,
        0,
        f"a compacted conversation still takes {share} % of the room for a request, most of it {name} with "
        f"about {size:,} tokens",
        whole - room.tools,
        pins,
        request,
    )


def _halve_cap(cap: int) -> int:
    return min(cap, max(cap // 2, MIN_CAP_TOKENS))


def fitting_caps(caps: Caps, room: Room) -> Caps:
    """Lower the caps so that the newest outputs get their share of the room for messages."""
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
    """Tokens that everything else leaves to the open request."""
    others = sum(size for name, size in sizes.items() if name != MESSAGE)
    return max(int((FLOOR * room.effective - room.fixed_tokens) / room.scale) - others, MIN_CAP_TOKENS)


def _floor_sizes(conversation: Conversation, caps: Caps, least: int) -> dict[str, int]:
    """Estimated tokens of what remains after system prompt and tools, by name."""
    messages, cut = visible_messages(conversation), _tail_start(conversation, caps.tail, least, caps.turns)
    tail, request = messages[cut:], _open_request(conversation, cut)
    asked, newest = estimate_message(request) if request.parts else 0, estimate_messages(tail)
    ends_in_request = bool(tail) and is_request(tail[-1])
    return {
        "the ledger": caps.ledger,
        "pinned content": size_of_pins(conversation, cut),
        MESSAGE: asked + (newest if ends_in_request else 0),
        STEP: 0 if ends_in_request else newest,
    }


def apply_compaction(plan: CompactionPlan, draft: Draft | None, caps: Caps) -> Conversation:
    """Build the compacted conversation: the draft with the required facts that it omits, half of the ledger (the rest
    is stored for the next compaction), the open request, and the tail. Without a draft the ledger replaces everything
    since the earlier summary."""
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
    """Return the required facts, as lines, that neither the summary nor its half of the ledger contains."""
    retain, said = truncate_lines(draft.retain, caps.retain), truncate_lines(draft.summary, caps.summary)
    return missing_facts(plan.facts, "\n".join((retain, said, render_ledger(plan.facts, caps.ledger // 2))))


def is_worth_it(before: Conversation, after: Conversation) -> bool:
    """Whether at least a tenth is saved."""
    return size_of(after) < MAX_REMAINING_SHARE * size_of(before)


def can_save_enough(conversation: Conversation, plan: CompactionPlan) -> bool:
    """Whether a tenth would be saved with an empty summary."""
    return is_worth_it(conversation, replace(plan.rest, summary=replace(plan.rest.summary, request=plan.request)))


def worthwhile_caps(conversation: Conversation, plan: CompactionPlan, caps: Caps) -> Caps | None:
    """Lower the caps of the summary so that a tenth is saved; None if too little room is left for one."""
    least = apply_compaction(replace(plan, carried=(), names=""), Draft("", ""), caps)
    room = int(MAX_REMAINING_SHARE * size_of(conversation)) - size_of(least) - _HEADINGS
    if room < MIN_SUMMARY_TOKENS:
        return None
    share = min(1.0, room / max(caps.retain + caps.summary, 1))
    return replace(caps, retain=int(caps.retain * share), summary=int(caps.summary * share))


def lean_request(
    conversation: Conversation, caps: Caps, most: int, *, pictures: bool = True, words: bool = False
) -> Conversation | None:
    """Shorten the attachments of the open request to `most` tokens, as far as possible. `pictures`: keep them; `words`:
    long user text may be shortened. The request then moves next to the summary, with the ledger for everything before
    it. None if nothing gets smaller."""
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
    """Remove the pictures from the open request until it takes at most `most` tokens. If it already does, its pictures
    and those of unseen outputs are removed. None if there are none."""
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
    """Tokens that the outputs of one step may take if they do not all fit: a share of the room for messages less the
    open request."""
    asked = estimate_message(_open_request(conversation, len(conversation.messages)))
    return int(OUTPUT_SHARE * max(room.messages - asked, 0))


def fair_share(conversation: Conversation, budget: ContextBudget) -> int:
    """Tokens that the outputs of one step may take after a compaction."""
    room = room_of(budget, conversation, None)
    return int(share_of_outputs(conversation, room) * room.scale)


def limit_unseen_outputs(conversation: Conversation, room: Room) -> Conversation:
    """Cut unseen outputs to their share. Returns the same conversation if they take no more."""
    return cut_to_fit(conversation, share_of_outputs(conversation, room))
