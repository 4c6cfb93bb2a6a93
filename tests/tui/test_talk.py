"""The session that the terminal shows, without a terminal."""

from collections.abc import Callable
from dataclasses import dataclass

from agent.context.why import Place
from agent.errors import AgentError
from agent.events import BroughtBack, CompactionStarted, Event
from agent.rewriting import unheard
from tests.tui.doubles import Compacted, FakeSession, FakeSessions
from tui.receipts import Compacting, Compaction
from tui.talk import Talk
from tui.transcript import Failure, Notice


@dataclass
class Short(FakeSession):
    """A session with nothing to compact."""

    async def compact(self, focus: str | None = None, hear: Callable[[Event], None] = unheard) -> Compacted:
        hear(CompactionStarted(90_000))
        return Compacted(())


async def shown_after_compacting(session: FakeSession) -> list[type]:
    talk = Talk(FakeSessions([session]), lambda: None)
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
                case Compacting(tokens=tokens):
                    seen.append(("running", tokens))
                case Compaction(before_tokens=tokens):
                    seen.append(("done", tokens))
                case _:
                    pass

    talk = Talk(FakeSessions(), look)
    await talk.open()
    await talk.compact("")
    assert dict(seen) == {"running": 90_000, "done": 90_000}


async def test_where_nothing_can_be_compacted_it_says_so() -> None:
    assert await shown_after_compacting(Short()) == [Notice]


async def test_an_interrupted_compaction_says_that_nothing_has_changed() -> None:
    @dataclass
    class Stopped(FakeSession):
        async def compact(self, focus: str | None = None, hear: Callable[[Event], None] = unheard) -> Compacted:
            hear(CompactionStarted(90_000))
            return Compacted((), is_interrupted=True)

    talk = Talk(FakeSessions([Stopped()]), lambda: None)
    await talk.open()
    await talk.compact("")
    assert talk.view.blocks == (Notice("the compaction was interrupted: nothing has changed"),)


async def test_why_tells_where_a_text_went_and_how_to_bring_it_back() -> None:
    places = (Place("r1", "masked", "Ran: ls – exit 0"), Place("msg-1", "summarised", "you said", "sum-2"))
    talk = Talk(
        FakeSessions([FakeSession(places=(*places, Place("r9", "visible", "Viewed a.py – 2 lines")))]), lambda: None
    )
    await talk.open()
    await talk.why("needle")
    told = (
        "`needle` was said in 3 places",
        "r1  masked: a line stands for the output  Ran: ls – exit 0",
        "msg-1  summarised by sum-2  you said",
        "r9  in view  Viewed a.py – 2 lines",
        "`/bring msg-1` shows the model the last one that is out of view",
    )
    assert talk.view.blocks == (Notice("\n".join(told)),)


async def test_why_says_so_when_a_text_was_never_seen_and_shows_no_orders_to_the_terminal() -> None:
    talk = Talk(FakeSessions([FakeSession()]), lambda: None)
    await talk.open()
    await talk.why("a\x1b[31m")
    await talk.why("")
    assert talk.view.blocks == (
        Notice("the model has never seen `a␛[31m` in this session"),
        Notice("write a part of what was said or seen after `/why`"),
    )


async def test_what_is_brought_back_is_told() -> None:
    session = FakeSession()
    talk = Talk(FakeSessions([session]), lambda: None)
    await talk.open()
    await talk.bring("")
    await talk.bring("r12")
    assert session.said == ["bring r12"]
    note = Notice("the model sees `r12` again (1,200 tokens)")
    assert talk.view.blocks[-1] == note
    assert (talk.view.used, talk.view.window) == (25_300, 200_000)


async def test_what_cannot_be_brought_back_is_told_in_a_sentence() -> None:
    @dataclass
    class Lost(FakeSession):
        async def bring(self, ref: str) -> BroughtBack:
            raise AgentError("there is no `r12`")

    talk = Talk(FakeSessions([Lost()]), lambda: None)
    await talk.open()
    await talk.bring("r12")
    assert talk.view.blocks == (Failure("error", "there is no `r12`"),)
    assert not talk.occupied
