"""A model that replies from a script, for the demo, tests and bug reports. It does not use the network.

The file is TOML or JSON and contains a list of replies, used in order, one per request:

    [[reply]]
    text = "I look at the file first."
    reasoning = "thinking that is shown"
    calls = [{ name = "read", arguments = { path = "a.py" } }]
    usage = { input = 1200, cache_read = 0, cache_write = 0, output = 40 }    # estimated if omitted
    stop = "max_tokens"                # end, calls, max_tokens, refusal, overflow or pause
    pause = 0.5                        # seconds before the reply
    pause_between = 0.01               # seconds between two words
    error = "overloaded"               # fail instead: auth, rate_limit, quota, overloaded, overflow, timeout, network,
                                       # stream_cut (after the text), bad_request or unknown_model
    when = "summary"                   # only for a request whose last message contains this text; these come first

Optional keys before the replies: `context_window`, `max_output_tokens`, `reads` (how many of a request's newest tokens
the model reads and counts; it silently ignores the rest) and `counts` (how many tokens it counts for each actual
token). A call's `arguments` may be a string: then it is the JSON as the model wrote it, and may be invalid.

A request that no real server would accept (see `refusal`) is rejected without using up a reply.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

from ebbtide.agent.budget.prices import Prices
from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.errors import (
    AuthFailed,
    BadRequest,
    ConfigError,
    ContextOverflow,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    StreamCut,
    TimedOut,
    UnknownModel,
    Unreachable,
)
from ebbtide.agent.messages import Assistant, AssistantPart, Native, Reasoning, StopReason, Text, ToolCall, Usage, User
from ebbtide.agent.prompt.secret_tokens import SecretTokens
from ebbtide.agent.providers.base import (
    CallChunk,
    Chunk,
    ModelFacts,
    ReasoningChunk,
    Reply,
    Request,
    TextChunk,
    without_secrets,
)
from ebbtide.agent.providers.wires.decoder import build_call, build_reply
from ebbtide.agent.tokens.estimate import estimate_messages, estimate_text, estimate_tools
from ebbtide.agent.view.long_texts import sendable_text

_ERRORS: dict[str, type[ProviderError]] = {
    kind.code: kind
    for kind in (
        AuthFailed, RateLimited, QuotaExceeded, Overloaded, ContextOverflow, TimedOut, Unreachable, StreamCut,
        BadRequest, UnknownModel,
    )
}  # fmt: skip
_REPLY_KEYS = {"text", "reasoning", "calls", "usage", "stop", "pause", "pause_between", "error", "when"}
_SCRIPT_KEYS = ("context_window", "max_output_tokens", "reads", "counts")
_STOP_REASONS = {"end", "calls", "max_tokens", "refusal", "overflow", "pause"}


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    text: str = ""
    reasoning: str = ""
    calls: tuple[Mapping[str, Any], ...] = ()
    usage: Mapping[str, int] | None = None
    stop: StopReason | None = None
    pause: float = 0.0
    pause_between: float = 0.0
    error: str = ""
    when: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    replies: tuple[ScriptedReply, ...]
    context_window: int = 200_000
    max_output_tokens: int = 16_384
    reads: int | None = None
    """Number of a request's newest tokens that the model reads, silently ignoring older ones. None if it reads all."""
    counts: float = 1.0
    """Number of tokens that the model counts for each actual token."""


def read_script(path: Path) -> Script:
    """Read a script from a file. Raises `ConfigError` with the file and the problem."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read the script `{path}`: {error.strerror or error}") from error
    try:
        return parse_script(raw, is_json=path.suffix == ".json")
    except ValueError as error:
        raise ConfigError(f"the script `{path}` is not valid: {error}") from error


def parse_script(raw: bytes, *, is_json: bool) -> Script:
    """Parse a script from the bytes of a JSON or TOML file. Raises `ValueError`."""
    if is_json:
        tables = json.loads(raw)
    else:
        import tomllib  # noqa: PLC0415  # deferred: not needed with other providers

        tables = tomllib.loads(raw.decode("utf-8"))
    if not isinstance(tables, dict) or not isinstance(tables.get("reply"), list):
        raise ValueError("it must contain a list of `reply` tables")
    settings = {key: tables[key] for key in _SCRIPT_KEYS if key in tables}
    for key, value in settings.items():
        if isinstance(value, bool) or not isinstance(value, int | float if key == "counts" else int) or value <= 0:
            raise ValueError(f"`{key}` must be a number above zero")
    return Script(tuple(_parse_reply(number, table) for number, table in enumerate(tables["reply"], 1)), **settings)


def _parse_reply(number: int, table: Mapping[str, Any]) -> ScriptedReply:
    unknown = sorted(set(table) - _REPLY_KEYS)
    if unknown:
        raise ValueError(f"reply {number} has the key `{unknown[0]}`; use one of {', '.join(sorted(_REPLY_KEYS))}")
    if table.get("error", "overloaded") not in _ERRORS:
        raise ValueError(f"reply {number} has the error `{table['error']}`; use one of {', '.join(_ERRORS)}")
    if table.get("stop", "end") not in _STOP_REASONS:
        raise ValueError(f"reply {number} stops with `{table['stop']}`; use one of {', '.join(sorted(_STOP_REASONS))}")
    calls = table.get("calls", [])
    if not isinstance(calls, list) or not all(isinstance(call, dict) and call.get("name") for call in calls):
        raise ValueError(f"reply {number}: each of its `calls` needs a name")
    texts = {name: sendable_text(value) for name, value in table.items() if isinstance(value, str)}
    return ScriptedReply(**{**table, **texts, "calls": tuple(calls)})


def find_rejection_reason(request: Request, model: str) -> str | None:
    """Return why a real server would reject a request from a session that uses `model`; None if it would accept it."""
    if not request.messages or not any(message.parts for message in request.messages):
        return "the request contains no messages"
    name_counts = Counter(tool.name for tool in request.tools)
    duplicates = [name for name, count in name_counts.items() if count > 1]
    if duplicates:
        return f"the tool `{duplicates[0]}` is defined twice"
    if request.max_output_tokens < 1:
        return "the reply would have no space"
    open_call_ids: list[str] = []
    for message in request.messages:
        if isinstance(message, Assistant):
            if open_call_ids:
                return f"the call `{open_call_ids[0]}` has no output"
            open_call_ids = [call.id for call in message.calls]
            if message.model == model and not all(map(_is_signed, message.parts)):
                return "a thought is not as the model has said it"
        else:
            answered_ids = [output.call_id for output in message.outputs]
            if Counter(answered_ids) != Counter(open_call_ids):
                return f"outputs of {answered_ids} follow calls of {open_call_ids}"
            open_call_ids = []
    return f"the call `{open_call_ids[0]}` has no output" if open_call_ids else None


def signed_reasoning(text: str) -> Native:
    """Return reasoning text with a signature, as real models do. The signature stops matching if the text changes, even
    in another process."""
    return {"type": "reasoning", "text": text, "signature": _signature(text)}


def _is_signed(part: object) -> bool:
    if not isinstance(part, Reasoning):
        return True
    text = part.native.get("text")
    return isinstance(text, str) and text == part.text and part.native.get("signature") == _signature(text)


def _signature(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(slots=True)
class ScriptedProvider:
    """A `Provider` that follows a script. `requests` contains the requests that it has received."""

    script: Script
    name: str = "script"
    window_override: Window | None = None
    """The window to use in place of the script's."""
    requests: list[Request] = field(default_factory=list)
    secrets: SecretTokens = field(default_factory=SecretTokens)
    """Hides secrets in requests."""
    checks: ClassVar[tuple[Callable[[Request, str], str | None], ...]] = (find_rejection_reason,)
    """Checks for each request. A check is called with the request and the model's name, and returns why no server would
    accept the request, or None."""
    _remaining_replies: list[ScriptedReply] = field(init=False)
    _call_count: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._remaining_replies = list(self.script.replies)

    @classmethod
    def from_replies(cls, *replies: Mapping[str, Any], context_window: int = 200_000) -> "ScriptedProvider":
        """Return a model with these replies. Each reply has the same keys as in a script file."""
        return cls(
            Script(tuple(_parse_reply(number, reply) for number, reply in enumerate(replies, 1)), context_window)
        )

    @property
    def facts(self) -> ModelFacts:
        return ModelFacts(
            "scripted",
            self.name,
            self.script.context_window,
            self.script.max_output_tokens,
            prices=Prices(0.0, 0.0, 0.0, 0.0),
            images=True,
            sources=(("context_window", "script"), ("max_output_tokens", "script"), ("prices", "script")),
        )

    @property
    def window(self) -> Window:
        if self.window_override is not None:
            return self.window_override
        window_tokens = self.script.context_window
        return Window(
            window_tokens, min(self.script.max_output_tokens, window_tokens // 4), min(8192, window_tokens // 8)
        )

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        request = without_secrets(request, self.secrets)
        self.requests.append(request)
        for check in self.checks:
            if (problem := check(request, self.facts.id)) is not None:
                raise BadRequest(f"no server would accept this request: {problem}", status=400)
        reply = self._next_reply(request)
        await asyncio.sleep(reply.pause)
        if reply.error and reply.error != StreamCut.code:
            raise _ERRORS[reply.error](f"the script says that this request fails: {reply.error}")
        if reply.reasoning:
            yield ReasoningChunk(reply.reasoning)
        for word in _split_words(reply.text):
            yield TextChunk(word)
            await asyncio.sleep(reply.pause_between)
        if reply.error:
            raise StreamCut("the script cuts the stream here")
        calls = self._create_calls(request, reply)
        for index, call in enumerate(calls):
            yield CallChunk(index, call.name, len(call.source), call.id)
        yield self._complete_reply(request, reply, calls)

    async def prepare(self) -> None:
        """Do nothing, because no library is needed."""

    async def close(self) -> None:
        """Do nothing, because no connection is open."""

    def _next_reply(self, request: Request) -> ScriptedReply:
        last = request.messages[-1] if request.messages else User(())
        last_text = last.text if isinstance(last, User) else ""
        for reply in self._remaining_replies:
            if not reply.when or reply.when in last_text:
                next_reply = next(
                    (
                        other_reply
                        for other_reply in self._remaining_replies
                        if other_reply.when and other_reply.when in last_text
                    ),
                    reply,
                )
                self._remaining_replies.remove(next_reply)
                return next_reply
        raise BadRequest(
            f"the script has no reply left for request {len(self.requests)}; add a `[[reply]]` or start a new session"
        )

    def _create_calls(self, request: Request, reply: ScriptedReply) -> tuple[ToolCall, ...]:
        calls: list[ToolCall] = []
        for call in reply.calls:
            self._call_count += 1
            earlier_call_count = sum(
                len(message.calls) for message in request.messages if isinstance(message, Assistant)
            )
            name, arguments = str(call["name"]), call.get("arguments", {})
            source = arguments if isinstance(arguments, str) else json.dumps(arguments)
            call_id = str(call.get("id") or f"call-{earlier_call_count + len(calls) + 1}-{self._call_count}")
            calls.append(build_call(call_id, name, source))
        return tuple(calls)

    def _complete_reply(self, request: Request, reply: ScriptedReply, calls: Sequence[ToolCall]) -> Reply:
        parts: list[AssistantPart] = []
        if reply.reasoning:
            parts.append(Reasoning(reply.reasoning, signed_reasoning(reply.reasoning)))
        if reply.text:
            parts.append(Text(reply.text))
        full_reply = build_reply([*parts, *calls], self.facts.id, Usage(), reply.stop or "end")
        if reply.usage is not None:
            return replace(full_reply, usage=Usage(**reply.usage))
        prompt_tokens = (
            estimate_text(request.system) + estimate_tools(request.tools) + estimate_messages(request.messages)
        )
        prompt_tokens = round(prompt_tokens * self.script.counts)
        read_tokens = min(prompt_tokens, self.script.reads or prompt_tokens)
        return replace(full_reply, usage=Usage(input=read_tokens, output=estimate_messages([full_reply.message])))


def _split_words(text: str) -> list[str]:
    """Split the text after each space, to stream it word by word."""
    pieces = text.split(" ")
    return [piece + " " for piece in pieces[:-1]] + [piece for piece in pieces[-1:] if piece]
