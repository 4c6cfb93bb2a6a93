"""Hooks that ask a model, an agent or an MCP tool: the request, and the conversion of the answer to hook output."""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Protocol

from ebbtide.agent.config.hook_tables import HookEvent, ModelQuestion, ServerCall
from ebbtide.agent.hooks.printed_json import read_printed
from ebbtide.tools.outputs.extent import truncate
from ebbtide.tools.process.child import Exit

_ARGUMENTS = "$ARGUMENTS"
_PLACE = re.compile(r"\$\{([A-Za-z_][\w.]*)\}")
_REFUSAL = re.compile(r"""["']?\bok["']?\s*:\s*["']?false""", re.IGNORECASE)
"""A refusal in an answer that is not valid JSON."""
_MAX_INPUT_CHARS = 20_000
"""Maximum length of the event data sent to a model, in characters."""
ANSWER = 'Answer with one JSON object and nothing else: {"ok": true}, or {"ok": false, "reason": "why not"}.'


class Judges(Protocol):
    """The models, agents and MCP servers that hooks may ask."""

    async def model(self, question: str, model: str) -> str:
        """Return a model's answer; an empty `model` means the default. Raises `ValueError`."""

    async def agent(self, question: str, model: str) -> str:
        """Return the answer of an agent that may read files. Raises `ValueError`."""

    async def server(self, server: str, tool: str, arguments: Mapping[str, object]) -> tuple[str, bool]:
        """Call a tool of an MCP server; return its output and whether it reports an error. Raises `ValueError`."""


async def ask_model(
    question: ModelQuestion, event: HookEvent, told: bytes, seconds: float, judges: Judges | None, *, is_own: bool
) -> Exit:
    """Ask a model or an agent and convert the answer to hook output. A project's hook cannot choose another provider.
    Raises `ValueError`."""
    if judges is None:
        raise ValueError("this session asks no models")
    ask = judges.agent if question.looks else judges.model
    model = question.model if is_own or "/" not in question.model else ""
    try:
        async with asyncio.timeout(seconds):
            return judge_verdict(await ask(judge_prompt(question.prompt, told), model), event)
    except TimeoutError:
        return Exit(None, b"", b"")


async def ask_server(call: ServerCall, told: bytes, seconds: float, judges: Judges | None) -> Exit:
    """Call an MCP tool and convert the result to hook output. Raises `ValueError`."""
    if judges is None:
        raise ValueError("this session has no servers")
    tables = json.loads(told)
    arguments = {key: fill_placeholders(value, tables) for key, value in json.loads(call.input).items()}
    try:
        async with asyncio.timeout(seconds):
            text, has_failed = await judges.server(call.server, call.tool, arguments)
    except TimeoutError:
        return Exit(None, b"", b"")
    return (
        Exit(1, b"", text.encode("utf-8", "replace")) if has_failed else Exit(0, text.encode("utf-8", "replace"), b"")
    )


def judge_prompt(prompt: str, told: bytes) -> str:
    """The prompt with the event data inserted at the placeholder, or appended."""
    said = truncate(told.decode("utf-8", "replace").strip(), _MAX_INPUT_CHARS)
    question = prompt.replace(_ARGUMENTS, said) if _ARGUMENTS in prompt else f"{prompt}\n\n{said}"
    return f"{question}\n\n{ANSWER}"


def judge_verdict(answer: str, event: HookEvent) -> Exit:
    """Convert a model's answer to an objection with its reason, or to no decision. At `PermissionRequest` it can allow
    the call, if the verdict comes last in the answer: earlier text may be a quotation."""
    printed = read_printed(answer.encode("utf-8", "replace"))
    verdicts = [each.tables for each in printed.objects if "ok" in each.tables]
    refusals = [each for each in verdicts if str(each["ok"]).lower() == "false"]
    if refusals or _REFUSAL.search(printed.chatter):
        reasons = [str(each.get("reason") or "") for each in refusals] or [printed.chatter]
        return _printing({"decision": "block", "reason": "\n".join(filter(None, reasons))})
    if verdicts and all(each["ok"] is True for each in verdicts):
        is_last = "ok" in printed.objects[-1].tables and not printed.text[printed.objects[-1].end :].strip("` \n")
        may_allow = event == "PermissionRequest" and is_last
        return _printing({"decision": "approve"}) if may_allow else Exit(0, b"", b"")
    return Exit(1, b"", f"answers no verdict: {' '.join(answer.split())[:100]}".encode())


def _printing(tables: Mapping[str, str]) -> Exit:
    return Exit(0, json.dumps(tables).encode(), b"")


def fill_placeholders(value: object, tables: Mapping[str, object]) -> object:
    """Fill placeholders such as `${tool_input.file_path}` in an argument value from the event data."""
    if not isinstance(value, str):
        return value
    whole = _PLACE.fullmatch(value)
    if whole is not None:
        return _at(tables, whole[1])
    return _PLACE.sub(lambda found: _text(_at(tables, found[1])), value)


def _at(tables: object, path: str) -> object:
    for key in path.split("."):
        tables = tables.get(key) if isinstance(tables, Mapping) else None
    return tables


def _text(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)
