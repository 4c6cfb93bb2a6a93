"""Request n is the beginning of request n+1 as bytes, on every wire, whatever was said."""

import itertools
import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.messages import Assistant, Conversation, Text, User
from ebbtide.agent.prompt.build import Instructions, build_prompt
from ebbtide.agent.providers.base import Request
from ebbtide.agent.providers.wires import ollama, openai_chat
from ebbtide.agent.providers.wires.http import JsonObject
from tests.kit.adapters import ADAPTERS, READ, SHELL, WINDOW, Adapter
from tests.kit.conversations import conversations
from tests.kit.model_replies import spoken_by
from tests.kit.strict_api import Rules, refusal

CHAT, OLLAMA = ADAPTERS[2:4]


def without_marks(value: object) -> object:
    match value:
        case dict():
            marks = ("cache_control", "prompt_cache_breakpoint")
            return {name: without_marks(item) for name, item in value.items() if name not in marks}
        case list():
            return [without_marks(item) for item in value]
        case _:
            return value


def as_bytes(body: JsonObject) -> tuple[str, str]:
    """What stands before the messages, and the messages up to where more may be added to the last."""
    conversation = body.get("messages", body.get("input"))
    rest = {name: value for name, value in body.items() if name not in ("messages", "input")}
    return json.dumps(without_marks(rest)), json.dumps(without_marks(conversation)).rstrip('"]}')


@given(st.sampled_from(ADAPTERS), conversations(), st.data())
def test_a_body_is_the_beginning_of_the_next(adapter: Adapter, conversation: Conversation, data: st.DataObject) -> None:
    messages = tuple(spoken_by(message, adapter, own=data.draw(st.booleans())) for message in conversation.messages)
    answered = [end for end, message in enumerate(messages) if end and isinstance(message, Assistant)]
    sent: list[tuple[str, str]] = []
    for end in (*answered, len(messages)):
        prompt = build_prompt(replace(conversation, messages=messages[:end]), Instructions("Be brief.", "here"))
        request = Request(
            prompt.system, prompt.messages, (READ, SHELL), 1_000, "session-1", None, prompt.shared_prefix_chars
        )
        sent.append(as_bytes(adapter.body(request, adapter.facts)))
    for (static, before), (static_after, after) in itertools.pairwise(sent):
        assert static == static_after
        assert after.startswith(before)


@given(st.sampled_from(ADAPTERS), conversations(), st.data())
def test_no_api_refuses_a_body(adapter: Adapter, conversation: Conversation, data: st.DataObject) -> None:
    """Whatever was said, by this model or another, and whether tools are still offered or not."""
    spoken = (spoken_by(message, adapter, own=data.draw(st.booleans())) for message in conversation.messages)
    messages = (User((Text("Go."),)), *spoken)
    tools = data.draw(st.sampled_from([(READ, SHELL), ()]))
    prompt = build_prompt(replace(conversation, messages=messages), Instructions("Be brief.", "here"))
    request = Request(prompt.system, prompt.messages, tools, 1_000, "session-1", None, prompt.shared_prefix_chars)
    assert refusal(adapter.name, adapter.body(request, adapter.facts)) is None


@given(st.sampled_from([CHAT, OLLAMA]), conversations(), st.data())
def test_roles_alternate_where_a_template_demands_it(
    adapter: Adapter, conversation: Conversation, data: st.DataObject
) -> None:
    spoken = (spoken_by(message, adapter, own=data.draw(st.booleans())) for message in conversation.messages)
    prompt = build_prompt(
        replace(conversation, messages=(User((Text("Go."),)), *spoken)), Instructions("Be brief.", "here")
    )
    request = Request(
        prompt.system, prompt.messages, (READ, SHELL), 1_000, "session-1", None, prompt.shared_prefix_chars
    )
    quirks = frozenset({"alternating"})
    if adapter is CHAT:
        body = openai_chat.build_body(request, adapter.facts, quirks)
    else:
        body = ollama.build_body(request, adapter.facts, WINDOW.size, quirks=quirks)
    assert refusal(adapter.name, body, Rules(alternates=True)) is None
