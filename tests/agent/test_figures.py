"""Figures that users see in several places: each of them is the same one everywhere."""

import pytest

from ebbtide.agent.budget.preflight import ModelTarget, choose_target
from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.compaction.manual_compaction import apply_summary, draft_summary, preview_compaction
from ebbtide.agent.compaction.summary import Draft
from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.events.session import Event
from ebbtide.agent.events.view import ContextCompacted
from ebbtide.agent.messages import Usage
from ebbtide.agent.prompt.build import build_prompt
from ebbtide.agent.providers.token_meter import TokenMeter
from ebbtide.agent.window.overview import Overview, window_and_reserves
from tests.agent.providers.test_token_meter import ASKED, INSTRUCTIONS, TOOLS, WINDOW, steps_taken
from tests.kit.project import Project
from tests.kit.session import events_of, first_turn

READ = {"calls": [{"name": "read", "arguments": {"path": "long.txt"}}]}


@pytest.fixture(autouse=True)
def files(project: Project) -> None:
    (project.root / "long.txt").write_text("a line of a long text\n" * 900)


def components(overview: Overview) -> dict[str, int]:
    return {number.name: number.tokens for number in overview.components}


@pytest.mark.parametrize("counted", [900, 1500, 4000, 9000])
def test_what_is_projected_is_what_was_measured_as_soon_as_a_request_was_counted(counted: int) -> None:
    """The tool definitions take far less or far more than was guessed, and are in what was counted."""
    meter = TokenMeter()
    meter.begin_turn(ASKED.messages[0])
    conversation, _ = steps_taken(meter, ASKED, Usage(input=counted, output=50))
    budget = meter.measure(build_prompt(conversation, INSTRUCTIONS), conversation, TOOLS, WINDOW)
    found = choose_target(meter.counters, [ModelTarget("p", "m", Window(10, 1, 1))])
    assert [target.projected for target in found.blocked] == [budget.used]
    assert meter.counters.tool_tokens == budget.tools


@pytest.mark.parametrize("mode", ["ask", "auto"])
async def test_an_overview_tells_the_same_in_this_process_in_another_and_after_a_resume(
    project: Project, mode: PermissionMode
) -> None:
    """Also where the session ran in another mode, which its system text names."""
    session = await project.session(
        {**READ, "usage": {"input": 1200, "output": 20}}, {"text": "Done.", "usage": {"input": 9000, "output": 20}},
        {"text": "Yes.", "usage": {"input": 9100, "output": 20}}, mode=mode,
    )  # fmt: skip
    await events_of(session, "go")
    here = await project.opened[-1].overview(session.id)
    elsewhere = await project.sessions().overview(session.id)
    assert components(here) == components(elsewhere)
    assert components(here)["tools"] < 1200
    assert here.used_tokens == 9020
    await session.close()
    again = await project.session(resume="")
    assert components(await project.opened[-1].overview(again.id)) == components(here)


async def test_preview_summary_receipt_and_overview_tell_one_size(project: Project) -> None:
    session, _ = await first_turn(project.session(READ, READ, READ, {"text": "Done."}, mode="auto"), "go")
    overview = await project.opened[-1].overview(session.id)
    preview = await session.change_conversation(preview_compaction)
    assert preview.expected_event.before_tokens == overview.used_tokens
    drafted = await session.change_conversation(draft_summary, preview, print)
    draft = Draft("long.txt", "The file was read three times; it says the same each time.")
    offered, events = preview.result(draft), list[Event]()
    assert offered.after_tokens <= preview.expected_event.after_tokens
    done = await session.change_conversation(apply_summary, preview, draft, drafted, events.append)
    (receipt,) = [event for event in events if isinstance(event, ContextCompacted)]
    assert (receipt.before_tokens, receipt.after_tokens) == (offered.before_tokens, offered.after_tokens)
    assert done.result == offered
    after = await project.opened[-1].overview(session.id)
    assert receipt.after_tokens == after.used_tokens
    assert components(await project.sessions().overview(session.id)) == components(after)
    (rewrite,) = [epoch.rewrite for epoch in after.epochs if epoch.rewrite]
    assert (rewrite.before, rewrite.after) == (receipt.before_tokens, receipt.after_tokens)


@pytest.mark.parametrize(
    "window",
    [
        Window(200_000, 16_000, 8_000),
        Window(1_000_000, 16_384, 8192, price_tier=100_000),
        Window(400_000, 16_000, 8_000, max_input=272_000),
        Window(400_000, 16_000, 8_000, max_input=272_000, price_tier=128_000),
    ],
)
def test_the_window_less_all_that_is_kept_free_is_what_is_usable(window: Window) -> None:
    size, reserves = window_and_reserves(window)
    assert size.tokens - sum(reserve.tokens for reserve in reserves) == window.available_tokens
