"""Where turns and steps begin, and from where on the model has seen nothing yet. Pure."""

from collections.abc import Sequence

from ebbtide.agent.context.message_text import is_steering_message
from ebbtide.agent.messages import BY_USER, Assistant, Image, Message, Text, User


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """Where turns begin: at messages of the user that are no outputs and follow none, and that join no turn."""
    return [
        index
        for index, message in enumerate(messages)
        if is_request(message) and not is_steering_message(message) and not (index and is_request(messages[index - 1]))
    ]


def is_request(message: Message) -> bool:
    """Whether the user said it; messages with nothing but outputs or notes of the program are no requests."""
    return isinstance(message, User) and any(isinstance(part, Text | Image) for part in message.parts)


def starts_step(message: Message) -> bool:
    """Whether a view may begin with the message: what answers calls never stands alone."""
    return isinstance(message, Assistant) or is_request(message)


def unseen_from(messages: Sequence[Message]) -> int:
    """The index from which on messages hold calls whose outputs no reply of the model has followed yet: those of its
    last reply, and commands that the user ran since. The number of messages where there are none."""
    first = len(messages)
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, Assistant):
            first = index if message.calls else first
            if not is_by_user(message):
                break
    return first


def is_by_user(message: Assistant) -> bool:
    """Whether a reply stands for a command that the user ran: the model has said nothing then."""
    return bool(message.calls) and all(call.id.startswith(BY_USER) for call in message.calls)
