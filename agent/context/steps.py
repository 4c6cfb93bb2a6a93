"""Where turns and steps begin, and which messages the model has not seen yet. Pure."""

from collections.abc import Sequence

from ebbtide.agent.context.message_text import is_steering_message
from ebbtide.agent.messages import BY_USER, Assistant, Image, Message, Text, User


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """Return the indices at which turns begin: user messages that contain text or images, follow no other such message
    and did not join a running turn."""
    return [
        index
        for index, message in enumerate(messages)
        if is_request(message) and not is_steering_message(message) and not (index and is_request(messages[index - 1]))
    ]


def is_request(message: Message) -> bool:
    """Whether the message contains text or images from the user, not only outputs or notes."""
    return isinstance(message, User) and any(isinstance(part, Text | Image) for part in message.parts)


def starts_step(message: Message) -> bool:
    """Whether a view may begin with the message: outputs never stand without their calls."""
    return isinstance(message, Assistant) or is_request(message)


def unseen_from(messages: Sequence[Message]) -> int:
    """Return the index of the first call whose outputs the model has not replied to yet: a call of its last reply, or a
    command that the user ran since. The number of messages if there is none."""
    first = len(messages)
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, Assistant):
            first = index if message.calls else first
            if not is_by_user(message):
                break
    return first


def is_by_user(message: Assistant) -> bool:
    """Whether a reply represents a command that the user ran; the model said nothing then."""
    return bool(message.calls) and all(call.id.startswith(BY_USER) for call in message.calls)
