"""Parses the JSON lines that a client program sends on standard input. No I/O."""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, NoReturn, Protocol, TypeAlias, cast

from ebbtide.agent.channel import Answer
from ebbtide.agent.config.options import PERMISSION_MODES, PermissionMode
from ebbtide.agent.events.permissions import Decision, PermissionAsked, QuestionAsked
from ebbtide.agent.events.plan import PlanDecision, PlanSubmitted
from ebbtide.agent.headless.line_reader import InputLine, OversizedLine
from ebbtide.agent.headless.message_queue import UserMessage
from ebbtide.agent.hooks.declarations import DeclaredHook
from ebbtide.agent.hooks.judges import CallClient
from ebbtide.agent.messages import Image, Text, User
from ebbtide.tools.call_arguments.schema import MAX_NESTING_DEPTH, is_nested_deeper, schema_violations
from ebbtide.tools.files.image_types import MAX_IMAGE_BYTES, image_type
from ebbtide.tools.lazy import dataclass

Question: TypeAlias = PermissionAsked | PlanSubmitted | QuestionAsked


def _line_schema(description: str, required: Sequence[str] = (), **properties: object) -> Mapping[str, object]:
    return {
        "type": "object", "description": description, "properties": {"type": {}, **properties},
        "required": ["type", *required], "additionalProperties": False,
    }  # fmt: skip


_STRING_SCHEMA = {"type": "string"}
_IMAGE_SCHEMA = {
    "type": "object", "description": "A PNG, JPEG, GIF or WebP.", "required": ["data"],
    "properties": {"media_type": _STRING_SCHEMA, "data": {**_STRING_SCHEMA, "description": "Its bytes in base64."}},
    "additionalProperties": False,
}  # fmt: skip
_VERDICTS: Mapping[type[object], Sequence[str]] = {
    PermissionAsked: ("allow", "deny", "edit"),
    PlanSubmitted: ("accept", "reject", "edit"),
}

INPUT_LINE_SCHEMAS: Mapping[str, Mapping[str, object]] = {
    "message": _line_schema(
        "A message from the user.", ("text",),
        text=_STRING_SCHEMA, images={"type": "array", "items": _IMAGE_SCHEMA},
        steer={
            "type": "boolean",
            "description": "Deliver at the next step of the running turn, instead of as a new turn.",
        },
    ),
    "answer": _line_schema(
        "Answers a `permission_asked`, a `plan_submitted` or a `question_asked`.", ("id",),
        id={**_STRING_SCHEMA, "description": "The id of the question."},
        verdict={
            "enum": ["allow", "deny", "accept", "reject", "edit"],
            "description": "`allow`, `deny` or `edit` a call; `accept`, `reject` or `edit` a plan.",
        },
        text={**_STRING_SCHEMA, "description": "The answer to `question_asked`; one line per choice."},
        note={**_STRING_SCHEMA, "description": "A note to the model with `deny` or `reject`."},
        rule={**_STRING_SCHEMA, "description": "With `allow`: one of the question's `offers`, to remember."},
        kept={"enum": ["session", "project"], "description": "How long the rule applies."},
        arguments={"type": "object", "description": "With `edit`: the new arguments of the call."},
        mode={"enum": [*PERMISSION_MODES], "description": "With `accept`: one of the question's `modes`."},
        plan={**_STRING_SCHEMA, "description": "With `accept` or `edit`: the changed plan."},
    ),
    "interrupt": _line_schema("Interrupts the running turn; the run continues. Does nothing between turns."),
    "mode": _line_schema("Changes the permission mode.", ("mode",), mode={"enum": [*PERMISSION_MODES]}),
}  # fmt: skip
"""JSON Schema of each input line, by `type`."""


class RefusedLineError(ValueError):
    """An input line cannot be processed, or part of an answer is invalid. The message gives the reason."""

    def __init__(self, reason: str, answer: Answer | None = None) -> None:
        super().__init__(reason)
        self.answer = answer
        """The valid part of the answer."""


@dataclass(frozen=True, slots=True)
class ClientAnswer:
    """An answer, not yet matched to its question."""

    id: str
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class InterruptRequest:
    """A request to interrupt the running turn."""


@dataclass(frozen=True, slots=True)
class ModeRequest:
    mode: PermissionMode


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request to use another model from the next turn on."""

    model: str
    """The model as the client wrote it; empty for the model with which the run began."""


@dataclass(frozen=True, slots=True)
class SetupRequest:
    """A request to set up the session before its first turn."""

    hooks: Sequence[DeclaredHook]
    """Hooks that the client implements as functions."""
    call_client_hook: CallClient
    system_prompt: str = ""
    """Replaces the built-in system prompt. If empty, the command line's replacement or the built-in prompt applies."""
    append_system_prompt: str = ""
    """Appended to the system prompt. If empty, the command line's text is appended."""
    schema: Mapping[str, object] | None = None
    """Schema that each answer must match; if None, the command line's schema applies."""


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """A request that gets a response."""

    id: str
    action: InterruptRequest | ModeRequest | ModelRequest | SetupRequest | None
    response: Mapping[str, object] = field(default_factory=dict)
    refusal: str = ""
    """Why the request is refused; empty if it is accepted."""
    is_required: bool = False
    """Whether the run must end if the request fails, because the client relies on it."""


InputRequest: TypeAlias = (
    UserMessage | ClientAnswer | InterruptRequest | ModeRequest | ModelRequest | SetupRequest | ControlRequest
)


class InputProtocol(Protocol):
    """An input format."""

    def parse_line(self, line: InputLine) -> InputRequest | None:
        """Parse a line; None if it requires no action. Raises `RefusedLineError`."""

    def convert_answer(self, question: Question, content: Mapping[str, Any]) -> Answer:
        """Convert an answer to the form that the question expects. Raises `RefusedLineError`."""

    def answer_without_client(self, question: Question) -> Answer | None:
        """Return the answer to a question that can be answered without the client; None if the client must answer
        it."""

    def end_input(self) -> None:
        """Handle the end of the input."""


class StreamInput:
    """The `stream-json` input format."""

    def parse_line(self, line: InputLine) -> InputRequest | None:
        return parse_line(line)

    def convert_answer(self, question: Question, content: Mapping[str, Any]) -> Answer:
        return convert_answer(question, content)

    def answer_without_client(self, question: Question) -> Answer | None:
        return None

    def end_input(self) -> None:
        """Do nothing: this format needs no cleanup."""


def parse_line(line: InputLine) -> InputRequest | None:
    """Parse a line; None if it is empty. Raises `RefusedLineError`."""
    value = parse_json_object(line)
    if value is None:
        return None
    kind = value.get("type")
    schema = INPUT_LINE_SCHEMAS.get(kind) if isinstance(kind, str) else None
    if schema is None:
        known_types = ", ".join(f"`{name}`" for name in INPUT_LINE_SCHEMAS)
        raise RefusedLineError(f"its `type` is {json.dumps(kind)[:80]}, but must be one of {known_types}")
    if problems := schema_violations(value, schema):
        raise RefusedLineError(f"it is not a valid `{kind}`: {'; '.join(problems)}")
    match kind:
        case "message":
            return _parse_message(value)
        case "answer":
            return ClientAnswer(value["id"], value)
        case "mode":
            return ModeRequest(cast(PermissionMode, value["mode"]))
        case _:
            return InterruptRequest()


def parse_json_object(line: InputLine) -> Mapping[str, Any] | None:
    """Parse a line as a JSON object; None if it is empty. Raises `RefusedLineError`."""
    if isinstance(line, OversizedLine):
        raise RefusedLineError(
            f"it has {line.byte_count:,} bytes, more than the limit of 64 MB; write the content to a file and "
            "mention it"
        )
    try:
        text = line.decode("utf-8").strip()
        value = json.loads(text, parse_constant=_reject_constant) if text else None
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise RefusedLineError(f"it is not UTF-8 (byte {error.start} is 0x{line[error.start]:02x})") from error
    except UnicodeEncodeError as error:
        raise RefusedLineError("it contains half of a surrogate pair") from error
    except (ValueError, RecursionError) as error:
        raise RefusedLineError(f"it is not JSON: {error}") from error
    if text and not isinstance(value, dict):
        raise RefusedLineError("it must be a JSON object")
    if is_nested_deeper(value, MAX_NESTING_DEPTH):
        raise RefusedLineError(f"it nests deeper than {MAX_NESTING_DEPTH} levels")
    return value


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")


def _parse_message(value: Mapping[str, Any]) -> UserMessage:
    images = tuple(image_from_base64(image["data"]) for image in value.get("images", ()))
    if not value["text"].strip():
        raise RefusedLineError("its `text` is empty")
    return UserMessage(User((Text(value["text"]), *images)), value.get("steer", False))


def image_from_base64(data: str) -> Image:
    """Decode a base64 image. Raises `RefusedLineError`."""
    try:
        image_bytes = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RefusedLineError(f"an image is not base64: {error}") from error
    media_type = image_type(image_bytes)
    if media_type is None:
        raise RefusedLineError("models do not accept this kind of image: use PNG, JPEG, GIF or WebP")
    if len(image_bytes) > MAX_IMAGE_BYTES:
        raise RefusedLineError("an image is larger than 3.9 MB: scale it down first")
    return Image(media_type, data)


def convert_answer(question: Question, content: Mapping[str, Any]) -> Answer:
    """Convert an `answer` line to an answer for its question. Raises `RefusedLineError`."""
    verdict: Any = content.get("verdict")
    note = content.get("note", "")
    if isinstance(question, QuestionAsked):
        if not isinstance(content.get("text"), str):
            raise RefusedLineError(f"`{question.id}` is a free-text question: answer it with `text`")
        return str(content["text"])
    verdicts = _VERDICTS[type(question)]
    if verdict not in verdicts:
        expected = ", ".join(f"`{name}`" for name in verdicts)
        raise RefusedLineError(f"the `verdict` on `{question.id}` must be one of {expected}")
    if isinstance(question, PlanSubmitted):
        mode = content.get("mode", "")
        if mode and mode not in question.modes:
            raise RefusedLineError(f"the `mode` must be one of {', '.join(f'`{name}`' for name in question.modes)}")
        if verdict == "edit" and not content.get("plan"):
            raise RefusedLineError("`edit` needs the changed `plan`")
        return PlanDecision(verdict, mode, content.get("plan", ""), note)
    rule = content.get("rule", "")
    if rule and rule not in question.offers:
        raise RefusedLineError(f"the `rule` must be one of the `offers` of `{question.id}`")
    if verdict == "edit" and content.get("arguments") is None:
        raise RefusedLineError("`edit` needs the changed `arguments`")
    return Decision(verdict, rule, note, content.get("kept", "session"), content.get("arguments"))


def refusal_at_end_of_input(question: Question) -> Answer:
    """Return a refusal, with the reason, for a question that is still open when the input ends."""
    match question:
        case PermissionAsked():
            return Decision("deny", note=_INPUT_ENDED_NOTE)
        case PlanSubmitted():
            return PlanDecision("reject", note=_INPUT_ENDED_NOTE)
        case QuestionAsked():
            return f"({_INPUT_ENDED_NOTE})"


_INPUT_ENDED_NOTE = "no answer is possible: the input of this run has ended"
