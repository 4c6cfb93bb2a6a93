"""Replies that are asked for once more, in whole sessions with a scripted model."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from ebbtide.agent.events.session import Noticed, ReplyFinished, RetryScheduled, TextDelta, TurnFinished
from ebbtide.agent.messages import Assistant, Source, Text
from ebbtide.agent.providers.base import Chunk, ModelFacts, Reply, Request
from ebbtide.agent.providers.wires.scripted import Script, ScriptedProvider, ScriptedReply
from tests.kit.session import Home, call, events_of, first_turn

CUT = "the reply was cut at 50,000 tokens; the new limit is 65,536"


def model(*replies: ScriptedReply, window: int = 200_000, most: int = 100_000) -> ScriptedProvider:
    return ScriptedProvider(Script(replies, window, most))


class Circling(ScriptedProvider):
    """A scripted model of those that may fall into a circle."""

    @property
    def facts(self) -> ModelFacts:
        return replace(super().facts, may_repeat=True)


class Citing(ScriptedProvider):
    """A scripted model that cites a page, as Perplexity does, in a stream with an unreadable event."""

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        async for chunk in super().stream(request):
            if isinstance(chunk, Reply):
                text = Text(chunk.message.text, {"citations": ["https://example.org/"]})
                chunk = replace(chunk, message=replace(chunk.message, parts=(text,)), skipped_frame_count=1)
            yield chunk


def retries(events: list[object]) -> list[str]:
    return [event.reason for event in events if isinstance(event, RetryScheduled)]


@pytest.mark.parametrize(
    ("cut", "why"),
    [
        (ScriptedReply(reasoning="hm", stop="max_tokens"), "the model sent an empty answer"),
        (ScriptedReply("half an ans", stop="max_tokens"), CUT),
        (ScriptedReply("I write it.", calls=(call("bash", command="touch x"),), stop="max_tokens"), CUT),
    ],
)
async def test_a_reply_that_used_up_its_tokens_is_asked_for_again_with_more(
    home: Home, cut: ScriptedReply, why: str
) -> None:
    provider = model(cut, ScriptedReply("fine"))
    session, events = await first_turn(home.open(provider))
    assert (retries(list(events)), events[-1]) == ([why], TurnFinished("answered", "fine"))
    assert [request.max_output_tokens for request in provider.requests] == [50_000, 65_536]
    assert provider.requests[0].messages == provider.requests[1].messages
    assert [message.text for message in session.history.messages if message.text] == ["go", "fine"]
    assert not (home.root / "x").exists()


async def test_a_reply_that_is_cut_again_is_the_answer_and_the_next_one_has_its_usual_room(home: Home) -> None:
    provider = model(*[ScriptedReply("half", stop="max_tokens")] * 2, ScriptedReply("more"))
    session, events = await first_turn(home.open(provider))
    assert (retries(list(events)), events[-1]) == ([CUT], TurnFinished("answered", "half"))
    assert [event.text for event in events if isinstance(event, Noticed)] == [
        "the answer was cut at the output limit; ask the model to continue"
    ]
    assert len([event for event in events if isinstance(event, ReplyFinished)]) == 2
    await events_of(session, "go on")
    assert [request.max_output_tokens for request in provider.requests] == [50_000, 65_536, 50_000]


async def test_a_reply_that_says_the_same_without_end_is_stopped_and_kept_once(home: Home) -> None:
    says = "I am sorry, I cannot do this.\n"
    provider = Circling(
        Script(
            (
                ScriptedReply("Well:\n" + says * 2_000),
                ScriptedReply(reasoning="What now? " * 2_000),
                ScriptedReply("fine"),
            )
        )
    )
    session, events = await first_turn(home.open(provider))
    notices = [event.text for event in events if isinstance(event, Noticed)]
    assert notices == ["the reply was stopped: the model said the same thing 200 times in a row; only one copy is kept"]
    assert events[-1] == TurnFinished("repeated_text", f"Well:\n{says.strip()}")
    assert sum(len(event.text) for event in events if isinstance(event, TextDelta)) < 7_000
    assert (await events_of(session, "go on"))[-1] == TurnFinished("repeated_text", "")
    assert (await events_of(session, "go on"))[-1] == TurnFinished("answered", "fine")
    assert [message.text for message in session.history.messages if message.text] == [
        "go", f"Well:\n{says.strip()}", "go on", "go on", "fine"
    ]  # fmt: skip


@pytest.mark.parametrize("error", ["auth", "overflow"])
async def test_a_cut_reply_is_not_lost_when_it_cannot_be_had_again(home: Home, error: str) -> None:
    provider = model(ScriptedReply("half", stop="max_tokens"), ScriptedReply(error=error), ScriptedReply("more"))
    session, events = await first_turn(home.open(provider))
    assert (retries(list(events)), events[-1]) == ([CUT], TurnFinished("answered", "half"))
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["half", "half"]
    assert [message.text for message in session.history.messages if message.text] == ["go", "half"]
    assert (await events_of(session, "go on"))[-1] == TurnFinished("answered", "more")
    assert len(provider.requests) == 3


@pytest.mark.parametrize(("window", "most"), [(200_000, 30_000), (66_000, 100_000)])
async def test_a_cut_reply_is_taken_as_it_is_where_there_is_no_more_room(home: Home, window: int, most: int) -> None:
    provider = model(ScriptedReply("half", stop="max_tokens"), window=window, most=most)
    events = await events_of(await home.open(provider))
    assert (retries(list(events)), events[-1]) == ([], TurnFinished("answered", "half"))


async def test_a_paused_reply_is_gone_on_with(home: Home) -> None:
    provider = model(ScriptedReply("so far", stop="pause"), ScriptedReply("done"))
    session = await home.open(provider)
    assert (await events_of(session))[-1] == TurnFinished("answered", "done")
    assert provider.requests[1].messages == session.history.messages[:2]
    assert [message.is_paused for message in session.history.messages if isinstance(message, Assistant)] == [
        True,
        False,
    ]


async def test_what_a_reply_cites_is_in_its_event(home: Home) -> None:
    _, events = await first_turn(home.open(Citing(Script((ScriptedReply("It is [1]."),), 200_000, 100_000))))
    finished = next(event for event in events if isinstance(event, ReplyFinished))
    assert (finished.sources, finished.skipped_frames) == ((Source("https://example.org/"),), 1)
    assert events[-1] == TurnFinished("answered", "It is [1].")
