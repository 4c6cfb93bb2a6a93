"""Parses the input of programs written for Claude Code: messages, control requests and answers, as JSON lines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from ebbtide.agent.calls.argument_aliases import our_arguments
from ebbtide.agent.channel import Answer
from ebbtide.agent.events.permissions import Decision, PermissionAsked, QuestionAsked
from ebbtide.agent.events.plan import PlanDecision, PlanSubmitted
from ebbtide.agent.headless.claude.hooks import ProgramHooks, program_hooks
from ebbtide.agent.headless.claude.messages import OUR_MODES, claude_call, suggestion_of
from ebbtide.agent.headless.input_messages import (
    AnswerGiven,
    ControlRequest,
    InputRequest,
    InterruptRequest,
    ModelRequest,
    ModeRequest,
    Question,
    RefusedLine,
    SetupRequest,
    json_object,
    picture,
)
from ebbtide.agent.headless.line_reader import InputLine
from ebbtide.agent.headless.message_queue import UserMessage
from ebbtide.agent.headless.stream_events import OutputEvent
from ebbtide.agent.messages import Image, Text, User
from ebbtide.tools.base import ToolError
from ebbtide.tools.catalog import builtin_tools
from ebbtide.tools.schema import mismatches

_RULE_SCOPES: Mapping[str, Literal["session", "project"]] = {
    "session": "session", "localSettings": "project", "projectSettings": "project",
}  # fmt: skip
_IGNORED_TYPES = ("keep_alive", "control_cancel_request", "update_environment_variables")
"""Line types that are ignored."""
_NOT_THERE = ("agents", "sdkMcpServers")
"""Unsupported parts of `initialize` that a client would miss."""


class ClaudeInput:
    """The input of one run."""

    def __init__(
        self, root: str, show: Callable[[OutputEvent], None], commands: Sequence[str] = (), models: Sequence[str] = ()
    ) -> None:
        """`root` is the working folder. `commands` and `models` are those that the client may choose from."""
        self._root = root
        self._hooks = ProgramHooks(show)
        self._initialized: Mapping[str, object] = {
            "commands": [{"name": name, "description": "", "argumentHint": ""} for name in commands],
            "models": [{"value": name, "displayName": name, "description": ""} for name in models],
            "agents": [], "account": {}, "output_style": "default", "available_output_styles": ["default"],
            "hook_on_failure_supported": True, "hooks_applied": True,
        }  # fmt: skip
        self._changed: set[str] = set()
        """Calls that the client allowed with changed arguments, which require a second permission request."""

    def read(self, line: InputLine) -> InputRequest | None:
        """Parse a line; None if it needs no action. Raises `RefusedLine`."""
        value = json_object(line)
        match value:
            case None:
                return None
            case {"type": str(kind)} if kind in _IGNORED_TYPES:
                return None
            case {"type": "user", "message": {"content": content}}:
                return UserMessage(User(tuple(_parts(content))))
            case {"type": "control_request", "request_id": str(id), "request": {"subtype": str(wanted)} as request}:
                return self._control(id, wanted, request)
            case {"type": "control_response", "response": {"request_id": str(id)} as response} if self._hooks.take(
                id, response
            ):
                return None
            case {"type": "control_response", "response": {"request_id": str(id), "subtype": "success"} as response}:
                answer = response.get("response") or {}
                if not isinstance(answer, Mapping):
                    raise RefusedLine(f"the `response` to `{id}` must be an object")
                return AnswerGiven(id, answer)
            case {"type": "control_response", "response": {"request_id": str(id)} as response}:
                return AnswerGiven(id, {"behavior": "deny", "message": str(response.get("error", ""))})
            case _:
                raise RefusedLine("it is not a valid `user`, `control_request` or `control_response`")

    def answer(self, question: Question, said: Mapping[str, Any]) -> Answer:
        """Convert a `can_use_tool` response to an answer. Raises `RefusedLine`."""
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
                if not (given is None or isinstance(given, Mapping)):
                    raise RefusedLine(f"the `updatedInput` for `{question.id}` must be an object")
                if given is None or given == sent:
                    return _allow_decision(question, said.get("updatedPermissions"))
                self._changed.add(question.call_id)
                return Decision("edit", arguments=_ours(name, theirs, given, self._root))

    def answer_at_once(self, question: Question) -> Answer | None:
        """Return the answer to a question that the client has already answered."""
        if isinstance(question, PermissionAsked) and question.is_edited and question.call_id in self._changed:
            return Decision("allow")
        return None

    def end(self) -> None:
        self._hooks.end()

    def _set_up(self, request: Mapping[str, Any]) -> tuple[SetupRequest | None, str]:
        """Parse an `initialize` request; return the setup, if any, and the reason if it is refused."""
        missed = [name for name in _NOT_THERE if request.get(name)]
        hooks, problems = program_hooks(request.get("hooks"))
        if missed:
            problems = (f"{' and '.join(missed)} are not supported", *problems)
        text, schema = request.get("systemPrompt"), request.get("jsonSchema")
        said = "\n\n".join(map(str, text)) if isinstance(text, list) else text or ""
        more = request.get("appendSystemPrompt") or ""
        if not isinstance(said, str) or not isinstance(more, str):
            problems = (*problems, "the system prompt is not a string")
        try:
            mismatches(None, schema or {})
        except ValueError as error:
            problems = (*problems, f"the schema cannot be used: {str(error).splitlines()[0]}")
        if problems or not (hooks or said or more or schema):
            return None, "; ".join(problems)
        return SetupRequest(hooks, self._hooks.ask, str(said), str(more), schema or None), ""

    def _control(self, id: str, wanted: str, request: Mapping[str, Any]) -> InputRequest:
        match wanted:
            case "initialize":
                begins, why = self._set_up(request)
                return ControlRequest(id, begins, self._initialized, why, is_needed=True)
            case "interrupt":
                return ControlRequest(id, InterruptRequest())
            case "set_model":
                named = request.get("model")
                return ControlRequest(id, ModelRequest("" if named in (None, "default") else str(named)))
            case "set_permission_mode" if (mode := OUR_MODES.get(str(request.get("mode")))) is not None:
                return ControlRequest(id, ModeRequest(mode))
            case "set_permission_mode":
                return ControlRequest(id, None, {}, f"unknown mode `{request.get('mode')}`")
            case _:
                return ControlRequest(id, None, {}, f"`{wanted}` is not supported")


def _allow_decision(question: PermissionAsked, updates: object) -> Decision:
    """Allow a call and keep a suggested rule. Raises `RefusedLine` for other permission updates."""
    wanted = updates if isinstance(updates, list) else [updates] if updates else []
    known = {**suggestion, "destination": ""} if (suggestion := suggestion_of(question)) is not None else None
    told = (one for one in wanted if isinstance(one, Mapping))
    kept = [str(one.get("destination")) for one in told if {**one, "destination": ""} == known]
    if not wanted:
        return Decision("allow")
    if len(kept) < len(wanted) or not {*kept} <= _RULE_SCOPES.keys():
        raise RefusedLine("its `updatedPermissions` are ignored: only suggested rules can be added", Decision("allow"))
    return Decision("allow", question.offers[0], kept=_RULE_SCOPES[kept[0]] if question.rules_file else "session")


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
    """The arguments of a call as changed by the client. Raises `RefusedLine`."""
    schema = next((tool.schema for tool in builtin_tools() if tool.name == name), {})
    properties = schema.get("properties")
    try:
        return our_arguments(name, theirs, given, tuple(properties) if isinstance(properties, Mapping) else (), root)
    except ToolError as error:
        raise RefusedLine(f"the call cannot be changed like this: {error}") from error
