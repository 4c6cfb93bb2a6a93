"""Shortens a model's long replies to their start and end.

Only plain text is shortened. A reply with a part in the provider's own format (signed thinking, encrypted reasoning,
citations) is sent back unchanged. Calls are never changed.
"""

from dataclasses import replace

from ebbtide.agent.messages import Assistant, AssistantPart, Message, ShortenedPart, Text, ToolCall
from ebbtide.agent.tokens.estimate import estimate_message
from ebbtide.agent.view.references import message_ref
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import pluralize

MIN_LONG_REPLY_TOKENS = 1_200
"""Minimum size of a reply that is worth shortening, in tokens."""
HEAD_CHARS, TAIL_CHARS = 900, 600
"""Number of characters shown at the beginning and at the end of a reply."""


@dataclass(frozen=True, slots=True)
class LongReply:
    """The size of a long reply, and its shortened form."""

    tokens: int
    short_tokens: int
    """Size of the shortened form, in tokens."""
    short_text: str


def shorten_long_reply(message: Message, previous: Message | None) -> LongReply | None:
    """Shorten a long reply, if the result takes at most half as many tokens. None if it takes more, or if the message
    is not a long reply. `previous`: the previous message, which may be the first half of a paused reply."""
    # A shortcut for short replies: a character is hardly ever more than one token.
    if (
        not isinstance(message, Assistant)
        or len(message.text) <= MIN_LONG_REPLY_TOKENS
        or not has_only_plain_parts(message)
    ):
        return None
    if message.is_paused or (isinstance(previous, Assistant) and previous.is_paused):
        return None
    tokens = _tokens(message.text)
    if tokens <= MIN_LONG_REPLY_TOKENS:
        return None
    short_text = _head_and_tail(message.text, message_ref(message))
    short_tokens = _tokens(short_text)
    return LongReply(tokens, short_tokens, short_text) if 2 * short_tokens <= tokens else None


def has_only_plain_parts(message: Assistant) -> bool:
    """Whether a reply consists only of plain text and calls, so that no provider verifies its wording."""
    return all(isinstance(part, ToolCall) or (isinstance(part, Text) and not part.native) for part in message.parts)


def with_shortened_text(message: Assistant, shortened: ShortenedPart | None) -> Assistant:
    """Replace the reply's text with `shortened`. The reply stays unchanged if `shortened` is None, or if the text must
    not be changed."""
    if shortened is None or len(message.text) <= MIN_LONG_REPLY_TOKENS or not has_only_plain_parts(message):
        return message
    parts, is_replaced = list[AssistantPart](), False
    for part in message.parts:
        if not isinstance(part, Text):
            parts.append(part)
        elif not is_replaced:
            parts.append(Text(shortened.text))
            is_replaced = True
    return replace(message, parts=tuple(parts))


def _head_and_tail(text: str, ref: str) -> str:
    """Return the start and end of the text, cut at nearby line breaks. A note between them gives the full text's
    reference."""
    head, tail = text[:HEAD_CHARS], text[-TAIL_CHARS:]
    newline = head.rfind("\n")
    head = head[:newline] if newline > HEAD_CHARS // 2 else head
    newline = tail.find("\n")
    tail = tail[newline + 1 :] if 0 <= newline < TAIL_CHARS // 2 else tail
    return f"{head}\n[… {pluralize(len(text) - len(head) - len(tail), 'character')} left out [recall:{ref}] …]\n{tail}"


def _tokens(text: str) -> int:
    return estimate_message(Assistant((Text(text),)))
