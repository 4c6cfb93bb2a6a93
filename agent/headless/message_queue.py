"""Messages that wait until the session takes them: each as a turn of its own, or into the step that begins."""

from ebbtide.agent.messages import Image, Text, User
from ebbtide.tools.lazy import dataclass

MAX_QUEUED_CHARS = 64 << 20
"""Characters of messages that wait at the same time."""


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the user says."""

    message: User
    steers: bool = False
    """It is for the turn that runs, if one does; otherwise it is a turn of its own, as all others are."""


class MessageQueue:
    """What was sent and not heard yet, oldest first."""

    def __init__(self) -> None:
        self._waiting: list[UserMessage] = []
        self._lent: list[UserMessage] = []
        """Given to the turn, which has not said yet that it heard them."""

    @property
    def is_waiting(self) -> bool:
        """Whether there is one for another turn."""
        return bool(self._waiting)

    def has_room_for(self, message: UserMessage) -> bool:
        """One has room in any case."""
        all_of_them = (*self._waiting, *self._lent, message)
        return sum(map(_size, all_of_them)) <= MAX_QUEUED_CHARS or len(all_of_them) == 1

    def add(self, message: UserMessage) -> None:
        self._waiting.append(message)

    def pop(self) -> User | None:
        """The oldest; None where there is none."""
        return self._waiting.pop(0).message if self._waiting else None

    def take_for_step(self) -> tuple[User, ...]:
        """Those that steer, for the step that begins. Until `acknowledge` says so, they are only lent."""
        taken = [message for message in self._waiting if message.steers]
        self._waiting = [message for message in self._waiting if not message.steers]
        self._lent += taken
        return tuple(message.message for message in taken)

    def acknowledge(self, text: str) -> None:
        """The turn has heard the first that says this."""
        for index, message in enumerate(self._lent):
            if message.message.text == text:
                del self._lent[index]
                return

    def requeue(self) -> None:
        """The turn is over: what it took and did not hear waits again, before all others."""
        self._waiting = [*self._lent, *self._waiting]
        self._lent = []


def _size(message: UserMessage) -> int:
    return sum(
        len(part.text) if isinstance(part, Text) else len(part.data) if isinstance(part, Image) else 0
        for part in message.message.parts
    )
