"""What servers ask of us goes to the desk, and the answer back to the server, in both generations of the protocol."""

import json
from pathlib import Path
from typing import Any

import pytest

from ebbtide.tools.base import Result, ToolError, no_progress
from ebbtide.tools.integrations.mcp.client_handlers import (
    AcceptedAnswer,
    ClientHandlers,
    DeclinedAnswer,
    DismissedAnswer,
    ElicitationAnswer,
    SamplingMessage,
    SamplingRefusal,
    SamplingReply,
    SamplingRequest,
)
from tests.tools.integrations.mcp.conftest import Starts, everything, raw
from tests.tools.integrations.mcp.desks import RecordingDesk

FORM = {
    "type": "object",
    "properties": {"name": {"type": "string", "title": "Name", "description": "Yours"}},
    "required": ["name"],
}


async def test_a_server_of_today_asks_user_model_and_folders(start: Starts, tmp_path: Path) -> None:
    handlers = RecordingDesk(AcceptedAnswer({"name": "Ann"}), SamplingReply("Knock knock.", "some-model"), (tmp_path,))
    server = start(everything(), handlers)
    assert (await server.wait_until_started()).protocol == "2026-07-28"
    assert [await server.call(name, {}, no_progress) for name in ("greet", "joke", "folders")] == [
        Result("Hello Ann"),
        Result("some-model: Knock knock."),
        Result(tmp_path.as_uri()),
    ]
    joke = SamplingRequest((SamplingMessage("user", "Tell a joke."),), 50, system_prompt="Be funny.")
    (message, schema), asked = handlers.asked[0][1:3], handlers.asked[1:]  # type: ignore[index]  # a tuple
    assert (message, schema["properties"], asked) == ("Who are you?", FORM["properties"], [("everything", joke)])


@pytest.mark.parametrize(
    ("question", "answer", "given"),
    [
        ("form", AcceptedAnswer({"tags": ("a", "b")}), {"action": "accept", "content": {"tags": ["a", "b"]}}),
        ("form", DeclinedAnswer(), {"action": "decline"}),
        ("form", DismissedAnswer(), {"action": "cancel"}),
        ("url", AcceptedAnswer({}), {"action": "accept"}),
        ("file", AcceptedAnswer({}), {"action": "decline"}),
        ("lines", AcceptedAnswer({}), {"action": "decline"}),
        ("hidden", AcceptedAnswer({}), {"action": "decline"}),
    ],
)  # fmt: skip
async def test_an_answer_of_the_user_goes_back(
    question: str, answer: ElicitationAnswer, given: dict[str, Any], start: Starts
) -> None:
    server = start(raw("asks"), RecordingDesk(answer))
    assert (await server.wait_until_started()).protocol == "2025-11-25"
    assert json.loads((await server.call("echo", {"text": question}, no_progress)).text) == given


async def test_an_address_is_shown_with_its_message(start: Starts) -> None:
    handlers = RecordingDesk(DeclinedAnswer())
    server = await start.ready(raw("asks"), handlers)
    await server.call("echo", {"text": "url"}, no_progress)
    assert handlers.asked == [("raw", "Log in there", {}, "https://example.com/in")]


async def test_a_call_is_made_again_once_the_user_has_opened_what_it_needs(start: Starts) -> None:
    handlers = RecordingDesk(AcceptedAnswer({}))
    server = await start.ready(raw("wants a page"), handlers)
    assert await server.call("echo", {"text": "url"}, no_progress) == Result("url")
    assert handlers.asked == [("raw", "Log in there", {}, "https://example.com/in")]


@pytest.mark.parametrize(("page", "answer"), [("url", DeclinedAnswer()), ("file", AcceptedAnswer({}))])
async def test_a_call_fails_whose_page_the_user_does_not_open(
    page: str, answer: ElicitationAnswer, start: Starts
) -> None:
    server = await start.ready(raw("wants a page"), RecordingDesk(answer))
    with pytest.raises(ToolError, match="the server `raw` refused `echo`: open it first"):
        await server.call("echo", {"text": page}, no_progress)


async def test_a_model_that_the_user_refuses_is_an_error_of_the_server(start: Starts) -> None:
    server = await start.ready(raw("asks"), RecordingDesk(sample=SamplingRefusal("the user said no")))
    answer = await server.call("echo", {"text": "sample"}, no_progress)
    assert json.loads(answer.text) == {"code": -1, "message": "the user said no"}


@pytest.mark.parametrize("question", ["form", "sample", "roots"])
async def test_where_nobody_is_nothing_is_asked(question: str, start: Starts) -> None:
    server = await start.ready(raw("asks"), ClientHandlers())
    answer = json.loads((await server.call("echo", {"text": question}, no_progress)).text)
    assert "not supported" in answer["message"]


async def test_progress_is_shown_on_a_line_each(start: Starts) -> None:
    server = await start.ready(raw("steps"))
    progress: list[str] = []
    assert await server.call("echo", {}, progress.append) == Result("at last")
    assert progress == ["1 of 3: still there\n"]  # what follows within a tenth of a second is left out


async def test_what_a_server_logs_is_kept_on_one_line_each(start: Starts) -> None:
    server = await start.ready(raw("logs"))
    await server.call("echo", {}, no_progress)
    assert server.log.read_text() == 'started\n[info] one two\n[error] {"what": "three"}\n'


async def test_a_question_has_an_end(start: Starts) -> None:
    handlers = RecordingDesk(DeclinedAnswer())
    await (await start.ready(raw("asks"), handlers)).call("echo", {"text": "long"}, no_progress)
    assert handlers.asked[0][1] == f"{'x' * 4000}… [cut]"  # type: ignore[index]  # a tuple
