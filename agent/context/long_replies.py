"""Long texts of the model, shown by their beginning and their end. Pure.

Only plain words are ever shortened. Where a reply holds a part in its provider's own form (signed thinking, encrypted
reasoning, citations), all of it goes back as it came. Calls stay as they are.
"""

from dataclasses import replace

from ebbtide.agent.context.estimate import estimate_message
from ebbtide.agent.context.references import message_ref
from ebbtide.agent.messages import Assistant, AssistantPart, Message, ShortenedPart, Text, ToolCall
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import pluralize

LONG = 1_200
"""Tokens above which a text of the model is worth shortening."""
HEAD, TAIL = 900, 600
"""Characters of its ends that are shown."""


@dataclass(frozen=True, slots=True)
class LongReply:
    """What a long text of the model takes, and what would stand for it."""

    tokens: int
    left: int
    """Tokens of what would stand for it."""
    less: str


def long_reply(message: Message, before: Message | None) -> LongReply | None:
    """A reply whose text could be shown by its ends in half as many tokens or fewer; None for any other message.
    `before`: the message before it, which may be the first half of the same reply."""
    # No character takes much more than a token, and most replies are shorter than that.
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
    """Whether a reply is nothing but words and calls that every provider takes in any wording."""
    return all(isinstance(part, ToolCall) or (isinstance(part, Text) and not part.native) for part in message.parts)


def as_retold(message: Assistant, said: ShortenedPart | None) -> Assistant:
    """The reply with a text in the place of all its words: the same where none is to be told, or none can be."""
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
    """The beginning and the end of a text, at line ends where those are near, with the reference of all of it."""
    head, tail = text[:HEAD], text[-TAIL:]
    line = head.rfind("\n")
    head = head[:line] if line > HEAD // 2 else head
    line = tail.find("\n")
    tail = tail[line + 1 :] if 0 <= line < TAIL // 2 else tail
    return f"{head}\n[… {pluralize(len(text) - len(head) - len(tail), 'character')} left out [recall:{ref}] …]\n{tail}"


def _tokens(text: str) -> int:
    return estimate_message(Assistant((Text(text),)))
