"""Measures each of a session's outputs and messages once: its size, and whether a later one shows the same. No I/O."""

from collections.abc import Iterator, Mapping
from dataclasses import field

from ebbtide.agent.messages import Assistant, Conversation, Message, ShortenedPart, ToolCall, ToolOutput
from ebbtide.agent.tokens.estimate import estimate_message, estimate_output, estimate_text
from ebbtide.agent.tokens.incremental import IncrementalFold, memoized
from ebbtide.agent.tool_specs import executed_call
from ebbtide.agent.view.long_replies import shorten_long_reply
from ebbtide.agent.view.name_index import find_names
from ebbtide.agent.view.recalls import REUSE_ODDS, content_kind, reuse_factors
from ebbtide.agent.view.stub_identifiers import StubNameLists, names_in_output
from ebbtide.agent.view.stubs import MIN_MASKED_TOKENS, STUB_TOKENS
from ebbtide.agent.view.visible import (
    NumberedOutput,
    message_key,
    visible_output,
)
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.tool_traits import OutputContent, role_of

_ALL_LINES = (1, 2**62)
_MAX_NOTE_LINES = 3
"""Maximum number of note lines that may follow the numbered lines of a read."""


@dataclass(frozen=True, slots=True)
class FileLineRange:
    """A range of a file's lines that an output shows or a call has written."""

    path: str
    first_line: int
    last_line: int

    def covers(self, other: "FileLineRange") -> bool:
        return self.path == other.path and self.first_line <= other.first_line and other.last_line <= self.last_line


def find_line_range(call: ToolCall, output: ToolOutput) -> FileLineRange | None:
    """Return the lines of a file that a call has read or written: the numbered lines of a read, or the whole file for a
    write. None for other calls."""
    path, role = call.arguments.get("path"), role_of(call.name)
    if output.status != "done" or not isinstance(path, str) or role not in ("read_file", "write_file"):
        return None
    path = path.removeprefix("./")
    if role == "write_file":
        return FileLineRange(path, *_ALL_LINES)
    span = _numbered_span(output.text)
    return FileLineRange(path, *span) if span else None


def _numbered_span(text: str) -> tuple[int, int] | None:
    """Return the first and last line number in a read's output; None if lines between them are missing."""
    first, end, note_count = _line_number(text, 0), len(text), 0
    while first is not None and note_count <= _MAX_NOTE_LINES:
        start = text.rfind("\n", 0, end) + 1
        last = _line_number(text, start)
        if last is not None:
            is_complete = text.count("\n", 0, start) == last - first
            return (first, last) if is_complete else None
        if start == 0:
            break
        end, note_count = start - 1, note_count + 1
    return None


def _line_number(text: str, start: int) -> int | None:
    digits = text[start : text.find("\t", start, start + 12)] if "\t" in text[start : start + 12] else ""
    return int(digits) if digits.isascii() and digits.isdecimal() else None


MAX_OUTPUTS_PER_NAME = 3
"""A name identifies outputs only if at most this many outputs contain it."""


@dataclass(slots=True)
class NamedOutputs:
    """The outputs so far, indexed by the names that occur in them."""

    last_mentions: dict[str, int] = field(default_factory=dict)
    """Maps an output's key to the number of the last reply that mentions the output."""
    _output_keys_by_name: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys of the outputs that contain a name; empty if too many outputs contain it."""

    def record_mentions(self, message: Message, reply_number: int) -> None:
        """Record which outputs a message mentions. `reply_number`: the number of replies so far, including this
        message."""
        for name in _mentioned_names(message):
            for key in self._output_keys_by_name.get(name, ()):
                self.last_mentions[key] = reply_number

    def add(self, key: str, output: ToolOutput) -> None:
        for name in names_in_output(output):
            output_keys = self._output_keys_by_name.get(name)
            if output_keys is None:
                self._output_keys_by_name[name] = (key,)
            elif output_keys:
                self._output_keys_by_name[name] = (*output_keys, key) if len(output_keys) < MAX_OUTPUTS_PER_NAME else ()


@memoized
def _mentioned_names(message: Message) -> frozenset[str]:
    """Return the names in a message's text and calls; outputs do not count as mentions."""
    texts = [message.text]
    if isinstance(message, Assistant):
        texts += [text for call in message.calls for text in strings_in(call.arguments)]
    return frozenset().union(*map(find_names, texts))


def strings_in(value: object) -> Iterator[str]:
    """Yield all strings in a call's argument, including nested ones."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from strings_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings_in(item)


@dataclass(slots=True)
class MaskableItem:
    """An output or a long reply that masking would shorten."""

    key: str
    """The output's reference, such as `r12`, or the key of the message."""
    message_index: int
    """Index of the message that contains it."""
    tokens: int
    """Tokens when shown in full."""
    tokens_before: int
    """Tokens of the outputs before it, as shown. For a long reply, earlier long replies count too."""
    content: OutputContent = "other"
    is_superseded: bool = False
    """Whether a newer item shows everything that this one shows."""
    stub_tokens: int = STUB_TOKENS
    """Tokens of its stub."""
    is_reply: bool = False
    """Whether it is a long reply of the model."""

    @property
    def freed_tokens(self) -> int:
        """Tokens that masking it saves."""
        return self.tokens - self.stub_tokens


@dataclass(slots=True)
class Measurements:
    """Measurements of the messages so far. `masked`, `pinned` and `shortened_parts` are taken from the conversation."""

    masked: frozenset[str]
    pinned: frozenset[str]
    shortened_parts: Mapping[str, ShortenedPart]
    output_count: int
    """Number of outputs in the session so far."""
    reuse_factors: Mapping[str, float] = field(default_factory=dict)
    """Factors for the reread probability, by kind of content, learned from what this session's model has recalled."""
    messages_before: int = 0
    items: list[MaskableItem] = field(default_factory=list)
    output_tokens: int = 0
    """Tokens of all outputs, as they are shown."""
    reply_tokens: int = 0
    """Tokens of all long replies."""
    cumulative_tokens: list[int] = field(default_factory=lambda: [0])
    """Tokens of the messages before each index; the last entry is the total."""
    cumulative_replies: list[int] = field(default_factory=lambda: [0])
    """Number of replies before each index; the last entry is the total."""
    _calls: Mapping[str, ToolCall] = field(default_factory=dict)
    _stub_identifiers: StubNameLists = field(default_factory=StubNameLists)
    _named_outputs: NamedOutputs = field(default_factory=NamedOutputs)
    _reads_by_file: dict[str, list[tuple[FileLineRange, MaskableItem]]] = field(default_factory=dict)
    """For each file, reads that a later read might repeat."""
    _last_message: Message | None = None

    def add_message(self, message: Message) -> "Measurements":
        reply_count = self.cumulative_replies[-1] + isinstance(message, Assistant)
        self._named_outputs.record_mentions(message, reply_count)
        if isinstance(message, Assistant):
            self._calls = {call.id: call for call in message.calls}
            self._add_reply(message, len(self.cumulative_tokens) - 1)
        else:
            for output in message.outputs:
                self._add_output(output, len(self.cumulative_tokens) - 1)
        self.cumulative_tokens.append(self.cumulative_tokens[-1] + estimate_message(message))
        self.cumulative_replies.append(reply_count)
        self._last_message = message
        return self

    def _add_reply(self, message: Assistant, message_index: int) -> None:
        reply = shorten_long_reply(message, self._last_message)
        if reply is None:
            return
        tokens_before = self.output_tokens + self.reply_tokens
        key = message_key(self.messages_before + message_index)
        self.reply_tokens += reply.tokens
        if key not in self.shortened_parts and key not in self.pinned:
            self.items.append(
                MaskableItem(
                    key, message_index, reply.tokens, tokens_before, stub_tokens=reply.short_tokens, is_reply=True
                )
            )

    def _add_output(self, output: ToolOutput, message_index: int) -> None:
        self.output_count += 1
        call = self._calls.get(output.call_id, ToolCall(output.call_id, "tool", {}))
        numbered = NumberedOutput(executed_call(call, output), output, self.output_count)
        tokens = estimate_output(output)
        is_shortened = numbered.ref in self.shortened_parts
        visible_tokens = (
            estimate_output(visible_output(numbered, frozenset(), self.shortened_parts)) if is_shortened else tokens
        )
        item = MaskableItem(numbered.ref, message_index, tokens, self.output_tokens, content_kind(numbered.call))
        self.output_tokens += visible_tokens
        self._named_outputs.add(item.key, output)
        stub_suffix = self._stub_identifiers.suffix_for(output)
        is_cut = is_shortened or output.call_id in self.masked
        self._mark_superseded(numbered, item, is_shortened=is_cut)
        if visible_tokens > MIN_MASKED_TOKENS and output.call_id not in self.masked and numbered.ref not in self.pinned:
            item.stub_tokens = STUB_TOKENS + estimate_text(stub_suffix)
            self.items.append(item)

    def _mark_superseded(self, numbered: NumberedOutput, item: MaskableItem, *, is_shortened: bool) -> None:
        viewed = find_line_range(numbered.call, numbered.output)
        if viewed is None:
            return
        earlier_reads = self._reads_by_file.setdefault(viewed.path, [])
        if not is_shortened:
            for earlier_lines, earlier_item in earlier_reads:
                earlier_item.is_superseded = earlier_item.is_superseded or viewed.covers(earlier_lines)
        if role_of(numbered.call.name) == "read_file":
            earlier_reads.append((viewed, item))

    def replies_since(self, item: MaskableItem) -> int:
        """Return the number of replies since the item was added."""
        return self.cumulative_replies[-1] - self.cumulative_replies[item.message_index + 1]

    def replies_since_mention(self, item: MaskableItem) -> int:
        """Count the replies since the item was added or last mentioned. Only names that occur in few outputs count as
        mentions."""
        return self.cumulative_replies[-1] - max(
            self.cumulative_replies[item.message_index + 1], self._named_outputs.last_mentions.get(item.key, 0)
        )

    def reread_probability(self, item: MaskableItem) -> float:
        """Return the probability that an output is needed again."""
        base_probability = REUSE_ODDS.probability(item.content, item.tokens, self.replies_since_mention(item))
        return min(base_probability * self.reuse_factors.get(item.content, 1.0), 1.0)

    def tokens_since(self, item: MaskableItem) -> int:
        """Return the tokens of this item and all newer ones. Only outputs count; if the item is a reply, long replies
        also count."""
        return self.output_tokens + (self.reply_tokens if item.is_reply else 0) - item.tokens_before


class MeasurementCache:
    """A session's measurements, reused between requests until masks, pins or replacements change."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] | None = None
        self._measured: IncrementalFold[Measurements, Message] | None = None

    def measure(self, conversation: Conversation) -> Measurements:
        masked, pinned, outputs_before = conversation.masked, conversation.pinned, conversation.outputs_before
        first_position = conversation.messages_before
        key = (masked, pinned, conversation.retold, outputs_before, first_position)
        if self._measured is None or key != self._key:
            replacements = {part.key: part for part in conversation.retold}
            self._key, self._measured = (
                key,
                IncrementalFold(
                    lambda: Measurements(masked, pinned, replacements, outputs_before, messages_before=first_position),
                    Measurements.add_message,
                ),
            )
        measured = self._measured.value_for(conversation.messages)
        measured.reuse_factors = reuse_factors(conversation.recalls)
        return measured
