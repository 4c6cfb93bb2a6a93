"""Measures the room that a compaction needs, and cuts the outputs that the model has not seen yet to their share of it.
Cut outputs always keep their references. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ebbtide.agent.budget.request_budget import ContextBudget, room_shares
from ebbtide.agent.eviction.settings import CompactionCaps
from ebbtide.agent.messages import Conversation, Image, Message, Note, ShortenedPart, ToolOutput, User
from ebbtide.agent.prompt.attachments import compacted_request_parts
from ebbtide.agent.tokens.estimate import estimate_message, estimate_output
from ebbtide.agent.view.previews import OffloadLimits, preview_of, stored_excerpt, text_without_insertions
from ebbtide.agent.view.visible import (
    NumberedOutput,
    first_unseen_index,
    is_answer,
    messages_in_view,
    numbered_outputs,
    open_request_messages,
    outcome_with_ref,
    output_stub,
    turn_starts,
    visible_output,
)

DEFER_TOOLS = "tools"
"""Name of the step that precedes the strategies: if the tool definitions leave too little room, as many tools as
possible are deferred."""
OUTPUT_SHARE = 0.5
"""Maximum share of the room for messages that the outputs of one step get, if they do not all fit."""
MAX_SHARE_AFTER_MASK = 0.5
"""Masking is enough if the seen messages then take less than this share of the room for messages. If it freed less, it
would soon be needed again."""
MIN_PART_TOKENS = 100
"""Minimum size of an excerpt, in tokens. A smaller one is worth no more than the stub."""
_MIN_FRAMED_BYTES = 256
"""Minimum size of an excerpt that is followed by a sentence on how to see the rest, in bytes. For a smaller excerpt,
that sentence would be longer than the excerpt, so a single line is used."""
_MIN_PREVIEW_BYTES = 32
_STEP_OMITTED = "[The latest step did not fit in the context window, so it is not shown. Its calls returned:"
_MAX_NAMED_OUTPUTS = 24
"""Maximum number of outputs that the note about a dropped step names."""


@dataclass(frozen=True, slots=True)
class Room:
    """The window as a compaction sees it."""

    effective: int
    system: int
    tools: int
    trigger: float = 0.95
    scale: float = 1.0
    """Actual tokens of the conversation per estimated token, at least 1. The tokens before the conversation are known
    more precisely, so they are not scaled."""
    buffer: int = 0
    """Tokens beyond `effective` that a request for a summary may take."""
    deferrable: int = 0
    """Tokens of the tool definitions that could still be deferred."""
    ratio: float = 1.0
    """Actual tokens of the conversation per estimated token. Unlike `scale`, it may be below 1."""

    @property
    def fixed_tokens(self) -> int:
        return self.system + self.tools

    @property
    def with_tools_deferred(self) -> "Room":
        return replace(self, tools=self.tools - self.deferrable, deferrable=0)

    def has_room_for(self, conversation: Conversation) -> bool:
        """Whether a request for a summary of the conversation fits the window."""
        return self.request_tokens(conversation_tokens(conversation)) <= self.effective + self.buffer

    def used_share(self, conversation: Conversation) -> float:
        """Share of the effective window that a request with this conversation would take."""
        return self.request_tokens(conversation_tokens(conversation)) / max(self.effective, 1)

    def request_tokens(self, messages: int) -> float:
        """Tokens of a request whose messages are estimated at `messages`."""
        return self.fixed_tokens + messages * self.scale

    @property
    def message_tokens(self) -> int:
        """Estimated tokens that messages may take before the view has to be rewritten."""
        return max(int((self.trigger * self.effective - self.fixed_tokens) / self.scale), 0)


def conversation_tokens(conversation: Conversation, size: Callable[[Message], int] = estimate_message) -> int:
    """Return the estimated tokens of a conversation as shown."""
    return sum(map(size, messages_in_view(conversation)))


def room_of(
    budget: ContextBudget, conversation: Conversation, counted_tokens: int | None, deferrable_share: float = 0.0
) -> Room:
    """Return the room for a compaction. Sizes after it can only be estimated, so estimates are scaled by the ratio of
    the provider's count to the present estimate. `deferrable_share`: share of the tool definitions that could still be
    deferred."""
    system = budget.system + budget.instructions + budget.memories + budget.skills
    fixed, estimated, window = system + budget.tools, max(conversation_tokens(conversation), 1), budget.window
    scale = min(max((max(counted_tokens or 0, budget.used) - fixed) / estimated, 1.0), 3.0)
    ratio = min(max((budget.used - fixed) / estimated, 0.25), 3.0)
    deferrable, trigger = int(budget.tools * deferrable_share), window.compact_trigger
    return Room(window.effective, system, budget.tools, trigger, scale, window.buffer, deferrable, ratio)


def fitting_caps(caps: CompactionCaps, room: Room) -> CompactionCaps:
    """Return caps low enough that the newest outputs still get their share of the room for messages."""
    messages = room.with_tools_deferred.message_tokens
    return replace(
        caps,
        tail=min(caps.tail, messages // 3),
        ledger=min(caps.ledger, messages // 6),
        retain=min(caps.retain, messages // 12),
        summary=min(caps.summary, messages // 6),
        carried=min(caps.carried, messages // 10),
        names=min(caps.names, messages // 20),
    )


def is_enough(strategy: str, conversation: Conversation, room: Room) -> bool:
    """Whether no further strategy is needed. Masking must free so much room that it is not needed again soon, when the
    outputs that are unseen now could be masked as well."""
    if room.used_share(conversation) > room.trigger:
        return False
    seen_tokens = conversation_tokens(conversation) - unseen_tokens(conversation)
    return strategy not in ("mask", DEFER_TOOLS) or seen_tokens <= MAX_SHARE_AFTER_MASK * room.message_tokens


def output_share_tokens(conversation: Conversation, budget: ContextBudget) -> int:
    """Return the tokens that the outputs of one step may take after a compaction."""
    room = room_of(budget, conversation, None)
    return int(max_output_tokens(conversation, room) * room.scale)


def max_output_tokens(conversation: Conversation, room: Room) -> int:
    """Return the estimated tokens that the outputs of one step may take if they do not all fit: a share of the room for
    messages, without the open request."""
    request_tokens = estimate_message(covered_request(conversation, len(conversation.messages)))
    return int(OUTPUT_SHARE * max(room.message_tokens - request_tokens, 0))


def covered_request(conversation: Conversation, cut: int) -> User:
    """Return the open request, if the messages from index `cut` on do not contain it: the user's last message, the ones
    directly before it, and those sent while the model worked on it. Empty if it has been answered."""
    messages = conversation.messages
    if messages and is_answer(messages[-1]):
        return User(())
    starts = turn_starts(messages)
    start = starts[-1] if starts else 0
    if starts and start >= cut:
        return User(())
    request_parts = list(conversation.summary.request.parts if start == 0 else ())
    for index, message in open_request_messages(messages):
        request_parts += compacted_request_parts(message) if index < cut else ()
    return User(tuple(request_parts))


def limit_unseen_outputs(conversation: Conversation, room: Room) -> Conversation:
    """Cut unseen outputs to their share. Return the same conversation if they are small enough."""
    return cut_to_fit(conversation, max_output_tokens(conversation, room))


def unseen_outputs(conversation: Conversation) -> tuple[NumberedOutput, ...]:
    """Return the outputs after the model's last reply, in order."""
    first = first_unseen_index(conversation.messages)
    count = sum(len(message.outputs) for message in conversation.messages[first:] if isinstance(message, User))
    return numbered_outputs(conversation)[-count:] if count else ()


def unseen_tokens(conversation: Conversation) -> int:
    """Return the estimated tokens of all unseen outputs as they are shown now."""
    return sum(size for _, size in _sizes_of_unseen(conversation))


def _sizes_of_unseen(conversation: Conversation) -> list[tuple[NumberedOutput, int]]:
    """Return the unseen outputs with their estimated tokens as they are shown now."""
    sizes, replacements = list[tuple[NumberedOutput, int]](), {one.key: one for one in conversation.retold}
    for found in unseen_outputs(conversation):
        visible = visible_output(found, conversation.masked, replacements)
        sizes.append((found, estimate_output(visible)))
    return sizes


def cut_to_fit(conversation: Conversation, room: int) -> Conversation:
    """Cut the unseen outputs to `room` tokens in total, as far as possible. Small ones stay whole; large ones are
    reduced to head, tail and the pictures that fit. Return the same conversation if nothing gets smaller."""
    unseen, replacements = _sizes_of_unseen(conversation), {one.key: one for one in conversation.retold}
    sizes = [size for _, size in unseen]
    if sum(sizes) <= room:
        return conversation
    for (found, size), max_tokens in zip(unseen, room_shares(sizes, room), strict=True):
        if max_tokens < size and found.output.call_id not in conversation.masked:
            shortened = _shrink_output(found, max_tokens)
            if estimate_output(_shortened_output(found, shortened)) < size:
                replacements[found.ref] = shortened
    retold = tuple(replacements.values())
    return (
        conversation if retold == conversation.retold else replace(conversation, retold=retold, anchor=None, anchored=0)
    )


def without_pictures(conversation: Conversation) -> Conversation:
    """Replace the pictures of unseen outputs by their names. Return the same conversation if there are none."""
    replacements = {one.key: one for one in conversation.retold}
    visible = [
        (found, visible_output(found, conversation.masked, replacements)) for found in unseen_outputs(conversation)
    ]
    named = [
        ShortenedPart(
            found.ref,
            "preview",
            output.text + "".join(f"\n{name}" for name in _picture_notes(output.images, found.ref)),
            0,
        )
        for found, output in visible
        if output.images and found.ref not in conversation.pinned
    ]
    if not named:
        return conversation
    retold = tuple((replacements | {one.key: one for one in named}).values())
    return replace(conversation, retold=retold, anchor=None, anchored=0)


def mask_unseen_outputs(conversation: Conversation) -> Conversation:
    """Mask each unseen output that is larger than its stub and not pinned. Return the same conversation if there is
    none."""
    replacements = {one.key: one for one in conversation.retold}
    chosen = {
        found.output.call_id: found.ref
        for found in unseen_outputs(conversation)
        if found.ref not in conversation.pinned
        and estimate_output(replace(found.output, text=output_stub(found), images=()))
        < estimate_output(visible_output(found, conversation.masked, replacements))
    }
    if not chosen:
        return conversation
    retold = tuple(one for one in conversation.retold if one.key not in chosen.values())
    masked = conversation.masked | chosen.keys()
    return replace(conversation, masked=masked, retold=retold, anchor=None, anchored=0)


def with_dropped_step_note(request: User, outputs: Sequence[NumberedOutput]) -> User:
    """Return the open request with a note that names the outputs of a step that is too large for the window."""
    parts = without_dropped_step_note(request).parts
    omission_note = Note("\n".join((_STEP_OMITTED, *_output_lines(outputs))) + "]", kind="step")
    return User((*parts, omission_note)) if outputs else request


def without_dropped_step_note(request: User) -> User:
    """Return the request without the note about a dropped step."""
    return replace(
        request, parts=tuple(part for part in request.parts if not (isinstance(part, Note) and part.kind == "step"))
    )


def _output_lines(outputs: Sequence[NumberedOutput]) -> Iterator[str]:
    for found in outputs[:_MAX_NAMED_OUTPUTS]:
        yield f"- {outcome_with_ref(found)}"
    if len(outputs) > _MAX_NAMED_OUTPUTS:
        yield f"- and {outputs[_MAX_NAMED_OUTPUTS].ref} to {outputs[-1].ref}"


def _shrink_output(found: NumberedOutput, max_tokens: int) -> ShortenedPart:
    """Return a form of an output that takes at most `max_tokens` tokens, if possible: as many pictures as fit, then
    head and tail of the text."""
    output = found.output
    pictures = _fitting_picture_count(output.images, max_tokens - MIN_PART_TOKENS)
    names = "".join(f"\n{name}" for name in _picture_notes(output.images, found.ref, pictures))
    with_full_text = ShortenedPart(found.ref, "preview", output.text + names, pictures)
    if names and estimate_output(_shortened_output(found, with_full_text)) <= max_tokens:
        return with_full_text
    stored = output.stored
    text = output.text if stored is None else text_without_insertions(output.text, output.inserted).strip("\n")
    max_text_bytes = len(text.encode("utf-8", "surrogatepass")) * max(max_tokens, 0) // max(estimate_output(output), 1)
    # If the text is only part of the output, a preview of it would state wrong line numbers.
    is_part = stored is not None and len(text.encode("utf-8", "surrogatepass")) < stored.size
    for splits_lines in (True,) if is_part else (False, True):
        retained_bytes = max_text_bytes
        while retained_bytes >= _MIN_FRAMED_BYTES:
            preview, size, lines = preview_of(text, OffloadLimits(preview_bytes=retained_bytes))
            size, lines = (stored.size, stored.lines) if stored is not None else (size, lines)
            form = _head_and_tail(text, retained_bytes) if splits_lines else preview
            text_form = stored_excerpt(found.call.name, found.ref, size, lines, form).text + names
            shortened = ShortenedPart(found.ref, "preview", text_form, pictures)
            if estimate_output(_shortened_output(found, shortened)) <= max_tokens:
                return shortened
            retained_bytes = retained_bytes * 3 // 4
    retained_bytes = max_text_bytes
    while retained_bytes >= _MIN_PREVIEW_BYTES:
        shortened = ShortenedPart(
            found.ref, "preview", f"{outcome_with_ref(found)}\n{_head_and_tail(text, retained_bytes)}{names}", pictures
        )
        if estimate_output(_shortened_output(found, shortened)) <= max_tokens:
            return shortened
        retained_bytes = retained_bytes * 3 // 4
    return ShortenedPart(found.ref, "line", outcome_with_ref(found) + names, pictures)


def _head_and_tail(text: str, retained_bytes: int) -> str:
    """Return head and tail of a text. Long lines are split, although a preview would show them whole."""
    visible_chars = min(retained_bytes, len(text)) * 3 // 4
    return f"{text[: visible_chars * 2 // 3]}\n[…]\n{text[len(text) - visible_chars // 3 :]}"


def _shortened_output(found: NumberedOutput, one: ShortenedPart) -> ToolOutput:
    return replace(found.output, text=one.text, images=found.output.images[: one.pictures])


def _fitting_picture_count(images: Sequence[Image], room: int) -> int:
    """Return how many of the first pictures fit into `room` tokens."""
    for number, image in enumerate(images):
        room -= estimate_message(User((image,)))
        if room < 0:
            return number
    return len(images)


def _picture_notes(images: Sequence[Image], ref: str, first: int = 0) -> Iterator[str]:
    """Yield a line for each picture after the first `first` ones, with the reference that shows it."""
    for number, image in enumerate(images[first:], first + 1):
        where = f'`recall` with ref_id="{ref}:tool-{number}" shows it'
        yield f"[A picture ({image.media_type}) is not shown, to save space: {where}.]"
