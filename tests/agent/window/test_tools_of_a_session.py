"""Tools that a small window is offered once they are of use."""

from ebbtide.agent.events.session import ToolFinished
from ebbtide.agent.providers.wires.scripted import Scripted
from ebbtide.agent.view.message_text import message_text
from ebbtide.agent.window.deferral import Deferral
from tests.kit.session import Home, call, calls, events_of, offered

BRINGING = {"read_result", "recall"}
JOBS = {"bash_output", "bash_kill"}


async def test_a_small_window_is_offered_the_tools_for_jobs_from_the_first_job_on(home: Home) -> None:
    start = calls(call("bash", command="true", background=True))
    look = calls(call("bash_output", job="job-1", wait=5))
    model = Scripted.of(calls(call("bash", command="true")), start, look, {"text": "done"}, context_window=24_000)
    session = await home.session(model, deferral=Deferral(reduces_tools=True))
    events = await events_of(session)
    assert [len(JOBS & set(offered(request))) for request in model.requests] == [0, 0, 2, 2]
    assert [event.status for event in events if isinstance(event, ToolFinished)] == ["done"] * 3


async def test_a_large_window_is_offered_them_from_the_start(home: Home) -> None:
    model = Scripted.of({"text": "done"})
    await events_of(await home.session(model, deferral=Deferral(reduces_tools=True)))
    assert set(offered(model.requests[0])) >= JOBS


async def test_what_brings_back_is_offered_in_a_small_window_from_the_first_reference_on(home: Home) -> None:
    printed = calls(call("bash", command="seq 1 9000"))
    model = Scripted.of(calls(call("bash", command="true")), printed, {"text": "done"}, context_window=16_000)
    session = await home.session(model, deferral=Deferral(reduces_tools=True))
    await events_of(session)
    assert [len(BRINGING & set(offered(request))) for request in model.requests] == [0, 0, 2]
    assert message_text(model.requests[-1].messages[-1]).count("read_result")
