"""Parses the input of programs written for Claude Code: messages, control requests and answers, as JSON lines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from ebbtide.agent.channel import Answer
from ebbtide.agent.events.permissions import Decision, PermissionAsked, QuestionAsked
from ebbtide.agent.events.plan import PlanDecision, PlanSubmitted
from ebbtide.agent.headless.input_messages import (
    ClientAnswer,
    ControlRequest,
    InputRequest,
    InterruptRequest,
    ModelRequest,
    ModeRequest,
    Question,
    RefusedLineError,
    SetupRequest,
    image_from_base64,
    parse_json_object,
)
from ebbtide.agent.headless.line_reader import InputLine
from ebbtide.agent.headless.message_queue import UserMessage
from ebbtide.agent.headless.stream_events import OutputEvent
from ebbtide.agent.hooks.tool_names import claude_name_and_arguments
from ebbtide.agent.integrations.claude_code.hooks import ClientHooks, parse_hooks
from ebbtide.agent.integrations.claude_code.messages import MODES_BY_CLAUDE_NAME, suggested_update
from ebbtide.agent.messages import Image, Text, ToolCall, User
from ebbtide.tools.base import ToolError
from ebbtide.tools.call_arguments.foreign_calls import translate_arguments
from ebbtide.tools.call_arguments.schema import schema_violations
from ebbtide.tools.catalog import create_builtin_tools

_RULE_SCOPES: Mapping[str, Literal["session", "project"]] = {
    "session": "session", "localSettings": "project", "projectSettings": "project",
}  # fmt: skip
_IGNORED_TYPES = ("keep_alive", "control_cancel_request", "update_environment_variables")
"""Line types that are ignored."""
_UNSUPPORTED_KEYS = ("agents", "sdkMcpServers")
"""Fields of `initialize` that are not supported. A request with any of them is refused, because the client relies on
them."""


class ClaudeInput:
    """The input of one run."""

    def __init__(
        self, root: str, show: Callable[[OutputEvent], None], commands: Sequence[str] = (), models: Sequence[str] = ()
    ) -> None:
        """`root` is the working folder. `commands` and `models` are offered to the client."""
        self._root = root
        self._hooks = ClientHooks(show)
        self._init_response: Mapping[str, object] = {
            "commands": [{"name": name, "description": "", "argumentHint": ""} for name in commands],
            "models": [{"value": name, "displayName": name, "description": ""} for name in models],
            "agents": [], "account": {}, "output_style": "default", "available_output_styles": ["default"],
            "hook_on_failure_supported": True, "hooks_applied": True,
        }  # fmt: skip
        self._edited_call_ids: set[str] = set()
        """Ids of the calls that the client allowed with changed arguments. When the changed call asks for permission
        again, it is approved without asking the client."""

    def parse_line(self, line: InputLine) -> InputRequest | None:
        """Parse a line; None if it requires no action. Raises `RefusedLineError`."""
        value = parse_json_object(line)
        match value:
            case None:
                return None
            case {"type": str(line_type)} if line_type in _IGNORED_TYPES:
                return None
            case {"type": "user", "message": {"content": content}}:
                return UserMessage(User(tuple(_parse_content(content))))
            case {
                "type": "control_request",
                "request_id": str(request_id),
                "request": {"subtype": str(subtype)} as request,
            }:
                return self._parse_control(request_id, subtype, request)
            case {"type": "control_response", "response": {"request_id": str(request_id)} as response} if (
                self._hooks.handle_response(request_id, response)
            ):
                return None
            case {
                "type": "control_response",
                "response": {"request_id": str(request_id), "subtype": "success"} as response,
            }:
                answer = response.get("response") or {}
                if not isinstance(answer, Mapping):
                    raise RefusedLineError(f"the `response` to `{request_id}` must be an object")
                return ClientAnswer(request_id, answer)
            case {"type": "control_response", "response": {"request_id": str(request_id)} as response}:
                return ClientAnswer(request_id, {"behavior": "deny", "message": str(response.get("error", ""))})
            case _:
                raise RefusedLineError("it is not a valid `user`, `control_request` or `control_response`")

    def convert_answer(self, question: Question, content: Mapping[str, Any]) -> Answer:
        """Convert a `can_use_tool` response to an answer. Raises `RefusedLineError`."""
        behavior, note = content.get("behavior"), str(content.get("message", ""))
        if behavior not in ("allow", "deny"):
            raise RefusedLineError(f"the `behavior` for `{question.id}` must be `allow` or `deny`")
        updated_input = content.get("updatedInput")
        match question:
            case PlanSubmitted():
                return PlanDecision("reject", note=note) if behavior == "deny" else PlanDecision("accept")
            case QuestionAsked():
                answers = updated_input.get("answers") if isinstance(updated_input, Mapping) else None
                texts = map(str, answers.values()) if isinstance(answers, Mapping) else ()
                return note if behavior == "deny" else "\n".join(texts)
            case PermissionAsked() if behavior == "deny":
                return Decision("deny", note=note)
            case PermissionAsked(name=name, arguments=arguments):
                claude_name, original_input = claude_name_and_arguments(ToolCall("", name, arguments), self._root)
                if not (updated_input is None or isinstance(updated_input, Mapping)):
                    raise RefusedLineError(f"the `updatedInput` for `{question.id}` must be an object")
                if updated_input is None or updated_input == original_input:
                    return _allow_decision(question, content.get("updatedPermissions"))
                self._edited_call_ids.add(question.call_id)
                return Decision("edit", arguments=_convert_arguments(name, claude_name, updated_input, self._root))

    def answer_without_client(self, question: Question) -> Answer | None:
        """Return the answer to a question that the client has already answered; None if the client must be asked."""
        if isinstance(question, PermissionAsked) and question.is_edited and question.call_id in self._edited_call_ids:
            return Decision("allow")
        return None

    def end_input(self) -> None:
        self._hooks.end_input()

    def _parse_initialize(self, request: Mapping[str, Any]) -> tuple[SetupRequest | None, str]:
        """Parse an `initialize` request. Return its setup (None if there is nothing to set up), and the reason if it is
        refused."""
        unsupported_keys = [name for name in _UNSUPPORTED_KEYS if request.get(name)]
        hooks, problems = parse_hooks(request.get("hooks"))
        if unsupported_keys:
            problems = (f"{' and '.join(unsupported_keys)} are not supported", *problems)
        prompt, schema = request.get("systemPrompt"), request.get("jsonSchema")
        system_prompt = "\n\n".join(map(str, prompt)) if isinstance(prompt, list) else prompt or ""
        appended_prompt = request.get("appendSystemPrompt") or ""
        if not isinstance(system_prompt, str) or not isinstance(appended_prompt, str):
            problems = (*problems, "the system prompt is not a string")
        try:
            schema_violations(None, schema or {})
        except ValueError as error:
            problems = (*problems, f"the schema cannot be used: {str(error).splitlines()[0]}")
        if problems or not (hooks or system_prompt or appended_prompt or schema):
            return None, "; ".join(problems)
        return SetupRequest(hooks, self._hooks.ask, str(system_prompt), str(appended_prompt), schema or None), ""

    def _parse_control(self, request_id: str, subtype: str, request: Mapping[str, Any]) -> InputRequest:
        match subtype:
            case "initialize":
                setup, refusal = self._parse_initialize(request)
                return ControlRequest(request_id, setup, self._init_response, refusal, is_required=True)
            case "interrupt":
                return ControlRequest(request_id, InterruptRequest())
            case "set_model":
                model = request.get("model")
                return ControlRequest(request_id, ModelRequest("" if model in (None, "default") else str(model)))
            case "set_permission_mode" if (mode := MODES_BY_CLAUDE_NAME.get(str(request.get("mode")))) is not None:
                return ControlRequest(request_id, ModeRequest(mode))
            case "set_permission_mode":
                return ControlRequest(request_id, None, {}, f"unknown mode `{request.get('mode')}`")
            case _:
                return ControlRequest(request_id, None, {}, f"`{subtype}` is not supported")


def _allow_decision(question: PermissionAsked, updates: object) -> Decision:
    """Allow the call, and add the suggested rule if the client asks for it. Raises `RefusedLineError` for other
    permission updates."""
    requested_updates = updates if isinstance(updates, list) else [updates] if updates else []
    suggested = {**suggestion, "destination": ""} if (suggestion := suggested_update(question)) is not None else None
    tables = (update for update in requested_updates if isinstance(update, Mapping))
    scopes = [str(update.get("destination")) for update in tables if {**update, "destination": ""} == suggested]
    if not requested_updates:
        return Decision("allow")
    if len(scopes) < len(requested_updates) or not {*scopes} <= _RULE_SCOPES.keys():
        raise RefusedLineError(
            "its `updatedPermissions` are ignored: only suggested rules can be added", Decision("allow")
        )
    return Decision("allow", question.offers[0], scope=_RULE_SCOPES[scopes[0]] if question.rules_file else "session")


def _parse_content(content: object) -> Iterator[Text | Image]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts, images = list[str](), list[Image]()
    for block in blocks if isinstance(blocks, list) else [blocks]:
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "image", "source": {"type": "base64", "data": str(data)}}:
                images.append(image_from_base64(data))
            case _:
                raise RefusedLineError(
                    "the content of a message is text, or blocks of the types `text` and `image` (base64)"
                )
    if not (text := "\n\n".join(texts)).strip():
        raise RefusedLineError("its text is empty")
    yield Text(text)
    yield from images


def _convert_arguments(
    name: str, claude_name: str, updated_input: Mapping[str, Any], root: str
) -> Mapping[str, object]:
    """Convert arguments that the client has changed to this program's names. Raises `RefusedLineError`."""
    schema = next((tool.schema for tool in create_builtin_tools() if tool.name == name), {})
    properties = schema.get("properties")
    try:
        return translate_arguments(
            name, claude_name, updated_input, tuple(properties) if isinstance(properties, Mapping) else (), root
        )
    except ToolError as error:
        raise RefusedLineError(f"the call cannot be changed like this: {error}") from error
