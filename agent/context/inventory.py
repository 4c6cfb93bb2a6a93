"""Sizes of a session's outputs and messages, which of them can be masked, and whether the files they show have changed
since. Each is measured once. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import field

from ebbtide.agent.context.estimate import estimate_message, estimate_text, output_size
from ebbtide.agent.context.incremental import IncrementalFold
from ebbtide.agent.context.long_replies import long_reply
from ebbtide.agent.context.mask import (
    MIN_MASKED_TOKENS,
    STUB_TOKENS,
    NumberedOutput,
    message_key,
    newest_reply,
    paths_of,
    visible_output,
)
from ebbtide.agent.context.named_outputs import NamedOutputs
from ebbtide.agent.context.reread_model import OutputContent, content_of, reread_probability, reuse_factors
from ebbtide.agent.context.steps import unseen_from
from ebbtide.agent.context.stub_identifiers import StubIdentifiers
from ebbtide.agent.context.superseded import ViewedLines, lines_of
from ebbtide.agent.context.tool_selection import executed_call
from ebbtide.agent.messages import Assistant, Conversation, Message, ShortenedPart, ToolCall, ToolOutput, User
from ebbtide.tools.lazy import dataclass


@dataclass(slots=True)
class MaskableItem:
    """An output or a long reply that a mask would shorten."""

    key: str
    """`r12`, or the key of the message."""
    place: int
    """Index of its message."""
    tokens: int
    """Tokens when shown in full."""
    before: int
    """Tokens of the outputs before it, as shown; for a long reply, also of the long replies before it."""
    content: OutputContent = "other"
    is_repeated: bool = False
    """Whether something newer shows all that it shows."""
    is_stale: bool = False
    """Whether its file was changed or read again since."""
    left: int = STUB_TOKENS
    """Tokens of its stub."""
    is_reply: bool = False
    """Whether it is a long reply of the model."""

    @property
    def freed_tokens(self) -> int:
        """Tokens saved by masking it."""
        return self.tokens - self.left


@dataclass(slots=True)
class MaskableOutputs:
    """Measurements of the messages so far. `masked`, `pinned` and `retold` are those of the conversation."""

    masked: frozenset[str]
    pinned: frozenset[str]
    retold: Mapping[str, ShortenedPart]
    number: int
    """Number of outputs in the session so far."""
    reuse_factors: Mapping[str, float] = field(default_factory=dict)
    """Factors on the reread probability by content, learned from what the session has brought back."""
    messages_before: int = 0
    items: list[MaskableItem] = field(default_factory=list)
    output_tokens: int = 0
    """Tokens of all outputs as shown."""
    reply_tokens: int = 0
    """Tokens of all long replies."""
    sums: list[int] = field(default_factory=lambda: [0])
    """Tokens of the messages before each index, and of all of them."""
    replies: list[int] = field(default_factory=lambda: [0])
    """Number of replies before each index, and of all of them."""
    _calls: Mapping[str, ToolCall] = field(default_factory=dict)
    _lines: StubIdentifiers = field(default_factory=StubIdentifiers)
    _named: NamedOutputs = field(default_factory=NamedOutputs)
    _viewed: dict[str, list[tuple[ViewedLines, MaskableItem]]] = field(default_factory=dict)
    """Reads of each file that a later read may repeat."""
    _files: dict[str, list[MaskableItem]] = field(default_factory=dict)
    """Reads that may become stale, by path."""
    _last: Message | None = None

    def plus(self, message: Message) -> "MaskableOutputs":
        replies = self.replies[-1] + isinstance(message, Assistant)
        self._named.record_mentions(message, replies)
        if isinstance(message, Assistant):
            self._calls = {call.id: call for call in message.calls}
            self._add_reply(message, len(self.sums) - 1)
        else:
            for output in message.outputs:
                self._add(output, len(self.sums) - 1)
        self.sums.append(self.sums[-1] + estimate_message(message))
        self.replies.append(replies)
        self._last = message
        return self

    def _add_reply(self, message: Assistant, place: int) -> None:
        reply = long_reply(message, self._last)
        if reply is None:
            return
        before, key = self.output_tokens + self.reply_tokens, message_key(self.messages_before + place)
        self.reply_tokens += reply.tokens
        if key not in self.retold and key not in self.pinned:
            self.items.append(MaskableItem(key, place, reply.tokens, before, left=reply.left, is_reply=True))

    def _add(self, output: ToolOutput, place: int) -> None:
        self.number += 1
        call = self._calls.get(output.call_id, ToolCall(output.call_id, "tool", {}))
        found = NumberedOutput(executed_call(call, output), output, self.number)
        tokens = output_size(output)
        is_told = found.ref in self.retold
        shown = output_size(visible_output(found, frozenset(), self.retold)) if is_told else tokens
        item = MaskableItem(found.ref, place, tokens, self.output_tokens, content_of(found.call))
        self.output_tokens += shown
        self._named.add(item.key, output)
        if output.status == "done":
            self._outdate(found.call, item)
        names = self._lines.suffix_for(output)
        is_cut = is_told or output.call_id in self.masked
        self._supersede(found, item, is_cut=is_cut)
        if shown > MIN_MASKED_TOKENS and output.call_id not in self.masked and found.ref not in self.pinned:
            item.left = STUB_TOKENS + estimate_text(names)
            self.items.append(item)

    def _supersede(self, found: NumberedOutput, item: MaskableItem, *, is_cut: bool) -> None:
        viewed = lines_of(found.call, found.output)
        if viewed is None:
            return
        earlier = self._viewed.setdefault(viewed.path, [])
        if not is_cut:
            for before, one in earlier:
                one.is_repeated = one.is_repeated or viewed.covers(before)
        if found.call.name == "read":
            earlier.append((viewed, item))

    def _outdate(self, call: ToolCall, item: MaskableItem) -> None:
        if item.content not in ("file", "change"):
            return
        for path in paths_of(call):
            earlier = self._files.setdefault(path.removeprefix("./"), [])
            for one in earlier:
                one.is_stale = True
            earlier.clear()
            if item.content == "file":
                earlier.append(item)

    def age(self, item: MaskableItem) -> int:
        """Number of replies since it was added."""
        return self.replies[-1] - self.replies[item.place + 1]

    def idle(self, item: MaskableItem) -> int:
        """Number of replies since it was added, or since a name that occurs in few other outputs was last mentioned."""
        return self.replies[-1] - max(self.replies[item.place + 1], self._named.last.get(item.key, 0))

    def reread_probability(self, item: MaskableItem) -> float:
        """Probability that an output is needed again."""
        usual = reread_probability(
            item.content, item.tokens, self.idle(item), is_stale=item.is_stale or item.is_repeated
        )
        return min(usual * self.reuse_factors.get(item.content, 1.0), 1.0)

    def tokens_since(self, item: MaskableItem) -> int:
        """Tokens of this item and everything newer: outputs only, or outputs and long replies if it is a reply."""
        return self.output_tokens + (self.reply_tokens if item.is_reply else 0) - item.before


class Inventory:
    """One session's measurements, kept between requests until masks, pins or replacements change."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] | None = None
        self._stock: IncrementalFold[MaskableOutputs, Message] | None = None

    def of(self, conversation: Conversation) -> MaskableOutputs:
        masked, pinned, before = conversation.masked, conversation.pinned, conversation.outputs_before
        said = conversation.messages_before
        key = (masked, pinned, conversation.retold, before, said)
        if self._stock is None or key != self._key:
            told = {one.key: one for one in conversation.retold}
            self._key, self._stock = (
                key,
                IncrementalFold(
                    lambda: MaskableOutputs(masked, pinned, told, before, messages_before=said), MaskableOutputs.plus
                ),
            )
        stock = self._stock.of(conversation.messages)
        stock.reuse_factors = reuse_factors(conversation.recalls)
        return stock


def maskable(conversation: Conversation, stock: MaskableOutputs, newest: int = 0) -> list[MaskableItem]:
    """Return the items that may be masked, the newest first. Excluded are unseen outputs, the last step, the `newest`
    messages, the model's last reply, and pinned items."""
    messages = conversation.messages
    end = min(unseen_from(messages), max(len(messages) - newest, 0))
    last = next((place for place in range(len(messages) - 1, -1, -1) if _outputs(messages[place])), -1)
    reply = min(end, newest_reply(messages))
    return [
        item
        for item in reversed(stock.items)
        if (item.place < reply if item.is_reply else item.place < end and item.place != last)
    ]


def _outputs(message: Message) -> Sequence[ToolOutput]:
    return message.outputs if isinstance(message, User) else ()
