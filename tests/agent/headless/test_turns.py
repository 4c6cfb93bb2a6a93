"""Turns whose answer must meet a schema."""

from ebbtide.agent.events.session import Event, TurnFinished
from ebbtide.agent.headless.result import RunOutcome
from ebbtide.agent.headless.stop import RunStopper
from ebbtide.agent.headless.turns import HeadlessTurns
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from tests.kit.session import Home


async def test_an_answer_that_fits_no_schema_is_none_when_the_run_is_stopped_right_behind_it(home: Home) -> None:
    outcome, stop = RunOutcome(), RunStopper()

    def show(event: Event) -> None:
        if isinstance(event, TurnFinished):
            stop.request_stop("time_limit")

    turns = HeadlessTurns(
        await home.session(ScriptedProvider.from_replies({"text": "no"}, {"text": "{}"})),
        outcome,
        show,
        stop,
        {"type": "object"},
    )
    await turns.run_turn("go")
    assert (outcome.stop_reason, outcome.result, outcome.steps) == ("interrupted", "no", 1)
