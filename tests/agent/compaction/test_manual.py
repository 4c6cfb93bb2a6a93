"""Compactions by hand: the preview, the summary that is edited, and the change, in sessions with a real store."""

from dataclasses import replace

import pytest

from ebbtide.agent.compaction.manual_compaction import (
    NOTHING_TO_COMPACT,
    STALE_PREVIEW,
    DraftResult,
    apply_summary,
    draft_summary,
    preview_compaction,
)
from ebbtide.agent.compaction.plan import MAX_REMAINING_SHARE
from ebbtide.agent.compaction.summary import Draft, with_facts
from ebbtide.agent.compaction.undo import undo_rewrite
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.session import Event, ReplyFinished
from ebbtide.agent.events.view import ContextCompacted
from ebbtide.agent.prompt.build import Instructions, build_prompt
from ebbtide.agent.session import Session
from tests.kit.session import PRICED, SUMMARY, PricedHome, reads

ASKED = "Write down what is needed"
BOTH = Draft("a.txt", "Files were read; nothing is open.")
DEMAND = "Read them all, and never touch b.txt."


async def worked(priced: PricedHome, *more: dict[str, object]) -> Session:
    """A session in which four files were read, at a provider that has read most of the last request from its cache."""
    done: dict[str, object] = {"text": "done", "usage": {"input": 100, "cache_read": 16_000, "output": 14}}
    session = await priced.opened(*reads("abcd"), done, *more, policy="fixed")
    await priced.say(session, DEMAND)
    return session


def heard(events: list[Event]) -> list[type[Event]]:
    return [type(event) for event in events]


async def test_the_preview_tells_what_would_become_of_each_part_and_changes_nothing(priced: PricedHome) -> None:
    session = await worked(priced)
    before, spent = session.history, session.usage

    preview = await session.change_conversation(preview_compaction, "the files")

    expected = preview.expected_event
    assert (expected.cause, expected.strategies, expected.before_messages) == (
        "asked",
        ("summary",),
        len(before.messages),
    )
    assert expected.after_tokens < expected.before_tokens
    fates = [item.fate for item in expected.receipt]
    assert (fates[0], set(fates)) == ("summarised", {"summarised", "kept"})
    assert sum(item.tokens for item in expected.receipt) <= expected.before_tokens + 100
    assert (session.history, session.usage, priced.lines.getvalue().count("context/compact")) == (before, spent, 0)


async def test_a_summary_is_offered_only_as_long_as_it_pays(priced: PricedHome) -> None:
    (priced.root / "e.txt").write_text("e line of a short text\n" * 80)
    session = await priced.opened(*reads("e"), {"text": "done"}, {"text": "hello"}, policy="fixed")
    await priced.say(session, "hi")
    await priced.say(session, "hi again")
    preview = await session.change_conversation(preview_compaction)
    expected, caps = preview.expected_event, preview.limits.caps
    fixed = preview.room.fixed_tokens
    assert expected.after_tokens - fixed < MAX_REMAINING_SHARE * (expected.before_tokens - fixed)
    assert 0 < caps.retain + caps.summary < PRICED.retain + PRICED.summary
    assert preview.quote.written_tokens == caps.retain + caps.summary


async def test_where_nothing_is_to_be_gained_it_says_why_before_anything_is_paid(priced: PricedHome) -> None:
    session = await priced.opened({"text": "hello"}, {"text": "yes"}, policy="fixed")
    await priced.say(session, "hi")
    await priced.say(session, "are you there?")
    with pytest.raises(AgentError, match=r"nothing to gain: a request takes [\d,]+ tokens, and with an empty summary"):
        await session.change_conversation(preview_compaction)


async def test_the_price_is_told_before_the_summary_is_made(priced: PricedHome) -> None:
    session = await worked(priced, {**SUMMARY, "when": ASKED})
    preview = await session.change_conversation(preview_compaction)
    events: list[Event] = []

    drafted = await session.change_conversation(draft_summary, preview, events.append)

    quote = preview.quote
    assert (quote.model, quote.is_cached, quote.written_tokens) == ("scripted/script", True, 600)
    assert quote.cost == pytest.approx(quote.read_tokens * 0.3 / 1e6 + 600 * 15 / 1e6)
    assert (drafted.draft, drafted.model, heard(events)) == (BOTH, "scripted/script", [ReplyFinished])
    request = session._ctx.model.provider.requests[-1]  # type: ignore[attr-defined]  # the scripted model keeps it
    prompt = build_prompt(preview.conversation, Instructions("Be brief."))
    assert request.messages[: len(prompt.messages)] == prompt.messages


async def test_where_nothing_is_read_from_a_cache_the_price_is_that_of_fresh_input(priced: PricedHome) -> None:
    session = await priced.opened(*reads("abcd"), {"text": "done"}, policy="fixed")
    await priced.say(session, DEMAND)
    quote = (await session.change_conversation(preview_compaction)).quote
    assert not quote.is_cached
    assert quote.cost == pytest.approx(quote.read_tokens * 3.75 / 1e6 + 600 * 15 / 1e6)


async def test_a_summary_that_is_not_used_is_paid_for_and_changes_nothing(priced: PricedHome) -> None:
    session = await worked(priced, {**SUMMARY, "when": ASKED}, {"text": "go on"})
    before, cost = session.history, session.cost or 0.0
    preview = await session.change_conversation(preview_compaction)
    drafted = await session.change_conversation(draft_summary, preview, lambda event: None)

    assert session.history == before
    assert drafted.cost
    assert session.cost == pytest.approx(cost + drafted.cost)
    assert [asked.purpose for asked in await session._ctx.records.recorder.log.request_usages()][-1] == "summary"
    assert await priced.say(session, "and now?") == []


async def test_an_edited_summary_is_what_the_model_sees(priced: PricedHome) -> None:
    session = await worked(priced, {**SUMMARY, "when": ASKED})
    preview = await session.change_conversation(preview_compaction)
    drafted = await session.change_conversation(draft_summary, preview, lambda event: None)
    mine = Draft("b.txt is the one", "I read four files. " * 90)
    mine = replace(mine, summary=with_facts(mine.summary, preview.missing_facts(mine)))
    events: list[Event] = []

    done = await session.change_conversation(apply_summary, preview, mine, drafted, events.append)

    assert (session.history.summary.retain, session.history.summary.summary) == (mine.retain, mine.summary)
    (compacted,) = events
    assert isinstance(compacted, ContextCompacted)
    assert (compacted.model, compacted.cost, compacted.strategies) == (
        "scripted/script, edited by you",
        drafted.cost,
        ("summary",),
    )
    assert done.result.after_tokens < done.result.before_tokens
    history = session.history
    await session.close()
    again = await priced.opened(ago=60.0)
    assert replace(again.history, anchor=None, anchored=0) == history
    undone = await again.change_conversation(undo_rewrite)
    assert undone.conversation.messages == preview.conversation.messages


async def test_a_summary_that_leaves_out_what_must_be_in_it_is_refused(priced: PricedHome) -> None:
    session = await worked(priced, {**SUMMARY, "when": ASKED})
    preview = await session.change_conversation(preview_compaction)
    drafted = await session.change_conversation(draft_summary, preview, lambda event: None)
    tight = replace(preview, limits=replace(preview.limits, caps=replace(preview.limits.caps, ledger=40)))
    mine = Draft("", "Files were read.")
    missing = tight.missing_facts(mine)
    assert any("never touch b.txt" in line for line in missing)

    with pytest.raises(AgentError, match="omits required facts"):
        await session.change_conversation(apply_summary, tight, mine, drafted, lambda event: None)

    assert session.history == preview.conversation
    mended = replace(mine, summary=with_facts(mine.summary, missing))
    await session.change_conversation(apply_summary, tight, mended, drafted, lambda event: None)
    assert "never touch b.txt" in session.history.summary.summary


async def test_a_summary_that_is_too_long_to_be_worth_it_is_refused(priced: PricedHome) -> None:
    session = await worked(priced)
    preview = await session.change_conversation(preview_compaction)
    mine = Draft("", "very long " * 20_000)
    mine = replace(mine, summary=with_facts(mine.summary, preview.missing_facts(mine)))
    with pytest.raises(AgentError, match="make it shorter"):
        await session.change_conversation(
            apply_summary, preview, mine, DraftResult(preview.conversation, None), lambda event: None
        )
    assert session.history == preview.conversation


async def test_where_no_model_gives_one_the_facts_stand_for_it_or_what_the_user_writes(priced: PricedHome) -> None:
    session = await worked(priced, {"text": "no", "when": ASKED}, {"text": "no", "when": ASKED})
    preview = await session.change_conversation(preview_compaction)
    drafted = await session.change_conversation(draft_summary, preview, lambda event: None)
    assert (drafted.draft, drafted.is_interrupted) == (None, False)
    events: list[Event] = []

    await session.change_conversation(apply_summary, preview, None, drafted, events.append)

    assert [event.strategies for event in events if isinstance(event, ContextCompacted)] == [("ledger",)]
    assert "never touch b.txt" in session.history.summary.ledger


async def test_a_preview_of_what_has_changed_since_is_refused(priced: PricedHome) -> None:
    session = await worked(priced, {"text": "more"})
    preview = await session.change_conversation(preview_compaction)
    await priced.say(session, "one thing more")
    with pytest.raises(AgentError, match=STALE_PREVIEW[:40]):
        await session.change_conversation(draft_summary, preview, lambda event: None)
    with pytest.raises(AgentError, match=STALE_PREVIEW[:40]):
        await session.change_conversation(
            apply_summary, preview, BOTH, DraftResult(preview.conversation, BOTH), lambda event: None
        )


async def test_where_there_is_too_little_it_says_so(priced: PricedHome) -> None:
    session = await priced.opened({"text": "hello"})
    await priced.say(session, "hi")
    with pytest.raises(AgentError, match=NOTHING_TO_COMPACT):
        await session.change_conversation(preview_compaction)
