"""What a program says to a run on standard input: JSON lines, made into requests. Pure."""

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
        "What the user says.", ("text",),
        text=_TEXT, images={"type": "array", "items": _PICTURE},
        steer={
            "type": "boolean",
            "description": "It is told with the next step of the turn that runs; otherwise it is a turn of its own.",
        },
    ),
    "answer": _line(
        "Answers a `permission_asked`, a `plan_submitted` or a `question_asked`.", ("id",),
        id={**_TEXT, "description": "That of the question."},
        verdict={
            "enum": ["allow", "deny", "accept", "reject", "edit"],
            "description": "`allow`, `deny` or `edit` a call; `accept`, `reject` or `edit` a plan.",
        },
        text={**_TEXT, "description": "The answer to `question_asked`; a line for each choice."},
        note={**_TEXT, "description": "A word to the model with a `deny` or a `reject`."},
        rule={**_TEXT, "description": "With `allow`: one of the `offers` of the question, to be kept."},
        kept={"enum": ["session", "project"], "description": "How long the rule is kept."},
        arguments={"type": "object", "description": "With `edit`: what the call is to be run with."},
        mode={"enum": [*MODES], "description": "With `accept`: one of the `modes` of the question."},
        plan={**_TEXT, "description": "With `accept` or `edit`: the plan as it was changed."},
    ),
    "interrupt": _line("Ends the turn that runs; the run goes on. Between two turns it does nothing."),
    "mode": _line("What may run without a question from now on.", ("mode",), mode={"enum": [*MODES]}),
}  # fmt: skip
"""JSON Schema of each line that is taken, by its `type`."""


class RefusedLine(ValueError):
    """A line that says nothing that can be done, or an answer of which a part is not done. The text is why."""

    def __init__(self, why: str, answer: Answer | None = None) -> None:
        super().__init__(why)
        self.answer = answer
        """What holds of it all the same."""


@dataclass(frozen=True, slots=True)
class AnswerGiven:
    """An answer, before it is known to which kind of question."""

    id: str
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class InterruptRequest:
    """The turn is to end."""


@dataclass(frozen=True, slots=True)
class ModeRequest:
    mode: Mode


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Turns from now on are to be answered by another model."""

    model: str
    """As it is written; empty: the one that the run began with."""


@dataclass(frozen=True, slots=True)
class SetupRequest:
    """How the session is to be before its first turn."""

    hooks: Sequence[DeclaredHook]
    """Those that are functions of the program."""
    ask: AskProgram
    system_prompt: str = ""
    """In place of the program's own instructions; empty: those, or what the command line says."""
    append_system_prompt: str = ""
    """Likewise, besides."""
    schema: Mapping[str, object] | None = None
    """That each answer must meet; None: what the command line says."""


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """A request that is answered when it is done."""

    id: str
    wanted: InterruptRequest | ModeRequest | ModelRequest | SetupRequest | None
    response: Mapping[str, object] = field(default_factory=dict)
    refusal: str = ""
    """Why it is not done."""
    is_needed: bool = False
    """The run ends where it is not done: what the program relies on would be missing."""


InputRequest: TypeAlias = (
    UserMessage | AnswerGiven | InterruptRequest | ModeRequest | ModelRequest | SetupRequest | ControlRequest
)


class InputProtocol(Protocol):
    """The lines of a program, in one of the forms that there are."""

    def read(self, line: InputLine) -> InputRequest | None:
        """What a line asks for; None where nothing follows. Raises `RefusedLine`."""

    def answer(self, question: Question, said: Mapping[str, Any]) -> Answer:
        """What an answer means for the question that it is about. Raises `RefusedLine`."""

    def answer_at_once(self, question: Question) -> Answer | None:
        """The answer to a question that need not be put."""

    def end(self) -> None:
        """The program says nothing more."""


class StreamInput:
    """The lines of `stream-json`."""

    def read(self, line: InputLine) -> InputRequest | None:
        return read_line(line)

    def answer(self, question: Question, said: Mapping[str, Any]) -> Answer:
        return answer_to(question, said)

    def answer_at_once(self, question: Question) -> Answer | None:
        return None

    def end(self) -> None:
        """Nobody waits for what it would say."""


def read_line(line: InputLine) -> InputRequest | None:
    """What a line asks for; None for an empty one. Raises `RefusedLine`."""
    value = json_object(line)
    if value is None:
        return None
    kind = value.get("type")
    schema = INPUT_LINES.get(kind) if isinstance(kind, str) else None
    if schema is None:
        known = ", ".join(f"`{name}`" for name in INPUT_LINES)
        raise RefusedLine(f"its `type` is {json.dumps(kind)[:80]}, but must be one of {known}")
    if problems := mismatches(value, schema):
        raise RefusedLine(f"it is no `{kind}`: {'; '.join(problems)}")
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
    """The object that a line holds; None for an empty one. Raises `RefusedLine`."""
    if isinstance(line, LineTooLong):
        raise RefusedLine(f"it has {line.size:,} bytes, and 64 MB are the most; write the rest to a file and name that")
    try:
        text = line.decode("utf-8").strip()
        value = json.loads(text, parse_constant=_refuse) if text else None
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise RefusedLine(f"it is not UTF-8 (byte {error.start} is 0x{line[error.start]:02x})") from error
    except UnicodeEncodeError as error:
        raise RefusedLine("it holds half of a surrogate pair") from error
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
    """The image of a base64 text. Raises `RefusedLine`."""
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
    """What a line of type `answer` means for the question that it is about. Raises `RefusedLine`."""
    verdict: Any = said.get("verdict")
    note = said.get("note", "")
    if isinstance(question, QuestionAsked):
        if not isinstance(said.get("text"), str):
            raise RefusedLine(f"`{question.id}` is a question in words: answer it with `text`")
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
            raise RefusedLine("with `edit` the `plan` is needed as it was changed")
        return PlanDecision(verdict, mode, said.get("plan", ""), note)
    rule = said.get("rule", "")
    if rule and rule not in question.offers:
        raise RefusedLine(f"the `rule` must be one of the `offers` of `{question.id}`")
    if verdict == "edit" and said.get("arguments") is None:
        raise RefusedLine("with `edit` the `arguments` are needed as they were changed")
    return Decision(verdict, rule, note, said.get("kept", "session"), said.get("arguments"))


def no_answer_to(question: Question) -> Answer:
    """The answer where nobody is there any more to give one: no."""
    match question:
        case PermissionAsked():
            return Decision("deny", note=_INPUT_ENDED)
        case PlanSubmitted():
            return PlanDecision("reject", note=_INPUT_ENDED)
        case QuestionAsked():
            return f"({_INPUT_ENDED})"


_INPUT_ENDED = "nobody is there to answer any more: the input of this run has ended"
