"""What the model is told, from the instructions and the conversation. Pure: it reads no file and no clock."""

from dataclasses import dataclass

from agent.messages import Conversation, Message, Text, User

SUMMARY_FRAME = (
    "The earlier part of this session was compacted. What follows is its summary; the work it calls done is done. "
    "Go on from here and use your tools as before.\n\n"
)


@dataclass(frozen=True, slots=True)
class Instructions:
    """The sections of the system text, most stable first. They stay the same bytes for a whole session."""

    base: str
    environment: str = ""
    project: str = ""
    """AGENT.md or AGENTS.md of the project and the user."""

    @property
    def text(self) -> str:
        return "\n\n".join(section for section in (self.base, self.project, self.environment) if section)


@dataclass(frozen=True, slots=True)
class Prompt:
    system: str
    messages: tuple[Message, ...]


def build_prompt(conversation: Conversation, instructions: Instructions) -> Prompt:
    """The next request's system text and messages: the summary first, when there is one, then the conversation."""
    if not conversation.summary:
        return Prompt(instructions.text, conversation.messages)
    summary = User((Text(SUMMARY_FRAME + conversation.summary),))
    return Prompt(instructions.text, merge_users((summary, *conversation.messages)))


def merge_users(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The same messages with neighbouring user messages joined, since some wires want the roles to alternate."""
    merged: list[Message] = []
    for message in messages:
        if merged and isinstance(message, User) and isinstance(merged[-1], User):
            merged[-1] = User(merged[-1].parts + message.parts)
        else:
            merged.append(message)
    return tuple(merged)
