"""The session that the terminal shows, without a terminal."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from agent.context.provenance import Occurrence, Trace
from agent.errors import AgentError, StoreFailed
from agent.events import ContextMeasured, Event
from agent.messages import Usage
from agent.view_events import BroughtBack, CompactionStarted, NothingCompacted
from agent.window.compact import CompactResult
from agent.window.triggers import unheard
from tests.tui.doubles import COMPACTED, FakeSession, FakeSessions, conversation
from tui.session.controller import SessionController
from tui.view.blocks import Failure, Notice
from tui.view.receipts import Compaction, RunningCompaction


@dataclass
class Short(FakeSession):
    """A session with nothing to compact."""

    async def compact(self, focus: str | None = None, hear: Callable[[Event], None] = unheard) -> CompactResult:
        hear(CompactionStarted(90_000))
        hear(NothingCompacted())
        return replace(COMPACTED, strategies=())


async def shown_after_compacting(session: FakeSession) -> list[type]:
    talk = SessionController(FakeSessions([session]), lambda: None)
    await talk.open()
    await talk.compact("")
    return [type(block) for block in talk.view.blocks]


async def test_a_compaction_by_hand_leaves_its_receipt() -> None:
    assert await shown_after_compacting(FakeSession()) == [Compaction]


async def test_a_compaction_by_hand_counts_what_is_there_once() -> None:
    seen: list[tuple[str, int]] = []

    def look() -> None:
        for block in talk.view.blocks:
            match block:
                case RunningCompaction(tokens=tokens):
                    seen.append(("running", tokens))
                case Compaction(before_tokens=tokens):
                    seen.append(("done", tokens))
                case _:
                    pass

    talk = SessionController(FakeSessions(), look)
    await talk.open()
    await talk.compact("")
    assert dict(seen) == {"running": 90_000, "done": 90_000}


async def test_where_nothing_can_be_compacted_it_says_so() -> None:
    assert await shown_after_compacting(Short()) == [Notice]


async def test_an_interrupted_compaction_says_that_nothing_has_changed() -> None:
    @dataclass
    class Stopped(FakeSession):
        async def compact(self, focus: str | None = None, hear: Callable[[Event], None] = unheard) -> CompactResult:
            hear(CompactionStarted(90_000))
            hear(NothingCompacted())
            return replace(COMPACTED, strategies=(), is_interrupted=True)

    talk = SessionController(FakeSessions([Stopped()]), lambda: None)
    await talk.open()
    await talk.compact("")
    assert talk.view.blocks == (Notice("the compaction was interrupted: nothing has changed"),)


async def test_why_gives_what_there_is_to_look_at_and_tells_nothing() -> None:
    places = (Occurrence("r1", "masked", "Ran: ls – exit 0"), Occurrence("msg-1", "summarised", "you said", "sum-2"))
    talk = SessionController(FakeSessions([FakeSession(places=places)]), lambda: None)
    await talk.open()
    assert await talk.why("needle") == Trace(places)
    assert (talk.view.blocks, talk.occupied) == ((), False)


async def test_why_says_so_when_a_text_was_never_seen_and_shows_no_orders_to_the_terminal() -> None:
    talk = SessionController(FakeSessions([FakeSession(unsearched=("the end of r1 was not searched",))]), lambda: None)
    await talk.open()
    assert not (await talk.why("a\x1b[31m")).places
    assert await talk.why("") == Trace()
    assert talk.view.blocks == (
        Notice("the model has never seen `a␛[31m` in this session\nthe end of r1 was not searched"),
        Notice("write a part of what was said or seen after `/why`"),
    )


async def test_what_is_brought_back_is_told() -> None:
    session = FakeSession()
    talk = SessionController(FakeSessions([session]), lambda: None)
    await talk.open()
    await talk.bring("")
    await talk.bring("r12")
    assert session.said == ["bring r12"]
    note = Notice("the model sees `r12` again, at the end of the conversation (1,200 tokens)")
    assert talk.view.blocks[-1] == note
    assert (talk.view.used, talk.view.room) == (25_300, 180_000)


async def test_what_cannot_be_brought_back_is_told_in_a_sentence() -> None:
    @dataclass
    class Lost(FakeSession):
        async def bring(self, ref: str, *, only_price: bool = False) -> BroughtBack:
            raise AgentError("there is no `r12`")

    talk = SessionController(FakeSessions([Lost()]), lambda: None)
    await talk.open()
    await talk.bring("r12")
    assert talk.view.blocks == (Failure("error", "there is no `r12`"),)
    assert not talk.occupied


async def test_modes_are_gone_through_without_the_one_that_asks_nothing() -> None:
    session = FakeSession(mode="auto")
    talk = SessionController(FakeSessions([session]), lambda: None)
    assert await talk.change_mode("") == ""
    await talk.open()
    told = [(await talk.change_mode("")).partition(":")[0] for _ in range(4)]
    assert told == ["ask", "accept-edits", "plan", "ask"]
    assert await talk.change_mode("auto") == "auto: calls run without a question"
    assert (session.mode, talk.view.mode) == ("auto", "auto")
    assert await talk.change_mode("yolo") == ""
    assert talk.view.blocks == (Notice("there is no mode `yolo`; the modes are `ask`, `accept-edits`, `plan`, `auto`"),)


async def test_what_goes_on_is_measured_before_anything_is_sent() -> None:
    counted = replace(conversation(1), anchor=Usage(60_000, 0, 0, 9_000), anchored=2)
    for history, is_guess in ((conversation(1), True), (counted, False)):
        session = FakeSession(history=history)
        talk = SessionController(FakeSessions([session]), lambda: None)
        await talk.open("abc123")
        await talk.measure()
        assert (talk.view.used, talk.view.room, talk.view.is_guess) == (69_540, 175_424, is_guess)
        assert dict(talk.view.parts)["history"] == 61_300
        assert session.said == []
        talk.advance(ContextMeasured(70_000, 200_000, 175_000))
        await talk.measure()
        assert (talk.view.used, talk.view.is_guess) == (70_000, False)


async def test_a_new_session_is_not_measured() -> None:
    talk = SessionController(FakeSessions(), lambda: None)
    await talk.measure()
    await talk.open()
    await talk.measure()
    assert (talk.view.used, talk.view.parts) == (0, ())


@dataclass
class Stuck(FakeSession):
    """A session that cannot write its end down."""

    async def close(self) -> None:
        raise StoreFailed("the disk is full", "full")


async def test_a_session_that_cannot_be_closed_makes_room_for_another_all_the_same() -> None:
    talk = SessionController(FakeSessions([Stuck(id="old"), FakeSession(id="next")]), lambda: None)
    await talk.open()
    assert await talk.open()
    assert talk.session is not None
    assert (talk.session.id, talk.view.blocks) == ("next", (Notice("the disk is full"),))
