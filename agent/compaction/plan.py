"""Plans what is removed from the view when it gets too large, and builds the resulting conversation. No I/O.

The strategies, from the cheapest to the last resort: old outputs become one line each; unseen outputs are cut to a fair
share; a model writes a summary; the ledger's facts replace the history; attachments of the open request are shortened;
unseen outputs are cut to the remaining room; the older half of the turns is dropped; only the user's last message and
the newest step remain; that message loses its images; the newest outputs become references; the step itself is dropped
and its outputs are listed. If no model accepts even that, long user text is reduced to its start and end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ebbtide.agent.compaction.room import (
    CompactionRoom,
    conversation_tokens,
    covered_request,
    limit_unseen_outputs,
    unseen_tokens,
    without_images,
)
from ebbtide.agent.compaction.summary import Draft, truncate_lines, with_facts
from ebbtide.agent.eviction.settings import CompactionCaps
from ebbtide.agent.messages import Assistant, CarriedPart, Conversation, Image, Message, Summary, User
from ebbtide.agent.prompt.attachments import has_large_parts, shrink_attachments, with_image_notes
from ebbtide.agent.tokens.estimate import estimate_message, estimate_messages, estimate_text
from ebbtide.agent.view.items import PinForm, pin_tokens, shrink_pins, view_after_cut
from ebbtide.agent.view.ledger import Ledger, missing_facts, render_ledger, updated_ledger
from ebbtide.agent.view.visible import (
    first_unseen_index,
    is_request,
    non_empty_summary,
    open_request_messages,
    starts_step,
    turn_starts,
    visible_messages,
)

MAX_REMAINING_SHARE = 0.9
"""A summary must reduce the conversation to less than this share of the previous size."""


MIN_OUTPUT_SHARE = 0.2
"""Minimum share of the window for unseen outputs. If they would get less, other messages are removed first."""

TARGET_SHARE = 0.6
"""Target share of the window after any compaction."""

MIN_CAP_TOKENS = 900

MIN_SUMMARY_TOKENS = 200
"""Minimum room for a summary, in tokens. With less, a summary is not worth its price."""

_HEADING_TOKENS = 40
"""Maximum tokens of the headings in a summary."""

MESSAGE_COMPONENT, STEP_COMPONENT = "your message", "the newest step"
"""Names of two components that remain after a compaction, for reporting which one is too large."""


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """How a conversation is cut: always between steps, so that no call is separated from its output."""

    earlier_summary: Summary
    """The existing summary of the messages before `covered_messages`."""
    covered_messages: tuple[Message, ...]
    """Messages that the new summary replaces."""
    tail_messages: tuple[Message, ...]
    """Messages that stay unchanged."""
    request: User
    """The open turn's user message, if it is among `covered_messages`. It stays unchanged."""
    ledger: Ledger
    """Facts that code can extract from the whole conversation, including the tail."""
    tail_view: Conversation = Conversation()  # noqa: RUF009  # a frozen value
    """The conversation after the cut, as the model sees it. Its summary contains only the content that was pinned
    before the cut."""
    outputs_before: int = 0
    """Number of outputs in the session before `covered_messages`."""
    carried_outputs: tuple[CarriedPart, ...] = ()
    """Covered outputs that stay in view as they were shown, next to a model's summary."""
    output_names: str = ""
    """One line for each covered output, with the names found in it."""


def plan_compaction(
    conversation: Conversation, tail_tokens: int, *, min_steps: int = 1, max_turns: int = 1
) -> CompactionPlan | None:
    """Plan to keep as many of the newest steps as fit into `tail_tokens`, but at least the last finished one. Earlier
    turns are kept only as a whole, and at most `max_turns` turns in total. If `min_steps` is 0, the tail may consist of
    a single unanswered message. Unseen outputs are always kept. None if nothing would be removed."""
    cut = tail_start(conversation, tail_tokens, min_steps, max_turns)
    return plan_at(conversation, cut) if cut else None


def tail_start(conversation: Conversation, tail_tokens: int, min_steps: int, max_turns: int) -> int:
    """Return the index at which the tail begins. Messages that the model has not seen always belong to the tail."""
    return min(
        _tail_start_by_size(visible_messages(conversation), tail_tokens, min_steps, max_turns),
        first_unseen_index(conversation.messages),
    )


def _tail_start_by_size(messages: Sequence[Message], tail_tokens: int, min_steps: int, max_turns: int) -> int:
    """Return the index at which the tail begins; 0 if everything belongs to it."""
    turns = turn_starts(messages)
    last_turn, first_turn = (turns[-1], turns[-max_turns:][0]) if turns else (0, 0)
    allowed_cuts = {*turns, *(index for index in range(last_turn, len(messages)) if starts_step(messages[index]))}
    cut, tail_size, step_count = len(messages), 0, 0
    for index in range(len(messages) - 1, -1, -1):
        tail_size += estimate_message(messages[index])
        has_enough = cut < len(messages) and step_count >= min_steps
        if has_enough and (tail_size > tail_tokens or index < first_turn):
            break
        step_count += isinstance(messages[index], Assistant)
        if index in allowed_cuts or (step_count == min_steps == 1 and isinstance(messages[index], Assistant)):
            cut = index
    return 0 if cut == len(messages) else cut


def plan_at(conversation: Conversation, cut: int) -> CompactionPlan:
    """Plan to keep all messages from index `cut` on. The message at `cut` must begin a step."""
    messages, earlier = conversation.messages, conversation.summary
    facts = updated_ledger(earlier.facts or earlier.ledger, messages, conversation.outputs_before)
    request = covered_request(conversation, cut)
    tail_view, outputs_before = view_after_cut(conversation, cut), conversation.outputs_before
    return CompactionPlan(earlier, messages[:cut], messages[cut:], request, facts, tail_view, outputs_before)


@dataclass(frozen=True, slots=True)
class CompactionLimits:
    """The caps that make the content that remains after any summary fit, and what had to be shortened or deferred for
    it."""

    caps: CompactionCaps
    min_steps: int
    """Minimum number of finished steps in the tail."""
    problem: str = ""
    """Which component is too large, if even the smallest caps leave too little room; otherwise empty."""
    deferred_tokens: int = 0
    """Tokens of the tool definitions that must be deferred."""
    pin_form: PinForm = "whole"
    """The form in which pinned content fits."""
    max_request_tokens: int = MIN_CAP_TOKENS
    """Tokens that the open request may take, with its attachments, before other parts of the turn are dropped."""


def compute_limits(conversation: Conversation, caps: CompactionCaps, room: CompactionRoom) -> CompactionLimits:
    """Return caps that limit system prompt, tools, ledger and tail to 60 % of the window. First, the caps for tail and
    ledger are halved repeatedly, down to one step and 900 tokens. Then tools are deferred, pinned content is reduced to
    previews and then to one line each, and finally attachments of the open request are shortened. Unseen outputs are
    counted at their share of the window. Always terminates."""
    min_steps, all_tool_tokens, shortening_count = 1, room.tool_tokens, 0
    conversation = limit_unseen_outputs(conversation, room)
    pin_form: PinForm = "whole"
    while True:
        component_tokens = _component_sizes(conversation, caps, min_steps)
        max_request_tokens = _room_for_request(component_tokens, room)
        if room.request_tokens(sum(component_tokens.values())) <= TARGET_SHARE * room.window_tokens:
            return CompactionLimits(
                caps,
                min_steps,
                deferred_tokens=all_tool_tokens - room.tool_tokens,
                pin_form=pin_form,
                max_request_tokens=max_request_tokens,
            )
        if caps.ledger > MIN_CAP_TOKENS or caps.tail > MIN_CAP_TOKENS:
            caps = replace(caps, tail=_halve_cap(caps.tail), ledger=_halve_cap(caps.ledger))
        elif room.deferrable_tokens:
            room = room.with_tools_deferred
        elif pin_form != "line" and conversation.pinned:
            pin_form = "line" if pin_form == "preview" else "preview"
            conversation = shrink_pins(conversation, pin_form)
        elif min_steps:
            min_steps = 0
        elif shortening_count < 2:
            conversation = (
                shorten_request(
                    conversation, caps, max_request_tokens, keep_images=False, shorten_text=shortening_count > 0
                )
                or conversation
            )
            shortening_count += 1
        else:
            break
    component_tokens[STEP_COMPONENT] = max(
        component_tokens[STEP_COMPONENT] - unseen_tokens(conversation), 0
    )  # unseen outputs can be cut further
    if room.request_tokens(sum(component_tokens.values())) <= TARGET_SHARE * room.window_tokens:
        return CompactionLimits(
            caps,
            0,
            deferred_tokens=all_tool_tokens - room.tool_tokens,
            pin_form=pin_form,
            max_request_tokens=max_request_tokens,
        )
    share = round(100 * room.request_tokens(sum(component_tokens.values())) / max(room.window_tokens, 1))
    section_sizes = {name: round(tokens * room.token_ratio) for name, tokens in component_tokens.items()}
    section_sizes |= {"the system prompt": room.system_tokens, "the tool definitions": room.tool_tokens}
    name, tokens = max(section_sizes.items(), key=lambda item: item[1])
    return CompactionLimits(
        caps,
        0,
        f"a compacted conversation still takes {share} % of the room for a request, most of it {name} with "
        f"about {tokens:,} tokens",
        all_tool_tokens - room.tool_tokens,
        pin_form,
        max_request_tokens,
    )


def _halve_cap(cap: int) -> int:
    return min(cap, max(cap // 2, MIN_CAP_TOKENS))


def _room_for_request(sizes: Mapping[str, int], room: CompactionRoom) -> int:
    """Compute how many tokens the other components leave for the open request."""
    other_tokens = sum(size for name, size in sizes.items() if name != MESSAGE_COMPONENT)
    return max(
        int((TARGET_SHARE * room.window_tokens - room.fixed_tokens) / room.token_ratio) - other_tokens, MIN_CAP_TOKENS
    )


def _component_sizes(conversation: Conversation, caps: CompactionCaps, min_steps: int) -> dict[str, int]:
    """Estimate the tokens of each component that remains after a compaction, by name, without system prompt and
    tools."""
    messages, cut = visible_messages(conversation), tail_start(conversation, caps.tail, min_steps, caps.max_tail_turns)
    tail, request = messages[cut:], covered_request(conversation, cut)
    request_tokens, tail_tokens = estimate_message(request) if request.parts else 0, estimate_messages(tail)
    ends_in_request = bool(tail) and is_request(tail[-1])
    return {
        "the ledger": caps.ledger,
        "pinned content": pin_tokens(conversation, cut),
        MESSAGE_COMPONENT: request_tokens + (tail_tokens if ends_in_request else 0),
        STEP_COMPONENT: 0 if ends_in_request else tail_tokens,
    }


def apply_compaction(plan: CompactionPlan, draft: Draft | None, caps: CompactionCaps) -> Conversation:
    """Build the compacted conversation. It consists of the draft, the required facts that the draft omits, half of the
    ledger, the open request, and the tail. The full ledger is stored for the next compaction. Without a draft, the full
    ledger replaces everything since the earlier summary."""
    pinned = plan.tail_view.summary.pinned
    ledger = full_ledger = render_ledger(plan.ledger, caps.ledger)
    if draft is None:
        retain = truncate_lines(plan.earlier_summary.retain, caps.retain)
        summary_text = truncate_lines(plan.earlier_summary.summary, caps.summary)
        summary = Summary(retain, summary_text, ledger, plan.request, pinned=pinned)
    else:
        ledger = render_ledger(plan.ledger, caps.ledger // 2)
        retain, summary_text = truncate_lines(draft.retain, caps.retain), truncate_lines(draft.summary, caps.summary)
        summary_text = with_facts(summary_text, missing_from_summary(plan, draft, caps), caps.summary)
        facts = full_ledger if full_ledger != ledger else ""
        summary = Summary(
            retain, summary_text, ledger, plan.request, facts, pinned, plan.carried_outputs, plan.output_names
        )
    return replace(plan.tail_view, summary=non_empty_summary(summary, plan.tail_view.messages_before))


def missing_from_summary(plan: CompactionPlan, draft: Draft, caps: CompactionCaps) -> tuple[str, ...]:
    """Return, as lines, the required facts that are neither in the summary nor in the half of the ledger shown with
    it."""
    retain, summary_text = truncate_lines(draft.retain, caps.retain), truncate_lines(draft.summary, caps.summary)
    return missing_facts(plan.ledger, "\n".join((retain, summary_text, render_ledger(plan.ledger, caps.ledger // 2))))


def saves_a_tenth(old_view: Conversation, new_view: Conversation) -> bool:
    """Whether at least a tenth of the size is saved."""
    return conversation_tokens(new_view) < MAX_REMAINING_SHARE * conversation_tokens(old_view)


def can_save_a_tenth(conversation: Conversation, plan: CompactionPlan) -> bool:
    """Whether at least a tenth of the size would be saved if the summary were empty."""
    return saves_a_tenth(
        conversation, replace(plan.tail_view, summary=replace(plan.tail_view.summary, request=plan.request))
    )


def caps_that_save_a_tenth(
    conversation: Conversation, plan: CompactionPlan, caps: CompactionCaps
) -> CompactionCaps | None:
    """Return caps for a summary short enough to save a tenth of the size; None if that leaves too little room for a
    summary."""
    smallest = apply_compaction(replace(plan, carried_outputs=(), output_names=""), Draft("", ""), caps)
    room_tokens = (
        int(MAX_REMAINING_SHARE * conversation_tokens(conversation)) - conversation_tokens(smallest) - _HEADING_TOKENS
    )
    if room_tokens < MIN_SUMMARY_TOKENS:
        return None
    share = min(1.0, room_tokens / max(caps.retain + caps.summary, 1))
    return replace(caps, retain=int(caps.retain * share), summary=int(caps.summary * share))


def shorten_request(
    conversation: Conversation,
    caps: CompactionCaps,
    max_tokens: int,
    *,
    keep_images: bool = True,
    shorten_text: bool = False,
) -> Conversation | None:
    """Shorten the attachments of the open request until it takes at most `max_tokens` tokens, or as far as possible.
    The request moves next to the summary, and the ledger replaces everything before it. None if nothing gets smaller.
    `keep_images`: keep its images; `shorten_text`: long user text may be shortened as well."""
    first_unseen = first_unseen_index(conversation.messages)
    large_indices = [
        index
        for index, message in open_request_messages(conversation.messages)
        if has_large_parts(message) and index < first_unseen
    ]
    moved = (
        apply_compaction(plan_at(conversation, large_indices[-1] + 1), None, caps) if large_indices else conversation
    )
    request = shrink_attachments(
        moved.summary.request, max_tokens, keeps_images=keep_images, shortens_text=shorten_text
    )
    return None if request is moved.summary.request else _with_request(moved, request)


def _with_request(conversation: Conversation, request: User) -> Conversation:
    return replace(conversation, summary=replace(conversation.summary, request=request), anchor=None, anchored=0)


def remove_images(conversation: Conversation, caps: CompactionCaps, max_tokens: int) -> Conversation | None:
    """Remove images from the open request until it takes at most `max_tokens` tokens. If it is already that small,
    remove all its images and those of unseen outputs. None if there are no images."""
    shortened = shorten_request(conversation, caps, max_tokens, keep_images=False)
    if shortened is not None:
        return shortened
    without_output_images = without_images(conversation)
    request_indices = [
        index
        for index, message in open_request_messages(without_output_images.messages)
        if index < first_unseen_index(without_output_images.messages)
    ]
    has_images = any(
        isinstance(part, Image) for index in request_indices for part in without_output_images.messages[index].parts
    )
    moved = (
        apply_compaction(plan_at(without_output_images, request_indices[-1] + 1), None, caps)
        if has_images
        else without_output_images
    )
    request = with_image_notes(moved.summary.request)
    shortened_conversation = moved if request == moved.summary.request else _with_request(moved, request)
    return None if shortened_conversation is conversation else shortened_conversation


def caps_for_draft(caps: CompactionCaps, draft: Draft) -> CompactionCaps:
    """Return caps large enough for the draft, because a summary edited by the user must not be cut."""
    retain_tokens, summary_tokens = estimate_text(draft.retain), estimate_text(draft.summary)
    return replace(caps, retain=max(caps.retain, retain_tokens), summary=max(caps.summary, summary_tokens))
