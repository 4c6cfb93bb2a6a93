"""The session that the terminal shows, without a terminal."""

from dataclasses import dataclass

from tests.tui.doubles import Compacted, FakeSession, FakeSessions
from tui.talk import Talk
from tui.transcript import Compaction, Notice


@dataclass
class Short(FakeSession):
    """A session with nothing to compact."""

    async def compact(self, focus: str | None = None) -> Compacted:
        return Compacted(40, 40, 2, 2, ())


async def shown_after_compacting(session: FakeSession) -> list[type]:
    talk = Talk(FakeSessions([session]), lambda: None)
    await talk.open()
    await talk.compact("")
    return [type(block) for block in talk.view.blocks]


async def test_a_compaction_by_hand_leaves_its_receipt() -> None:
    assert await shown_after_compacting(FakeSession()) == [Compaction]


async def test_where_nothing_can_be_compacted_it_says_so() -> None:
    assert await shown_after_compacting(Short()) == [Notice]
