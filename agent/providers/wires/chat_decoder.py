"""Decodes Chat Completions replies in all the variants that servers and relays send.

Every workaround exists for a particular server or relay; the tests name it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ebbtide.agent.errors import Overloaded
from ebbtide.agent.messages import AssistantPart, Reasoning, StopReason, Text, ToolCall
from ebbtide.agent.providers.base import CallChunk, Chunk, ReasoningChunk, Reply, TextChunk
from ebbtide.agent.providers.wires.decoder import ApiName, build_call, build_reply, parse_openai_usage
from ebbtide.agent.providers.wires.http import STREAM_END, JsonObject, is_json
from ebbtide.agent.providers.wires.origin import Origin
from ebbtide.agent.view.long_texts import sendable_text
from ebbtide.tools.lazy import regex

STOP_REASONS: Mapping[str, StopReason] = {
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "content_filter": "refusal",
    "sensitive": "refusal",
    "refusal": "refusal",
    "model_length": "overflow",
    "model_context_window_exceeded": "overflow",
}
"""Stop reasons by finish reason. Any other finish reason counts as a normal end. Finish reasons that OpenAI does not
use come from Mistral, Z.ai, Anthropic and Google."""
FAILURE_REASONS = ("error", "network_error", "insufficient_system_resource", "abort")
"""Finish reasons of replies that the server could not complete (OpenRouter, Z.ai, DeepSeek, vLLM). OpenRouter may send
them only as `native_finish_reason`."""

MINIMAX_STATUSES: Mapping[int, int] = {
    1002: 429,
    1004: 401,
    1008: 402,
    1026: 400,
    1027: 400,
    1039: 429,
    2013: 400,
    2049: 401,
}
"""HTTP statuses of the error codes that MiniMax documents and sends with status 200. Any other code is a failure of the
server."""

THOUGHT_FIELDS = ("reasoning_content", "reasoning")
"""Fields in which servers send thinking. A server that sends both fields sends the same text in both."""
DETAILS_FIELD = "reasoning_details"
"""Field with thinking as a list of signed or encrypted items (OpenRouter, and compatible gateways)."""
TAGGED_THOUGHT_FIELD = "tagged_thought"
"""Field of a thought's native item with the beginning of the content, if thinking was sent there between tags. It is
part of the content in later requests, as MiniMax requires."""
CITATION_FIELDS = ("citations", "search_results", "annotations")
"""Fields that list a text's sources (Perplexity, OpenRouter, OpenAI)."""


@dataclass(slots=True)
class PartialCall:
    """A call whose pieces are still arriving."""

    id: str = ""
    name: str = ""
    index: int | None = None
    argument_pieces: list[str] = field(default_factory=list)
    argument_chars: int = 0
    native: dict[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return "".join(self.argument_pieces)

    @property
    def final_source(self) -> str:
        """The arguments of a finished call. Some parsers of vLLM send all arguments once more at the end, even if only
        a part of them arrived before."""
        source = self.source
        if len(self.argument_pieces) > 1 and not is_json(source.strip()):
            earlier, last = "".join(self.argument_pieces[:-1]).strip(), self.argument_pieces[-1].strip()
            if is_json(last) and (last.startswith(earlier) or _is_same_json(last, earlier)):
                return last
        return source

    @property
    def is_complete(self) -> bool:
        """Whether the call has a name and complete arguments."""
        last_piece = self.argument_pieces[-1].rstrip() if self.argument_pieces else ""
        # Parsing is slow for long arguments, so pieces that cannot be the last ones are recognised first.
        return bool(self.name) and (not last_piece or last_piece.endswith("}")) and is_json(self.source.strip())


@dataclass(slots=True)
class PartialCalls:
    """The calls of a choice, assembled from pieces. A piece's index, id or name may be missing, repeated or reused."""

    calls: list[PartialCall] = field(default_factory=list)
    _newest_call_by_index: dict[int, PartialCall] = field(default_factory=dict)
    """The newest call with each `index` that the server sent."""

    def add(self, piece: JsonObject) -> PartialCall:
        """Add a piece to the call that it belongs to, or to a new one."""
        function = piece.get("function") or {}
        call_id, name = piece.get("id") or "", function.get("name") or ""
        arguments = function.get("arguments")
        if isinstance(arguments, dict | list):
            arguments = json.dumps(arguments, ensure_ascii=False)
        call = self._find_or_create_call(piece.get("index"), call_id, name)
        if name and name != call.name and not call.argument_pieces:
            call.name += name
        call.id, call.name = call.id or call_id, call.name or name
        if arguments:
            call.argument_pieces.append(arguments)
            call.argument_chars += len(arguments)
        if isinstance(piece.get("extra_content"), dict):
            call.native["extra_content"] = piece["extra_content"]
        return call

    def _find_or_create_call(self, index: int | None, call_id: str, name: str) -> PartialCall:
        newest = self.calls[-1] if self.calls else None
        call = newest
        if (
            call_id
            and (call_with_id := next((known_call for known_call in self.calls if known_call.id == call_id), None))
            is not None
        ):
            call = call_with_id
        elif index is not None and (index in self._newest_call_by_index or call_id or name):
            call = self._newest_call_by_index.get(index)
        if call is None or self._starts_new_call(call, index, call_id, name):
            call = PartialCall(index=index)
            self.calls.append(call)
        if index is not None:
            self._newest_call_by_index[index] = call
        return call

    def _starts_new_call(self, call: PartialCall, index: int | None, call_id: str, name: str) -> bool:
        """Whether a piece starts a new call instead of continuing `call`."""
        if call_id and call.id and call_id != call.id:
            # Poolside and mlx-openai-server send another id with each piece.
            continues = name in ("", call.name) and not call.is_complete
            return not (continues and index is not None and self._newest_call_by_index.get(index) is call)
        is_repeated = (
            bool(call_id) and call_id == call.id and (index is None or self._newest_call_by_index.get(index) is call)
        )
        return bool(name) and call.is_complete and not is_repeated

    def finished_calls(self) -> list[PartialCall]:
        """Return the calls without those that the server repeated: the same call at the same index."""
        seen: set[tuple[int, str, str]] = set()
        finished: list[PartialCall] = []
        for call in self.calls:
            key = None if call.index is None else (call.index, call.name, call.final_source.strip())
            if key is None or key not in seen:
                finished.append(call)
            if key is not None:
                seen.add(key)
        return finished


@dataclass(slots=True)
class ThinkTags:
    """Separates thinking at the start of the content, between `<think>` and `</think>`, from the answer. Servers send
    it there if nothing separates it for them (MiniMax, LM Studio, llama.cpp and vLLM without a reasoning parser)."""

    thought_pieces: list[str] = field(default_factory=list)
    raw_pieces: list[str] = field(default_factory=list)
    """The content up to the answer, with the tags."""
    _state: Literal["start", "thinking", "before answer", "answer"] = "start"
    _held: str = ""
    """Text that may be part of a tag."""

    def add(self, text: str) -> Iterator[tuple[Literal["text", "tagged"], str]]:
        """Yield the parts of the answer and of the thinking that a piece of content completes."""
        if self._state == "answer":
            yield "text", text
            return
        self._held += text
        if self._state == "start":
            start = self._held.lstrip()
            if start.startswith(_OPENING_TAG):
                self._state = "thinking"
                self.raw_pieces.append(self._held[: len(self._held) - len(start) + len(_OPENING_TAG)])
                self._held = start.removeprefix(_OPENING_TAG)
            elif not _OPENING_TAG.startswith(start):
                self._state = "answer"
        if self._state == "thinking":
            thought, tag, rest = self._held.partition(_CLOSING_TAG)
            if not tag:
                thought, rest = _split_partial_tag(self._held)
            self.thought_pieces.append(thought)
            self.raw_pieces += (thought, tag)
            self._state, self._held = "before answer" if tag else "thinking", rest
            if thought:
                yield "tagged", thought
        if self._state == "before answer":
            answer = self._held.lstrip()
            self.raw_pieces.append(self._held[: len(self._held) - len(answer)])
            self._state, self._held = "answer" if answer else "before answer", answer
        if self._state == "answer" and self._held:
            text, self._held = self._held, ""
            yield "text", text

    def rest(self) -> str:
        """Return the text of an answer that turned out to be no thinking, or of thinking that was not finished."""
        if self._state == "thinking":
            return self.raw + self._held
        return self._held

    @property
    def raw(self) -> str:
        return "".join(self.raw_pieces)

    @property
    def is_finished(self) -> bool:
        return self._state in ("before answer", "answer") and bool(self.raw_pieces)


_OPENING_TAG, _CLOSING_TAG = "<think>", "</think>"
_UNOPENED_THOUGHT = regex(r"(?s)\A(?P<thought>(?:(?!</?think>).)*\n)</think>[ \t]*(?:\n\s*|\Z)")
"""Matches thinking whose opening tag is part of the model's prompt template, such as Qwen's."""


def _split_partial_tag(text: str) -> tuple[str, str]:
    """Split off the end of a text if it may be the beginning of the closing tag."""
    position = text.rfind("<")
    if position >= 0 and _CLOSING_TAG.startswith(text[position:]):
        return text[:position], text[position:]
    return text, ""


def _is_same_json(text: str, other: str) -> bool:
    return is_json(other) and bool(json.loads(text) == json.loads(other))


@dataclass(slots=True)
class PartialChoice:
    """One of the choices in a reply. Only one is requested, but Copilot's relay puts the text of some models into the
    first choice and their calls into the second."""

    texts: list[str] = field(default_factory=list)
    thoughts: dict[str, list[str]] = field(default_factory=dict)
    details: list[dict[str, Any]] = field(default_factory=list)
    partial_calls: PartialCalls = field(default_factory=PartialCalls)
    citations: dict[str, list[Any]] = field(default_factory=dict)
    stop_reason: StopReason | None = None
    think_tags: ThinkTags = field(default_factory=ThinkTags)

    def add(self, delta: JsonObject) -> Iterator[Chunk]:
        """Add a delta, and yield the chunks to display."""
        yield from self._add_thoughts(delta)
        if delta.get("refusal"):
            self.stop_reason = "refusal"
        for kind, text in [*_typed_texts(delta.get("content")), *_typed_texts(delta.get("refusal"))]:
            if kind == "text":
                for part_kind, part in self.think_tags.add(text):
                    if part_kind == "text":
                        self.texts.append(part)
                        yield TextChunk(sendable_text(part))
                    else:
                        yield ReasoningChunk(sendable_text(part))
            else:
                self._add_thought("thinking", text)
                yield ReasoningChunk(sendable_text(text))
        _add_sources(self.citations, delta)
        legacy = {"index": 0, "function": delta.get("function_call")}
        for piece in (*(delta.get("tool_calls") or ()), legacy):
            if isinstance(piece, dict) and (piece.get("extra_content") or any((piece.get("function") or {}).values())):
                call = self.partial_calls.add(piece)
                index = next(
                    index for index, partial_call in enumerate(self.partial_calls.calls) if partial_call is call
                )
                yield CallChunk(index, sendable_text(call.name), call.argument_chars, sendable_text(call.id))

    def _add_thoughts(self, delta: JsonObject) -> Iterator[Chunk]:
        thought = ""
        for name in THOUGHT_FIELDS:
            if isinstance(delta.get(name), str) and delta[name]:
                self._add_thought(name, delta[name])
                thought = thought or delta[name]
        for item in delta.get(DETAILS_FIELD) or ():
            if isinstance(item, dict):
                self._add_detail(item)
                thought = thought or (item.get("text") or item.get("summary") or "" if not self.thoughts else "")
        if thought:
            yield ReasoningChunk(sendable_text(thought))

    def _add_thought(self, name: str, text: str) -> None:
        self.thoughts.setdefault(name, []).append(text)

    def _add_detail(self, item: JsonObject) -> None:
        """Merge a piece into its detail. The pieces of one detail have the same type and index."""
        key = (item.get("type"), item.get("index"))
        existing = next((detail for detail in self.details if (detail.get("type"), detail.get("index")) == key), None)
        if existing is None or None in key:
            self.details.append(dict(item))
            return
        for name, value in item.items():
            if name in ("text", "summary", "data") and isinstance(existing.get(name), str) and isinstance(value, str):
                existing[name] += value
            elif value is not None:
                existing[name] = value

    def parts(self) -> list[AssistantPart]:
        """Return the parts of the answer without its calls."""
        parts: list[AssistantPart] = []
        native: dict[str, object] = {name: sendable_text("".join(pieces)) for name, pieces in self.thoughts.items()}
        thought = next((native[name] for name in (*THOUGHT_FIELDS, "thinking") if name in native), "")
        if self.details:
            native[DETAILS_FIELD] = self.details
            thought = thought or "".join(item.get("text") or item.get("summary") or "" for item in self.details)
        text = "".join(self.texts) + self.think_tags.rest()
        if self.think_tags.is_finished:
            native[TAGGED_THOUGHT_FIELD] = sendable_text(self.think_tags.raw)
            thought = thought or "".join(self.think_tags.thought_pieces).strip()
        elif not native and _CLOSING_TAG in text and (unopened := _UNOPENED_THOUGHT.match(text)):
            native[TAGGED_THOUGHT_FIELD] = sendable_text(unopened[0])
            thought, text = unopened["thought"].strip(), text[unopened.end() :]
        if native:
            parts.append(Reasoning(sendable_text(str(thought)), native))
        parts.append(Text(sendable_text(text), dict(self.citations) or None))
        return parts


def _typed_texts(content: object) -> Iterator[tuple[str, str]]:
    """Yield the kind (`text` or `thinking`) and the text of each piece of content. Content may be text, a part, or
    a list of parts (Mistral, Anthropic's and Google's compatible servers)."""
    match content:
        case str():
            yield from [("text", content)] if content else []
        case list():
            for part in content:
                yield from _typed_texts(part)
        case {"thinking": thinking}:
            yield from (("thinking", text) for _, text in _typed_texts(thinking))
        case {"text": text}:
            yield from _typed_texts(text)
        case dict() if "type" not in content:  # an answer in JSON mode that the server has already parsed (Cloudflare)
            yield "text", json.dumps(content, ensure_ascii=False)
        case _:
            pass


def _add_sources(sources: dict[str, list[Any]], delta: JsonObject) -> None:
    """Add new sources from a delta. Perplexity repeats all sources in every frame, including repeated ones."""
    for name in CITATION_FIELDS:
        items, known_items = delta.get(name), sources.get(name, [])
        if isinstance(items, list) and items:
            is_longer = items[: len(known_items)] == known_items
            sources[name] = items if is_longer else [*known_items, *(item for item in items if item not in known_items)]


@dataclass(slots=True)
class ChatDecoder:
    """Decodes raw Chat Completions events into chunks. A completion that is not streamed is one event."""

    origin: Origin
    is_finished: bool = False
    is_complete: bool = False
    """Whether a finish reason has arrived, or the stream has ended without one. Usage may still follow."""
    _choices: dict[int, PartialChoice] = field(default_factory=dict)
    _usage: JsonObject = field(default_factory=dict)

    @property
    def api(self) -> ApiName:
        return "openai-chat"

    def feed(self, event: JsonObject) -> Iterator[Chunk]:
        if event is STREAM_END:
            self.is_finished = True
            # Snowflake, and Novita through OpenRouter, send no finish reason.
            self.is_complete = self.is_complete or any(
                partial_choice.texts or partial_choice.partial_calls.calls for partial_choice in self._choices.values()
            )
            return
        if event.get("error"):
            raise self.origin.response_error(200, {}, event)
        match event.get("base_resp"):
            case {"status_code": int(code), **status} if code:  # MiniMax, with status 200
                error = {"message": f"{status.get('status_msg') or 'error'} ({code})"}
                raise self.origin.response_error(200, {}, {"error": error | {"code": MINIMAX_STATUSES.get(code, 500)}})
        choices = [choice for choice in event.get("choices") or () if isinstance(choice, dict)]
        choice_usage = next((choice["usage"] for choice in choices if choice.get("usage")), None)  # Moonshot
        self._usage = event.get("usage") or choice_usage or self._usage
        for position, choice in enumerate(choices):
            yield from self._add_choice(self._choice_number(choice, position, choices), choice)
        if self._choices:
            _add_sources(self._choices[min(self._choices)].citations, event)

    def reply(self) -> Reply:
        choice = self._choices[min(self._choices)] if self._choices else PartialChoice()
        choice_with_calls = (
            choice
            if choice.partial_calls.calls
            else next(
                (partial_choice for partial_choice in self._choices.values() if partial_choice.partial_calls.calls),
                choice,
            )
        )
        parts = [*choice.parts(), *map(_tool_call, choice_with_calls.partial_calls.finished_calls())]
        usage = parse_openai_usage(self._usage, "prompt", "completion")
        return build_reply(
            parts, self.origin.model, usage, choice_with_calls.stop_reason or choice.stop_reason or "end"
        )

    def _choice_number(self, choice: JsonObject, position: int, choices: Sequence[JsonObject]) -> int:
        """Return the number of a choice: its index, or its position if several choices have the same index. Copilot
        gives all choices of an event the same index."""
        index = choice.get("index")
        is_unique = [event_choice.get("index") for event_choice in choices].count(index) == 1
        return index if isinstance(index, int) and is_unique else position

    def _add_choice(self, number: int, choice: JsonObject) -> Iterator[Chunk]:
        partial_choice = self._choices.setdefault(number, PartialChoice())
        chunks = partial_choice.add(_choice_delta(choice, partial_choice))
        if number == min(self._choices):
            yield from chunks
        else:
            yield from (chunk for chunk in chunks if isinstance(chunk, CallChunk))
        reason, native_reason = (
            str(choice.get(name) or "").lower() for name in ("finish_reason", "native_finish_reason")
        )
        reason = native_reason if reason and native_reason in FAILURE_REASONS else reason
        if choice.get("error") or reason in FAILURE_REASONS:
            raise self._failure_error(choice.get("error"), reason)
        if reason or (choice.get("message") and "delta" not in choice):  # an unstreamed completion may lack a reason
            self.is_complete = True
        if reason and partial_choice.stop_reason != "refusal":
            partial_choice.stop_reason = STOP_REASONS.get(reason, "end")

    def _failure_error(self, error: object, reason: str) -> Exception:
        if error:
            return self.origin.response_error(200, {}, {"error": error})
        return Overloaded(f"the {self.origin.model} server could not complete its reply ({reason}). Try again.")


def _choice_delta(choice: JsonObject, partial_choice: PartialChoice) -> JsonObject:
    """Return what a choice adds: its delta, or its message if the completion is not streamed. Perplexity sends both;
    its message repeats all the text so far."""
    delta, message = choice.get("delta") or {}, choice.get("message") or {}
    is_empty = not any(value for name, value in delta.items() if name != "role")
    return (
        message
        if message and is_empty and not partial_choice.texts and not partial_choice.partial_calls.calls
        else delta
    )


def _tool_call(call: PartialCall) -> ToolCall:
    return replace(build_call(call.id, call.name, call.final_source), native=call.native or None)
