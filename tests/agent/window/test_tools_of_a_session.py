"""The tools of a session stay the same, so that the provider's cache stays valid."""

import pytest

from ebbtide.agent.events.session import ToolFinished
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.view.message_text import message_text
from ebbtide.agent.window.deferral import ToolDeferral
from tests.kit.session import Home, call, calls, events_of, offered


@pytest.mark.parametrize("window", [9_000, 12_000, 16_000, 20_000, 200_000])
async def test_a_first_job_and_a_first_reference_change_no_tool(home: Home, window: int) -> None:
    start, look = calls(call("bash", command="true", background=True)), calls(call("bash_output", job="job-1", wait=5))
    printed = calls(call("bash", command="seq 1 9000"))
    model = ScriptedProvider.from_replies(
        calls(call("bash", command="true")), start, look, printed, {"text": "done"}, context_window=window
    )
    session = await home.session(model, deferral=ToolDeferral(reduces_tools=True))
    events = await events_of(session)
    assert [event.status for event in events if isinstance(event, ToolFinished)] == ["done"] * 4
    assert "read_result" in message_text(model.requests[-1].messages[-1])
    assert {offered(request) for request in model.requests} == {offered(model.requests[0])}
    assert {"bash_output", "bash_kill", "read_result", "recall"} <= set(offered(model.requests[0]))
