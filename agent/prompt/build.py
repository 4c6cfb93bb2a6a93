"""Builds the prompt from the instructions and the conversation. Reads neither files nor the clock."""

from dataclasses import replace

from ebbtide.agent.messages import Conversation, Image, Message, Text, ToolOutput, User, UserPart
from ebbtide.agent.view.visible import messages_in_view
from ebbtide.tools.lazy import dataclass

IMAGE_OMITTED_NOTE = "[an image ({}) is omitted: this model does not support images]"


@dataclass(frozen=True, slots=True)
class PromptSection:
    """A section of the system prompt."""

    name: str
    text: str
    is_cacheable: bool
    """Whether the section is part of the prefix that all sessions of the project share."""


@dataclass(frozen=True, slots=True)
class PromptBuilder:
    """Builds a system prompt from sections: first the cacheable ones, then the others, each in insertion order."""

    sections: tuple[PromptSection, ...] = ()

    def add_section(self, name: str, text: str, *, is_cacheable: bool = False) -> "PromptBuilder":
        """Return a builder with one more section. Empty text adds no section."""
        if not text:
            return self
        sections = (*self.sections, PromptSection(name, text, is_cacheable))
        return PromptBuilder(tuple(sorted(sections, key=lambda section: not section.is_cacheable)))

    def build(self) -> tuple[str, tuple[int, ...]]:
        """Return the text, and the offsets in characters at which the cacheable sections end."""
        text, ends = "", []
        for section in self.sections:
            text += ("\n\n" if text else "") + section.text
            if section.is_cacheable:
                ends.append(len(text))
        return text, tuple(ends)


@dataclass(frozen=True, slots=True)
class InstructionFile:
    """An instruction file as it was read."""

    path: str
    section_text: str
    """Its section of the system prompt, including the title."""
    text: str
    """Its text; empty if the file was skipped."""


@dataclass(frozen=True, slots=True)
class Instructions:
    """Sections of the system prompt. They stay byte-identical until the session ends, so that the provider's cache of
    this text stays valid even after a compaction. Notes announce later changes."""

    base_text: str
    environment: str = ""
    project: str = ""
    """Text of the project's and the user's instruction files."""
    memories: str = ""
    skills: str = ""
    """Names and one-line descriptions of the available skills."""
    appended_text: str = ""
    """Text added by the caller that started the session."""
    files: tuple[InstructionFile, ...] = ()
    """The instruction files from which `project` was built."""
    problems: tuple[str, ...] = ()
    """Notices for the user about these files, one per line."""

    @property
    def builder(self) -> PromptBuilder:
        return (
            PromptBuilder()
            .add_section("base", self.base_text, is_cacheable=True)
            .add_section("project", self.project, is_cacheable=True)
            .add_section("memories", self.memories, is_cacheable=True)
            .add_section("skills", self.skills)
            .add_section("environment", self.environment)
            .add_section("appended", self.appended_text)
        )

    @property
    def sections(self) -> tuple[PromptSection, ...]:
        """The non-empty sections in order: `base`, `project`, `memories`, `skills`, `environment`, `appended`."""
        return self.builder.sections

    @property
    def text(self) -> str:
        return self.builder.build()[0]


@dataclass(frozen=True, slots=True)
class Prompt:
    system: str
    messages: tuple[Message, ...]
    shared_prefix_chars: int = 0
    """Length of the prefix of `system` that other sessions share, in characters."""


def build_prompt(conversation: Conversation, instructions: Instructions, *, supports_images: bool = True) -> Prompt:
    """Build the system prompt and the messages of the next request: the summary, if there is one, then the
    conversation. If the model does not support images, notes replace them."""
    messages = with_supported_parts(messages_in_view(conversation), supports_images=supports_images)
    return assemble_prompt(merge_user_messages(messages), instructions)


def assemble_prompt(messages: tuple[Message, ...], instructions: Instructions) -> Prompt:
    """Build a prompt from the instructions and these messages."""
    system, ends = instructions.builder.build()
    return Prompt(system, messages, ends[-1] if ends else 0)


def with_supported_parts(messages: tuple[Message, ...], *, supports_images: bool) -> tuple[Message, ...]:
    """Replace images with notes if the model does not support images."""
    return messages if supports_images else tuple(_replace_images(message) for message in messages)


def _replace_images(message: Message) -> Message:
    if not isinstance(message, User) or not any(_has_images(part) for part in message.parts):
        return message  # keep the same object, so that values cached for it stay valid
    return User(tuple(_describe_images(part) for part in message.parts))


def _has_images(part: UserPart) -> bool:
    return isinstance(part, Image) or (isinstance(part, ToolOutput) and bool(part.images))


def _describe_images(part: UserPart) -> UserPart:
    match part:
        case Image(media_type=media_type):
            return Text(IMAGE_OMITTED_NOTE.format(media_type))
        case ToolOutput(images=images) if images:
            notes = "\n".join(IMAGE_OMITTED_NOTE.format(image.media_type) for image in images)
            return replace(part, text=f"{part.text}\n{notes}", images=())
        case _:
            return part


def merge_user_messages(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Merge adjacent user messages, because some APIs require alternating roles."""
    merged: list[Message] = []
    for message in messages:
        if merged and isinstance(message, User) and isinstance(merged[-1], User):
            merged[-1] = User(merged[-1].parts + message.parts)
        else:
            merged.append(message)
    return tuple(merged)
