"""What servers refuse is said otherwise from then on."""

from agent.messages import Assistant, Image, Text, ToolCall, ToolOutput, User
from agent.providers.base import Request
from tests.agent.providers.cases import ADAPTERS, PIXEL, WINDOW, collect, endpoint_of
from tests.fake_provider import FakeProvider, Rules, Turn

OLLAMA = ADAPTERS[3]


async def test_ollama_is_told_in_one_message_what_a_template_refuses_in_two_with_the_pictures() -> None:
    calls = Assistant((ToolCall("c", "read", {}),), OLLAMA.facts.id)
    outputs = User((ToolOutput("c", "the file"), Text("Go on."), Image("image/png", PIXEL)))
    talk = Request("Be brief.", (User((Text("one"),)), calls, outputs), (), 1_000, "session-1")
    with FakeProvider([Turn(text="fine"), Turn(text="fine")], rules=Rules(alternates=True)) as server:
        provider = OLLAMA.make(OLLAMA.facts, WINDOW, endpoint_of(OLLAMA, server.url), "http")
        await collect(provider, talk)
        await collect(provider, talk)
        await provider.close()
        assert ["must alternate" in why for why in server.refused] == [True]
        server.refused.clear()
        first, second, third = (request.body["messages"] for request in server.requests)
    tool, follows = first[-2:]
    assert second == third == [*first[:-2], {**tool, "content": "the file\n\nGo on.", "images": follows["images"]}]
