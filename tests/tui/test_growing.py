"""The window grows and shrinks while one reads near the end: what is read stays in sight, or the end of it does."""

import pytest

from ebbtide.tui.view.blocks import AnswerText, Notice
from tests.kit.app_pilot import terminal
from tests.kit.fake_sessions import FakeSession, conversation
from tests.tui.widgets.test_transcript import controller, stage

HEIGHT = 12


def last(text: str) -> str:
    return text.rstrip("\n").split("\n")[-1].strip()


@pytest.mark.parametrize("above", [0, 1, 2, 5])
async def test_near_the_end_what_is_read_stays_or_the_end_does(above: int) -> None:
    blocks = (*controller(20), AnswerText("\n\n".join(f"line {number}" for number in range(9))))
    for change in (-7, -3, -1, 1, 2, 3, 8):
        async with stage(*blocks, size=(60, HEIGHT)) as (transcript, pilot):
            end = last(transcript.visible_text())
            transcript.scroll_to(y=transcript.max_scroll_y - above, animate=False, immediate=True)
            await pilot.pause()
            top = transcript.scroll_offset.y
            for height in (HEIGHT + change, HEIGHT, HEIGHT + change):
                await pilot.resize_terminal(60, height)
                await pilot.pause()
                at, bottom = transcript.scroll_offset.y, transcript.max_scroll_y
                is_end = last(transcript.visible_text()) == end
                assert (at == bottom, transcript.is_following) == (is_end, is_end), (change, height)
                assert is_end or at == top, (change, height)
                if not above:
                    assert is_end, (change, height)
            was_end = transcript.is_following
            before = transcript.visible_text()
            transcript.show((*blocks, Notice("new")))
            await pilot.pause()
            text = transcript.visible_text()
            assert last(text) == "· new" if was_end else text == before, change


@pytest.mark.parametrize("above", [0, 1, 3])
async def test_a_prompt_that_grows_and_shrinks_again_moves_nothing(above: int) -> None:
    async with terminal(FakeSession(history=conversation(20))) as t:
        t.transcript.scroll_to(y=t.transcript.max_scroll_y - above, animate=False, immediate=True)
        await t.pilot.pause()
        before, top = t.transcript.visible_text(), t.transcript.scroll_offset.y
        await t.pilot.press("a", "ctrl+j", "ctrl+j", "ctrl+j")
        await t.pilot.pause()
        assert t.transcript.is_following == (above == 0)
        assert t.transcript.scroll_offset.y == (top if above else t.transcript.max_scroll_y)
        t.prompt.set_text("")
        await t.pilot.pause()
        assert t.transcript.visible_text() == before
