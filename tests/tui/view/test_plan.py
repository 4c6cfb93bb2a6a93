"""The last plan of a session, to be read again."""

from ebbtide.agent.events.session import ToolFinished
from ebbtide.agent.messages import Assistant, Conversation, ToolCall, ToolOutput, User
from ebbtide.tools.submit_plan import PLAN_ACCEPTED
from ebbtide.tui.plain.print_events import PrintState, event_lines
from ebbtide.tui.text.sanitise import sanitise
from ebbtide.tui.view.blocks import Call, UserText
from ebbtide.tui.view.plain_lines import block_lines, plain_lines
from ebbtide.tui.view.plan import build_plan_panel, last_plan
from tests.kit.app_pilot import terminal
from tests.kit.fake_sessions import FakeSession

MINE = Call("1", "submit_plan", {"plan": "# Mine\n\n1. Do it."}, "done", text=PLAN_ACCEPTED)
REJECTED = Call("2", "submit_plan", {"plan": "# Another\x1b[2J"}, "denied", text="the user rejected the plan: no")
EMPTY = Call("3", "submit_plan", {"plan": ""}, "failed", text="the plan is empty")


def test_the_newest_plan_that_could_be_decided_about_is_the_last_one() -> None:
    assert last_plan((MINE, UserText("go"), EMPTY)) == MINE
    assert last_plan((MINE, REJECTED, Call("4", "bash"))) == REJECTED
    assert last_plan((EMPTY, UserText("go"))) is None


def test_it_is_shown_with_what_was_decided() -> None:
    panel = build_plan_panel(MINE)
    assert (panel.headline[0][1][0], plain_lines(panel.empty_details)) == ("accepted", ("# Mine", "", "1. Do it."))
    assert build_plan_panel(REJECTED).headline[0][1][0] == "not accepted"
    assert "\x1b" not in "".join(plain_lines(build_plan_panel(REJECTED).empty_details))


def test_in_lines_it_is_printed_whole_with_what_was_decided() -> None:
    assert block_lines(MINE) == ("Plan, accepted:", "# Mine", "", "1. Do it.")
    assert block_lines(REJECTED) == ("Plan, not accepted:", sanitise("# Another\x1b[2J"))
    assert block_lines(EMPTY) == ("Plan, failed:",)
    finished = ToolFinished("1", "submit_plan", "done", PLAN_ACCEPTED)
    asked = Call("1", "submit_plan", {"plan": "Mine"})
    assert event_lines(PrintState(calls={"1": asked}), finished)[1] == ("Tool submit_plan  Mine: accepted.",)


async def test_the_plan_of_a_session_that_goes_on_is_found_as_the_user_changed_it() -> None:
    reply = Assistant((ToolCall("1", "submit_plan", {"plan": "# Mine"}),), "a/b")
    message = User((ToolOutput("1", f"[The user changed the plan.]\n{PLAN_ACCEPTED}", edited={"plan": "# Theirs"}),))
    async with terminal(FakeSession(history=Conversation((reply, message)))) as t:
        screen = await t.opens("/plan")
        assert plain_lines(screen.panel.empty_details) == ("# Theirs",)
        assert screen.panel.headline[0][1][0] == "edited by you  accepted"


async def test_where_there_is_none_it_is_said() -> None:
    async with terminal(FakeSession()) as t:
        await t.type("/plan", shows="No plan yet")
