"""Parses the JSON lines that a client program sends on standard input. Pure."""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, NoReturn, Protocol, TypeAlias, cast

from ebbtide.agent.channel import Answer
from ebbtide.agent.config.options import MODES, Mode
from ebbtide.agent.events.permissions import Decision, PermissionAsked, QuestionAsked
from ebbtide.agent.events.plan import PlanDecision, PlanSubmitted
from ebbtide.agent.headless.line_reader import InputLine, LineTooLong
from ebbtide.agent.headless.message_queue import UserMessage
from ebbtide.agent.hooks.declarations import DeclaredHook
from ebbtide.agent.hooks.program_calls import AskProgram
from ebbtide.agent.messages import Image, Text, User
from ebbtide.tools.files.pictures import MAX_PICTURE_BYTES, picture_type
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.schema import MAX_DEPTH, is_nested, mismatches

Question: TypeAlias = PermissionAsked | PlanSubmitted | QuestionAsked


def _line(about: str, required: Sequence[str] = (), **properties: object) -> Mapping[str, object]:
    return {
        "type": "object", "description": about, "properties": {"type": {}, **properties},
        "required": ["type", *required], "additionalProperties": False,
    }  # fmt: skip


_TEXT = {"type": "string"}
_PICTURE = {
    "type": "object", "description": "A PNG, JPEG, GIF or WebP.", "required": ["data"],
    "properties": {"media_type": _TEXT, "data": {**_TEXT, "description": "Its bytes in base64."}},
    "additionalProperties": False,
}  # fmt: skip
_VERDICTS: Mapping[type[object], Sequence[str]] = {
    PermissionAsked: ("allow", "deny", "edit"),
    PlanSubmitted: ("accept", "reject", "edit"),
}

INPUT_LINES: Mapping[str, Mapping[str, object]] = {
    "message": _line(
        "A message from the user.", ("text",),
        text=_TEXT, images={"type": "array", "items": _PICTURE},
        steer={
            "type": "boolean",
            "description": "Deliver at the next step of the running turn, instead of as a new turn.",
        },
    ),
    "answer": _line(
        "Answers a `permission_asked`, a `plan_submitted` or a `question_asked`.", ("id",),
        id={**_TEXT, "description": "The id of the question."},
        verdict={
            "enum": ["allow", "deny", "accept", "reject", "edit"],
            "description": "`allow`, `deny` or `edit` a call; `accept`, `reject` or `edit` a plan.",
        },
        text={**_TEXT, "description": "The answer to `question_asked`; one line per choice."},
        note={**_TEXT, "description": "A note to the model with `deny` or `reject`."},
        rule={**_TEXT, "description": "With `allow`: one of the question's `offers`, to remember."},
        kept={"enum": ["session", "project"], "description": "How long the rule applies."},
        arguments={"type": "object", "description": "With `edit`: the new arguments of the call."},
        mode={"enum": [*MODES], "description": "With `accept`: one of the question's `modes`."},
        plan={**_TEXT, "description": "With `accept` or `edit`: the changed plan."},
    ),
    "interrupt": _line("Interrupts the running turn; the run continues. Does nothing between turns."),
    "mode": _line("Changes the permission mode.", ("mode",), mode={"enum": [*MODES]}),
}  # fmt: skip
"""JSON Schema of each input line, by `type`."""


class RefusedLine(ValueError):
    """A line that cannot be processed, or an answer of which a part was refused. The text is the reason."""

    def __init__(self, why: str, answer: Answer | None = None) -> None:
        super().__init__(why)
        self.answer = answer
        """The valid part of the answer."""


@dataclass(frozen=True, slots=True)
class AnswerGiven:
    """An answer, not yet matched to its question."""

    id: str
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class InterruptRequest:
    """Interrupt the running turn."""


@dataclass(frozen=True, slots=True)
class ModeRequest:
    mode: Mode


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Use another model from the next turn on."""

    model: str
    """The model as written; empty for the one that the run began with."""


@dataclass(frozen=True, slots=True)
class SetupRequest:
    """Setup of the session before its first turn."""

    hooks: Sequence[DeclaredHook]
    """Hooks that are functions of the client."""
    ask: AskProgram
    system_prompt: str = ""
    """Replaces the built-in instructions; empty to use those, or the command line's."""
    append_system_prompt: str = ""
    """Appended to the instructions; empty to use the command line's."""
    schema: Mapping[str, object] | None = None
    """Schema that each answer must match; None to use the command line's."""


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """A request that gets a response."""

    id: str
    wanted: InterruptRequest | ModeRequest | ModelRequest | SetupRequest | None
    response: Mapping[str, object] = field(default_factory=dict)
    refusal: str = ""
    """Why it is refused; empty if it is not."""
    is_needed: bool = False
    """Whether the run ends if the request fails, since the client relies on it."""


InputRequest: TypeAlias = (
    UserMessage | AnswerGiven | InterruptRequest | ModeRequest | ModelRequest | SetupRequest | ControlRequest
)


class InputProtocol(Protocol):
    """An input format."""

    def read(self, line: InputLine) -> InputRequest | None:
        """Parse a line; None if it needs no action. Raises `RefusedLine`."""

    def answer(self, question: Question, said: Mapping[str, Any]) -> Answer:
        """Convert an answer to one for its question. Raises `RefusedLine`."""

    def answer_at_once(self, question: Question) -> Answer | None:
        """Return the answer to a question that need not be asked."""

    def end(self) -> None:
        """Handle the end of the input."""


class StreamInput:
    """The `stream-json` input format."""

    def read(self, line: InputLine) -> InputRequest | None:
        return read_line(line)

    def answer(self, question: Question, said: Mapping[str, Any]) -> Answer:
        return answer_to(question, said)

    def answer_at_once(self, question: Question) -> Answer | None:
        return None

    def end(self) -> None:
        """Nothing to clean up."""


def read_line(line: InputLine) -> InputRequest | None:
    """Parse a line; None if it is empty. Raises `RefusedLine`."""
    value = json_object(line)
    if value is None:
        return None
    kind = value.get("type")
    schema = INPUT_LINES.get(kind) if isinstance(kind, str) else None
    if schema is None:
        known = ", ".join(f"`{name}`" for name in INPUT_LINES)
        raise RefusedLine(f"its `type` is {json.dumps(kind)[:80]}, but must be one of {known}")
    if problems := mismatches(value, schema):
        raise RefusedLine(f"it is not a valid `{kind}`: {'; '.join(problems)}")
    match kind:
        case "message":
            return _message(value)
        case "answer":
            return AnswerGiven(value["id"], value)
        case "mode":
            return ModeRequest(cast(Mode, value["mode"]))
        case _:
            return InterruptRequest()


def json_object(line: InputLine) -> Mapping[str, Any] | None:
    """Parse a line as a JSON object; None if it is empty. Raises `RefusedLine`."""
    if isinstance(line, LineTooLong):
        raise RefusedLine(
            f"it has {line.size:,} bytes, more than the limit of 64 MB; write the content to a file and mention it"
        )
    try:
        text = line.decode("utf-8").strip()
        value = json.loads(text, parse_constant=_refuse) if text else None
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise RefusedLine(f"it is not UTF-8 (byte {error.start} is 0x{line[error.start]:02x})") from error
    except UnicodeEncodeError as error:
        raise RefusedLine("it contains half of a surrogate pair") from error
    except (ValueError, RecursionError) as error:
        raise RefusedLine(f"it is not JSON: {error}") from error
    if text and not isinstance(value, dict):
        raise RefusedLine("it must be a JSON object")
    if is_nested(value, MAX_DEPTH):
        raise RefusedLine(f"it nests deeper than {MAX_DEPTH} levels")
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")


def _message(value: Mapping[str, Any]) -> UserMessage:
    images = tuple(picture(one["data"]) for one in value.get("images", ()))
    if not value["text"].strip():
        raise RefusedLine("its `text` is empty")
    return UserMessage(User((Text(value["text"]), *images)), value.get("steer", False))


def picture(data: str) -> Image:
    """Decode a base64 image. Raises `RefusedLine`."""
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RefusedLine(f"an image is not base64: {error}") from error
    kind = picture_type(raw)
    if kind is None:
        raise RefusedLine("models do not accept this kind of image: use PNG, JPEG, GIF or WebP")
    if len(raw) > MAX_PICTURE_BYTES:
        raise RefusedLine("an image is larger than 3.9 MB: scale it down first")
    return Image(kind, data)


def answer_to(question: Question, said: Mapping[str, Any]) -> Answer:
    """Convert an `answer` line to an answer for its question. Raises `RefusedLine`."""
    verdict: Any = said.get("verdict")
    note = said.get("note", "")
    if isinstance(question, QuestionAsked):
        if not isinstance(said.get("text"), str):
            raise RefusedLine(f"`{question.id}` is a free-text question: answer it with `text`")
        return str(said["text"])
    verdicts = _VERDICTS[type(question)]
    if verdict not in verdicts:
        wanted = ", ".join(f"`{one}`" for one in verdicts)
        raise RefusedLine(f"the `verdict` on `{question.id}` must be one of {wanted}")
    if isinstance(question, PlanSubmitted):
        mode = said.get("mode", "")
        if mode and mode not in question.modes:
            raise RefusedLine(f"the `mode` must be one of {', '.join(f'`{one}`' for one in question.modes)}")
        if verdict == "edit" and not said.get("plan"):
            raise RefusedLine("`edit` needs the changed `plan`")
        return PlanDecision(verdict, mode, said.get("plan", ""), note)
    rule = said.get("rule", "")
    if rule and rule not in question.offers:
        raise RefusedLine(f"the `rule` must be one of the `offers` of `{question.id}`")
    if verdict == "edit" and said.get("arguments") is None:
        raise RefusedLine("`edit` needs the changed `arguments`")
    return Decision(verdict, rule, note, said.get("kept", "session"), said.get("arguments"))


def no_answer_to(question: Question) -> Answer:
    """The answer after the end of the input: no."""
    match question:
        case PermissionAsked():
            return Decision("deny", note=_INPUT_ENDED)
        case PlanSubmitted():
            return PlanDecision("reject", note=_INPUT_ENDED)
        case QuestionAsked():
            return f"({_INPUT_ENDED})"


_INPUT_ENDED = "no answer is possible: the input of this run has ended"
