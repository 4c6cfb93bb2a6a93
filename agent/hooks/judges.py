"""Hooks that ask a model, an agent or a tool of a server: what is asked, and how the answer is read as what a program
prints."""

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
"""One in an answer that is no JSON."""
_MAX_INPUT_CHARS = 20_000
"""Characters of what happened that a model is told."""
ANSWER = 'Answer with one JSON object and nothing else: {"ok": true}, or {"ok": false, "reason": "why not"}.'


class Judges(Protocol):
    """Whom hooks of a session may ask."""

    async def model(self, question: str, model: str) -> str:
        """What a model answers; `model` as it is written, empty for the usual one. Raises `ValueError`."""

    async def agent(self, question: str, model: str) -> str:
        """What an agent answers that may look at files. Raises `ValueError`."""

    async def server(self, server: str, tool: str, arguments: Mapping[str, object]) -> tuple[str, bool]:
        """What a tool of a server gives back, and whether it says that it failed. Raises `ValueError`."""


async def ask_model(
    question: ModelQuestion, event: HookEvent, told: bytes, seconds: float, judges: Judges | None, *, is_own: bool
) -> Exit:
    """What a model or an agent says, as what a program answers. A project chooses no other provider. Raises
    `ValueError`."""
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
    """What a tool of a server gives back, as what a program prints. Raises `ValueError`."""
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
    """The question, with what happened in it or behind it."""
    said = truncate(told.decode("utf-8", "replace").strip(), _MAX_INPUT_CHARS)
    question = prompt.replace(_ARGUMENTS, said) if _ARGUMENTS in prompt else f"{prompt}\n\n{said}"
    return f"{question}\n\n{ANSWER}"


def judge_verdict(answer: str, event: HookEvent) -> Exit:
    """What an answer of a model means: an objection with its reason, or nothing. In the place of the user it allows,
    if the verdict is the last thing that is said: what stands before may be quoted."""
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
    """A value of the arguments with what is told in the places for that, such as `${tool_input.file_path}`."""
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
