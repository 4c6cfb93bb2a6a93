"""Rewrites that are taken back, in sessions with real files and a real store."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.compaction.edit_cost import MAX_UNDO_GROWTH_TOKENS, min_size_after_undo
from ebbtide.agent.compaction.undo import NOTHING_TO_UNDO, preview_rewrite_undo, undo_rewrite
from ebbtide.agent.errors import AgentError
from ebbtide.agent.messages import Conversation
from ebbtide.agent.prompt.build import Instructions, build_prompt
from ebbtide.agent.providers.base import Chunk, Reply, Request
from ebbtide.agent.session import Session
from ebbtide.agent.window.measure import measure_budget
from tests.kit.session import MANY, SUMMARY, Priced, PricedHome, masked_in, reads, shows

LATER = "Write down what is needed"


def summary(**more: object) -> dict[str, object]:
    return {**SUMMARY, "when": LATER, **more}


def sent(session: Session) -> tuple[object, ...]:
    """What the next request would say."""
    return build_prompt(session.history, Instructions("Be brief.")).messages


async def compacted(session: Session) -> Conversation:
    """The conversation before a compaction by hand."""
    before = session.history
    assert (await session.compact()).strategies == ("summary",)
    assert sent(session) != build_prompt(before, Instructions("Be brief.")).messages
    return before


async def summarised(
    priced: PricedHome, *then: dict[str, object], window: int = 200_000, model: type[Priced] = Priced
) -> tuple[Session, Conversation]:
    """A session that read four files, was compacted by hand and will reply `then`; and what it was before."""
    replies: list[dict[str, object]] = [*reads("abcd"), {"text": "done"}, summary(), *then]
    session = await priced.opened(*replies, policy="fixed", window=window, model=model)
    await priced.say(session)
    return session, await compacted(session)


async def test_after_an_undo_the_next_request_is_what_it_would_have_been(priced: PricedHome) -> None:
    session, before = await summarised(priced, {"text": "again"})

    undone = await session.change_conversation(undo_rewrite)

    assert replace(session.history, min_rewrite_size=0) == before
    room = measure_budget(session.history, session._ctx.window).effective_window
    assert (undone.event.before_tokens < undone.event.after_tokens, undone.event.effective) == (True, room)
    await priced.say(session, "and now?")
    prompt = build_prompt(before.plus(*session.history.messages[-2:-1]), Instructions("Be brief."))
    model = session._ctx.model.provider
    assert model.requests[-1].messages == prompt.messages  # type: ignore[attr-defined]  # the scripted model keeps them


async def test_what_was_said_since_the_compaction_stays(priced: PricedHome) -> None:
    session, before = await summarised(priced, {"text": "again"})
    await priced.say(session, "and now?")
    newest = session.history.messages[-2:]

    await session.change_conversation(undo_rewrite)

    assert session.history.messages == (*before.messages, *newest)
    assert (session.history.summary, session.history.masked) == (before.summary, before.masked)


class Caching(Priced):
    """A model that reads the beginning of each request from a cache."""

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        async for chunk in super().stream(request):
            if isinstance(chunk, Reply):
                chunk = replace(chunk, usage=replace(chunk.usage, input=chunk.usage.input - 9, cache_read=9))
            yield chunk


async def test_the_price_is_what_has_to_be_written_again(priced: PricedHome) -> None:
    session, _ = await summarised(priced, {"text": "again"}, model=Caching)
    assert (await session.change_conversation(preview_rewrite_undo)).event.written == 0, (
        "no request has seen the compaction yet"
    )
    await priced.say(session, "and now?")
    history = session.history

    offer = await session.change_conversation(preview_rewrite_undo)

    assert session.history == history
    event = offer.event
    assert 0 < event.written < event.after_tokens
    assert event.cost == pytest.approx(event.written * 3.75 / 1_000_000)
    assert (await session.change_conversation(undo_rewrite)).event == event


async def test_without_a_cache_the_price_is_what_each_request_takes_more(priced: PricedHome) -> None:
    session, _ = await summarised(priced, {"text": "again"})
    event = (await session.change_conversation(preview_rewrite_undo)).event
    assert (event.is_cached, event.written) == (False, event.after_tokens - event.before_tokens)
    assert event.cost == pytest.approx(event.written * 3.0 / 1_000_000)
    await priced.say(session, "and now?")
    event = (await session.change_conversation(undo_rewrite)).event
    assert event.written == event.after_tokens - event.before_tokens > 0


async def test_what_would_not_fit_is_refused_and_nothing_changes(priced: PricedHome) -> None:
    session, before = await summarised(priced)
    history = session.history
    session._ctx.model.learned_limits.window = Window(16_000, 1_000, 500)

    with pytest.raises(AgentError, match="nothing was undone"):
        await session.change_conversation(undo_rewrite)

    assert session.history == history
    session._ctx.model.learned_limits.window = None
    await session.change_conversation(undo_rewrite)
    assert session.history.messages == before.messages


async def test_where_nothing_was_rewritten_there_is_nothing_to_undo(priced: PricedHome) -> None:
    session = await priced.opened({"text": "done"})
    await priced.say(session)
    with pytest.raises(AgentError, match=NOTHING_TO_UNDO):
        await session.change_conversation(undo_rewrite)


async def test_an_automatic_rewrite_that_is_undone_is_not_done_again_at_once(priced: PricedHome) -> None:
    session = await priced.opened(*shows(MANY), {"text": "done"}, *reads("ab"), {"text": "again"}, window=400_000)
    assert await priced.say(session)
    masked = masked_in(session)
    while masked_in(session):
        await session.change_conversation(undo_rewrite)

    rewrites = await priced.say(session, "and now?")

    assert (bool(masked), rewrites, masked_in(session)) == (True, [], [])


async def test_when_more_came_it_is_done_again(priced: PricedHome) -> None:
    session = await priced.opened(*shows(MANY), {"text": "done"}, *shows(MANY), {"text": "again"})
    assert await priced.say(session)
    while masked_in(session):
        await session.change_conversation(undo_rewrite)
    min_size = session.history.min_rewrite_size

    rewrites = await priced.say(session, "and now?")

    assert [rewrite.cause for rewrite in rewrites][:1] == ["rent"]
    assert min_size > 0


async def test_a_full_window_does_not_wait_for_more(priced: PricedHome) -> None:
    session, _ = await summarised(priced, *reads("efghijkl"), {"text": "again"}, window=64_000)
    await session.change_conversation(undo_rewrite)

    rewrites = await priced.say(session, "and now?")

    assert [rewrite.cause for rewrite in rewrites][:1] == ["full"]


async def test_rewrites_are_undone_one_after_the_other(priced: PricedHome) -> None:
    session, first = await summarised(priced, *reads("efgh"), {"text": "more"}, summary())
    await priced.say(session, "more")
    second = await compacted(session)

    await session.change_conversation(undo_rewrite)
    assert replace(session.history, min_rewrite_size=0) == second
    await session.change_conversation(undo_rewrite)
    assert session.history.messages[: len(first.messages)] == first.messages
    assert not session.history.summary
    with pytest.raises(AgentError, match=NOTHING_TO_UNDO):
        await session.change_conversation(undo_rewrite)


async def test_a_session_that_goes_on_can_still_undo_and_remembers_that_it_has(priced: PricedHome) -> None:
    session, before = await summarised(priced)
    await session.close()

    again = await priced.opened({"text": "on"}, ago=60.0)
    undone = await again.change_conversation(undo_rewrite)
    assert again.history.messages == before.messages
    await again.close()

    third = await priced.opened({"text": "on"}, ago=1_000.0)
    assert (third.history.messages, third.history.min_rewrite_size) == (
        before.messages,
        undone.conversation.min_rewrite_size,
    )
    assert await priced.say(third, "cold, but held") == []
    await third.close()


async def test_an_undo_is_written_down_and_told(priced: PricedHome) -> None:
    session, _ = await summarised(priced)
    event = (await session.change_conversation(undo_rewrite)).event

    written = await session._ctx.records.recorder.log.rewrites()
    assert [(one.reason, one.strategies, one.before, one.after) for one in written][-1] == (
        "undone", ("undo",), event.before_tokens, event.after_tokens,
    )  # fmt: skip
    lines = [json.loads(line) for line in priced.lines.getvalue().splitlines()]
    assert [line["afterTokens"] for line in lines if line["topic"] == "context/undo"] == [event.after_tokens]


@given(st.integers(0, 10**6), st.integers(0, 2 * 10**6))
def test_a_hold_ends_when_more_came(used: int, effective: int) -> None:
    assert used < min_size_after_undo(used, effective) <= used + MAX_UNDO_GROWTH_TOKENS
