"""A compaction by hand on the real session: looked at, written, edited, done or left, and taken back."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.agent.compaction.manual_compaction import SummaryEstimate
from ebbtide.agent.view.visible import SUMMARY_HEADING
from ebbtide.tui.screens.compaction import CompactionScreen
from ebbtide.tui.view.blocks import Notice
from ebbtide.tui.view.compaction_preview import missing_fact_lines, price_estimate_text
from ebbtide.tui.view.receipts import Compaction, UndoneCompaction
from ebbtide.tui.widgets.question_panel import QuestionPanel
from ebbtide.tui.widgets.transcript import TranscriptView
from tests.kit.app_pilot import Driven
from tests.kit.plain_lines import plain
from tests.tui.test_real_session import Reply, calls, working

READS: list[Reply] = [calls("read", path=f"{name}.py") for name in "abcd"]
WRITTEN: Reply = {
    "text": "<retain>a.py</retain><summary>All four were read.</summary>",
    "when": "Write down what is needed",
    "usage": {"input": 9_000, "output": 40},
}


def files(folder: Path) -> None:
    (folder / "project").mkdir()
    for name in "abcd":
        (folder / "project" / f"{name}.py").write_text("".join(f"{name} = {n}  # of a long file\n" for n in range(900)))


async def looking(t: Driven) -> CompactionScreen:
    """After the files were read, the screen of a compaction."""
    await t.says("read them, and never touch b.py", shows="Read.")
    await t.type("/compact the files", asks=CompactionScreen)
    screen = t.app.screen
    assert isinstance(screen, CompactionScreen)
    return screen


async def test_it_is_looked_at_written_edited_done_and_taken_back(tmp_path: Path) -> None:
    files(tmp_path)
    async with working(tmp_path, *READS, {"text": "Read."}, WRITTEN) as t:
        screen = await looking(t)
        before = t.session.history
        assert t.reads("headline").startswith("Compact  ")
        await t.press("enter", until=lambda: screen.step == "editing")
        assert screen.draft.text.endswith(f"{SUMMARY_HEADING}\nAll four were read.")
        assert t.reads("gate") == "All required facts are included."
        assert t.session.history == before
        screen.draft.move_cursor(screen.draft.document.end)
        await t.press("space", "o", "k", "enter")
        assert t.session.history.summary.summary == "All four were read. ok"
        receipt = t.app.controller.view.blocks[-1]
        assert isinstance(receipt, Compaction)
        assert receipt.event.model.endswith(", edited by you")

        t.transcript.focus()
        await t.press("u", asks=QuestionPanel)
        await t.press("escape")
        assert t.session.history.summary.summary
        t.prompt.focus()
        await t.type("/context undo", asks=QuestionPanel)
        await t.press("enter", until=lambda: isinstance(t.app.controller.view.blocks[-1], UndoneCompaction))
        assert replace(t.session.history, min_rewrite_size=0) == before
        await t.type("/context undo", shows="nothing to undo")


async def test_esc_leaves_everything_as_it_was_and_tells_what_was_paid(tmp_path: Path) -> None:
    files(tmp_path)
    async with working(tmp_path, *READS, {"text": "Read."}, WRITTEN) as t:
        await looking(t)
        before, blocks = t.session.history, t.app.controller.view.blocks
        await t.press("escape")
        assert (t.session.history, t.app.controller.view.blocks) == (before, blocks)

        await t.type("/compact", asks=CompactionScreen)
        again = t.app.screen
        assert isinstance(again, CompactionScreen)
        by_hand = again._compaction
        await t.press("enter", until=lambda: again.step == "editing")
        by_hand.last_draft = replace(by_hand.last_draft, cost=0.25)
        await t.pilot.press("x", "escape")
        assert "Esc again" in t.reads("headline")
        await t.press("escape")
        assert t.session.history == before
        assert t.app.controller.view.blocks[-1] == Notice("nothing was compacted; the summary was discarded ($0.25)")


async def test_what_must_be_in_it_is_shown_and_added_by_a_key(tmp_path: Path) -> None:
    files(tmp_path)
    async with working(tmp_path, *READS, {"text": "Read."}, WRITTEN) as t:
        screen = await looking(t)
        preview = screen._compaction.preview
        tight = replace(preview.limits, caps=replace(preview.limits.caps, ledger=20))
        screen._compaction.preview = replace(preview, limits=tight)
        await t.press("enter", until=lambda: screen.step == "editing")
        assert "never touch b.py" in t.reads("gate")
        await t.press("enter", until=lambda: "required facts" in t.reads("headline"))
        await t.press("ctrl+n", until=lambda: t.reads("gate") == "All required facts are included.")
        await t.press("enter")
        assert "never touch b.py" in t.session.history.summary.summary


async def test_while_it_is_written_esc_interrupts_and_one_can_write_it_oneself(tmp_path: Path) -> None:
    files(tmp_path)
    async with working(tmp_path, *READS, {"text": "Read."}, {**WRITTEN, "pause": 600}) as t:
        screen = await looking(t)
        before = t.session.history
        await t.press("enter", until=lambda: t.app.controller.view.activity == "summarising")
        await t.press("escape", until=lambda: screen.step == "plan")
        assert "interrupted, nothing changed" in t.reads("headline")
        assert t.session.history == before
        await t.press("w", until=lambda: screen.step == "editing")
        assert "keeps only the key facts" in t.reads("gate")
        await t.press("m", "i", "alt+enter", "n", "e", "enter")
        assert t.session.history.summary.summary == "mi\nne"


async def test_where_there_is_nothing_it_says_so(tmp_path: Path) -> None:
    async with working(tmp_path, {"text": "Hello."}) as t:
        await t.says("hi", shows="Hello.")
        await t.type("/compact", shows="nothing was compacted")


async def test_letters_still_go_to_the_prompt_where_no_receipt_is_marked(tmp_path: Path) -> None:
    async with working(tmp_path, calls("read", path="calc.py"), {"text": "Read."}) as t:
        await t.says("read", shows="Read.")
        t.app.query_one(TranscriptView).focus()
        await t.press("u", until=lambda: t.prompt.text == "u")


@pytest.mark.parametrize("size", [(10, 4), (14, 8)])
async def test_a_tiny_screen_breaks_nothing(tmp_path: Path, size: tuple[int, int]) -> None:
    files(tmp_path)
    async with working(tmp_path, *READS, {"text": "Read."}, WRITTEN) as t:
        await t.says("read them")
        await t.pilot.resize_terminal(*size)
        await t.type("/compact", asks=CompactionScreen)
        screen = t.app.screen
        assert isinstance(screen, CompactionScreen)
        await t.press("enter", until=lambda: screen.step == "editing")
        await t.press("escape")


def test_what_is_missing_is_named_as_far_as_there_is_room() -> None:
    assert [plain(line) for line in missing_fact_lines(["- read: a\x1b[2J"], False)] == [
        "1 required fact missing:", "- read: a\u241b[2J",
    ]  # fmt: skip
    assert [plain(line) for line in missing_fact_lines([f"- read: {n}" for n in range(9)], False)[-2:]] == [
        "- read: 2",
        "… 6 more",
    ]
    assert [plain(line) for line in missing_fact_lines((), True)] == ["An empty summary keeps only the key facts."]


def test_the_price_is_at_most_what_it_says() -> None:
    quote = SummaryEstimate("anthropic/claude", 62_300, True, 3_000, 0.0637)
    expected = "by anthropic/claude · cost: 62.3k cached in, up to 3.0k out (at most $0.0637)"
    assert price_estimate_text(quote) == expected
    assert price_estimate_text(replace(quote, is_cached=False, cost=None)).endswith(
        "cost: 62.3k in, up to 3.0k out (price unknown)"
    )


async def test_a_compaction_that_is_being_done_is_neither_begun_again_nor_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path)
    async with working(tmp_path, *READS, {"text": "Read."}, WRITTEN) as t:
        screen = await looking(t)
        await t.press("enter", until=lambda: screen.step == "editing")
        gate, begun, apply = asyncio.Event(), list[str](), screen._compaction.apply

        async def slow(text: str) -> None:
            begun.append(text)
            await gate.wait()
            await apply(text)

        monkeypatch.setattr(screen._compaction, "apply", slow)
        await t.pilot.press("enter", "enter", "x", "escape")
        assert (t.app.screen, len(begun)) == (screen, 1)
        gate.set()
        await t.rests()
        assert t.session.history.summary.summary == "All four were read."
        assert t.app.screen is not screen
