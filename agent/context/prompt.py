"""Build the prompt from the instructions and the conversation. Pure: reads no files and no clock."""

from dataclasses import replace

from ebbtide.agent.context.mask import visible_messages
from ebbtide.agent.context.summary import summary_messages
from ebbtide.agent.messages import Conversation, Image, Message, Text, ToolOutput, User, UserPart
from ebbtide.tools.lazy import dataclass

NO_IMAGES = "[an image ({}) is left out: this model takes no images]"


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the system prompt."""

    name: str
    text: str
    cacheable: bool
    """Whether other sessions of the project begin with the same bytes."""


@dataclass(frozen=True, slots=True)
class PromptBuilder:
    """Builds a system prompt from sections: the cacheable ones first, otherwise in insertion order."""

    sections: tuple[Section, ...] = ()

    def plus(self, name: str, text: str, *, cacheable: bool = False) -> "PromptBuilder":
        """Return a builder with one more section; empty text adds none."""
        if not text:
            return self
        added = (*self.sections, Section(name, text, cacheable))
        return PromptBuilder(tuple(sorted(added, key=lambda section: not section.cacheable)))

    def build(self) -> tuple[str, tuple[int, ...]]:
        """Return the text, and the offset in characters at which each cacheable section ends."""
        text, ends = "", []
        for section in self.sections:
            text += ("\n\n" if text else "") + section.text
            if section.cacheable:
                ends.append(len(text))
        return text, tuple(ends)


@dataclass(frozen=True, slots=True)
class InstructionFile:
    """An instruction file, as it was read."""

    path: str
    section: str
    """Its section of the system prompt, title included."""
    text: str
    """Its text; empty if it was left out."""


@dataclass(frozen=True, slots=True)
class Instructions:
    """Sections of the system prompt. They stay byte-identical until the session ends: later changes are announced in
    notes, so even a compaction keeps the provider's cache of this text valid."""

    base: str
    environment: str = ""
    project: str = ""
    """Text of the project's and the user's instruction files."""
    memories: str = ""
    skills: str = ""
    """Names and one-line descriptions of the available skills."""
    appended: str = ""
    """Text added by the caller that started the session."""
    files: tuple[InstructionFile, ...] = ()
    """The files that `project` is made of."""
    problems: tuple[str, ...] = ()
    """Notices for the user about these files, one a line."""

    @property
    def builder(self) -> PromptBuilder:
        return (
            PromptBuilder()
            .plus("base", self.base, cacheable=True)
            .plus("project", self.project, cacheable=True)
            .plus("memories", self.memories, cacheable=True)
            .plus("skills", self.skills)
            .plus("environment", self.environment)
            .plus("appended", self.appended)
        )

    @property
    def sections(self) -> tuple[Section, ...]:
        """The non-empty sections in order: `base`, `project`, `memories`, `skills`, `environment`, `appended`."""
        return self.builder.sections

    @property
    def text(self) -> str:
        return self.builder.build()[0]


@dataclass(frozen=True, slots=True)
class Prompt:
    system: str
    messages: tuple[Message, ...]
    stable: int = 0
    """Number of characters of `system` that other sessions share as their beginning."""


def build_prompt(conversation: Conversation, instructions: Instructions, *, images: bool = True) -> Prompt:
    """Build the system prompt and messages of the next request: the summary first, if any, then the conversation. For a
    model without image support, notes replace the images."""
    messages = for_model((*summary_messages(conversation.summary), *visible_messages(conversation)), images=images)
    return put_together(merge_users(messages), instructions)


def put_together(messages: tuple[Message, ...], instructions: Instructions) -> Prompt:
    """Return the prompt with these messages."""
    system, ends = instructions.builder.build()
    return Prompt(system, messages, ends[-1] if ends else 0)


def for_model(messages: tuple[Message, ...], *, images: bool) -> tuple[Message, ...]:
    """Return the messages for a model with or without image support."""
    return messages if images else tuple(_without_images(message) for message in messages)


def _without_images(message: Message) -> Message:
    if not isinstance(message, User) or not any(_has_images(part) for part in message.parts):
        return message  # the same object, so cached values stay valid
    return User(tuple(_describe_images(part) for part in message.parts))


def _has_images(part: UserPart) -> bool:
    return isinstance(part, Image) or (isinstance(part, ToolOutput) and bool(part.images))


def _describe_images(part: UserPart) -> UserPart:
    match part:
        case Image(media_type=media_type):
            return Text(NO_IMAGES.format(media_type))
        case ToolOutput(images=images) if images:
            notes = "\n".join(NO_IMAGES.format(image.media_type) for image in images)
            return replace(part, text=f"{part.text}\n{notes}", images=())
        case _:
            return part


def merge_users(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Merge adjacent user messages, because some APIs require alternating roles."""
    merged: list[Message] = []
    for message in messages:
        if merged and isinstance(message, User) and isinstance(merged[-1], User):
            merged[-1] = User(merged[-1].parts + message.parts)
        else:
            merged.append(message)
    return tuple(merged)
