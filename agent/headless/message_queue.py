"""Queued messages, delivered as turns of their own or at the next step of the running turn."""

from ebbtide.agent.messages import Image, Text, User
from ebbtide.tools.lazy import dataclass

MAX_QUEUED_CHARS = 64 << 20
"""Maximum total length of queued messages, in characters."""


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message from the user."""

    message: User
    steers: bool = False
    """Whether it should be delivered to the running turn; otherwise, or if none runs, it starts a new turn."""


class MessageQueue:
    """Messages sent but not delivered yet, oldest first."""

    def __init__(self) -> None:
        self._waiting: list[UserMessage] = []
        self._lent: list[UserMessage] = []
        """Messages given to the turn but not acknowledged yet."""

    @property
    def is_waiting(self) -> bool:
        """Whether a message is queued for another turn."""
        return bool(self._waiting)

    def has_room_for(self, message: UserMessage) -> bool:
        """Whether a message fits; the first one always does."""
        all_of_them = (*self._waiting, *self._lent, message)
        return sum(map(_size, all_of_them)) <= MAX_QUEUED_CHARS or len(all_of_them) == 1

    def add(self, message: UserMessage) -> None:
        self._waiting.append(message)

    def pop(self) -> User | None:
        """Remove and return the oldest message; None if there is none."""
        return self._waiting.pop(0).message if self._waiting else None

    def take_for_step(self) -> tuple[User, ...]:
        """Take the steering messages for the next step. They can be requeued until `acknowledge` is called."""
        taken = [message for message in self._waiting if message.steers]
        self._waiting = [message for message in self._waiting if not message.steers]
        self._lent += taken
        return tuple(message.message for message in taken)

    def acknowledge(self, text: str) -> None:
        """Mark the first message with this text as delivered."""
        for index, message in enumerate(self._lent):
            if message.message.text == text:
                del self._lent[index]
                return

    def requeue(self) -> None:
        """Return undelivered messages to the front of the queue after the turn."""
        self._waiting = [*self._lent, *self._waiting]
        self._lent = []


def _size(message: UserMessage) -> int:
    return sum(
        len(part.text) if isinstance(part, Text) else len(part.data) if isinstance(part, Image) else 0
        for part in message.message.parts
    )
