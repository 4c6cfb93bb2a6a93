"""A session as a transcript: message by message, each call with its output, without secrets. No I/O."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TypeVar, cast

from ebbtide.agent.messages import Assistant, Message, ToolCall, ToolOutput, User
from ebbtide.agent.records.usage import RequestUsage, Rewrite
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.plain_text import terminal_text
from ebbtide.tools.secrets.redaction import REDACTION_MARK, redact_secrets, secret_names_by_encoding
from ebbtide.tools.tool_traits import role_of

MAX_OUTPUT_CHARS = 20_000
"""Maximum length of an output on a page, in characters."""

_UNSAFE_CHARS = regex(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, which a page must not contain, and characters that change the direction or appearance of text."""

_UNREDACTED_FIELDS = {"native", "source", "data", "digest"}
"""Fields that are never exported, or that contain no readable text."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SessionDetails:
    """Metadata of a session."""

    id: str
    title: str
    model: str
    project: str = ""
    messages: int = 0
    cost: float | None = 0.0
    """US dollars; None if the price of any request is unknown."""
    created: float | None = None
    """Creation time, in Unix seconds, if known."""
    updated: float | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PositionedMessage:
    """A message with its position."""

    position: int
    message: Message
    timestamp: float | None = None
    """When it was stored, in Unix seconds, if known."""


@dataclass(frozen=True, slots=True)
class AgentTranscript:
    """The session of a sub-agent."""

    name: str
    details: SessionDetails
    prompt: str
    entries: Callable[[], Iterable[PositionedMessage]]

    def was_started_by(self, call: ToolCall, output: ToolOutput | None) -> bool:
        """Whether this call started the sub-agent: its output refers to the sub-agent's session, or it has the
        sub-agent's prompt."""
        has_reference = output is not None and f"/{self.details.id}/" in output.text
        return role_of(call.name) == "start_agent" and (has_reference or call.arguments.get("prompt") == self.prompt)


@dataclass(frozen=True, slots=True)
class MessageWithOutputs:
    """A message with the outputs that are displayed with it."""

    entry: PositionedMessage
    outputs: Mapping[str, ToolOutput]
    """For a reply, the outputs of its calls by id; for a user message, outputs without a known call."""


def messages_with_outputs(entries: Iterable[PositionedMessage]) -> Iterator[MessageWithOutputs]:
    """Yield each message with the outputs of its calls, which are in the next message."""
    previous: PositionedMessage | None = None
    answered_ids: frozenset[str] = frozenset()
    for entry in entries:
        if previous is not None:
            outputs = _outputs_for(previous, entry, answered_ids)
            yield MessageWithOutputs(previous, outputs)
            answered_ids = frozenset(outputs) if isinstance(previous.message, Assistant) else frozenset()
        previous = entry
    if previous is not None:
        yield MessageWithOutputs(previous, _outputs_for(previous, None, answered_ids))


def _outputs_for(
    entry: PositionedMessage, next_entry: PositionedMessage | None, answered_ids: frozenset[str]
) -> dict[str, ToolOutput]:
    match entry.message, next_entry.message if next_entry is not None else None:
        case Assistant() as reply, User() as user:
            call_ids = {call.id for call in reply.calls}
            return {output.call_id: output for output in user.outputs if output.call_id in call_ids}
        case User() as user, _:
            return {output.call_id: output for output in user.outputs if output.call_id not in answered_ids}
        case _:
            return {}


@dataclass(frozen=True, slots=True)
class ReadableSession:
    """All exported content of a session. Each call to `entries` or `requests` reads the data again, in order."""

    details: SessionDetails
    entries: Callable[[], Iterable[PositionedMessage]]
    requests: Callable[[], Iterable[RequestUsage]] = tuple
    request_count: int = 0
    rewrites: Sequence[Rewrite] = ()
    token_limit: int | None = None
    """Token limit of a request, if known."""
    agents: Sequence[AgentTranscript] = ()
    """Its sub-agents, oldest first."""
    is_redacted: bool = False
    """Whether its secrets were removed."""


class Redactor:
    """Removes secrets from text: those in an environment, and anything that looks like a secret."""

    def __init__(self, environment: Mapping[str, str] | None, clean_text: Callable[[str], str] = str) -> None:
        """If `environment` is None, secrets are not removed. `clean_text` is applied to each text first."""
        self._secret_names = None if environment is None else secret_names_by_encoding(environment)
        self._clean = clean_text

    def __call__(self, text: str) -> str:
        cleaned = self._clean(text)
        return cleaned if self._secret_names is None else redact_secrets(cleaned, self._secret_names)

    def redact_session(self, session: ReadableSession) -> ReadableSession:
        return replace(
            session,
            details=self.redact_value(session.details),
            entries=lambda: map(self.redact_value, session.entries()),
            rewrites=self.redact_value(tuple(session.rewrites)),
            agents=tuple(map(self._redacted_agent, session.agents)),
            is_redacted=self._secret_names is not None,
        )

    def _redacted_agent(self, agent: AgentTranscript) -> AgentTranscript:
        return replace(self.redact_value(agent), entries=lambda: map(self.redact_value, agent.entries()))

    def redact_value(self, value: T, name: str = "") -> T:
        """Remove the secrets from the strings in a JSON value or dataclass. `name`: the name of the value's field,
        which may indicate a secret."""
        result: object
        match value:
            case str() if name:
                label = f"{name}: "
                redacted = self(label + value)
                result = redacted.removeprefix(label) if redacted.startswith(label) else REDACTION_MARK
            case str():
                result = self(value)
            case Mapping():
                result = {self(str(key)): self.redact_value(item, str(key)) for key, item in value.items()}
            case list() | tuple():
                result = type(value)(self.redact_value(item, name) for item in value)
            case _ if is_dataclass(value) and not isinstance(value, type):
                redacted_fields = [field.name for field in fields(value) if field.name not in _UNREDACTED_FIELDS]
                result = replace(
                    value, **{field: self.redact_value(getattr(value, field), field) for field in redacted_fields}
                )
            case _:
                result = value
        return cast(T, result)


def arguments_as_run(call: ToolCall, output: ToolOutput | None) -> Mapping[str, object]:
    """Return the arguments that a call was run with."""
    return output.edited if output is not None and output.edited is not None else call.arguments


def arguments_text(arguments: Mapping[str, object]) -> tuple[str, str]:
    """Return the call's command, or all its arguments as JSON. The second value is the language of that text."""
    command = arguments.get("command")
    if isinstance(command, str):
        return command, "sh"
    return json.dumps(arguments, ensure_ascii=False, indent=2, default=str), "json"


def printable_text(text: str) -> str:
    """Make text safe for a page: remove terminal control sequences, and replace characters that change how the text is
    read."""
    return _UNSAFE_CHARS.sub("\N{REPLACEMENT CHARACTER}", terminal_text(text))


def cost_text(cost: float | None) -> str:
    """Return an amount of US dollars as text; `unknown` for None."""
    return "unknown" if cost is None else f"${cost:.4f}" if 0 < cost < 0.1 else f"${cost:.2f}"
