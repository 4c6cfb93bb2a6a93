"""What servers refuse is said otherwise from then on."""

import pytest

from ebbtide.agent.messages import Assistant, Image, Reasoning, Text, ToolCall, ToolOutput, User
from ebbtide.agent.providers.base import Request
from tests.kit.adapters import ADAPTERS, PIXEL, WINDOW, collect, endpoint_of
from tests.kit.fake_provider import FakeProvider, Rules, Turn

CHAT, OLLAMA = ADAPTERS[2], ADAPTERS[3]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "Unexpected role 'user' after role 'tool'"),
        (400, "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."),
        (500, "Conversation roles must alternate user/assistant/user/assistant/... at row 12, column 68"),
        (500, "Roles must alternate"),
    ],
)
async def test_whatever_a_server_says_of_roles_they_alternate_from_then_on(status: int, said: str) -> None:
    calls = Assistant((ToolCall("c", "read", {}),), CHAT.facts.id)
    asked = Request(
        "", (User((Text("one"),)), calls, User((ToolOutput("c", "the file"), Text("Go on.")))), (), 1_000, "s"
    )
    with FakeProvider([Turn(status=status, body={"error": {"message": said}}), Turn(text="fine")]) as server:
        provider = CHAT.make(CHAT.facts, WINDOW, endpoint_of(CHAT, server.url), "http")
        await collect(provider, asked)
        await provider.close()
        first, second = ([message["role"] for message in each.body["messages"]] for each in server.requests)
    assert (first[-2:], second[-2:]) == (["tool", "user"], ["assistant", "tool"])


async def test_ollama_is_told_in_one_message_what_a_template_refuses_in_two_with_the_pictures() -> None:
    calls = Assistant((ToolCall("c", "read", {}),), OLLAMA.facts.id)
    outputs = User((ToolOutput("c", "the file"), Text("Go on."), Image("image/png", PIXEL)))
    asked = Request("Be brief.", (User((Text("one"),)), calls, outputs), (), 1_000, "session-1")
    with FakeProvider([Turn(text="fine"), Turn(text="fine")], rules=Rules(alternates=True)) as server:
        provider = OLLAMA.make(OLLAMA.facts, WINDOW, endpoint_of(OLLAMA, server.url), "http")
        await collect(provider, asked)
        await collect(provider, asked)
        await provider.close()
        assert ["must alternate" in why for why in server.refused] == [True]
        server.refused.clear()
        first, second, third = (request.body["messages"] for request in server.requests)
    tool, follows = first[-2:]
    assert second == third == [*first[:-2], {**tool, "content": "the file\n\nGo on.", "images": follows["images"]}]


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        ("The `reasoning_content` in the thinking mode must be passed back to the API.", ["", "Hm."]),
        ("thinking is enabled but reasoning_content is missing in assistant tool call message at index 2", ["", "Hm."]),
        ("property 'messages.1.reasoning_content' is unsupported", [None, None]),
    ],
    ids=["DeepSeek", "Moonshot", "Groq"],
)
async def test_thoughts_are_sent_with_calls_where_a_server_demands_them(answer: str, sent: list[str | None]) -> None:
    """kimi-agent-sdk 169, opencode 25758: the error names the field as one that rejects it does."""
    without = Assistant((ToolCall("a", "read", {}),), "other/model")
    thought = Assistant((Reasoning("Hm.", {"reasoning_content": "Hm."}), ToolCall("b", "read", {})), CHAT.facts.id)
    outputs = [User((ToolOutput(id, "the file"),)) for id in ("a", "b")]
    messages = (User((Text("one"),)), without, outputs[0], thought, outputs[1])
    with FakeProvider([Turn(status=400, body={"error": {"message": answer}}), Turn(text="fine")]) as server:
        provider = CHAT.make(CHAT.facts, WINDOW, endpoint_of(CHAT, server.url), "http")
        await collect(provider, Request("", messages, (), 1_000, "s"))
        await provider.close()
        calls = [each for each in server.requests[-1].body["messages"] if each["role"] == "assistant"]
    assert [each.get("reasoning_content") for each in calls] == sent
