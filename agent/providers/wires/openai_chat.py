"""The Chat Completions API, for any compatible server: request bodies and stream events."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from ebbtide.agent.context.long_texts import sendable
from ebbtide.agent.messages import (
    Assistant,
    AssistantPart,
    Image,
    Message,
    Note,
    Reasoning,
    StopReason,
    Text,
    ToolCall,
    User,
)
from ebbtide.agent.providers.base import CallChunk, Chunk, ModelFacts, ReasoningChunk, Reply, Request, TextChunk
from ebbtide.agent.providers.wires.adapter import Adapter
from ebbtide.agent.providers.wires.decoder import (
    NO_IMAGE,
    TOOL_IMAGES,
    CallIds,
    make_call,
    make_reply,
    openai_usage,
    output_text,
    read_arguments,
    takes_images,
)
from ebbtide.agent.providers.wires.encoding import EncodedMessages, WrittenRequest
from ebbtide.agent.providers.wires.http import STREAM_END, Json
from ebbtide.agent.providers.wires.origin import Origin
from ebbtide.agent.providers.wires.quirks import ALTERNATION, alternating
from ebbtide.agent.providers.wires.sdk import SdkWire, openai_client
from ebbtide.agent.providers.wires.tool_definitions import sent_schema, shortened_description, wire_name

QUIRKS = {
    "stream_options": "no stream_options",
    "max_completion_tokens": "max_completion_tokens",
    "reasoning_content": "no thoughts",
    **ALTERNATION,
}
AT_OPENAI = frozenset({"max_completion_tokens", "prompt_cache_key"})
"""Fields that OpenAI's own server accepts and others may reject."""

LONGEST_ID = 40
"""Longest call id that OpenAI's server accepts, in characters."""
LONGEST_DESCRIPTION = 1024
"""Longest tool description, in characters."""

STOPS: dict[str, StopReason] = {
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "max_tokens",
    "content_filter": "refusal",
}
"""Any other finish reason is an ordinary end."""

THOUGHTS = ("reasoning_content", "reasoning")
"""The fields in which servers send thinking. Only the first is sent back, and only to the same model."""


def body(
    request: Request,
    facts: ModelFacts,
    quirks: frozenset[str] = frozenset(),
    written: "WrittenRequest[ChatWriter] | None" = None,
) -> Json:
    """The JSON body of a request. `written`: the messages already encoded for the previous request, which are
    reused."""
    limit = "max_completion_tokens" if "max_completion_tokens" in quirks else "max_tokens"
    sheet = (written or WrittenRequest(ChatWriter)).of(
        request.messages, request.system, facts, "no thoughts" not in quirks
    )
    messages = alternating(sheet.items()) if "alternating" in quirks else sheet.items()
    content: Json = {
        "model": facts.name,
        "messages": messages,
        limit: request.max_output_tokens,
        "stream": True,
    }
    if "no stream_options" not in quirks:
        content["stream_options"] = {"include_usage": True}
    if "prompt_cache_key" in quirks:
        content["prompt_cache_key"] = request.session
    if request.tools:
        content["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": shortened_description(tool.description, LONGEST_DESCRIPTION),
                    "parameters": sent_schema(tool.schema),
                },
            }
            for tool in request.tools
        ]
    if facts.temperature is not None:
        content["temperature"] = facts.temperature
    if facts.thinking == "effort" and request.effort:
        content["reasoning_effort"] = request.effort
    return content


class ChatWriter:
    """Encodes the conversation. Thoughts of earlier turns stay: removing them later would invalidate the server's
    cache. The server itself drops those that the model must not see again."""

    def __init__(self, system: str, facts: ModelFacts, keeps_thoughts: bool) -> None:
        self.sheet = EncodedMessages()
        self.sheet.add([{"role": "system", "content": sendable(system)}] if system.strip() else [])
        self._facts, self._keeps_thoughts = facts, keeps_thoughts
        self._ids = CallIds(facts.id, longest=LONGEST_ID)

    def add(self, message: Message) -> None:
        if isinstance(message, Assistant):
            self._ids.add(message)
            keeps = self._keeps_thoughts and message.model == self._facts.id
            self.sheet.add(_assistant(message, self._ids, keeps))
        else:
            self.sheet.add(_user(message, self._facts, self._ids))


def _user(message: User, facts: ModelFacts, ids: CallIds) -> list[Json]:
    """Outputs as separate messages; then their images, which outputs cannot contain, and the user's text, in order:
    a message that grows keeps its beginning."""
    converted: list[Json] = [
        {"role": "tool", "tool_call_id": ids[output.call_id], "content": output_text(output)}
        for output in message.outputs
    ]
    of_tools = [image for output in message.outputs for image in output.images]
    parts = [_text(TOOL_IMAGES)] if of_tools else []
    parts += [_image(image, facts) for image in of_tools]
    for part in message.parts:
        match part:
            case Text(text=text) | Note(text=text) if text:
                parts.append(_text(text))
            case Image():
                parts.append(_image(part, facts))
            case _:
                pass
    if all(part["type"] == "text" for part in parts):
        text = "\n".join(part["text"] for part in parts)  # also understood by servers without images
        return [*converted, {"role": "user", "content": text}] if text else converted
    return [*converted, {"role": "user", "content": parts}]


def _text(text: str) -> Json:
    return {"type": "text", "text": sendable(text)}


def _image(image: Image, facts: ModelFacts) -> Json:
    if not takes_images(facts):
        return _text(NO_IMAGE)
    return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{image.data}"}}


def _assistant(message: Assistant, ids: CallIds, keeps_thoughts: bool) -> list[Json]:
    if not message.text and not message.calls:
        return []
    converted: Json = {"role": "assistant", "content": sendable(message.text) or None}
    thoughts = [part.native for part in message.parts if isinstance(part, Reasoning)] if keeps_thoughts else []
    if any(THOUGHTS[0] in thought for thought in thoughts):
        converted[THOUGHTS[0]] = "".join(str(thought.get(THOUGHTS[0], "")) for thought in thoughts)
    if message.calls:
        converted["tool_calls"] = [
            {
                "id": ids[call.id],
                "type": "function",
                "function": {"name": wire_name(call.called or call.name), "arguments": _source(call)},
            }
            for call in message.calls
        ]
    return [converted]


def _source(call: ToolCall) -> str:
    """The arguments as text. Servers with a chat template parse them, so invalid ones would fail the request."""
    if call.problem and not read_arguments(call.source)[0]:
        return "{}"
    return call.source if call.source.strip() else json.dumps(dict(call.arguments), ensure_ascii=False)


@dataclass(slots=True)
class PartialCall:
    """A call whose pieces are arriving."""

    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    size: int = 0


@dataclass(slots=True)
class ChatDecoder:
    """Decodes raw Chat Completions events into chunks."""

    origin: Origin
    finished: bool = False
    complete: bool = False
    """Whether a finish reason has arrived. The usage may follow it."""
    _texts: list[str] = field(default_factory=list)
    _thoughts: list[str] = field(default_factory=list)
    _thoughts_field: str = THOUGHTS[0]
    _calls: list[PartialCall] = field(default_factory=list)
    _places: dict[int, PartialCall] = field(default_factory=dict)
    """The newest call at each `index` that the server gave."""
    _usage: Json = field(default_factory=dict)
    _stop: StopReason = "end"

    def feed(self, event: Json) -> Iterator[Chunk]:
        if event is STREAM_END:
            self.finished = True
            return
        if event.get("error"):
            raise self.origin.failure(200, {}, event)
        self._usage = event.get("usage") or self._usage
        for choice in (event.get("choices") or ())[:1]:
            yield from self._add(choice.get("delta") or choice.get("message") or {})
            if choice.get("finish_reason"):
                self.complete = True
                if self._stop != "refusal":
                    self._stop = STOPS.get(choice["finish_reason"], "end")

    def reply(self) -> Reply:
        parts: list[AssistantPart] = []
        if thoughts := sendable("".join(self._thoughts)):
            parts.append(Reasoning(thoughts, {self._thoughts_field: thoughts}))
        parts.append(Text(sendable("".join(self._texts))))
        parts += [make_call(call.id, call.name, "".join(call.pieces)) for call in self._calls]
        return make_reply(parts, self.origin.model, openai_usage(self._usage, "prompt", "completion"), self._stop)

    def _add(self, delta: Json) -> Iterator[Chunk]:
        for name in THOUGHTS:
            if isinstance(delta.get(name), str) and delta[name]:
                self._thoughts_field = name
                self._thoughts.append(delta[name])
                yield ReasoningChunk(sendable(delta[name]))
                break  # a server that sends both fields sends the same text in both
        if delta.get("refusal"):
            self._stop = "refusal"
        for text in (delta.get("content"), delta.get("refusal")):
            if text:
                self._texts.append(text)
                yield TextChunk(sendable(text))
        for piece in delta.get("tool_calls") or ():
            yield self._add_call(piece)

    def _add_call(self, piece: Json) -> CallChunk:
        function = piece.get("function") or {}
        call = self._find(piece.get("index"), piece.get("id") or "", bool(function.get("name")))
        call.id = call.id or piece.get("id") or ""
        call.name = call.name or function.get("name") or ""
        arguments = function.get("arguments") or ""
        if isinstance(arguments, dict):  # some servers send an object
            arguments = json.dumps(arguments, ensure_ascii=False)
        call.pieces.append(arguments)
        call.size += len(arguments)
        place = next(place for place, known in enumerate(self._calls) if known is call)
        return CallChunk(place, sendable(call.name), call.size, sendable(call.id))

    def _find(self, index: int | None, id: str, named: bool) -> PartialCall:
        """The call that a piece belongs to, or a new one. Some servers omit the index or use the same one for all
        calls; some repeat the id in every piece."""
        if index is not None:
            known = self._places.get(index)
        elif id:
            known = next((call for call in self._calls if call.id == id), None)
        else:
            known = None if named or not self._calls else self._calls[-1]
        if known is None or (id and named and known.id != id):
            known = PartialCall()
            self._calls.append(known)
            if index is not None:
                self._places[index] = known
        return known


ADAPTER = Adapter(
    path="/chat/completions",
    body=lambda request, facts, _, quirks, written: body(request, facts, quirks, written),
    writer=ChatWriter,
    decoder=ChatDecoder,
    sdk=lambda origin: SdkWire("openai", origin, openai_client, lambda client: client.chat.completions),
    quirks=QUIRKS,
    known_quirks={"api.openai.com": AT_OPENAI},
)
"""Any server with the Chat Completions API; its address is the endpoint's `base_url`."""
