"""Queued messages, delivered either as separate turns or at the next step of the running turn."""

from ebbtide.agent.messages import Image, Text, User
from ebbtide.tools.lazy import dataclass

MAX_QUEUED_CHARS = 64 << 20
"""Maximum total length of queued messages, in characters."""


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message from the user."""

    message: User
    is_steering: bool = False
    """Whether to deliver the message to the running turn. A message that does not steer, or that arrives between turns,
    starts a new turn."""


class MessageQueue:
    """Messages not delivered yet, oldest first."""

    def __init__(self) -> None:
        self._queued_messages: list[UserMessage] = []
        self._unacknowledged_messages: list[UserMessage] = []
        """Messages given to the turn but not acknowledged yet."""

    @property
    def has_messages(self) -> bool:
        """Whether any message is queued."""
        return bool(self._queued_messages)

    def has_room_for(self, message: UserMessage) -> bool:
        """Whether the queue has room for a message. An empty queue accepts a message of any size."""
        all_messages = (*self._queued_messages, *self._unacknowledged_messages, message)
        return sum(map(_count_chars, all_messages)) <= MAX_QUEUED_CHARS or len(all_messages) == 1

    def add(self, message: UserMessage) -> None:
        self._queued_messages.append(message)

    def pop(self) -> User | None:
        """Remove and return the oldest message, if there is one."""
        return self._queued_messages.pop(0).message if self._queued_messages else None

    def take_steering_messages(self) -> tuple[User, ...]:
        """Take the steering messages for the next step. They can be requeued until `acknowledge` is called."""
        steering = [message for message in self._queued_messages if message.is_steering]
        self._queued_messages = [message for message in self._queued_messages if not message.is_steering]
        self._unacknowledged_messages += steering
        return tuple(message.message for message in steering)

    def acknowledge(self, text: str) -> None:
        """Mark the first message with this text as delivered."""
        for index, message in enumerate(self._unacknowledged_messages):
            if message.message.text == text:
                del self._unacknowledged_messages[index]
                return

    def requeue(self) -> None:
        """Return unacknowledged messages to the front of the queue after the turn."""
        self._queued_messages = [*self._unacknowledged_messages, *self._queued_messages]
        self._unacknowledged_messages = []


def _count_chars(message: UserMessage) -> int:
    return sum(
        len(part.text) if isinstance(part, Text) else len(part.data) if isinstance(part, Image) else 0
        for part in message.message.parts
    )
