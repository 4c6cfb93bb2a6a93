"""The last plan of a session, to be read again."""

from ebbtide.agent.events.session import ToolFinished
from ebbtide.agent.messages import Assistant, Conversation, ToolCall, ToolOutput, User
from ebbtide.tools.submit_plan import PLAN_ACCEPTED
from ebbtide.tui.plain.print_events import Printing, lines_of, words_of
from ebbtide.tui.text.sanitise import sanitised
from ebbtide.tui.view.blocks import Call, UserText
from ebbtide.tui.view.plan import plan_in, plan_panel
from tests.tui.doubles import FakeSession
from tests.tui.piloting import terminal

MINE = Call("1", "submit_plan", {"plan": "# Mine\n\n1. Do it."}, "done", text=PLAN_ACCEPTED)
REJECTED = Call("2", "submit_plan", {"plan": "# Another\x1b[2J"}, "denied", text="the user rejected the plan: no")
EMPTY = Call("3", "submit_plan", {"plan": ""}, "failed", text="the plan is empty")


def test_the_newest_plan_that_could_be_decided_about_is_the_last_one() -> None:
    assert plan_in((MINE, UserText("go"), EMPTY)) == MINE
    assert plan_in((MINE, REJECTED, Call("4", "bash"))) == REJECTED
    assert plan_in((EMPTY, UserText("go"))) is None


def test_it_is_shown_with_what_was_decided() -> None:
    panel = plan_panel(MINE)
    assert (panel.head[0][1][0], panel.plain_head) == ("accepted", "# Mine\n\n1. Do it.")
    assert plan_panel(REJECTED).head[0][1][0] == "not accepted"
    assert "\x1b" not in plan_panel(REJECTED).plain_head


def test_in_lines_it_is_printed_whole_with_what_was_decided() -> None:
    assert words_of(MINE) == ("Plan, accepted:", "# Mine", "", "1. Do it.")
    assert words_of(REJECTED) == ("Plan, not accepted:", sanitised("# Another\x1b[2J"))
    assert words_of(EMPTY) == ("Plan, failed:",)
    finished = ToolFinished("1", "submit_plan", "done", PLAN_ACCEPTED)
    asked = Call("1", "submit_plan", {"plan": "Mine"})
    assert lines_of(Printing(calls={"1": asked}), finished)[1] == ("Tool submit_plan  Mine: accepted.",)


async def test_the_plan_of_a_session_that_goes_on_is_found_as_the_user_changed_it() -> None:
    reply = Assistant((ToolCall("1", "submit_plan", {"plan": "# Mine"}),), "a/b")
    said = User((ToolOutput("1", f"[The user changed the plan.]\n{PLAN_ACCEPTED}", edited={"plan": "# Theirs"}),))
    async with terminal(FakeSession(history=Conversation((reply, said)))) as t:
        shown = await t.opens("/plan")
        assert shown.panel.plain_head == "# Theirs"
        assert shown.panel.head[0][1][0] == "as you changed it  accepted"


async def test_where_there_is_none_it_is_said() -> None:
    async with terminal(FakeSession()) as t:
        await t.type("/plan", shows="no plan was handed in here yet")
