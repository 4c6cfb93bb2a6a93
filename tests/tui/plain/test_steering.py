"""What is done to the view by a command, in lines."""

from dataclasses import dataclass, field
from typing import Any

from ebbtide.agent.context.edit_cost import ViewEditPlan
from ebbtide.agent.context.view_edits import Refusal
from ebbtide.agent.events.view import Price, ViewChanged
from ebbtide.agent.messages import Conversation
from ebbtide.agent.window.edit_view import EditOutcome, EditQuote
from tests.tui.doubles import FakeSession
from tests.tui.plain.test_app import talking
from tests.waiting import until

PLAN = ViewEditPlan("evict", "r12", "Viewed a.py", Conversation(), 3, 8_212, 9_000, 10_350.0, 821.2)
DONE = ViewChanged("evict", "r12", "Viewed a.py", 69_500, 61_300, 180_000, Price(8_212, 9_000, 10_350, 0))


@dataclass
class Steered(FakeSession):
    """A session that is asked for prices and does what is wanted, in this order."""

    given: list[EditQuote | EditOutcome] = field(default_factory=list)

    async def change(self, *work: Any, **how: Any) -> Any:
        return self.given.pop(0)


async def test_an_act_is_done_when_its_price_was_agreed_to() -> None:
    session = Steered(given=[EditQuote(Conversation(), PLAN, 3e-6), EditOutcome(Conversation(), (DONE,))])
    async with talking(session) as controller:
        await until(lambda: controller.front.controller.session is session)
        controller.type("/context drop r12")
        await controller.asks(
            "drop r12 from view: frees 8.2k tokens, costs $0.0311 now, pays off after 13 requests. Do it? y or n: "
        )
        await controller.says("y", shows="left the view: a line stands for it (69.5k → 61.3k tokens)")
        assert session.given == []


async def test_an_act_that_is_not_agreed_to_or_cannot_be_done_is_not() -> None:
    cannot = Refusal("`r12` is pinned: unpin it first")
    session = Steered(given=[EditQuote(Conversation(), PLAN, None), EditQuote(Conversation(), cannot, None)])
    async with talking(session) as controller:
        await until(lambda: controller.front.controller.session is session)
        controller.type("/context drop r12")
        await controller.asks(
            "drop r12 from view: frees 8.2k tokens, costs what 10.3k fresh tokens do now, pays off after 13 requests. "
            "Do it? y or n: "
        )
        controller.type("")
        await controller.says("/context drop r12", shows="`r12` is pinned: unpin it first")
        assert session.given == []
        await controller.says("/context frob", shows="`/context frob` is nothing that can be done")
