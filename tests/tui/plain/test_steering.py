"""What is done to the view by a command, in lines."""

from dataclasses import dataclass, field
from typing import Any

from ebbtide.agent.compaction.apply_edits import EditOutcome, EditPreview
from ebbtide.agent.compaction.edit_cost import ViewEditPlan
from ebbtide.agent.compaction.view_edits import Refusal
from ebbtide.agent.events.view import Price, ViewChanged
from ebbtide.agent.messages import Conversation
from ebbtide.tui.plain.questions import ANSWER_PROMPT
from tests.kit.fake_sessions import FakeSession
from tests.kit.polling import until
from tests.tui.plain.test_app import talking

PLAN = ViewEditPlan("evict", "r12", "Viewed a.py", Conversation(), 3, 8_212, 9_000, 10_350.0, 821.2)
DONE = ViewChanged("evict", "r12", "Viewed a.py", 69_500, 61_300, 180_000, Price(8_212, 9_000, 10_350, 0))


@dataclass
class Steered(FakeSession):
    """A session that is asked for prices and does what is wanted, in this order."""

    given: list[EditPreview | EditOutcome] = field(default_factory=list)

    async def change_conversation(self, *work: Any, **how: Any) -> Any:
        return self.given.pop(0)


async def test_an_act_is_done_when_its_price_was_agreed_to() -> None:
    session = Steered(given=[EditPreview(Conversation(), PLAN, 3e-6), EditOutcome(Conversation(), (DONE,))])
    async with talking(session) as controller:
        await until(lambda: controller.front.controller.session is session)
        controller.type("/context drop r12")
        await controller.shows(
            "remove r12 from context: frees 8.2k tokens, costs $0.0311 now, pays off after 13 requests"
        )
        await controller.asks(ANSWER_PROMPT)
        await controller.says("y", shows="was removed from context; one line remains (69.5k → 61.3k tokens)")
        assert session.given == []


async def test_an_act_that_is_not_agreed_to_or_cannot_be_done_is_not() -> None:
    cannot = Refusal("`r12` is pinned: unpin it first")
    session = Steered(given=[EditPreview(Conversation(), PLAN, None), EditPreview(Conversation(), cannot, None)])
    async with talking(session) as controller:
        await until(lambda: controller.front.controller.session is session)
        controller.type("/context drop r12")
        price = "frees 8.2k tokens, costs 10.3k fresh tokens now, pays off after 13 requests"
        await controller.shows(f"remove r12 from context: {price}")
        await controller.asks(ANSWER_PROMPT)
        controller.type("")
        await controller.says("/context drop r12", shows="`r12` is pinned: unpin it first")
        assert session.given == []
        await controller.says("/context frob", shows="`/context frob` is not valid")
