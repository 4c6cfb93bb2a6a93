"""A plan that the model submits: accepted, changed or rejected by the user, and the answer where nobody is there."""

import pytest

from ebbtide.agent.calls.plan_approval import NOT_RUN_AFTER_PLAN
from ebbtide.agent.calls.policy import Policy, Rule
from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.events.plan import PlanAnswered, PlanDecision, PlanSubmitted
from ebbtide.agent.events.session import Event, Noticed, ToolFinished, TurnFinished
from ebbtide.agent.messages import Note
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.session import Session
from ebbtide.tools.submit_plan import MAX_PLAN_CHARS, PLAN_ACCEPTED
from tests.kit.session import Home, call, calls, events_of, outputs_of

PLAN = "# Fix the sum\n\n1. Change `calc.py`.\n2. Run the tests.\n"
SUBMITS = call("submit_plan", plan=PLAN)
NOT_HERE = (
    "plans can be submitted only in plan mode, and the mode is `ask`: do what was asked, or say in your answer what "
    "you would do"
)


async def decided(session: Session, *decisions: PlanDecision) -> list[Event]:
    """All that happens in a turn in which the user decides so, one plan after the other."""
    left, events = list(decisions), list[Event]()
    async for event in session.send("plan it"):
        events.append(event)
        if isinstance(event, PlanSubmitted):
            session.answer(event.id, left.pop(0))
    assert not left
    return events


def told(session: Session) -> list[tuple[str, str]]:
    return [(output.status, output.text) for output in outputs_of(session)]


def notes(session: Session) -> list[str]:
    parts = [part for message in session.history.messages for part in message.parts]
    return [part.name for part in parts if isinstance(part, Note) and part.kind == "mode"]


async def planning(home: Home, *replies: dict[str, object], mode: PermissionMode = "plan") -> Session:
    return await home.attended(ScriptedProvider.from_replies(*replies, {"text": "Done."}), mode=mode)


@pytest.mark.parametrize("mode", ["ask", "accept-edits"])
async def test_an_accepted_plan_is_carried_out_in_the_mode_that_the_user_chose(mode: str, home: Home) -> None:
    session = await planning(home, calls(SUBMITS))
    events = await decided(session, PlanDecision("accept", mode))
    asked = [event for event in events if isinstance(event, PlanSubmitted | PlanAnswered)]
    id = next(event.call_id for event in asked if isinstance(event, PlanSubmitted))
    assert asked == [
        PlanSubmitted(f"plan-{id}", id, PLAN, ("ask", "accept-edits")),
        PlanAnswered(f"plan-{id}", "accept", mode),
    ]
    assert (told(session), session.mode, (await home.row()).mode) == ([("done", PLAN_ACCEPTED)], mode, mode)
    assert notes(session) == [mode]
    assert events[-1] == TurnFinished("answered", "Done.")


async def test_a_mode_that_was_not_offered_is_the_one_that_allows_least(home: Home) -> None:
    session = await planning(home, calls(SUBMITS))
    await decided(session, PlanDecision("accept", "auto"))
    assert session.mode == "ask"


async def test_who_came_from_auto_may_go_back_to_it(home: Home) -> None:
    session = await planning(home, calls(SUBMITS), mode="auto")
    await session.change_mode("plan")
    events = await decided(session, PlanDecision("accept", "auto"))
    assert [event.modes for event in events if isinstance(event, PlanSubmitted)] == [("ask", "accept-edits", "auto")]
    assert session.mode == "auto"


async def test_what_the_user_makes_of_a_plan_is_asked_about_again_and_told_whole(home: Home) -> None:
    session = await planning(home, calls(SUBMITS))
    events = await decided(session, PlanDecision("edit", plan="# Mine\n"), PlanDecision("accept", "ask"))
    plans = [(event.plan, event.is_edited) for event in events if isinstance(event, PlanSubmitted)]
    assert plans == [(PLAN, False), ("# Mine\n", True)]
    (output,) = outputs_of(session)
    assert output.text == f"[The user changed the plan. It is now:\n# Mine\n]\n{PLAN_ACCEPTED}"
    assert output.edited == {"plan": "# Mine\n"}


async def test_a_session_that_is_killed_at_the_second_question_asks_about_the_plan_as_it_was_changed(
    home: Home,
) -> None:
    session = await planning(home, calls(SUBMITS))
    async for event in session.send("plan it"):
        if isinstance(event, PlanSubmitted) and event.is_edited:
            break  # and is left there
        if isinstance(event, PlanSubmitted):
            session.answer(event.id, PlanDecision("edit", plan="# Mine\n"))
    await session.close()
    again = await home.attended(
        ScriptedProvider.from_replies({"text": "Done."}), mode="plan", resume=True, ask_again=True
    )
    plans: list[tuple[str, bool]] = []
    async for event in again.resume_turn():
        if isinstance(event, PlanSubmitted):
            plans.append((event.plan, event.is_edited))
            again.answer(event.id, PlanDecision("accept", "ask"))
    assert plans == [("# Mine\n", True)]
    assert told(again) == [("done", f"[The user changed the plan. It is now:\n# Mine\n]\n{PLAN_ACCEPTED}")]


@pytest.mark.parametrize("text", [" \n", "x" * (MAX_PLAN_CHARS + 1)])
async def test_a_change_that_leaves_no_plan_to_decide_about_changes_nothing(text: str, home: Home) -> None:
    session = await planning(home, calls(SUBMITS))
    events = await decided(session, PlanDecision("accept", "ask", plan=text), PlanDecision("accept", "ask"))
    assert [event.plan for event in events if isinstance(event, PlanSubmitted)] == [PLAN, PLAN]
    assert any(isinstance(event, Noticed) and event.text.startswith("the plan is unchanged") for event in events)
    assert told(session) == [("done", PLAN_ACCEPTED)]


async def test_a_rejected_plan_goes_back_with_the_words_of_the_user(home: Home) -> None:
    session = await planning(home, calls(SUBMITS), calls(call("submit_plan", plan="# Better")))
    await decided(session, PlanDecision("reject", note="no new file"), PlanDecision("reject"))
    still = "The mode is still `plan`: ask what is not clear, and submit a better plan"
    assert told(session) == [
        ("denied", f"the user rejected the plan: no new file\n{still}"),
        ("denied", f"the user rejected the plan\n{still}"),
    ]
    assert session.mode == "plan"


async def test_where_the_mode_was_changed_at_the_question_the_rejection_does_not_claim_another(home: Home) -> None:
    session = await planning(home, calls(SUBMITS))
    async for event in session.send("plan it"):
        if isinstance(event, PlanSubmitted):
            await session.change_mode("ask")
            session.answer(event.id, "later")
    assert (told(session), session.mode) == ([("denied", "the user rejected the plan: later")], "ask")


@pytest.mark.parametrize("verdict", ["accept", "reject"])
async def test_what_stands_behind_a_plan_in_one_reply_is_not_run(verdict: str, home: Home) -> None:
    write = call("write", path="a.txt", content="a")
    session = await planning(home, calls(call("glob", pattern="*"), SUBMITS, write, SUBMITS))
    await decided(session, PlanDecision("accept", "accept-edits") if verdict == "accept" else PlanDecision("reject"))
    assert told(session)[2:] == [("failed", NOT_RUN_AFTER_PLAN)] * 2
    assert not (home.root / "a.txt").exists()


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ("", "the plan is empty: write what you would change, where, and how you would check it"),
        ("\x00\x1b \n\u200b", "the plan is empty: write what you would change, where, and how you would check it"),
        (
            "x" * 1_000_000,
            "the plan has 1,000,000 characters, more than the maximum of 20,000: submit a shorter one",
        ),
    ],
    ids=["empty", "nothing to see", "1 MB"],
)
async def test_nobody_is_asked_about_what_is_no_plan(plan: str, why: str, home: Home) -> None:
    session = await planning(home, calls(call("submit_plan", plan=plan)))
    events = await decided(session)
    ended = [(event.status, event.text) for event in events if isinstance(event, ToolFinished)]
    assert (ended, session.mode) == ([("failed", why)], "plan")


async def test_outside_of_plan_mode_the_model_is_told_to_do_the_work_and_what_is_behind_runs(home: Home) -> None:
    session = await planning(home, calls(SUBMITS, call("todo", items=[])), mode="ask")
    await decided(session)
    assert [status for status, _ in told(session)] == ["failed", "done"]
    assert told(session)[0] == ("failed", NOT_HERE)


async def test_the_name_that_another_agent_gives_it_means_it(home: Home) -> None:
    session = await planning(home, calls(call("ExitPlanMode", plan=PLAN)))
    events = await decided(session, PlanDecision("accept", "ask"))
    assert [event.plan for event in events if isinstance(event, PlanSubmitted)] == [PLAN]


async def test_a_deny_rule_for_it_holds(home: Home) -> None:
    model = ScriptedProvider.from_replies(calls(SUBMITS), {"text": "Done."})
    session = await home.attended(model, mode="plan", deny=(Rule("submit_plan"),))
    await decided(session)
    assert [status for status, _ in told(session)] == ["denied"]


async def test_the_interrupt_ends_the_question(home: Home) -> None:
    session = await planning(home, calls(SUBMITS))
    async for event in session.send("plan it"):
        if isinstance(event, PlanSubmitted):
            session.interrupt()
    assert (told(session)[0][0], session.mode) == ("cancelled", "plan")


async def headless(
    home: Home, *replies: dict[str, object], mode: PermissionMode = "plan", deny: tuple[Rule, ...] = ()
) -> Session:
    return await home.session(
        ScriptedProvider.from_replies(*replies), policy=Policy(str(home.root), mode, deny_rules=deny)
    )


@pytest.mark.parametrize("steps", [None, 1])
async def test_where_nobody_is_there_the_plan_is_the_answer(steps: int | None, home: Home) -> None:
    session = await headless(home, {"text": "Here it is.", "calls": [SUBMITS, call("todo", items=[])]})
    events = [event async for event in session.send("plan it", max_steps=steps)]
    assert events[-1] == TurnFinished("answered", PLAN)
    assert told(session)[0][0] == "done"


@pytest.mark.parametrize(
    ("plan", "deny"), [(" ", ()), (PLAN, (Rule("submit_plan"),))], ids=["an empty one", "a denied one"]
)
async def test_a_plan_that_is_not_taken_is_no_answer(plan: str, deny: tuple[Rule, ...], home: Home) -> None:
    session = await headless(home, calls(call("submit_plan", plan=plan)), {"text": "In words."}, deny=deny)
    assert (await events_of(session))[-1] == TurnFinished("answered", "In words.")


async def test_at_the_last_step_an_empty_plan_is_no_answer(home: Home) -> None:
    session = await headless(home, calls(call("submit_plan", plan="")))
    events = [event async for event in session.send("plan it", max_steps=1)]
    assert events[-1] == TurnFinished("step_limit", "")


async def test_a_script_in_another_mode_goes_on_with_the_work(home: Home) -> None:
    session = await headless(home, calls(SUBMITS), {"text": "In words."}, mode="ask")
    assert (await events_of(session))[-1] == TurnFinished("answered", "In words.")
    assert told(session) == [("failed", NOT_HERE)]
