"""What the model is told, from the instructions and the conversation. Pure: it reads no file and no clock."""

from dataclasses import dataclass, replace

from agent.messages import Conversation, Image, Message, Text, ToolOutput, User, UserPart

SUMMARY_FRAME = (
    "The earlier part of this session was compacted. What follows is its summary; the work it calls done is done. "
    "Go on from here and use your tools as before.\n\n"
)


NO_IMAGES = "[an image ({}) is left out: this model takes no images]"


@dataclass(frozen=True, slots=True)
class Instructions:
    """The sections of the system text, most stable first. They stay the same bytes for a whole session."""

    base: str
    environment: str = ""
    project: str = ""
    """AGENT.md or AGENTS.md of the project and the user."""
    memories: str = ""
    skills: str = ""
    """Names and one-line descriptions of the skills that may be read."""

    @property
    def text(self) -> str:
        return "\n\n".join(
            section for section in (self.base, self.project, self.memories, self.skills, self.environment) if section
        )


@dataclass(frozen=True, slots=True)
class Prompt:
    system: str
    messages: tuple[Message, ...]


def build_prompt(conversation: Conversation, instructions: Instructions, *, images: bool = True) -> Prompt:
    """The next request's system text and messages: the summary first, when there is one, then the conversation. For a
    model that takes no images, a note stands in the place of each."""
    messages = conversation.messages
    if conversation.summary:
        messages = (User((Text(SUMMARY_FRAME + conversation.summary),)), *messages)
    if not images:
        messages = tuple(_without_images(message) for message in messages)
    return Prompt(instructions.text, merge_users(messages))


def _without_images(message: Message) -> Message:
    if not isinstance(message, User):
        return message
    return User(tuple(_described(part) for part in message.parts))


def _described(part: UserPart) -> UserPart:
    match part:
        case Image(media_type=media_type):
            return Text(NO_IMAGES.format(media_type))
        case ToolOutput(images=images) if images:
            notes = "\n".join(NO_IMAGES.format(image.media_type) for image in images)
            return replace(part, text=f"{part.text}\n{notes}", images=())
        case _:
            return part


def merge_users(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The same messages with neighbouring user messages joined, since some wires want the roles to alternate."""
    merged: list[Message] = []
    for message in messages:
        if merged and isinstance(message, User) and isinstance(merged[-1], User):
            merged[-1] = User(merged[-1].parts + message.parts)
        else:
            merged.append(message)
    return tuple(merged)
