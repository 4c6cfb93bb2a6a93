"""Pictures of a plan that is submitted. Look at every one that changes."""

import pytest

from ebbtide.agent.events.plan import PlanAnswered, PlanSubmitted
from ebbtide.agent.events.session import Event, Noticed, TextDelta, ToolFinished, ToolStarted, TurnFinished
from ebbtide.tools.submit_plan import PLAN_ACCEPTED
from ebbtide.tui.app import EbbApp
from tests.kit.fake_sessions import FakeSession, FakeSessions, measured
from tests.kit.pictures import SIZES, Picture, asks

PLAN = """\
# Round prices to cents

`price_of` in `shop/prices.py` adds floats, so **0.1 + 0.2** is shown as 0.30000000000000004.

1. `shop/prices.py`: compute in `Decimal`, quantise once, at the end.
2. `shop/cart.py`: take what `price_of` gives as it is; no second rounding.
3. `tests/test_prices.py`: the sum above, a negative amount, and a cart of 1,000 rows.

| file | lines |
| --- | --- |
| `shop/prices.py` | 12 |
| `shop/cart.py` | 3 |

```python
def price_of(row: Row) -> Decimal:
    return (row.net * (1 + row.tax)).quantize(CENT)
```

Check: `pytest tests/test_prices.py`, then the whole suite.
"""
LONG = PLAN + "\n".join(f"- step {number}: look at module {number} and rename what it exports" for number in range(90))
ASKED = PlanSubmitted("plan-1", "1", PLAN, ("ask", "accept-edits"))


def shown(picture: Picture, question: PlanSubmitted, *keys: str) -> bool:
    """Whether a question is what it was, after these keys."""
    notice = Noticed("`forge` was lost: it ended with exit code 1; `/mcp` starts it again")
    started = ToolStarted("1", "submit_plan", {"plan": question.plan})
    turn: list[Event] = [measured(), TextDelta("I have read the shop."), notice, started, question]
    app = EbbApp(FakeSessions([FakeSession([turn])]), first_message="plan it", guard_s=0.0)
    return picture(app, asks(app, PlanSubmitted), *keys)


@SIZES
def test_a_plan(picture: Picture) -> None:
    assert shown(picture, ASKED)


@pytest.mark.parametrize(
    "picture",
    [(10, 3), (40, 12)],
    ids=["10x3", "40x12"],
    indirect=True,
)
def test_a_plan_where_there_is_hardly_any_room(picture: Picture) -> None:
    assert shown(picture, ASKED)


@pytest.mark.parametrize("key", ["n", "end"])
def test_a_long_plan_is_answered_and_read(picture: Picture, key: str) -> None:
    assert shown(picture, PlanSubmitted("plan-1", "1", LONG, ("ask", "accept-edits", "auto"), is_edited=True), key)


@pytest.mark.parametrize("status", ["done", "denied"])
def test_a_plan_and_what_was_decided_in_the_transcript(picture: Picture, status: str) -> None:
    why = "the user rejected the plan: no Decimal here\nThe mode is still `plan`: ask what is not clear"
    answered, ended = (
        (PlanAnswered("plan-1", "accept", "accept-edits"), ToolFinished("1", "submit_plan", "done", PLAN_ACCEPTED))
        if status == "done"
        else (PlanAnswered("plan-1", "reject"), ToolFinished("1", "submit_plan", "denied", why))
    )
    started = ToolStarted("1", "submit_plan", {"plan": LONG})
    turn: list[Event] = [TextDelta("I have read the shop."), started, answered, ended, TurnFinished("answered", "Yes.")]
    app = EbbApp(FakeSessions([FakeSession([turn])]), first_message="plan it", guard_s=0.0)
    assert picture(app, lambda: bool(app.controller.view.blocks) and not app.is_working, size=(100, 50))
