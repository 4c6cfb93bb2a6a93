"""Requests that are made of what was written before are the bytes that would be written anew, on every wire."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.budget.prefix import Breakpoints, plan_breakpoints
from ebbtide.agent.messages import Conversation
from ebbtide.agent.prompt.build import Instructions
from ebbtide.agent.prompt.view_cache import ViewCache
from ebbtide.agent.providers.base import ModelFacts, Request
from ebbtide.agent.providers.wires import anthropic, ollama, openai_chat, openai_responses
from ebbtide.agent.providers.wires.encoding import RequestEncodingCache, encode_body
from ebbtide.agent.providers.wires.http import JsonObject
from tests.agent.prompt.test_message_cache import grown
from tests.kit.adapters import ADAPTERS, READ, SHELL, WINDOW, Adapter
from tests.kit.fake_frames import WireName
from tests.kit.model_replies import spoken_by

Make = Callable[[Request, ModelFacts, Any], JsonObject]
WRITERS: Mapping[WireName, tuple[type, Make]] = {
    "anthropic": (anthropic.AnthropicEncoder, anthropic.build_body),
    "responses": (openai_responses.ResponsesEncoder, lambda r, f, w: openai_responses.build_body(r, f, frozenset(), w)),
    "chat": (openai_chat.ChatEncoder, lambda r, f, w: openai_chat.build_body(r, f, frozenset(), w)),
    "ollama": (ollama.OllamaEncoder, lambda r, f, w: ollama.build_body(r, f, WINDOW.size, w)),
}


@given(st.sampled_from(ADAPTERS), grown(), st.data())
def test_what_was_written_before_is_what_would_be_written(
    adapter: Adapter, views: list[Conversation], data: st.DataObject
) -> None:
    kind, body = WRITERS[adapter.name]
    view, written = ViewCache(), RequestEncodingCache(kind)
    known: dict[int, Any] = {}
    under_way: list[tuple[JsonObject, str]] = []
    length = 0
    for conversation in views:
        messages = tuple(
            known.setdefault(id(m), (m, spoken_by(m, adapter, own=data.draw(st.booleans()))))[1]
            for m in view.build_prompt(conversation, Instructions("s")).messages
        )
        marks = plan_breakpoints(messages, length, 0) if data.draw(st.booleans()) else Breakpoints()
        length = sum(len(message.parts) for message in messages)
        request = Request("Be brief.", messages, (READ, SHELL), 1_000, "s", None, 0, marks)
        encoded = json.dumps(adapter.body(request, adapter.facts), ensure_ascii=False, separators=(",", ":"))
        made = body(request, adapter.facts, written)
        assert encode_body(made).decode() == encoded
        under_way.append((made, encoded))
    for made, encoded in under_way:  # what is under way is not changed by what follows
        assert json.dumps(made, ensure_ascii=False, separators=(",", ":")) == encoded
