"""Runs hooks that ask a model, an agent, an MCP tool or the client: sends the request and converts the answer to hook
output."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias

from ebbtide.agent.config.hook_tables import ClientAction, HookEvent, McpToolAction, ModelAction
from ebbtide.agent.hooks.answers import BLOCKING_EXIT_CODE
from ebbtide.agent.hooks.printed_json import parse_output
from ebbtide.tools.outputs.extent import truncate
from ebbtide.tools.process.child import ChildResult

_EVENT_DATA_PLACEHOLDER = "$ARGUMENTS"
_PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][\w.]*)\}")
_REFUSAL_TEXT = re.compile(r"""["']?\bok["']?\s*:\s*["']?false""", re.IGNORECASE)
"""Matches a refusal in an answer that is not valid JSON."""
_MAX_INPUT_CHARS = 20_000
"""Maximum length of the event data sent to a model, in characters."""
ANSWER_FORMAT = 'Answer with one JSON object and nothing else: {"ok": true}, or {"ok": false, "reason": "why not"}.'

CallClient: TypeAlias = Callable[[str, bytes], Awaitable[bytes]]
"""Calls the client's function with the given id; input and output are JSON. Raises `ValueError` if it fails."""


class HookBackends(Protocol):
    """The models, agents and MCP servers that hooks can ask."""

    async def ask_model(self, prompt: str, model: str) -> str:
        """Return a model's answer; an empty `model` means the default. Raises `ValueError`."""

    async def ask_agent(self, prompt: str, model: str) -> str:
        """Return the answer of an agent that can read files. Raises `ValueError`."""

    async def call_server_tool(self, server: str, tool: str, arguments: Mapping[str, object]) -> tuple[str, bool]:
        """Call a tool of an MCP server; return its output and whether it reports an error. Raises `ValueError`."""


async def run_model_hook(
    action: ModelAction,
    event: HookEvent,
    payload: bytes,
    timeout: float,
    backends: HookBackends | None,
    *,
    is_from_user: bool,
) -> ChildResult:
    """Ask a model or an agent and convert the answer to hook output. A project's hook cannot choose another provider.
    Raises `ValueError`."""
    if backends is None:
        raise ValueError("this session asks no models")
    ask = backends.ask_agent if action.may_read_files else backends.ask_model
    model = action.model if is_from_user or "/" not in action.model else ""
    try:
        async with asyncio.timeout(timeout):
            return parse_model_answer(await ask(build_hook_prompt(action.prompt, payload), model), event)
    except TimeoutError:
        return ChildResult(None, b"", b"")


async def run_mcp_tool_hook(
    action: McpToolAction, payload: bytes, timeout: float, backends: HookBackends | None
) -> ChildResult:
    """Call an MCP tool and convert the result to hook output. Raises `ValueError`."""
    if backends is None:
        raise ValueError("this session has no servers")
    event_fields = json.loads(payload)
    arguments = {key: fill_placeholders(value, event_fields) for key, value in json.loads(action.input).items()}
    try:
        async with asyncio.timeout(timeout):
            text, has_failed = await backends.call_server_tool(action.server, action.tool, arguments)
    except TimeoutError:
        return ChildResult(None, b"", b"")
    return (
        ChildResult(1, b"", text.encode("utf-8", "replace"))
        if has_failed
        else ChildResult(0, text.encode("utf-8", "replace"), b"")
    )


async def run_client_hook(
    action: ClientAction, payload: bytes, timeout: float, call_client: CallClient | None
) -> ChildResult:
    """Call the client's function and convert the answer to hook output. If the call fails, a hook whose answer is
    required counts as objecting; for other hooks, `ValueError` is raised."""
    if call_client is None:
        raise ValueError("no program drives this session")
    try:
        async with asyncio.timeout(timeout):
            return ChildResult(0, await call_client(action.id, payload), b"")
    except TimeoutError:
        if not action.must_answer:
            return ChildResult(None, b"", b"")
        problem = f"it did not answer within {timeout:g} s"
    except ValueError as error:
        if not action.must_answer:
            raise
        problem = str(error)
    return ChildResult(
        BLOCKING_EXIT_CODE, b"", f"the program that decides about this could not be asked: {problem}".encode()
    )


def build_hook_prompt(prompt: str, payload: bytes) -> str:
    """Insert the event data into the prompt at `$ARGUMENTS`, or append it if the prompt has no such placeholder."""
    event_data = truncate(payload.decode("utf-8", "replace").strip(), _MAX_INPUT_CHARS)
    question = (
        prompt.replace(_EVENT_DATA_PLACEHOLDER, event_data)
        if _EVENT_DATA_PLACEHOLDER in prompt
        else f"{prompt}\n\n{event_data}"
    )
    return f"{question}\n\n{ANSWER_FORMAT}"


def parse_model_answer(answer: str, event: HookEvent) -> ChildResult:
    """Convert a model's answer to hook output: an objection with its reason, or no decision. At `PermissionRequest`,
    the model can also allow the call, but only if the verdict ends the answer: earlier text may be a quotation."""
    hook_output = parse_output(answer.encode("utf-8", "replace"))
    verdicts = [verdict.fields for verdict in hook_output.objects if "ok" in verdict.fields]
    refusals = [verdict for verdict in verdicts if str(verdict["ok"]).lower() == "false"]
    if refusals or _REFUSAL_TEXT.search(hook_output.surrounding_text):
        reasons = [str(verdict.get("reason") or "") for verdict in refusals] or [hook_output.surrounding_text]
        return _success_result({"decision": "block", "reason": "\n".join(filter(None, reasons))})
    if verdicts and all(verdict["ok"] is True for verdict in verdicts):
        ends_with_verdict = "ok" in hook_output.objects[-1].fields and not hook_output.text[
            hook_output.objects[-1].end :
        ].strip("` \n")
        may_allow = event == "PermissionRequest" and ends_with_verdict
        return _success_result({"decision": "approve"}) if may_allow else ChildResult(0, b"", b"")
    return ChildResult(1, b"", f"gave no verdict: {' '.join(answer.split())[:100]}".encode())


def _success_result(answer: Mapping[str, str]) -> ChildResult:
    return ChildResult(0, json.dumps(answer).encode(), b"")


def fill_placeholders(value: object, event_fields: Mapping[str, object]) -> object:
    """Replace placeholders such as `${tool_input.file_path}` in an argument value with event data."""
    if not isinstance(value, str):
        return value
    sole_placeholder = _PLACEHOLDER.fullmatch(value)
    if sole_placeholder is not None:
        return _value_at(event_fields, sole_placeholder[1])
    return _PLACEHOLDER.sub(lambda match: _as_text(_value_at(event_fields, match[1])), value)


def _value_at(value: object, path: str) -> object:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _as_text(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)
