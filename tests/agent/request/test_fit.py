"""Requests that fit, and what is made of the replies to them, in whole sessions with a scripted model."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from ebbtide.agent.errors import ContextOverflow
from ebbtide.agent.events.session import ContextMeasured, Noticed, TurnFinished, WindowLearned
from ebbtide.agent.events.view import CompactionFailed
from ebbtide.agent.eviction.settings import CompactionSettings
from ebbtide.agent.providers.base import Chunk, Request
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.tokens.estimate import estimate_messages, estimate_text, estimate_tools
from tests.kit.session import ASKED, SMALL, Home, call, compactions, events_of, first_turn, prints, said_last


@dataclass(slots=True)
class Smaller(ScriptedProvider):
    """A model whose window is smaller than its facts say."""

    real: int = 200_000
    counts_output: bool = False
    """Whether what the reply may take counts, too."""

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        size = estimate_text(request.system) + estimate_tools(request.tools) + estimate_messages(request.messages)
        size += request.max_output_tokens if self.counts_output else 0
        if size > self.real:
            raise ContextOverflow("prompt is too long", size=size, limit=self.real)
        async for chunk in ScriptedProvider.stream(self, request):
            yield chunk


async def test_a_count_after_an_overflow_is_compared_with_the_request_that_was_sent_again(home: Home) -> None:
    (home.root / "a.txt").write_text("abcdefgh\n" * 4000)
    many = [call("read", path="a.txt") for _ in range(25)]
    provider = ScriptedProvider.from_replies(
        {"calls": many}, {"calls": [call("todo", items=[])]}, {"error": "overflow"}, {"text": "fine"},
        context_window=1_000_000,
    )  # fmt: skip
    session, events = await first_turn(
        home.open(provider, compaction_settings=CompactionSettings(SMALL, policy="fixed"))
    )
    assert compactions(events) == [("overflow", ("mask_all",))]
    assert [event for event in events if isinstance(event, Noticed)] == []
    assert session.history.anchored == len(session.history.messages)


async def test_a_summary_after_an_overflow_is_written_in_pieces_that_fit_the_real_window(home: Home) -> None:
    wrote = {"when": ASKED, "text": "<summary>it was about words</summary>"}
    provider = Smaller.from_replies(
        {"text": "word " * 40_000}, {"text": "fine"}, *[wrote] * 8, context_window=400_000
    )  # fmt: skip
    assert isinstance(provider, Smaller)
    provider.real = 60_000
    session, _ = await first_turn(home.open(provider, compaction_settings=CompactionSettings(SMALL, policy="fixed")))
    events = await events_of(session, "y" * 60_000)
    assert [event for event in events if isinstance(event, CompactionFailed)] == []
    assert compactions(events) == [("overflow", ("chunks",))]
    assert session.history.summary.summary.startswith("it was about words")
    asked = [request for request in provider.requests if ASKED in said_last(request)]
    assert all(estimate_messages(request.messages) < 60_000 // 2 for request in asked)


async def test_what_a_reply_may_take_shrinks_with_the_window_that_an_overflow_has_shown(home: Home) -> None:
    provider = Smaller.from_replies(*[prints(text) for text in "abc"], {"text": "fine"}, context_window=200_000)
    assert isinstance(provider, Smaller)
    provider.real, provider.counts_output = 20_000, True
    events = await events_of(await home.open(provider))
    learned = [event for event in events if isinstance(event, WindowLearned)]
    assert (learned, events[-1]) == ([WindowLearned(20_000, 12_500, 1, 3)], TurnFinished("answered", "fine"))
    outputs = [request.max_output_tokens for request in provider.requests]
    assert (outputs[0], max(outputs[-1:])) == (16_384, 5_000)


async def test_a_window_that_only_counts_have_shown_is_given_back_when_more_is_read(home: Home) -> None:
    counts = [4003, 18_020, 20_007, 20_007, 20_007, 22_000, 5009]
    work = call("bash", command="printf '%.0sabcdefgh ' $(seq 3000)")
    steps = [{"calls": [work], "usage": {"input": counted, "output": 30}} for counted in counts]
    wrote = {"when": ASKED, "text": "<summary>it was about words</summary>"}
    events = await events_of(await home.open(ScriptedProvider.from_replies(*steps, {"text": "fine"}, *[wrote] * 4)))
    sizes = [event.window for event in events if isinstance(event, ContextMeasured)]
    assert sizes == [200_000] * 5 + [20_007] + [200_000] * 2
    notices = [event.text for event in events if isinstance(event, Noticed)]
    assert [("drops the beginning" in text, "has now read" in text) for text in notices] == [
        (True, False),
        (False, True),
    ]
    assert events[-1] == TurnFinished("answered", "fine")
