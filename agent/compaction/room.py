"""Measures the room for a compacted conversation, and cuts the outputs that the model has not seen yet to their share
of it. Cut outputs always keep their references. No I/O."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ebbtide.agent.budget.request_budget import ContextBudget, divide_room
from ebbtide.agent.eviction.settings import CompactionCaps
from ebbtide.agent.messages import Conversation, Image, Message, Note, ShortenedPart, ToolOutput, User
from ebbtide.agent.prompt.attachments import compacted_request_parts
from ebbtide.agent.tokens.estimate import estimate_message, estimate_output
from ebbtide.agent.view.previews import OffloadLimits, build_preview, stored_excerpt, text_without_insertions
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
"""If the outputs of a step do not all fit, they get at most this share of the room for messages."""
MAX_SHARE_AFTER_MASK = 0.5
"""Masking is enough if the messages that the model has seen then take at most this share of the room for messages.
Otherwise, masking would soon be needed again."""
MIN_PART_TOKENS = 100
"""Minimum size of an excerpt, in tokens. A smaller excerpt is worth no more than a stub."""
_MIN_FRAMED_BYTES = 256
"""Minimum size, in bytes, of an excerpt that is shown with a sentence on how to read the rest. A smaller excerpt would
be shorter than the sentence, so it is shown with a single line instead."""
_MIN_PREVIEW_BYTES = 32
_STEP_OMITTED = "[The latest step did not fit in the context window, so it is not shown. Its calls returned:"
_MAX_NAMED_OUTPUTS = 24
"""Maximum number of outputs listed in the note about a dropped step."""


@dataclass(frozen=True, slots=True)
class CompactionRoom:
    """The window as a compaction sees it: its size, and the tokens already in use."""

    window_tokens: int
    system_tokens: int
    tool_tokens: int
    trigger_share: float = 0.95
    token_ratio: float = 1.0
    """Actual tokens of the conversation per estimated token, at least 1. Only the conversation is scaled, because the
    size of everything before it is known more precisely."""
    buffer_tokens: int = 0
    """Tokens beyond `window_tokens` that a request for a summary may take."""
    deferrable_tokens: int = 0
    """Tokens of the tool definitions that could still be deferred."""
    raw_token_ratio: float = 1.0
    """Actual tokens of the conversation per estimated token. Unlike `token_ratio`, it may be below 1."""

    @property
    def fixed_tokens(self) -> int:
        return self.system_tokens + self.tool_tokens

    @property
    def with_tools_deferred(self) -> "CompactionRoom":
        return replace(self, tool_tokens=self.tool_tokens - self.deferrable_tokens, deferrable_tokens=0)

    def has_room_for(self, conversation: Conversation) -> bool:
        """Whether a request for a summary of the conversation fits the window."""
        return self.request_tokens(conversation_tokens(conversation)) <= self.window_tokens + self.buffer_tokens

    def used_share(self, conversation: Conversation) -> float:
        """Share of the effective window that a request with this conversation would take."""
        return self.request_tokens(conversation_tokens(conversation)) / max(self.window_tokens, 1)

    def request_tokens(self, message_tokens: int) -> float:
        """Tokens of a request whose messages are estimated at `message_tokens`."""
        return self.fixed_tokens + message_tokens * self.token_ratio

    @property
    def max_message_tokens(self) -> int:
        """Estimated tokens that messages may take before the view has to be rewritten."""
        return max(int((self.trigger_share * self.window_tokens - self.fixed_tokens) / self.token_ratio), 0)


def conversation_tokens(conversation: Conversation, count_tokens: Callable[[Message], int] = estimate_message) -> int:
    """Return the estimated tokens of a conversation as shown."""
    return sum(map(count_tokens, messages_in_view(conversation)))


def measure_room(
    budget: ContextBudget, conversation: Conversation, counted_tokens: int | None, deferrable_share: float = 0.0
) -> CompactionRoom:
    """Compute the room for a compaction. Sizes after the compaction can only be estimated, so estimates are scaled by
    the ratio of the provider's count to the current estimate. `deferrable_share`: share of the tool definitions that
    could still be deferred."""
    system = budget.system + budget.instructions + budget.memories + budget.skills
    fixed_tokens = system + budget.tools
    estimated_tokens = max(conversation_tokens(conversation), 1)
    window = budget.window
    scale = min(max((max(counted_tokens or 0, budget.used) - fixed_tokens) / estimated_tokens, 1.0), 3.0)
    ratio = min(max((budget.used - fixed_tokens) / estimated_tokens, 0.25), 3.0)
    deferrable, trigger = int(budget.tools * deferrable_share), window.compact_trigger
    return CompactionRoom(
        window.available_tokens, system, budget.tools, trigger, scale, window.buffer, deferrable, ratio
    )


def reduce_caps(caps: CompactionCaps, room: CompactionRoom) -> CompactionCaps:
    """Reduce the caps enough for the newest outputs to get their share of the room for messages."""
    message_tokens = room.with_tools_deferred.max_message_tokens
    return replace(
        caps,
        tail=min(caps.tail, message_tokens // 3),
        ledger=min(caps.ledger, message_tokens // 6),
        retain=min(caps.retain, message_tokens // 12),
        summary=min(caps.summary, message_tokens // 6),
        carried_output_tokens=min(caps.carried_output_tokens, message_tokens // 7),
        output_name_tokens=min(caps.output_name_tokens, message_tokens // 10),
    )


def leaves_enough_room(strategy: str, conversation: Conversation, room: CompactionRoom) -> bool:
    """Whether a strategy's outcome leaves enough room, so that no other strategy is needed. After masking, there must
    be enough room that it will not soon be needed again."""
    if room.used_share(conversation) > room.trigger_share:
        return False
    seen_tokens = conversation_tokens(conversation) - unseen_tokens(conversation)
    return strategy not in ("mask", DEFER_TOOLS) or seen_tokens <= MAX_SHARE_AFTER_MASK * room.max_message_tokens


def output_share_tokens(conversation: Conversation, budget: ContextBudget) -> int:
    """Return how many tokens the outputs of one step may take after a compaction."""
    room = measure_room(budget, conversation, None)
    return int(max_output_tokens(conversation, room) * room.token_ratio)


def max_output_tokens(conversation: Conversation, room: CompactionRoom) -> int:
    """Return the maximum estimated tokens for the outputs of one step if they do not all fit: a share of the room for
    messages, less the open request."""
    request_tokens = estimate_message(covered_request(conversation, len(conversation.messages)))
    return int(OUTPUT_SHARE * max(room.max_message_tokens - request_tokens, 0))


def covered_request(conversation: Conversation, cut: int) -> User:
    """Return the open request: the user's last message, the ones directly before it, and those sent while the model
    worked on it. Empty if the request has been answered, or if it is part of the messages from index `cut` on."""
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


def limit_unseen_outputs(conversation: Conversation, room: CompactionRoom) -> Conversation:
    """Cut unseen outputs to their share. Return the conversation unchanged if they are small enough."""
    return cut_to_fit(conversation, max_output_tokens(conversation, room))


def unseen_outputs(conversation: Conversation) -> tuple[NumberedOutput, ...]:
    """Return the outputs after the model's last reply, in order."""
    first_unseen = first_unseen_index(conversation.messages)
    unseen_count = sum(
        len(message.outputs) for message in conversation.messages[first_unseen:] if isinstance(message, User)
    )
    return numbered_outputs(conversation)[-unseen_count:] if unseen_count else ()


def unseen_tokens(conversation: Conversation) -> int:
    """Return the estimated tokens of all unseen outputs as they are shown now."""
    return sum(size for _, size in _sizes_of_unseen(conversation))


def _sizes_of_unseen(conversation: Conversation) -> list[tuple[NumberedOutput, int]]:
    """Return the unseen outputs with their estimated tokens as they are shown now."""
    sizes, replacements = list[tuple[NumberedOutput, int]](), {part.key: part for part in conversation.retold}
    for numbered in unseen_outputs(conversation):
        visible = visible_output(numbered, conversation.masked, replacements)
        sizes.append((numbered, estimate_output(visible)))
    return sizes


def cut_to_fit(conversation: Conversation, room_tokens: int) -> Conversation:
    """Cut the unseen outputs to `room_tokens` tokens in total, as far as possible. Small ones stay whole; large ones
    are reduced to their start, their end and the images that fit. Return the conversation unchanged if nothing gets
    smaller."""
    unseen, replacements = _sizes_of_unseen(conversation), {part.key: part for part in conversation.retold}
    sizes = [size for _, size in unseen]
    if sum(sizes) <= room_tokens:
        return conversation
    for (numbered, size), max_tokens in zip(unseen, divide_room(sizes, room_tokens), strict=True):
        if max_tokens < size and numbered.output.call_id not in conversation.masked:
            shortened = _shrink_output(numbered, max_tokens)
            if estimate_output(_shortened_output(numbered, shortened)) < size:
                replacements[numbered.ref] = shortened
    retold = tuple(replacements.values())
    return (
        conversation if retold == conversation.retold else replace(conversation, retold=retold, anchor=None, anchored=0)
    )


def without_images(conversation: Conversation) -> Conversation:
    """Replace the images of unseen outputs with notes. Return the conversation unchanged if there are none."""
    replacements = {part.key: part for part in conversation.retold}
    visible = [
        (numbered, visible_output(numbered, conversation.masked, replacements))
        for numbered in unseen_outputs(conversation)
    ]
    shortened_parts = [
        ShortenedPart(
            numbered.ref,
            "preview",
            output.text + "".join(f"\n{note}" for note in _image_notes(output.images, numbered.ref)),
            0,
        )
        for numbered, output in visible
        if output.images and numbered.ref not in conversation.pinned
    ]
    if not shortened_parts:
        return conversation
    retold = tuple((replacements | {part.key: part for part in shortened_parts}).values())
    return replace(conversation, retold=retold, anchor=None, anchored=0)


def mask_unseen_outputs(conversation: Conversation) -> Conversation:
    """Mask each unseen output that is larger than its stub and not pinned. Return the conversation unchanged if there
    is none."""
    replacements = {part.key: part for part in conversation.retold}
    masked_refs = {
        numbered.output.call_id: numbered.ref
        for numbered in unseen_outputs(conversation)
        if numbered.ref not in conversation.pinned
        and estimate_output(replace(numbered.output, text=output_stub(numbered), images=()))
        < estimate_output(visible_output(numbered, conversation.masked, replacements))
    }
    if not masked_refs:
        return conversation
    retold = tuple(part for part in conversation.retold if part.key not in masked_refs.values())
    masked = conversation.masked | masked_refs.keys()
    return replace(conversation, masked=masked, retold=retold, anchor=None, anchored=0)


def with_dropped_step_note(request: User, outputs: Sequence[NumberedOutput]) -> User:
    """Add to the open request a note that lists the outputs of a step that was too large for the window."""
    parts = without_dropped_step_note(request).parts
    omission_note = Note("\n".join((_STEP_OMITTED, *_output_lines(outputs))) + "]", kind="step")
    return User((*parts, omission_note)) if outputs else request


def without_dropped_step_note(request: User) -> User:
    """Remove the note about a dropped step from the request."""
    return replace(
        request, parts=tuple(part for part in request.parts if not (isinstance(part, Note) and part.kind == "step"))
    )


def _output_lines(outputs: Sequence[NumberedOutput]) -> Iterator[str]:
    for numbered in outputs[:_MAX_NAMED_OUTPUTS]:
        yield f"- {outcome_with_ref(numbered)}"
    if len(outputs) > _MAX_NAMED_OUTPUTS:
        yield f"- and {outputs[_MAX_NAMED_OUTPUTS].ref} to {outputs[-1].ref}"


def _shrink_output(numbered: NumberedOutput, max_tokens: int) -> ShortenedPart:
    """Reduce an output to at most `max_tokens` tokens, if possible: as many images as fit, then the start and end of
    the text."""
    output = numbered.output
    image_count = _fitting_image_count(output.images, max_tokens - MIN_PART_TOKENS)
    image_notes = "".join(f"\n{note}" for note in _image_notes(output.images, numbered.ref, image_count))
    with_full_text = ShortenedPart(numbered.ref, "preview", output.text + image_notes, image_count)
    if image_notes and estimate_output(_shortened_output(numbered, with_full_text)) <= max_tokens:
        return with_full_text
    stored = output.stored
    text = output.text if stored is None else text_without_insertions(output.text, output.inserted).strip("\n")
    max_text_bytes = len(text.encode("utf-8", "surrogatepass")) * max(max_tokens, 0) // max(estimate_output(output), 1)
    # If the text is only part of the output, a preview of it would state wrong line numbers.
    is_partial = stored is not None and len(text.encode("utf-8", "surrogatepass")) < stored.size
    for splits_lines in (True,) if is_partial else (False, True):
        retained_bytes = max_text_bytes
        while retained_bytes >= _MIN_FRAMED_BYTES:
            preview, byte_count, line_count = build_preview(text, OffloadLimits(preview_bytes=retained_bytes))
            byte_count, line_count = (stored.size, stored.lines) if stored is not None else (byte_count, line_count)
            excerpt = _head_and_tail(text, retained_bytes) if splits_lines else preview
            text_form = (
                stored_excerpt(numbered.call.name, numbered.ref, byte_count, line_count, excerpt).text + image_notes
            )
            shortened = ShortenedPart(numbered.ref, "preview", text_form, image_count)
            if estimate_output(_shortened_output(numbered, shortened)) <= max_tokens:
                return shortened
            retained_bytes = retained_bytes * 3 // 4
    retained_bytes = max_text_bytes
    while retained_bytes >= _MIN_PREVIEW_BYTES:
        shortened = ShortenedPart(
            numbered.ref,
            "preview",
            f"{outcome_with_ref(numbered)}\n{_head_and_tail(text, retained_bytes)}{image_notes}",
            image_count,
        )
        if estimate_output(_shortened_output(numbered, shortened)) <= max_tokens:
            return shortened
        retained_bytes = retained_bytes * 3 // 4
    return ShortenedPart(numbered.ref, "line", outcome_with_ref(numbered) + image_notes, image_count)


def _head_and_tail(text: str, retained_bytes: int) -> str:
    """Return the start and end of text. Unlike in a preview, long lines are split."""
    visible_chars = min(retained_bytes, len(text)) * 3 // 4
    return f"{text[: visible_chars * 2 // 3]}\n[…]\n{text[len(text) - visible_chars // 3 :]}"


def _shortened_output(numbered: NumberedOutput, shortened: ShortenedPart) -> ToolOutput:
    return replace(numbered.output, text=shortened.text, images=numbered.output.images[: shortened.pictures])


def _fitting_image_count(images: Sequence[Image], max_tokens: int) -> int:
    """Count how many images fit into `max_tokens` tokens, starting with the first."""
    for index, image in enumerate(images):
        max_tokens -= estimate_message(User((image,)))
        if max_tokens < 0:
            return index
    return len(images)


def _image_notes(images: Sequence[Image], ref: str, start: int = 0) -> Iterator[str]:
    """Yield a line for each image from index `start` on, with its reference."""
    for image_number, image in enumerate(images[start:], start + 1):
        advice = f'`recall` with ref_id="{ref}:tool-{image_number}" shows it'
        yield f"[An image ({image.media_type}) is not shown, to save space: {advice}.]"
