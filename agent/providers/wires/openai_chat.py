"""The Chat Completions API, for any compatible server: request bodies and stream events."""

from typing import cast

from ebbtide.agent.messages import (
    Assistant,
    Image,
    Message,
    Note,
    Reasoning,
    Text,
    ToolCall,
    User,
)
from ebbtide.agent.providers import wires
from ebbtide.agent.providers.base import ModelFacts, Request
from ebbtide.agent.providers.wires.adapter import Adapter
from ebbtide.agent.providers.wires.chat_decoder import (
    DETAILS_FIELD,
    TAGGED_THOUGHT_FIELD,
    THOUGHT_FIELDS,
    ChatDecoder,
)
from ebbtide.agent.providers.wires.decoder import (
    OMITTED_IMAGE_TEXT,
    TOOL_IMAGES_HEADING,
    CallIds,
    ShortCallIds,
    can_send_images,
    output_text,
    parse_arguments,
)
from ebbtide.agent.providers.wires.encoding import EncodedMessages, RequestEncodingCache
from ebbtide.agent.providers.wires.http import JsonObject
from ebbtide.agent.providers.wires.quirks import ALTERNATION_CLUES, with_alternating_roles
from ebbtide.agent.providers.wires.tool_definitions import make_schema_sendable, sendable_name, shorten_description
from ebbtide.agent.view.long_texts import sendable_text
from ebbtide.tools.lazy import regex

QUIRK_CLUES = {
    "stream_options": "no stream_options",
    "max_completion_tokens": "max_completion_tokens",
    "reasoning_content": "no thoughts",
    "property 'reasoning'": "no thoughts",  # Groq
    ".reasoning: reasoning is not supported": "no thoughts",
    "reasoningEffort": "no effort",  # xAI
    "reasoning_effort": "no effort",
    "strings with length 9": "short call ids",  # chat templates of Mistral's models
    **ALTERNATION_CLUES,
}
DEMANDED_QUIRK_CLUES = {"reasoning_content": "empty thoughts", "with a length of 9": "short call ids"}
"""Error texts that reveal a required field, and the quirk that adds it. DeepSeek and Moonshot require thoughts with
every call, even if the call came from another model or the model did not think."""
OPENAI_QUIRKS = frozenset({"max_completion_tokens", "prompt_cache_key"})
"""Quirks of OpenAI's own server: it accepts these fields, but other servers might reject them."""

MISTRAL_QUIRKS = frozenset({"no stream_options", "short call ids"})
"""Quirks of Mistral's server: it rejects unknown fields, always sends the usage, and accepts only call ids of nine
letters and digits."""

UNSIGNED_CALL_FIELDS: JsonObject = {
    "extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}
}
"""Fields for calls made by another model. Since version 3, Gemini rejects calls without a signature; its documentation
gives this value for them (pipecat issue 5809)."""
_SIGNING_MODEL = regex(r"gemini/(?:models/)?gemini-(?:[3-9]|\d\d)")
MAX_CALL_ID_CHARS = 40
"""Maximum length of a call id at OpenAI, in characters."""
MAX_DESCRIPTION_CHARS = 1024
"""Maximum length of a tool description, in characters."""


def build_body(
    request: Request,
    facts: ModelFacts,
    quirks: frozenset[str] = frozenset(),
    encoding_cache: "RequestEncodingCache[ChatEncoder] | None" = None,
) -> JsonObject:
    """Return the JSON body of a request. `encoding_cache`: the encoded messages of the previous request, which are
    reused."""
    limit_field = "max_completion_tokens" if "max_completion_tokens" in quirks else "max_tokens"
    encoded = (encoding_cache or RequestEncodingCache(ChatEncoder)).encode(
        request.messages,
        request.system,
        facts,
        "no thoughts" not in quirks,
        "empty thoughts" in quirks,
        "short call ids" in quirks,
    )
    messages = with_alternating_roles(encoded.build_items()) if "alternating" in quirks else encoded.build_items()
    body: JsonObject = {
        "model": facts.name,
        "messages": messages,
        limit_field: request.max_output_tokens,
        "stream": True,
    }
    if "no stream_options" not in quirks:
        body["stream_options"] = {"include_usage": True}
    if "prompt_cache_key" in quirks:
        body["prompt_cache_key"] = request.session_id
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": shorten_description(tool.description, MAX_DESCRIPTION_CHARS),
                    "parameters": make_schema_sendable(tool.schema),
                },
            }
            for tool in request.tools
        ]
    if facts.temperature is not None:
        body["temperature"] = facts.temperature
    if facts.thinking == "effort" and request.effort and "no effort" not in quirks:
        body["reasoning_effort"] = request.effort
    return body


class ChatEncoder:
    """Encodes the conversation. Thoughts of earlier turns are sent as well, because removing them later would
    invalidate the server's cache. The server itself drops thoughts that the model must not read again."""

    def __init__(
        self, system: str, facts: ModelFacts, keeps_thoughts: bool, needs_thoughts: bool, has_short_ids: bool
    ) -> None:
        self.encoded_messages = EncodedMessages()
        self.encoded_messages.add([{"role": "system", "content": sendable_text(system)}] if system.strip() else [])
        self._facts, self._keeps_thoughts, self._needs_thoughts = facts, keeps_thoughts, needs_thoughts
        self._ids = ShortCallIds() if has_short_ids else CallIds(facts.id, max_chars=MAX_CALL_ID_CHARS)
        self._unsigned_call_fields = UNSIGNED_CALL_FIELDS if _SIGNING_MODEL.match(facts.id) else {}

    def add(self, message: Message) -> None:
        if isinstance(message, Assistant):
            self._ids.add(message)
            is_from_same_model = message.model == self._facts.id
            encoded = _assistant_messages(
                message,
                self._ids,
                is_from_same_model,
                is_from_same_model and self._keeps_thoughts,
                self._unsigned_call_fields,
            )
            if self._needs_thoughts and message.calls:
                encoded[0].setdefault(THOUGHT_FIELDS[0], "")
            self.encoded_messages.add(encoded)
        else:
            self.encoded_messages.add(_user_messages(message, self._facts, self._ids))


def _user_messages(message: User, facts: ModelFacts, ids: CallIds) -> list[JsonObject]:
    """Split a user message into the API's messages: one for each output, then one with the user's text. The last one
    also contains the outputs' images, because outputs can only be text. This order keeps the beginning unchanged when
    the message grows."""
    converted: list[JsonObject] = [
        {"role": "tool", "tool_call_id": ids[output.call_id], "content": output_text(output)}
        for output in message.outputs
    ]
    output_images = [image for output in message.outputs for image in output.images]
    parts = [_text_part(TOOL_IMAGES_HEADING)] if output_images else []
    parts += [_image_part(image, facts) for image in output_images]
    for part in message.parts:
        match part:
            case Text(text=text) | Note(text=text) if text:
                parts.append(_text_part(text))
            case Image():
                parts.append(_image_part(part, facts))
            case _:
                pass
    if all(part["type"] == "text" for part in parts):
        text = "\n".join(part["text"] for part in parts)  # plain text, since some servers understand nothing else
        return [*converted, {"role": "user", "content": text}] if text else converted
    return [*converted, {"role": "user", "content": parts}]


def _text_part(text: str) -> JsonObject:
    return {"type": "text", "text": sendable_text(text)}


def _image_part(image: Image, facts: ModelFacts) -> JsonObject:
    if not can_send_images(facts):
        return _text_part(OMITTED_IMAGE_TEXT)
    return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{image.data}"}}


def _assistant_messages(
    message: Assistant, ids: CallIds, is_from_same_model: bool, keeps_thoughts: bool, unsigned_call_fields: JsonObject
) -> list[JsonObject]:
    if not message.text and not message.calls:
        return []  # servers reject a message without text or calls, even if it has thoughts
    thoughts = [part.native for part in message.parts if isinstance(part, Reasoning)] if keeps_thoughts else []
    tagged_thought = "".join(str(thought.get(TAGGED_THOUGHT_FIELD, "")) for thought in thoughts)
    converted: JsonObject = {"role": "assistant", "content": tagged_thought + sendable_text(message.text) or None}
    for name in THOUGHT_FIELDS:
        if any(name in thought for thought in thoughts):
            converted[name] = "".join(str(thought.get(name, "")) for thought in thoughts)
    if details := [item for thought in thoughts for item in cast(list[JsonObject], thought.get(DETAILS_FIELD, ()))]:
        converted[DETAILS_FIELD] = details
    if message.calls:
        converted["tool_calls"] = [
            {
                "id": ids[call.id],
                "type": "function",
                "function": {"name": sendable_name(call.called or call.name), "arguments": _arguments_text(call)},
                **(call.native or {} if is_from_same_model else unsigned_call_fields),
            }
            for call in message.calls
        ]
    return [converted]


def _arguments_text(call: ToolCall) -> str:
    """Return the arguments as text. Invalid arguments would make the request fail, because some servers parse them for
    their chat template."""
    if call.problem and not parse_arguments(call.source)[0]:
        return "{}"
    return call.arguments_text


ADAPTER = Adapter(
    path="/chat/completions",
    build_body=lambda request, facts, _, quirks, written: build_body(request, facts, quirks, written),
    create_encoder=ChatEncoder,
    create_decoder=ChatDecoder,
    create_sdk_wire=lambda origin: wires.sdk.SdkWire(
        "openai", origin, wires.sdk.create_openai_client, lambda client: client.chat.completions
    ),
    quirk_by_clue=QUIRK_CLUES,
    demanded_quirk_by_clue=DEMANDED_QUIRK_CLUES,
    known_quirks_by_host={"api.openai.com": OPENAI_QUIRKS, "api.mistral.ai": MISTRAL_QUIRKS},
)
"""Adapter for any server with the Chat Completions API. The server's address is the endpoint's `base_url`."""
