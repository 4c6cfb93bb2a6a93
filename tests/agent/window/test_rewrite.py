"""Rewrites that pay for themselves, in sessions with real files, a real store and a clock that is set."""

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path

import pytest

from agent.archive.archive import Archive
from agent.archive.listing import ArchiveListing
from agent.context.settings import Caps, CompactionSettings, RewritePatience, RewritePolicy
from agent.debug import TOPICS, Debug
from agent.events import ContextMeasured, Event, TurnFinished
from agent.messages import ToolOutput, User
from agent.providers.base import Chunk, ModelFacts, Prices, Reply, Request
from agent.providers.wires.scripted import Scripted
from agent.records.recorder import Recorder
from agent.records.store_thread import StoreThread
from agent.session import Session
from agent.view_events import CompactionFailed, ContextCompacted, PrefixDrifted
from store.sessions import SessionRow, SessionStore
from tests.agent.assembled import assembled
from tools.base import Workspace

ROW = SessionRow("aa11bb22cc33", "/p", "", "scripted/script", "auto", 1.0, 1.0)
SMALL = Caps(tail=1_000, ledger=900, retain=300, summary=300, protect=3_500)
EAGER = RewritePatience(mask=1.0)
"""A mask is done as soon as sending what it removes has cost as much: these conversations are short."""
SUMMARY: dict[str, object] = {"text": "<retain>a.txt</retain><summary>Files were read; nothing is open.</summary>"}


class Priced(Scripted):
    """A scripted model that costs something."""

    @property
    def facts(self) -> ModelFacts:
        return replace(super().facts, prices=Prices(3.0, 15.0, 0.3, 3.75))


class Frugal(Priced):
    """One that counts half as many tokens as are estimated."""

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        async for chunk in super().stream(request):
            if isinstance(chunk, Reply):
                yield replace(chunk, usage=replace(chunk.usage, input=chunk.usage.input // 2))
            else:
                yield chunk


@dataclass
class Desk:
    """A folder with a large file, a store, and a clock."""

    folder: Path
    thread: StoreThread
    now: float = 0.0
    lines: StringIO = field(default_factory=StringIO)
    events: list[Event] = field(default_factory=list)

    async def open(
        self,
        *replies: dict[str, object],
        policy: RewritePolicy = "rent",
        patience: RewritePatience = EAGER,
        window: int = 200_000,
        ago: float | None = None,
        model: type[Scripted] = Priced,
    ) -> Session:
        """`ago`: seconds since the session was left; None for a new one."""
        store = await self.thread.open()
        row = ROW if ago is None else replace(ROW, updated=time.time() - ago)
        return await assembled(
            model.of(*replies, context_window=window),
            Workspace(self.folder, self.folder / "outputs"),
            self.thread,
            store,
            row,
            is_new=ago is None,
            keeps=False,
            compacting=CompactionSettings(SMALL, policy=policy, patience=patience),
            now=lambda: self.now,
            debug=Debug(echo=self.lines),
        )

    async def say(self, session: Session, text: str = "go") -> list[ContextCompacted]:
        """The rewrites of a turn that ends answered."""
        self.events = [event async for event in session.send(text)]
        assert isinstance(self.events[-1], TurnFinished)
        assert not [event for event in self.events if isinstance(event, PrefixDrifted)]
        return [event for event in self.events if isinstance(event, ContextCompacted)]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    for name in "abcdefghijkl":
        (tmp_path / f"{name}.txt").write_text("".join(f"{name} line {n} of a long text\n" for n in range(300)))
    thread = StoreThread(lambda: SessionStore(tmp_path / "sessions.db"))
    yield Desk(tmp_path, thread)
    await thread.close()


def reads(names: str) -> list[dict[str, object]]:
    return [{"calls": [{"name": "read", "arguments": {"path": f"{name}.txt"}}]} for name in names]


def masked_in(session: Session) -> list[str]:
    """The files whose outputs are shown as one line."""
    outputs: list[ToolOutput] = [o for m in session.history.messages if isinstance(m, User) for o in m.outputs]
    return [output.text.split()[1] for output in outputs if output.call_id in session.history.masked]


async def test_old_outputs_are_masked_once_sending_them_has_cost_as_much(desk: Desk) -> None:
    session = await desk.open(*reads("abcdefghijkl"), {"text": "done"})

    rewrites = await desk.say(session)

    assert rewrites
    for rewrite in rewrites:
        assert (rewrite.cause, rewrite.strategies) == ("rent", ("mask",))
        assert rewrite.price is not None
        assert rewrite.price.rent >= rewrite.price.cost > 0
        assert rewrite.price.removed >= 2_000
        assert rewrite.after_tokens < rewrite.before_tokens
    assert masked_in(session) == list("abcdefghijkl"[: len(masked_in(session))])
    await session.close()


async def test_a_rewrite_is_told_in_the_tokens_that_the_provider_counts(desk: Desk) -> None:
    session = await desk.open(*reads("abcdefghijkl"), {"text": "done"}, model=Frugal)

    rewrite = (await desk.say(session))[0]

    sizes = [event.used for event in desk.events if isinstance(event, ContextMeasured)]
    earlier = sum(isinstance(event, ContextMeasured) for event in desk.events[: desk.events.index(rewrite)])
    saved = rewrite.before_tokens - rewrite.after_tokens
    assert sizes[earlier - 1] < sizes[earlier] + saved  # a step more than was measured last
    assert rewrite.after_tokens == sizes[earlier]  # what it says comes true with the next request
    masked = sum(item.tokens for item in rewrite.receipt if item.fate == "masked")
    assert saved <= masked < saved * 1.2
    await session.close()


async def test_after_a_pause_old_outputs_are_masked_at_once(desk: Desk) -> None:
    session = await desk.open(*reads("abc"), {"text": "done"}, {"text": "again"})
    assert await desk.say(session) == []

    desk.now += 301.0
    (rewrite,) = await desk.say(session, "and now?")

    assert (rewrite.cause, rewrite.strategies) == ("cold", ("mask",))
    assert masked_in(session) == ["a", "b"]
    await session.close()


async def test_a_long_text_of_the_model_is_told_by_its_ends_and_read_by_its_reference(desk: Desk) -> None:
    plan = "".join(f"Step {number}: look at the parser.\n" for number in range(1_500))
    session = await desk.open({"text": plan}, {"text": "done"}, {"text": "again"})
    await desk.say(session, "make a plan")
    await desk.say(session, "do it")

    desk.now += 301.0
    (rewrite,) = await desk.say(session, "and now?")

    assert (rewrite.cause, rewrite.strategies) == ("cold", ("mask",))
    (told,) = session.history.retold
    assert (told.key, told.form) == ("m1", "preview")
    assert rewrite.after_tokens < rewrite.before_tokens / 4
    history = session.history
    await session.close()
    store = await desk.thread.open()
    archive = Archive(desk.thread, store, ROW.id, "/p")
    assert await archive.read(told.text.partition("[recall:")[2].partition("]")[0]) == plan.encode()
    loaded = await Recorder(desk.thread, store, ROW, is_new=False).load()
    assert (loaded.retold, loaded.messages) == (history.retold, history.messages)
    (listed,) = await ArchiveListing(desk.thread, store, archive, ROW.id).entries(loaded)
    assert (listed.state, listed.role, listed.size) == ("preview", "model", len(plan))


async def test_a_pause_that_the_cache_outlives_changes_nothing(desk: Desk) -> None:
    session = await desk.open(*reads("abc"), {"text": "done"}, {"text": "again"})
    await desk.say(session)

    desk.now += 299.0

    assert await desk.say(session, "and now?") == []
    await session.close()


async def test_a_summary_is_written_when_the_whole_past_has_cost_more(desk: Desk) -> None:
    patience = RewritePatience(mask=1_000.0, compact=0.01)
    session = await desk.open(*reads("abc"), SUMMARY, {"text": "done"}, patience=patience)

    (rewrite,) = await desk.say(session)

    assert (rewrite.cause, rewrite.strategies) == ("rent", ("summary",))
    assert rewrite.price is not None
    assert rewrite.price.rent >= 0.01 * rewrite.price.cost
    assert session.history.summary.summary == "Files were read; nothing is open."
    await session.close()


async def test_a_summary_that_cannot_be_used_leaves_the_view_and_is_paid_for_again(desk: Desk) -> None:
    patience = RewritePatience(mask=1_000.0, compact=0.01)
    session = await desk.open(*reads("abc"), {"text": "no tags"}, {"text": "done"}, patience=patience)

    assert await desk.say(session) == []
    assert len([event for event in desk.events if isinstance(event, CompactionFailed)]) == 1
    assert session.history.summary.text == ""
    await session.close()


@pytest.mark.parametrize("policy", ["fixed", "off"])
async def test_with_another_policy_nothing_is_rewritten_that_fits(desk: Desk, policy: RewritePolicy) -> None:
    session = await desk.open(*reads("abcdefghijkl"), {"text": "done"}, {"text": "again"}, policy=policy)
    assert await desk.say(session) == []

    desk.now += 1_000.0

    assert await desk.say(session, "and now?") == []
    await session.close()


async def test_each_line_of_the_debug_log_has_the_fields_of_its_topic(desk: Desk) -> None:
    session = await desk.open(
        *reads("abcdefghijkl"), {"text": "two"}, SUMMARY, {"error": "overflow"}, SUMMARY, {"text": "three"}
    )
    await desk.say(session)
    await session.compact()
    await desk.say(session, "and now?")
    await session.close()

    lines = [json.loads(line) for line in desk.lines.getvalue().splitlines()]

    assert {line["topic"] for line in lines} >= {
        "context/rent", "context/mask", "context/compact", "context/emergency", "context/estimate",
    }  # fmt: skip
    for line in lines:
        fields = {name for name in line if name not in ("topic", "at")}
        assert fields <= set(TOPICS[line["topic"]]), line


async def test_a_session_that_goes_on_at_once_finds_its_cache_warm_and_later_cold(desk: Desk) -> None:
    session = await desk.open(*reads("abc"), {"text": "done"})
    await desk.say(session)
    await session.close()
    soon = await desk.open({"text": "on"}, ago=60.0)
    assert await desk.say(soon) == []
    await soon.close()

    late = await desk.open({"text": "on"}, ago=400.0)
    (rewrite,) = await desk.say(late)

    assert (rewrite.cause, rewrite.strategies) == ("cold", ("mask",))
    await late.close()


async def test_a_turn_that_leaves_no_room_masks_before_it_ends_and_asks_for_no_summary(desk: Desk) -> None:
    session = await desk.open(*reads("abc"), {"text": "x" * 9_000}, policy="fixed", window=22_000)

    (rewrite,) = await desk.say(session)

    assert (rewrite.cause, rewrite.strategies) == ("background", ("mask",))
    assert isinstance(desk.events[-1], TurnFinished)
    await session.close()


async def test_outputs_may_be_held_to_a_budget_whatever_that_costs(desk: Desk) -> None:
    session = await desk.open(*reads("abcd"), {"text": "done"}, policy="total_budget")

    rewrites = await desk.say(session)

    assert [(rewrite.cause, rewrite.strategies) for rewrite in rewrites] == [("budget", ("mask",))] * 3
    assert masked_in(session) == ["a", "b", "c"]
    assert all(rewrite.price is not None and rewrite.price.removed > 1_000 for rewrite in rewrites)
    await session.close()
