"""What the user says while a turn runs: it joins the turn and begins none. Pure."""

from dataclasses import replace

from agent.messages import Message, Note, User

MEANWHILE = "[The user says this while you work. Take it into account, and go on with what you were asked.]"


def said_meanwhile(message: User) -> User:
    """The message as the model is shown it in the middle of a turn."""
    return replace(message, parts=(Note(MEANWHILE), *message.parts))


def joins_turn(message: Message) -> bool:
    """Whether the message was said while the turn that it stands in ran."""
    return isinstance(message, User) and Note(MEANWHILE) in message.parts
