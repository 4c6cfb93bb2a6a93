import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from textual.app import App, ComposeResult
from textual.geometry import Offset, Region
from textual.pilot import Pilot
from textual.selection import Selection
from textual.strip import Strip

from ebbtide.tui.text.themes import DARK
from ebbtide.tui.view.blocks import AnswerText, Block, Call, Notice, ReasoningBlock, SummaryBlock, UserText
from ebbtide.tui.widgets.transcript import TranscriptView


class Stage(App[None]):
    CSS = "TranscriptView { overflow-y: scroll; overflow-x: hidden; }"

    def compose(self) -> ComposeResult:
        yield TranscriptView()

    def on_mount(self) -> None:
        self.animation_level = "none"
        self.register_theme(DARK)
        self.theme = DARK.name


@asynccontextmanager
async def stage(*blocks: Block, size: tuple[int, int] = (60, 20)) -> AsyncIterator[tuple[TranscriptView, Pilot[None]]]:
    app = Stage()
    async with app.run_test(size=size) as pilot:
        transcript = app.query_one(TranscriptView)
        transcript.show(blocks)
        await pilot.pause()
        yield transcript, pilot


def controller(count: int) -> tuple[Block, ...]:
    """Questions and answers whose heights no estimate gets right."""
    blocks: list[Block] = []
    for number in range(count):
        blocks.append(UserText(f"question {number}"))
        blocks.append(
            AnswerText(f"answer {number}\n\n```\n" + "code\n" * (number % 7) + "```\n\n" + "- item\n" * (number % 5))
        )
    return tuple(blocks)


async def test_a_long_session_opens_at_its_end_and_draws_only_that() -> None:
    async with stage(*controller(1_000)) as (transcript, _):
        assert "answer 999" in transcript.visible_text()
        assert transcript.is_following
        assert len([row for row in transcript._stack.rows if row.is_measured]) < 60


async def test_above_the_end_the_message_stands_at_the_top_that_the_screen_belongs_to() -> None:
    blocks = (
        UserText("the first\nof two lines"),
        AnswerText("- item\n" * 60),
        UserText("and then"),
        AnswerText("Yes."),
    )
    async with stage(*blocks) as (transcript, pilot):
        assert "the first" not in transcript.visible_text()
        below = transcript.visible_text().splitlines()
        transcript.scroll_page(-1)
        await pilot.pause()
        first, *rest = transcript.visible_text().splitlines()
        assert first.split() == ["▌", "the", "first", "Ctrl-Up"]
        assert rest[-1] == below[1]  # nothing has moved for it
        await pilot.click(TranscriptView, offset=(3, 0))
        assert transcript.visible_text().splitlines()[:2] == ["▌ the first", "▌ of two lines"]


async def test_of_fifty_thousand_blocks_no_more_is_drawn_than_of_a_hundred() -> None:
    drawn = []
    for count in (50, 25_000):
        async with stage(*controller(count)) as (transcript, _):
            drawn.append(len([row for row in transcript._stack.rows if row.is_measured]))
    assert drawn[1] <= drawn[0] + 4  # answers differ in height


async def test_the_end_stays_in_sight_while_blocks_come() -> None:
    blocks = controller(20)
    async with stage(*blocks) as (transcript, pilot):
        for number in range(30):
            transcript.show((*blocks, *(Notice(f"notice {index}") for index in range(number))))
            await pilot.pause()
        assert "notice 28" in transcript.visible_text().split("\n")[-1]


async def test_nothing_moves_while_the_user_reads_above() -> None:
    blocks = controller(50)
    async with stage(*blocks) as (transcript, pilot):
        transcript.scroll_page(-1)
        await pilot.pause()
        before = transcript.visible_text()
        for number in range(5):
            transcript.show((*blocks, *(AnswerText("new\n\n" * (index + 1)) for index in range(number))))
            await pilot.pause()
        assert transcript.visible_text() == before
        assert not transcript.is_following
        transcript.go_to_end()
        await pilot.pause()
        assert transcript.is_following


async def test_paging_up_and_down_shows_every_line_once() -> None:
    blocks = controller(40)
    async with stage(*blocks) as (transcript, pilot):
        for _ in range(4):
            above = transcript.visible_text().split("\n")
            transcript.scroll_page(-1)
            await pilot.pause()
            assert transcript.visible_text().split("\n")[-1] == above[1]  # over the first stands the message
        for _ in range(3):
            below = transcript.visible_text().split("\n")
            transcript.scroll_page(1)
            await pilot.pause()
            assert transcript.visible_text().split("\n")[1] == below[-1]


async def test_home_and_end_reach_both_ends() -> None:
    async with stage(*controller(200)) as (transcript, pilot):
        transcript.go_to_start()
        await pilot.pause()
        assert transcript.visible_text().startswith("▌ question 0")
        transcript.go_to_end()
        await pilot.pause()
        assert "answer 199" in transcript.visible_text()


async def test_a_narrower_screen_keeps_what_is_read_in_sight() -> None:
    async with stage(*controller(100), size=(80, 20)) as (transcript, pilot):
        for _ in range(5):
            transcript.scroll_page(-1)
            await pilot.pause()
        anchor = next(line for line in transcript.visible_text().split("\n")[1:] if "question" in line)
        await pilot.resize_terminal(50, 20)
        await pilot.pause()
        assert anchor.strip() in transcript.visible_text()


async def test_a_call_says_how_many_lines_it_gave_back_also_when_a_part_of_them_is_shown() -> None:
    call, part = (
        Call("1", "bash", {}, "done", text="a\nb\n"),
        Call("2", "bash", {}, "done", text="a\n…", lines=9_000),
    )
    async with stage(call, part) as (transcript, _):
        lines = [line.strip() for line in transcript.visible_text().split("\n") if line.strip()]
    assert lines == ["● bash  2 lines", "│ a", "│ b", "● bash  last 2 of 9,000 lines", "│ a", "│ …"]


def toggle_last(transcript: TranscriptView) -> None:
    """Opens or closes the last call, as Enter does on it."""
    if transcript.marked_block is None:
        transcript.action_mark(-1)
    transcript.action_toggle_marked()


async def test_what_a_key_opens_comes_onto_the_screen() -> None:
    short = Call("1", "bash", {"command": "seq 5"}, "done", text="1\n2\n3\n4\nfive")
    async with stage(*controller(30), short) as (transcript, pilot):
        before = transcript.visible_text()
        toggle_last(transcript)
        await pilot.pause()
        assert transcript.visible_text().split("\n")[-1].strip() == "│ five"
        assert transcript.is_following
        toggle_last(transcript)
        await pilot.pause()
        assert transcript.visible_text() == before
    long = replace(short, text="\n".join(map(str, range(99))))
    for behind in ((), controller(30)):
        async with stage(*controller(30), long, *behind) as (transcript, pilot):
            toggle_last(transcript)
            await pilot.pause()
            assert transcript.visible_text().split("\n")[1].startswith("● bash  seq 5  99 lines")


async def test_a_tiny_screen_breaks_nothing() -> None:
    blocks = (
        *controller(5),
        Call("1", "bash", {"command": "make " * 20}, "failed", text="x" * 500),
        ReasoningBlock("hm " * 50),
    )
    async with stage(*blocks) as (transcript, _):
        never_tiny = transcript.visible_text()
    async with stage(*blocks, size=(4, 2)) as (transcript, pilot):
        for size in ((1, 1), (2, 3), (10, 4), (3, 1)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            toggle_last(transcript)
            await pilot.pause()
            assert len(transcript.visible_text().splitlines()) <= size[1]
        await pilot.resize_terminal(60, 20)
        transcript.go_to_end()
        await pilot.pause()
        assert transcript.visible_text() == never_tiny


async def test_a_streamed_answer_looks_like_a_finished_one() -> None:
    text = "# Title\n\nSome **bold** words.\n\n- one\n- two\n\n```python\nx = 1\n```\n\nThe end."
    async with stage(AnswerText(text)) as (transcript, _):
        finished = transcript.visible_text()
    async with stage() as (transcript, pilot):
        for end in range(1, len(text) + 1):
            transcript.show((AnswerText(text[:end], is_streaming=True),))
        transcript.show((AnswerText(text),))
        await pilot.pause()
        assert transcript.visible_text() == finished


async def test_blocks_that_are_dropped_disappear() -> None:
    async with stage(UserText("go"), AnswerText("half of it", is_streaming=True)) as (transcript, pilot):
        transcript.show((UserText("go"), Notice("again")))
        await pilot.pause()
        assert "half" not in transcript.visible_text()
        assert "again" in transcript.visible_text()


async def test_a_selection_is_what_is_on_the_screen() -> None:
    async with stage(UserText("first line"), AnswerText("second **bold** line")) as (transcript, _):
        assert transcript.get_selection(Selection(Offset(2, 0), Offset(8, 2))) == ("first line\n\n  second", "\n")
        assert transcript.get_selection(Selection(None, None)) == ("  first line\n\n  second bold line", "\n")


async def test_dragging_selects_and_opens_nothing() -> None:
    async with stage(Call("1", "bash", {"command": "make"}, "done", text="built"), Notice("below")) as (
        transcript,
        pilot,
    ):
        await pilot.mouse_down(transcript, offset=(2, 0))
        await pilot.hover(transcript, offset=(12, 0))
        await pilot.mouse_up(transcript, offset=(12, 0))
        await pilot.pause()
        assert transcript.screen.get_selected_text() == "bash  make"
        assert transcript.expanded_blocks == ()


async def test_a_new_theme_repaints_what_is_shown() -> None:
    async with stage(SummaryBlock("before"), UserText("text")) as (transcript, pilot):
        before = transcript.render_line(0)
        transcript.app.theme = "textual-light"
        await pilot.pause()
        assert transcript.render_line(0).text == before.text
        assert transcript.render_line(0) != before


async def test_jumps_go_from_message_to_message() -> None:
    async with stage(*controller(40)) as (transcript, pilot):
        tops = []
        for direction in (-1, -1, -1, 1, 1):
            transcript.jump_to_message(direction)
            await pilot.pause()
            tops.append(transcript.visible_text().split("\n")[0])
        first = int(tops[0].rsplit(" ", 1)[1])
        assert tops == [f"▌ question {first + step}" for step in (0, -1, -2, -1, 0)]
        for _ in range(40):
            transcript.jump_to_message(-1)
        await pilot.pause()
        assert transcript.visible_text().startswith("▌ question 0")
        for _ in range(45):
            transcript.jump_to_message(1)
            await pilot.pause()
        assert transcript.is_following


async def test_words_are_gone_to_and_the_way_back_is_kept() -> None:
    async with stage(*controller(200)) as (transcript, pilot):
        before = transcript.visible_text()
        found = transcript.find("answer 17")
        await pilot.pause()
        assert (found.match_number, found.total) == (11, 11)  # 17 and 170 to 179
        assert "answer 179" in transcript.visible_text()
        assert transcript.find_next(-10).match_number == 1
        await pilot.pause()
        assert "answer 17\n" in transcript.visible_text()
        assert transcript.find_next(-1).match_number == 11
        transcript.end_search(goes_back=True)
        await pilot.pause()
        assert (transcript.visible_text(), transcript.is_following) == (before, True)


async def test_what_is_folded_opens_while_words_in_it_are_looked_at() -> None:
    call = Call("1", "bash", {"command": "make"}, "done", text="all is built\n" * 3 + "the needle")
    async with stage(*controller(20), call, *controller(20)) as (transcript, pilot):
        assert transcript.find("the needle").total == 1
        await pilot.pause()
        assert "│ the needle" in transcript.visible_text()
        transcript.find("question 3")
        await pilot.pause()
        assert transcript.expanded_blocks == ()


async def test_a_new_size_is_drawn_right_at_once() -> None:
    async with stage(AnswerText("words of a long paragraph " * 40), size=(80, 20)) as (transcript, pilot):
        pictures: list[list[int]] = []
        draw = transcript.render_lines

        def watched(crop: Region) -> list[Strip]:
            strips = draw(crop)
            pictures.append([len(strip.text.rstrip()) for strip in strips])
            return strips

        transcript.render_lines = watched  # type: ignore[method-assign]  # to see every picture
        await pilot.resize_terminal(40, 20)
        await pilot.pause()
        assert pictures
        assert all(length <= 39 for picture in pictures for length in picture)
        assert all(picture == pictures[-1] for picture in pictures if len(picture) == 20)


async def test_its_own_keys_scroll_at_once_however_long_the_way_is() -> None:
    async with stage(*controller(300)) as (transcript, pilot):
        transcript.focus()
        for key, text in (("home", "question 0"), ("pagedown", "answer"), ("end", "answer 299")):
            await pilot.press(key)
            await pilot.wait_for_animation()
            assert text in transcript.visible_text()
        assert transcript.is_following


READS = tuple(Call(name, "read", {"path": name}, "done", text=f"text of {name}") for name in ("a.py", "b.py", "c.py"))


def lines_of(transcript: TranscriptView) -> list[str]:
    return [line.strip() for line in transcript.visible_text().split("\n") if line.strip()]


async def test_reads_in_a_row_are_one_line_that_opens() -> None:
    titles = [f"● read  {call.call_id}  1 line" for call in READS]
    async with stage(UserText("go"), *READS[:2]) as (transcript, pilot):
        assert lines_of(transcript) == ["▌ go", "● Read 2 files  a.py, b.py"]
        transcript.show((UserText("go"),), READS)
        await pilot.pause()
        assert lines_of(transcript) == ["▌ go", "● Read 3 files  a.py, b.py, c.py"]
        toggle_last(transcript)
        await pilot.pause()
        assert lines_of(transcript) == ["▌ go", *titles]
        toggle_last(transcript)
        await pilot.pause()
        assert lines_of(transcript) == ["▌ go", titles[0], "│ path: a.py", "│", "│ text of a.py", *titles[1:]]
        transcript.set_detail("normal")
        await pilot.pause()
        assert lines_of(transcript) == ["▌ go", "● Read 3 files  a.py, b.py, c.py"]


async def test_words_in_a_folded_call_are_found_and_shown_while_they_are_looked_at() -> None:
    async with stage(UserText("go"), *READS, Notice("end")) as (transcript, pilot):
        folded = lines_of(transcript)
        assert transcript.find("text of b").total == 1
        await pilot.pause()
        assert lines_of(transcript)[1:3] == ["● read  a.py  1 line", "● read  b.py  1 line"]
        assert "│ text of b.py" in lines_of(transcript)
        transcript.end_search(goes_back=True)
        await pilot.pause()
        assert lines_of(transcript) == folded


async def test_only_lines_that_changed_are_drawn_again() -> None:
    past = controller(20)
    async with stage(*past) as (transcript, pilot):
        drawn: list[Region] = []
        refresh = transcript.refresh

        def watched_refresh(*regions: Region, **options: bool) -> TranscriptView:
            drawn.extend(regions or [transcript.size.region])
            return refresh(*regions, **options)

        transcript.show(past, (AnswerText("one\n\ntwo", is_streaming=True),))
        await pilot.pause()
        transcript.refresh = watched_refresh  # type: ignore[method-assign]  # watched for this test
        transcript.show(past, (AnswerText("one\n\ntwo three", is_streaming=True),))
        assert [region.height for region in drawn] == [1]
        await pilot.pause()
        assert last_line(transcript).endswith("two three")
        drawn.clear()
        transcript.show(past, (AnswerText("one\n\ntwo three", is_streaming=True),))
        assert not drawn
        transcript.show(past, (AnswerText("one\n\ntwo three\n\nfour", is_streaming=True),))
        assert transcript.size.region in drawn, "all lines have moved"
        await pilot.pause()
        assert last_line(transcript).endswith("four")


def last_line(transcript: TranscriptView) -> str:
    return transcript.visible_text().rstrip().rpartition("\n")[2]


async def test_thoughts_that_stream_open_look_like_finished_ones() -> None:
    text = "one\n\ntwo\n" + "words " * 40 + "\nthe end"
    async with stage(ReasoningBlock(text)) as (transcript, pilot):
        transcript.set_detail(thoughts="open")
        await pilot.pause()
        finished = transcript.visible_text()
    async with stage() as (transcript, pilot):
        transcript.set_detail(thoughts="open")
        for end in range(1, len(text) + 1, 7):
            transcript.show((ReasoningBlock(text[:end], is_streaming=True),))
        transcript.show((ReasoningBlock(text),))
        await pilot.pause()
        assert transcript.visible_text() == finished


async def test_drawn_lines_do_not_add_up_over_many_turns() -> None:
    async with stage() as (transcript, pilot):
        counts: list[int] = []
        blocks: tuple[Block, ...] = ()
        for turn in range(240):
            blocks = (*blocks, UserText(f"question {turn}"), AnswerText(f"answer **{turn}**\n\n- one\n- two"))
            transcript.show(blocks)
            if turn % 10 == 9:
                await pilot.pause()
            if turn in (119, 239):
                gc.collect()
                counts.append(sum(isinstance(one, Strip) for one in gc.get_objects()))
        assert counts[1] <= counts[0]
        drawn = [row for row in transcript._stack.rows if row.strips is not None]
        assert 10 < len(drawn) <= 60
        transcript.go_to_start()
        await pilot.pause()
        assert "question 0" in transcript.visible_text()
