"""Long replies of the model, reduced to head and tail. Pure.

Only plain text is shortened. A reply with a part in its provider's own format (signed thinking, encrypted reasoning,
citations) is sent back unchanged. Calls are never changed.
"""

from dataclasses import replace

from ebbtide.agent.context.estimate import estimate_message
from ebbtide.agent.context.references import message_ref
from ebbtide.agent.messages import Assistant, AssistantPart, Message, ShortenedPart, Text, ToolCall
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import pluralize

LONG = 1_200
"""Tokens above which a reply is worth shortening."""
HEAD, TAIL = 900, 600
"""Characters shown of its head and tail."""


@dataclass(frozen=True, slots=True)
class LongReply:
    """Size of a long reply, and its shortened form."""

    tokens: int
    left: int
    """Tokens of the shortened form."""
    less: str


def long_reply(message: Message, before: Message | None) -> LongReply | None:
    """Return the shortened form if it takes at most half as many tokens; None for any other message. `before`: the
    previous message, which may be the first half of the same reply."""
    # A character takes hardly more than a token, and most replies are shorter than that.
    if not isinstance(message, Assistant) or len(message.text) <= LONG or not is_plain(message):
        return None
    if message.is_paused or (isinstance(before, Assistant) and before.is_paused):
        return None
    tokens = _tokens(message.text)
    if tokens <= LONG:
        return None
    less = _ends(message.text, message_ref(message))
    left = _tokens(less)
    return LongReply(tokens, left, less) if 2 * left <= tokens else None


def is_plain(message: Assistant) -> bool:
    """Whether a reply consists only of text and calls that any provider accepts in any wording."""
    return all(isinstance(part, ToolCall) or (isinstance(part, Text) and not part.native) for part in message.parts)


def as_retold(message: Assistant, said: ShortenedPart | None) -> Assistant:
    """Return the reply with its text replaced by `said`; the same reply if there is no replacement or it is not
    possible."""
    if said is None or len(message.text) <= LONG or not is_plain(message):
        return message
    parts, is_told = list[AssistantPart](), False
    for part in message.parts:
        if not isinstance(part, Text):
            parts.append(part)
        elif not is_told:
            parts.append(Text(said.text))
            is_told = True
    return replace(message, parts=tuple(parts))


def _ends(text: str, ref: str) -> str:
    """Return head and tail of a text, cut at nearby line ends, with the reference of the full text."""
    head, tail = text[:HEAD], text[-TAIL:]
    line = head.rfind("\n")
    head = head[:line] if line > HEAD // 2 else head
    line = tail.find("\n")
    tail = tail[line + 1 :] if 0 <= line < TAIL // 2 else tail
    return f"{head}\n[… {pluralize(len(text) - len(head) - len(tail), 'character')} left out [recall:{ref}] …]\n{tail}"


def _tokens(text: str) -> int:
    return estimate_message(Assistant((Text(text),)))
