"""Rewrites that pay for themselves, in sessions with real files, a real store and a clock that is set."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from ebbtide.agent.archive.archive import Archive
from ebbtide.agent.archive.listing import ArchiveListing
from ebbtide.agent.compaction.undo import undo_rewrite
from ebbtide.agent.events.session import ContextMeasured, TurnFinished
from ebbtide.agent.events.view import CompactionFailed
from ebbtide.agent.eviction.settings import RewritePatience, RewritePolicy
from ebbtide.agent.logs.debug_log import TOPICS
from ebbtide.agent.messages import Recalls
from ebbtide.agent.providers.base import Chunk, Reply, Request
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.view.recalls import reuse_factors
from tests.kit.session import MANY, ROW, SUMMARY, Priced, PricedHome, call, calls, masked_in, reads, shows


class Frugal(Priced):
    """One that counts half as many tokens as are estimated."""

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        async for chunk in super().stream(request):
            if isinstance(chunk, Reply):
                yield replace(chunk, usage=replace(chunk.usage, input=chunk.usage.input // 2))
            else:
                yield chunk


async def test_old_outputs_are_masked_once_sending_them_has_cost_as_much(priced: PricedHome) -> None:
    session = await priced.opened(*shows(MANY), {"text": "done"})

    rewrites = await priced.say(session)

    assert rewrites
    for rewrite in rewrites:
        assert (rewrite.cause, rewrite.strategies) == ("rent", ("mask",))
        assert rewrite.price is not None
        assert rewrite.price.rent >= rewrite.price.cost > 0
        assert rewrite.price.removed >= 2_000
        assert rewrite.after_tokens < rewrite.before_tokens
    assert masked_in(session) == list(MANY[: len(masked_in(session))])


async def test_what_is_still_spoken_of_stays_when_what_is_as_old_leaves(priced: PricedHome) -> None:
    for number in range(10, 60):
        text = "".join(f"{line} of section_{number}_of_all\n" for line in range(20))
        (priced.root / f"{number}.txt").write_text(text)
    replies = [
        {**calls(call("read", path=f"{number}.txt")), "text": "As section_11_of_all says, on we go."}
        for number in range(10, 60)
    ]
    session = await priced.opened(*replies, {"text": "done"}, patience=RewritePatience(mask=0.01))

    rewrite, *_ = await priced.say(session)

    gone = [item.item.split()[1] for item in rewrite.receipt if item.fate == "masked"]
    assert (rewrite.cause, rewrite.strategies) == ("rent", ("mask",))
    assert len(gone) > 5
    assert gone == [f"{number}.txt" for number in range(10, 11 + len(gone)) if number != 11]


async def test_a_rewrite_is_told_in_the_tokens_that_the_provider_counts(priced: PricedHome) -> None:
    session = await priced.opened(*shows(MANY), {"text": "done"}, model=Frugal)

    rewrite = (await priced.say(session))[0]

    sizes = [event.used for event in priced.events if isinstance(event, ContextMeasured)]
    earlier = sum(isinstance(event, ContextMeasured) for event in priced.events[: priced.events.index(rewrite)])
    saved = rewrite.before_tokens - rewrite.after_tokens
    assert sizes[earlier - 1] < sizes[earlier] + saved  # a step more than was measured last
    assert rewrite.after_tokens == sizes[earlier]  # what it says comes true with the next request
    masked = sum(item.tokens for item in rewrite.receipt if item.fate == "masked")
    assert saved <= masked < saved * 1.2


async def test_after_a_pause_old_outputs_are_masked_at_once(priced: PricedHome) -> None:
    session = await priced.opened(*shows("abcd"), {"text": "done"}, {"text": "again"})
    assert await priced.say(session) == []

    priced.now += 301.0
    (rewrite,) = await priced.say(session, "and now?")

    assert (rewrite.cause, rewrite.strategies) == ("cold", ("mask",))
    assert masked_in(session) == ["a", "b"], "those that three requests have seen"


async def test_a_mask_leaves_to_finished_turns_what_is_theirs_in_the_counters(priced: PricedHome) -> None:
    """`newCtxTokens` counts the replies and outputs of this turn only, also in the request after a mask."""
    session = await priced.opened(*shows("abcd"), {"text": "done"}, *shows("e"), {"text": "again"})
    await priced.say(session)
    priced.now += 301.0
    priced.lines.truncate(0)
    (rewrite,) = await priced.say(session, "and now?")
    assert rewrite.strategies == ("mask",)

    lines = [json.loads(line) for line in priced.lines.getvalue().replace("\0", "").splitlines()]
    first, second = (line for line in lines if line["topic"] == "context-guard/build-metrics")
    (mask,) = (line for line in lines if line["topic"] == "context/mask")
    assert lines.index(mask) < lines.index(first)
    assert (first["newCtxTokens"], first["pendingCtxTokens"] > 0, first["currentCtxTokens"] > 5_000) == (0, True, True)
    # From the second request on, what the provider has counted includes the tool definitions.
    assert second["currentCtxTokens"] == pytest.approx(first["currentCtxTokens"] + second["schemaCtxTokens"], abs=50)
    assert 2_500 < second["newCtxTokens"] < 3_500, "one call and its output"


async def test_a_long_text_of_the_model_is_told_by_its_ends_and_read_by_its_reference(priced: PricedHome) -> None:
    plan = "".join(f"Step {number}: look at the parser.\n" for number in range(1_500))
    session = await priced.opened({"text": plan}, {"text": "done"}, {"text": "again"})
    await priced.say(session, "make a plan")
    await priced.say(session, "do it")

    priced.now += 301.0
    (rewrite,) = await priced.say(session, "and now?")

    assert (rewrite.cause, rewrite.strategies) == ("cold", ("mask",))
    (shortened,) = session.history.retold
    assert (shortened.key, shortened.form) == ("m1", "preview")
    assert rewrite.after_tokens < rewrite.before_tokens / 4
    history = session.history
    await session.close()
    store = await priced.thread.open()
    archive = Archive(priced.thread, store, ROW.id, "/p")
    assert await archive.read(shortened.text.partition("[recall:")[2].partition("]")[0]) == plan.encode()
    loaded = await Recorder(priced.thread, store, ROW, is_new=False).load()
    assert (loaded.retold, loaded.messages) == (history.retold, history.messages)
    (listed,) = await ArchiveListing(priced.thread, store, archive, ROW.id).items(loaded)
    assert (listed.state, listed.role, listed.size) == ("preview", "model", len(plan))


async def test_a_summary_is_written_when_the_whole_past_has_cost_more(priced: PricedHome) -> None:
    patience = RewritePatience(mask=1_000.0, compact=0.01)
    session = await priced.opened(*reads("abc"), SUMMARY, {"text": "done"}, patience=patience)

    (rewrite,) = await priced.say(session)

    assert (rewrite.cause, rewrite.strategies) == ("rent", ("summary",))
    assert rewrite.price is not None
    assert rewrite.price.rent >= 0.01 * rewrite.price.cost
    assert session.history.summary.summary == "Files were read; nothing is open."


async def test_a_summary_that_cannot_be_used_leaves_the_view_and_is_paid_for_again(priced: PricedHome) -> None:
    patience = RewritePatience(mask=1_000.0, compact=0.01)
    session = await priced.opened(*reads("abc"), {"text": "no tags"}, {"text": "done"}, patience=patience)

    assert await priced.say(session) == []
    assert len([event for event in priced.events if isinstance(event, CompactionFailed)]) == 1
    assert session.history.summary.text == ""


@pytest.mark.parametrize(
    ("policy", "files", "pause"),
    [
        pytest.param("cost", "abc", 299.0, id="because the cache outlives the pause"),
        pytest.param("fixed", "abcdefghijkl", 1_000.0, id="because the policy is fixed"),
        pytest.param("off", "abcdefghijkl", 1_000.0, id="because the policy is off"),
    ],
)
async def test_nothing_is_rewritten_that_fits(
    priced: PricedHome, policy: RewritePolicy, files: str, pause: float
) -> None:
    session = await priced.opened(*reads(files), {"text": "done"}, {"text": "again"}, policy=policy)
    assert await priced.say(session) == []

    priced.now += pause

    assert await priced.say(session, "and now?") == []


async def test_each_line_of_the_debug_log_has_the_fields_of_its_topic(priced: PricedHome) -> None:
    session = await priced.opened(
        *shows(MANY), {"text": "two"}, SUMMARY, {"error": "overflow"}, SUMMARY, {"text": "three"}
    )
    await priced.say(session)
    await session.compact()
    await priced.say(session, "and now?")
    await session.close()

    lines = [json.loads(line) for line in priced.lines.getvalue().splitlines()]

    assert {line["topic"] for line in lines} >= {
        "context/cost", "context/mask", "context/compact", "context/emergency", "context/estimate",
    }  # fmt: skip
    for line in lines:
        fields = {name for name in line if name not in ("topic", "at")}
        assert fields <= set(TOPICS[line["topic"]]), line


async def test_a_session_that_goes_on_at_once_finds_its_cache_warm_and_later_cold(priced: PricedHome) -> None:
    session = await priced.opened(*shows("abcd"), {"text": "done"})
    await priced.say(session)
    await session.close()
    soon = await priced.opened({"text": "on"}, ago=60.0)
    assert await priced.say(soon) == []
    await soon.close()

    late = await priced.opened({"text": "on"}, ago=400.0)
    (rewrite,) = await priced.say(late)

    assert (rewrite.cause, rewrite.strategies) == ("cold", ("mask",))


async def test_a_turn_that_leaves_no_room_masks_before_it_ends_and_asks_for_no_summary(priced: PricedHome) -> None:
    session = await priced.opened(*reads("abc"), {"text": "x" * 9_000}, policy="fixed", window=22_400)

    (rewrite,) = await priced.say(session)

    assert (rewrite.cause, rewrite.strategies) == ("background", ("mask",))
    assert isinstance(priced.events[-1], TurnFinished)


async def test_outputs_may_be_held_to_a_budget_whatever_that_costs(priced: PricedHome) -> None:
    session = await priced.opened(*reads("abcd"), {"text": "done"}, policy="total_budget")

    rewrites = await priced.say(session)

    assert [(rewrite.cause, rewrite.strategies) for rewrite in rewrites] == [("budget", ("mask",))] * 3
    assert masked_in(session) == ["a", "b", "c"]
    assert all(rewrite.price is not None and rewrite.price.removed > 1_000 for rewrite in rewrites)


async def test_what_a_session_has_learnt_from_a_recall_survives_a_new_start_a_summary_and_an_undo(
    priced: PricedHome,
) -> None:
    session = await priced.opened(*shows(MANY), calls(call("recall", ref_id="r1")), {"text": "done"})
    await priced.say(session)
    learnt = session.history.recalls
    assert learnt == Recalls({"view": len(masked_in(session))}, {"r1": "view"})
    assert reuse_factors(replace(learnt, left={})) == {"view": 2.0}

    again = await priced.opened({**SUMMARY, "when": "Write down what is needed"}, ago=1.0)
    assert again.history.recalls == learnt
    assert (await again.compact()).strategies == ("summary",)
    assert again.history.recalls.back == learnt.back
    assert (await priced.opened(ago=1.0)).history == again.history
    await again.change_conversation(undo_rewrite)
    assert again.history.recalls == learnt
