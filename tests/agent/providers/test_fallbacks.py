"""Sessions whose conversation does not fit their model any more: real parts, scripted models of several sizes."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from ebbtide.agent.budget.preflight import ModelTarget
from ebbtide.agent.budget.prices import Prices
from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.errors import AuthFailed, UsageError
from ebbtide.agent.events.session import (
    ContextMeasured,
    Event,
    FinalTurn,
    ModelSwitched,
    Noticed,
    ReplyFinished,
    TurnFailed,
    TurnFinished,
)
from ebbtide.agent.events.view import ContextCompacted, PrefixDrifted
from ebbtide.agent.eviction.settings import CompactionSettings
from ebbtide.agent.providers.base import ModelFacts
from ebbtide.agent.providers.fallbacks import ConnectedModel, SessionModels, later_fallbacks
from ebbtide.agent.providers.token_meter import TokenMeter
from ebbtide.agent.providers.wires.scripted import Script, ScriptedProvider, ScriptedReply
from ebbtide.agent.records.usage import Rewrite
from ebbtide.agent.tokens.estimate import decode_estimator
from tests.kit.session import ROW, SMALL, Home, compactions, events_of, fill, first_turn

LONG = "y" * 20_000
"""About 6,600 tokens that the user says, which no compaction may leave out."""


class Priced(ScriptedProvider):
    """A scripted model that costs something and is told when it is closed."""

    closed = 0

    @property
    def facts(self) -> ModelFacts:
        return replace(super().facts, prices=Prices(1e6, 0.0, 0.0, 0.0))

    async def close(self) -> None:
        self.closed += 1


def model(name: str, window: int, *replies: str) -> Priced:
    return Priced(Script(tuple(ScriptedReply(text) for text in replies), window), name)


class Models:
    """What can be connected, in order, and what was."""

    def __init__(self, *models: ScriptedProvider | str) -> None:
        """A text is the name of a model for which there is no key."""
        self.names = [one if isinstance(one, str) else one.name for one in models]
        self.there = {f"scripted/{one.name}": one for one in models if not isinstance(one, str)}
        self.asked: list[str] = []

    async def connect(self, name: str) -> ConnectedModel:
        self.asked.append(name)
        if name not in self.there:
            raise AuthFailed("there is no key")
        return ConnectedModel(self.there[name], TokenMeter())

    def after(self, provider: ScriptedProvider, **known: int) -> SessionModels:
        """The chain that begins with a provider; `known` are windows that are not as they turn out to be."""
        windows = {name.removeprefix("scripted/"): one.script.context_window for name, one in self.there.items()}
        sizes = {**dict.fromkeys(self.names, 200_000), **windows, **known}
        follow = tuple(
            ModelTarget(
                "scripted", name, Window(sizes[name], min(16_384, sizes[name] // 4), min(8192, sizes[name] // 8))
            )
            for name in self.names
        )
        return SessionModels(provider, follow, self.connect)


def of(kind: type[Event] | Any, events: list[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


async def test_what_does_not_fit_goes_on_with_the_next_model_that_takes_it(home: Home) -> None:
    small, middle, large = model("small", 9000, "hello"), model("middle", 10_000), model("large", 50_000, "fine", "ok")
    models = Models(middle, large)
    session, _ = await first_turn(home.open(models.after(small)), "hello")
    events = await events_of(session, LONG)
    (switched,) = of(ModelSwitched, events)
    (reply,) = of(ReplyFinished, events)
    (measured,) = of(ContextMeasured, events)
    why = f"the conversation takes about {switched.tokens:,} tokens, and `scripted/small` has room for 5,625"
    assert switched == ModelSwitched("scripted/small", "scripted/large", why, switched.tokens)
    assert min(switched.tokens, measured.used) > 5625
    assert (reply.model, reply.cost, session.model) == ("scripted/large", float(reply.usage.input), "scripted/large")
    assert (measured.window, measured.effective) == (50_000, large.window.available_tokens)
    assert of(PrefixDrifted, events) == []
    assert models.asked == ["scripted/large"]

    after = await events_of(session, "and now?")
    assert after[-1] == TurnFinished("answered", "ok")
    assert (of(ModelSwitched, after), of(PrefixDrifted, after)) == ([], [])
    assert large.requests[1].messages[: len(large.requests[0].messages)] == large.requests[0].messages


async def test_what_was_learned_of_a_model_is_kept_when_another_takes_over(home: Home) -> None:
    small, large = (
        ScriptedProvider.from_replies(*fill(), context_window=14_000),
        ScriptedProvider.from_replies({"text": "fine"}, context_window=50_000),
    )
    large.name = "large"
    session = await home.open(
        Models(large).after(small), compaction_settings=CompactionSettings(SMALL, on_full="final")
    )
    assert [event.after for event in of(ModelSwitched, await events_of(session))] == ["scripted/large"]
    store = home.store
    assert store is not None
    counts = [
        decode_estimator(await home.thread.run(store.calibration, f"scripted/{name}")).sample_count
        for name in ("script", "large")
    ]
    assert counts == [len(small.requests), len(large.requests)]


async def test_a_switch_is_kept_with_the_session(home: Home) -> None:
    small, large = model("small", 9000), ScriptedProvider.from_replies({"error": "auth"}, context_window=50_000)
    large.name = "large"
    targets = SessionModels(small, (ModelTarget("scripted", "large", large.window),), _always(large))
    session, events = await first_turn(home.open(targets), LONG)
    assert isinstance(events[-1], TurnFailed)
    store = home.store
    assert store is not None
    row = await home.thread.run(store.session, ROW.id)
    assert row is not None
    assert row.model == "scripted/large"
    (rewrite,) = await session._ctx.records.recorder.log.rewrites()
    tokens = of(ModelSwitched, events)[0].tokens
    assert rewrite == Rewrite("model", (), tokens, tokens, 0.0, rewrite.at, 0)


def _always(provider: ScriptedProvider) -> Any:
    async def connect(name: str) -> ConnectedModel:
        return ConnectedModel(provider, TokenMeter())

    return connect


async def test_room_is_made_before_another_model_is_taken(home: Home) -> None:
    small, large = (
        ScriptedProvider.from_replies(*fill(), *[{"text": "<summary>s</summary>"}] * 3, context_window=14_000),
        model("l", 50_000),
    )
    models = Models(large)
    events = await events_of(await home.open(models.after(small)))
    assert compactions(events) != []
    assert (of(ModelSwitched, events), models.asked) == ([], [])


async def test_where_a_full_window_ends_in_a_report_the_next_model_comes_first(home: Home) -> None:
    small, middle = (
        ScriptedProvider.from_replies(*fill(), context_window=14_000),
        ScriptedProvider.from_replies(*fill(20_000), context_window=20_000),
    )
    middle.name = "middle"
    tiny = model("tiny", 9000)
    session = await home.open(
        Models(middle, tiny).after(small), compaction_settings=CompactionSettings(SMALL, on_full="final")
    )
    events = await events_of(session)
    kinds = (ModelSwitched, ContextCompacted, FinalTurn)
    assert [type(event) for event in events if isinstance(event, kinds)] == [ModelSwitched, FinalTurn]
    # The cache of the next model is empty, but of outputs as small as these none is worth a mask.
    assert (compactions(events), of(PrefixDrifted, events)) == ([], [])
    assert session.model == "scripted/middle"


async def test_a_model_that_cannot_take_over_is_passed_over(home: Home) -> None:
    small, shrunk, large = model("small", 9000), model("shrunk", 8000), model("large", 50_000, "fine")
    models = Models("keyless", shrunk, large)
    session, events = await first_turn(home.open(models.after(small, shrunk=60_000)), LONG)
    assert of(Noticed, events)[1:] == [
        Noticed("`scripted/keyless` cannot take over: there is no key"),
        Noticed("`scripted/shrunk` cannot take over: it has room for only 5,000 tokens"),
    ]
    assert models.asked == ["scripted/keyless", "scripted/shrunk", "scripted/large"]
    assert (events[-1], session.model) == (TurnFinished("answered", "fine"), "scripted/large")


async def test_when_no_model_takes_it_the_words_are_shown_in_part(home: Home) -> None:
    small, models = model("small", 9000, "fine"), Models(model("a", 9500), model("b", 8000), "keyless")
    targets = models.after(small, keyless=50_000)
    session, events = await first_turn(home.open(targets), LONG)
    assert events[-1] == TurnFinished("answered", "fine")
    assert (models.asked, session.model) == (["scripted/keyless"], "scripted/small")
    assert [event.strategies for event in of(ContextCompacted, events)] == [("shorten_text",)]
    (request,) = small.requests
    assert 'bytes left out: `read_result` or `recall` with ref_id="msg-' in str(request.messages)


async def test_a_model_that_refuses_the_request_for_good_is_left(home: Home) -> None:
    refusing = ScriptedProvider.from_replies(*[{"error": "overflow"}] * 4)
    large = model("large", 300_000, "fine")
    events = await events_of(await home.open(Models(large).after(refusing)), "hello")
    assert events[-1] == TurnFinished("answered", "fine")
    assert len(of(ModelSwitched, events)) == 1


async def test_whoever_connects_a_model_closes_it() -> None:
    own, other, late = model("own", 9000), model("other", 9000), model("late", 9000)
    models = Models(other, late)
    targets = models.after(own)
    first, second = targets.fallbacks
    connected = await targets.connect(first.id)
    targets.switch_to(first, connected.provider)
    assert (targets.provider, targets.fallbacks) == (other, (second,))
    targets.drop_fallback(second)
    assert targets.fallbacks == ()
    await targets.close()
    await targets.close()
    assert (own.closed, other.closed, late.closed) == (0, 1, 0)


async def test_nothing_is_connected_where_nobody_says_how() -> None:
    own = model("own", 9000)
    with pytest.raises(UsageError):
        await SessionModels(own).connect("scripted/x")


def test_a_session_that_goes_on_with_one_of_them_has_those_after_it() -> None:
    assert later_fallbacks("m/own", ["m/a", "m/b", "m/a"]) == ("m/a", "m/b")
    assert later_fallbacks("m/a", ["m/a", "m/b"]) == ("m/b",)
    assert later_fallbacks("m/b", ["m/a", "m/b"]) == ()


async def test_an_interrupted_turn_takes_no_other_model(home: Home) -> None:
    small, models = model("small", 9000), Models(model("large", 50_000, "fine"))
    session = await home.open(models.after(small))
    turn = session.send(LONG)
    first = await anext(turn)
    session.interrupt()
    rest = [first, *[event async for event in turn]]
    assert of(ModelSwitched, rest) == []
    await asyncio.sleep(0)
