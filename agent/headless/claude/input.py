"""What a program says that is written for Claude Code: messages, control requests and answers, as JSON lines."""

from collections.abc import Iterator, Mapping
from typing import Any

from agent.calls.argument_aliases import our_arguments
from agent.channel import Answer
from agent.events.plan import PlanDecision, PlanSubmitted
from agent.events.session import Decision, PermissionAsked, QuestionAsked
from agent.headless.claude.messages import OUR_MODES, claude_call
from agent.headless.input_messages import (
    AnswerGiven,
    ControlRequest,
    InputRequest,
    InterruptWanted,
    ModeWanted,
    Question,
    RefusedLine,
    json_object,
    picture,
)
from agent.headless.line_reader import InputLine
from agent.headless.message_queue import UserMessage
from agent.messages import Image, Text, User
from tools.base import ToolError
from tools.catalog import builtin_tools

_UNHEARD = ("keep_alive", "control_cancel_request", "update_environment_variables")
"""Lines of which nothing follows here."""
_NOT_THERE = ("hooks", "agents", "sdkMcpServers")
"""What an `initialize` may ask for that would be missed: a program that relies on its hooks must not run without."""
_INITIALIZED: Mapping[str, object] = {
    "commands": [], "agents": [], "models": [], "account": {}, "output_style": "default",
    "available_output_styles": ["default"],
}  # fmt: skip


class ClaudeInput:
    """The lines of one run."""

    def __init__(self, root: str) -> None:
        """`root`: the working folder."""
        self._root = root
        self._changed: set[str] = set()
        """Calls that the program has allowed with other arguments, which is asked about once more."""

    def read(self, line: InputLine) -> InputRequest | None:
        """What a line asks for; None where nothing follows. Raises `RefusedLine`."""
        value = json_object(line)
        match value:
            case None:
                return None
            case {"type": str(kind)} if kind in _UNHEARD:
                return None
            case {"type": "user", "message": {"content": content}}:
                return UserMessage(User(tuple(_parts(content))))
            case {"type": "control_request", "request_id": str(id), "request": {"subtype": str(wanted)} as request}:
                return _control(id, wanted, request)
            case {"type": "control_response", "response": {"request_id": str(id), "subtype": "success"} as response}:
                return AnswerGiven(id, response.get("response") or {})
            case {"type": "control_response", "response": {"request_id": str(id)} as response}:
                return AnswerGiven(id, {"behavior": "deny", "message": str(response.get("error", ""))})
            case _:
                raise RefusedLine("it is no `user`, `control_request` or `control_response`, or lacks a part of it")

    def answer(self, question: Question, said: Mapping[str, Any]) -> Answer:
        """What the response to `can_use_tool` means for a question. Raises `RefusedLine`."""
        behavior, note = said.get("behavior"), str(said.get("message", ""))
        if behavior not in ("allow", "deny"):
            raise RefusedLine(f"the `behavior` for `{question.id}` must be `allow` or `deny`")
        given = said.get("updatedInput")
        match question:
            case PlanSubmitted():
                return PlanDecision("reject", note=note) if behavior == "deny" else PlanDecision("accept")
            case QuestionAsked():
                answers = given.get("answers") if isinstance(given, Mapping) else None
                texts = map(str, answers.values()) if isinstance(answers, Mapping) else ()
                return note if behavior == "deny" else "\n".join(texts)
            case PermissionAsked() if behavior == "deny":
                return Decision("deny", note=note)
            case PermissionAsked(name=name, arguments=arguments):
                theirs, sent = claude_call(name, arguments, self._root)
                if not isinstance(given, Mapping) or given == sent:
                    return Decision("allow")
                self._changed.add(question.call_id)
                return Decision("edit", arguments=_ours(name, theirs, given, self._root))

    def answer_at_once(self, question: Question) -> Answer | None:
        """The answer to a question that the program has answered already."""
        if isinstance(question, PermissionAsked) and question.is_edited and question.call_id in self._changed:
            return Decision("allow")
        return None


def _control(id: str, wanted: str, request: Mapping[str, Any]) -> InputRequest:
    match wanted:
        case "initialize":
            missed = [name for name in _NOT_THERE if request.get(name)]
            why = f"{' and '.join(missed)} of programs are not supported" if missed else ""
            return ControlRequest(id, None, _INITIALIZED, why)
        case "interrupt":
            return ControlRequest(id, InterruptWanted())
        case "set_permission_mode" if (mode := OUR_MODES.get(str(request.get("mode")))) is not None:
            return ControlRequest(id, ModeWanted(mode))
        case "set_permission_mode":
            return ControlRequest(id, None, {}, f"there is no mode `{request.get('mode')}`")
        case _:
            return ControlRequest(id, None, {}, f"`{wanted}` is not supported")


def _parts(content: object) -> Iterator[Text | Image]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts, images = list[str](), list[Image]()
    for block in blocks if isinstance(blocks, list) else [blocks]:
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "image", "source": {"type": "base64", "data": str(data)}}:
                images.append(picture(data))
            case _:
                raise RefusedLine(
                    "the content of a message is text, or blocks of the types `text` and `image` (base64)"
                )
    if not (text := "\n\n".join(texts)).strip():
        raise RefusedLine("its text is empty")
    yield Text(text)
    yield from images


def _ours(name: str, theirs: str, given: Mapping[str, Any], root: str) -> Mapping[str, object]:
    """The arguments of a call as the program changed them. Raises `RefusedLine`."""
    schema = next((tool.schema for tool in builtin_tools() if tool.name == name), {})
    properties = schema.get("properties")
    try:
        return our_arguments(name, theirs, given, tuple(properties) if isinstance(properties, Mapping) else (), root)
    except ToolError as error:
        raise RefusedLine(f"the call cannot be changed so: {error}") from error
