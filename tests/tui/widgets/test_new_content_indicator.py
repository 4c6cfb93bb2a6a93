import pytest
from textual.widgets import Input

from ebbtide.agent.events.session import TextDelta, ToolFinished, ToolProgress, ToolStarted, TurnFinished
from ebbtide.tui.widgets.new_content_indicator import NewContentIndicator, indicator_line
from tests.kit.app_pilot import Terminal, terminal
from tests.kit.fake_sessions import FakeSession, Hold, conversation
from tests.kit.plain_lines import plain

DONE = TurnFinished("answered", "x")


@pytest.mark.parametrize(
    ("width", "mark_text"),
    [
        (80, "↓ 1,234 new below  End"), (22, "↓ 1,234 new below  End"), (21, "↓ 1,234 new"), (10, "↓ 1,234"), (6, "↓"),
        (0, "↓"),
    ],
)  # fmt: skip
def test_the_mark_is_as_long_as_there_is_room(width: int, mark_text: str) -> None:
    assert plain(indicator_line(1_234, width)) == mark_text


def mark(t: Terminal) -> str:
    """What the mark says; nothing when it is not there."""
    marks = [mark for mark in t.app.screen_stack[0].query(NewContentIndicator) if mark.display]
    return marks[0].render().plain if marks else ""


class Talking:
    """A session with a long past, and a turn of which each part waits until it is let go."""

    def __init__(self) -> None:
        self.holds = [Hold() for _ in range(4)]
        first, second, third, fourth = self.holds
        self.session = FakeSession(
            [
                [
                    TextDelta("One line.\n\n" * 30),
                    first,
                    TextDelta("And **more** of it.\n\n" * 30),
                    second,
                    ToolStarted("1", "bash", {"command": "make"}),
                    ToolProgress("1", "half"),
                    third,
                    ToolFinished("1", "bash", "done", "built\n" * 20),
                    TextDelta("Now it is built.\n\n" * 30),
                    fourth,
                    DONE,
                ]
            ],
            history=conversation(20),
        )

    async def begin(self, t: Terminal) -> None:
        await t.type("go", shows="One line.")

    async def go_on(self, t: Terminal, which: int, *, size: int) -> None:
        """Lets go of a part, and waits until the view with that many blocks is drawn."""
        before = t.app.controller.view
        self.holds[which].event.set()
        await t.until(lambda: t.app.controller.view is not before and len(t.app.controller.view.turn_blocks) == size)
        await t.until(lambda: not t.app.context.presenter.schedule.is_due)
        await t.pilot.pause()


async def test_nothing_moves_while_an_answer_streams_and_calls_run_below() -> None:
    talking = Talking()
    async with terminal(talking.session) as t:
        await talking.begin(t)
        await t.pilot.press("pageup")
        await t.pilot.pause()
        before = t.transcript.visible_text()
        assert "One line." in before  # in the midst of the answer that grows
        for part, (size, mark_text) in enumerate(
            [(2, ""), (3, "↓ 1 new below  End"), (4, "↓ 2 new below  End"), (4, "↓ 2 new below  End")]
        ):
            await talking.go_on(t, part, size=size)
            assert (t.transcript.visible_text(), mark(t)) == (before, mark_text)
        await t.rests()
        assert (t.transcript.visible_text(), mark(t)) == (before, "↓ 2 new below  End")


async def unseen(t: Terminal, talking: Talking) -> None:
    """Reads above while a call and an answer come below."""
    await talking.begin(t)
    await t.pilot.press("pageup")
    for hold in talking.holds:
        hold.event.set()
    await t.rests()
    await t.until(lambda: mark(t) == "↓ 2 new below  End")


@pytest.mark.parametrize("key", ["end", "ctrl+end"])
async def test_the_key_that_it_names_goes_to_the_end_and_the_mark_goes(key: str) -> None:
    talking = Talking()
    async with terminal(talking.session) as t:
        await unseen(t, talking)
        await t.press(key, until=lambda: not mark(t))
        assert t.transcript.is_following
        assert t.app.focused is t.prompt


async def test_a_click_on_the_mark_goes_to_the_end_and_leaves_the_keys_where_they_are() -> None:
    talking = Talking()
    async with terminal(talking.session) as t:
        await unseen(t, talking)
        assert await t.pilot.click(NewContentIndicator)
        await t.until(lambda: not mark(t))
        assert t.transcript.is_following
        assert t.app.focused is t.prompt


async def test_what_has_been_looked_at_is_not_new_any_more() -> None:
    talking = Talking()
    async with terminal(talking.session) as t:
        await unseen(t, talking)
        marks = [mark(t)]
        while not t.transcript.is_following:
            await t.pilot.press("pagedown")
            await t.pilot.pause()
            marks.append(mark(t))
        assert [text for text, after in zip(marks, [*marks[1:], None], strict=True) if text != after] == [
            "↓ 2 new below  End",
            "",
        ]
        await t.pilot.press("pageup", "pageup")
        await t.pilot.pause()
        assert (t.transcript.is_following, mark(t)) == (False, "")


async def test_there_is_no_mark_as_long_as_the_end_is_on_the_screen() -> None:
    talking = Talking()
    async with terminal(talking.session) as t:
        await talking.begin(t)
        for hold in talking.holds:
            hold.event.set()
        await t.rests()
        assert t.transcript.is_following
        assert not t.app.screen.query(NewContentIndicator)


async def test_a_search_keeps_its_line_and_counts_what_comes_meanwhile() -> None:
    talking = Talking()
    async with terminal(talking.session) as t:
        await talking.begin(t)
        await t.pilot.press("ctrl+f", *"question 3")
        for hold in talking.holds:
            hold.event.set()
        await t.rests()
        await t.until(lambda: mark(t) == "↓ 2 new below  End")
        line = t.app.screen.query_one("#sought", Input).region
        assert t.app.screen.query_one(NewContentIndicator).region.y == line.y - 1
        await t.press("escape", until=lambda: not mark(t))
        assert t.transcript.is_following


@pytest.mark.parametrize("size", [(10, 8), (4, 6), (1, 1)])
async def test_a_tiny_screen_has_what_fits_of_it(size: tuple[int, int]) -> None:
    talking = Talking()
    async with terminal(talking.session) as t:
        await unseen(t, talking)
        await t.pilot.resize_terminal(*size)
        await t.pilot.pause()
        assert mark(t) in ("↓ 2 new", "↓ 2", "↓", "")
        region = t.app.screen.query_one(NewContentIndicator).region
        assert region.right <= max(size[0], 2)  # what is not there has two columns around it
        await t.pilot.resize_terminal(80, 24)
        await t.pilot.pause()
        await t.press("end", until=lambda: not mark(t))
