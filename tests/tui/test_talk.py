"""The session that the terminal shows, without a terminal."""

from dataclasses import dataclass

from tests.tui.doubles import Compacted, FakeSession, FakeSessions
from tui.receipts import Compaction
from tui.talk import Talk
from tui.transcript import Notice


@dataclass
class Short(FakeSession):
    """A session with nothing to compact."""

    async def compact(self, focus: str | None = None) -> Compacted:
        return Compacted((), told=())


async def shown_after_compacting(session: FakeSession) -> list[type]:
    talk = Talk(FakeSessions([session]), lambda: None)
    await talk.open()
    await talk.compact("")
    return [type(block) for block in talk.view.blocks]


async def test_a_compaction_by_hand_leaves_its_receipt() -> None:
    assert await shown_after_compacting(FakeSession()) == [Compaction]


async def test_where_nothing_can_be_compacted_it_says_so() -> None:
    assert await shown_after_compacting(Short()) == [Notice]


async def test_an_interrupted_compaction_says_that_nothing_has_changed() -> None:
    @dataclass
    class Stopped(FakeSession):
        async def compact(self, focus: str | None = None) -> Compacted:
            return Compacted((), is_interrupted=True, told=())

    talk = Talk(FakeSessions([Stopped()]), lambda: None)
    await talk.open()
    await talk.compact("")
    assert talk.view.blocks == (Notice("the compaction was interrupted: nothing has changed"),)
