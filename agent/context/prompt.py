"""What the model is told, from the instructions and the conversation. Pure: it reads no file and no clock."""

from dataclasses import replace

from ebbtide.agent.context.mask import visible_messages
from ebbtide.agent.context.summary import summary_messages
from ebbtide.agent.messages import Conversation, Image, Message, Text, ToolOutput, User, UserPart
from ebbtide.tools.lazy import dataclass

NO_IMAGES = "[an image ({}) is left out: this model takes no images]"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the system text."""

    name: str
    text: str
    cacheable: bool
    """Whether other sessions of the project begin with the same bytes."""


@dataclass(frozen=True, slots=True)
class PromptBuilder:
    """Puts the sections of a system text together: the cacheable ones first, otherwise in the order they came."""

    sections: tuple[Section, ...] = ()

    def plus(self, name: str, text: str, *, cacheable: bool = False) -> "PromptBuilder":
        """This builder with one more section; an empty one is left out."""
        if not text:
            return self
        added = (*self.sections, Section(name, text, cacheable))
        return PromptBuilder(tuple(sorted(added, key=lambda section: not section.cacheable)))

    def build(self) -> tuple[str, tuple[int, ...]]:
        """The text, and where in it each cacheable section ends, counted in characters from its beginning."""
        text, ends = "", []
        for section in self.sections:
            text += ("\n\n" if text else "") + section.text
            if section.cacheable:
                ends.append(len(text))
        return text, tuple(ends)


@dataclass(frozen=True, slots=True)
class InstructionFile:
    """A file that says how to work here, as it was read."""

    path: str
    section: str
    """How it stands in the system text, its title included."""
    text: str
    """What it said; empty where it was left out."""


@dataclass(frozen=True, slots=True)
class Instructions:
    """The sections of the system text. They stay the same bytes until the session ends: what changes meanwhile is told
    in notes, so that even a compaction leaves the provider's cache of this text alone."""

    base: str
    environment: str = ""
    project: str = ""
    """What the instruction files of the project and the user say."""
    memories: str = ""
    skills: str = ""
    """Names and one-line descriptions of the skills that may be read."""
    appended: str = ""
    """What whoever started the session has to say besides."""
    files: tuple[InstructionFile, ...] = ()
    """Those that `project` is made of."""
    problems: tuple[str, ...] = ()
    """What the user should know of them, a line each."""

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
        """What there is, in order: `base`, `project`, `memories`, `skills`, `environment`, `appended`."""
        return self.builder.sections

    @property
    def text(self) -> str:
        return self.builder.build()[0]


@dataclass(frozen=True, slots=True)
class Prompt:
    system: str
    messages: tuple[Message, ...]
    stable: int = 0
    """Characters of `system` that other sessions of the project begin with, too."""


def build_prompt(conversation: Conversation, instructions: Instructions, *, images: bool = True) -> Prompt:
    """The next request's system text and messages: the summary first, when there is one, then the conversation. For a
    model that takes no images, a note stands in the place of each."""
    messages = for_model((*summary_messages(conversation.summary), *visible_messages(conversation)), images=images)
    return put_together(merge_users(messages), instructions)


def put_together(messages: tuple[Message, ...], instructions: Instructions) -> Prompt:
    """The prompt with these messages."""
    system, ends = instructions.builder.build()
    return Prompt(system, messages, ends[-1] if ends else 0)


def for_model(messages: tuple[Message, ...], *, images: bool) -> tuple[Message, ...]:
    """The messages as a model sees them that takes images, or takes none."""
    return messages if images else tuple(_without_images(message) for message in messages)


def _without_images(message: Message) -> Message:
    if not isinstance(message, User) or not any(_has_images(part) for part in message.parts):
        return message  # the same object: what is known of it stays known
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
    """The same messages with neighbouring user messages joined, since some wires want the roles to alternate."""
    merged: list[Message] = []
    for message in messages:
        if merged and isinstance(message, User) and isinstance(merged[-1], User):
            merged[-1] = User(merged[-1].parts + message.parts)
        else:
            merged.append(message)
    return tuple(merged)
