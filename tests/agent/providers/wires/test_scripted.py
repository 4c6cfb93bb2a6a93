"""The scripted model: it refuses what no server takes, and reads and counts as it is told."""

from dataclasses import replace

import pytest

from ebbtide.agent.errors import BadRequest
from ebbtide.agent.messages import Assistant, Reasoning, Text, ToolCall, ToolOutput, User
from ebbtide.agent.providers.base import Request
from ebbtide.agent.providers.wires.scripted import (
    ScriptedProvider,
    find_rejection_reason,
    parse_script,
    signed_reasoning,
)
from tests.kit.adapters import READ, hello, last

NAME = "scripted/script"
ASKS = User((Text("go"),))
CALLS = Assistant((Reasoning("Hm.", signed_reasoning("Hm.")), ToolCall("c", "read", {})), NAME)
READS = User((ToolOutput("c", "the file"),))
GOOD = replace(hello(), messages=(ASKS, CALLS, READS))


def with_thought(text: str, native: dict[str, object]) -> Request:
    return replace(GOOD, messages=(ASKS, replace(CALLS, parts=(Reasoning(text, native), *CALLS.parts[1:])), READS))


BAD = [
    (replace(GOOD, messages=()), "no messages"),
    (replace(GOOD, messages=(ASKS, CALLS)), "the call `c` has no output"),
    (replace(GOOD, messages=(ASKS, CALLS, ASKS)), "outputs of [] follow calls of ['c']"),
    (replace(GOOD, messages=(ASKS, READS)), "outputs of ['c'] follow calls of []"),
    (replace(GOOD, messages=(ASKS, CALLS, User(READS.parts * 2))), "outputs of ['c', 'c']"),
    (replace(GOOD, messages=(ASKS, CALLS, CALLS, READS)), "the call `c` has no output"),
    (replace(GOOD, tools=(READ, READ)), "`read` is defined twice"),
    (replace(GOOD, max_output_tokens=0), "no space"),
    (with_thought("Hm!", dict(signed_reasoning("Hm."))), "a thought is not as"),
    (with_thought("Hm!", {**signed_reasoning("Hm."), "text": "Hm!"}), "a thought is not as"),
    (with_thought("Hm.", {"type": "reasoning", "text": "Hm."}), "a thought is not as"),
]


@pytest.mark.parametrize(("request_", "says"), BAD, ids=[says for _, says in BAD])
async def test_a_request_that_no_server_takes_is_refused(request_: Request, says: str) -> None:
    assert find_rejection_reason(GOOD, NAME) is None
    provider = ScriptedProvider.from_replies({"text": "fine"})
    with pytest.raises(BadRequest, match="no server would accept this request") as caught:
        await last(provider, request_)
    assert says in str(caught.value)
    assert (await last(provider, GOOD)).message.text == "fine"


async def test_its_own_thoughts_come_back_to_it_and_those_of_others_may_be_anything() -> None:
    provider = ScriptedProvider.from_replies({"reasoning": "Hm.", "calls": [{"name": "read"}]}, {"text": "fine"})
    reply = (await last(provider, hello())).message
    outputs = User((ToolOutput(reply.calls[0].id, "x"),))
    other = Assistant((Reasoning("x", {}), Text("y")), "other/model")
    request = replace(hello(), messages=(*hello().messages, reply, outputs, other, ASKS))
    assert (await last(provider, request)).message.text == "fine"


async def test_it_may_read_only_the_newest_tokens_and_may_count_too_many() -> None:
    long = replace(hello(), messages=(User((Text("word " * 4_000),)),))
    true = (await last(ScriptedProvider.from_replies({"text": "fine"}), long)).usage.prompt
    cuts = parse_script(b'reads = 900\n[[reply]]\ntext = "a"\n[[reply]]\ntext = "b"', is_json=False)
    provider = ScriptedProvider(cuts)
    assert (await last(provider, long)).usage.prompt == 900
    assert (await last(provider, hello())).usage.prompt < 900
    counts = parse_script(b'{"counts": 1.4, "reply": [{"text": "a"}]}', is_json=True)
    assert (await last(ScriptedProvider(counts), long)).usage.prompt == round(true * 1.4)


@pytest.mark.parametrize("line", ["reads = 0", "reads = true", 'counts = "2"', "counts = -1", "context_window = 'a'"])
def test_a_setting_that_makes_no_sense_is_named(line: str) -> None:
    with pytest.raises(ValueError, match=line.partition(" ")[0]):
        parse_script(f"{line}\nreply = []".encode(), is_json=False)
