"""A session as a transcript: message by message, each call with its output, without secrets. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ebbtide.agent.messages import Assistant, Message, ToolCall, ToolOutput, User
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.plain_text import plain
from ebbtide.tools.secrets.redaction import REDACTION_MARK, hidden_forms, without_secrets

LONGEST_OUTPUT = 20_000
"""Longest output shown to people, in characters."""

_HIDING = regex(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a page must not contain, and those that change the direction or appearance of text."""


@dataclass(frozen=True, slots=True)
class SessionAbout:
    """Facts about a session, apart from its messages."""

    id: str
    title: str
    model: str
    project: str = ""
    messages: int = 0
    cost: float | None = 0.0
    """US dollars; None if the price of any request is unknown."""
    created: float | None = None
    """Unix seconds, as below."""
    updated: float | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PositionedMessage:
    """A message with its position."""

    position: int
    message: Message
    at: float | None = None
    """When it was stored, in Unix seconds, if known."""


@dataclass(frozen=True, slots=True)
class AgentTalk:
    """The session of a sub-agent."""

    name: str
    about: SessionAbout
    prompt: str
    entries: Callable[[], Iterable[PositionedMessage]]

    def was_sent_by(self, call: ToolCall, output: ToolOutput | None) -> bool:
        """Whether this call started the sub-agent: its output refers to the sub-agent's session, or its prompt is
        the same."""
        is_named = output is not None and f"/{self.about.id}/" in output.text
        return call.name == "task" and (is_named or call.arguments.get("prompt") == self.prompt)


@dataclass(frozen=True, slots=True)
class TranscriptEntries:
    """A message with its outputs."""

    entry: PositionedMessage
    outputs: Mapping[str, ToolOutput]
    """For a reply, the outputs of its calls by id; for a user message, outputs without a known call."""


def transcript_entries(entries: Iterable[PositionedMessage]) -> Iterator[TranscriptEntries]:
    """Yield each message with the outputs of its calls, which are in the next message."""
    before: PositionedMessage | None = None
    answered: frozenset[str] = frozenset()
    for entry in entries:
        if before is not None:
            told = _outputs_for(before, entry, answered)
            yield TranscriptEntries(before, told)
            answered = frozenset(told) if isinstance(before.message, Assistant) else frozenset()
        before = entry
    if before is not None:
        yield TranscriptEntries(before, _outputs_for(before, None, answered))


def _outputs_for(
    entry: PositionedMessage, after: PositionedMessage | None, answered: frozenset[str]
) -> dict[str, ToolOutput]:
    match entry.message, after.message if after is not None else None:
        case Assistant() as reply, User() as user:
            ids = {call.id for call in reply.calls}
            return {output.call_id: output for output in user.outputs if output.call_id in ids}
        case User() as user, _:
            return {output.call_id: output for output in user.outputs if output.call_id not in answered}
        case _:
            return {}


class Redact:
    """Removes secrets from texts: those of an environment, and anything that looks like one."""

    def __init__(self, environment: Mapping[str, str] | None) -> None:
        """Without an environment, texts are unchanged."""
        self._forms = None if environment is None else hidden_forms(environment)

    def __call__(self, text: str) -> str:
        return text if self._forms is None else without_secrets(text, self._forms)

    def value(self, value: object, name: str = "") -> object:
        """A JSON value without secrets in its texts. `name`: the name of its field, which may indicate a secret."""
        if self._forms is None:
            return value
        match value:
            case str() if name:
                said = f"{name}: "
                hidden = self(said + value)
                return hidden.removeprefix(said) if hidden.startswith(said) else REDACTION_MARK
            case str():
                return self(value)
            case Mapping():
                return {self(str(key)): self.value(inner, str(key)) for key, inner in value.items()}
            case list() | tuple():
                return [self.value(inner, name) for inner in value]
            case _:
                return value


def printable_text(text: str) -> str:
    """A text that is safe on a page: without terminal control sequences and characters that change how it is read."""
    return _HIDING.sub("\N{REPLACEMENT CHARACTER}", plain(text))


def cost_text(cost: float | None) -> str:
    """US dollars in words."""
    return "unknown" if cost is None else f"${cost:.4f}" if 0 < cost < 0.1 else f"${cost:.2f}"
