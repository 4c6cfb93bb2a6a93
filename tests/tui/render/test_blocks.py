from rich.segment import Segment
from textual.theme import BUILTIN_THEMES

from ebbtide.tui.render.blocks import AnswerRenderer, render_block
from ebbtide.tui.render.themed_markdown import PaletteConsole
from ebbtide.tui.text.styles import get_palette
from ebbtide.tui.view.blocks import Call

INKS = PaletteConsole(get_palette(BUILTIN_THEMES["textual-dark"].to_color_system().generate()))


def plain(painter: AnswerRenderer, text: str) -> list[str]:
    return ["".join(segment.text for segment in line).removeprefix("▏").strip() for line in painter.render(text)]


def test_a_diff_is_folded_beyond_a_screenful_of_the_terminal() -> None:
    call = Call("1", "write", {"path": "a.txt", "content": "".join(f"line {n}\n" for n in range(100))}, "done")
    drawn = {rows: render_block(call, "normal", 80, PaletteConsole(INKS.palette, rows)) for rows in (10, 24, 60)}
    assert {rows: len(lines) for rows, lines in drawn.items()} == {10: 8, 24: 18, 60: 42}


def test_an_answer_of_a_megabyte_is_drawn_to_its_end() -> None:
    lines = [f"line {number} of **many**" for number in range(40_000)]
    text = "  \n".join(lines)
    drawn = plain(AnswerRenderer(60, INKS), text)
    assert " ".join(drawn).replace("*", "").split() == text.replace("*", "").split()


def test_a_line_that_never_ends_is_drawn_a_piece_at_a_time_and_loses_nothing() -> None:
    words = [f"word{number}" for number in range(60_000)]
    text = " ".join(words) + " " + "x" * 30_000
    painter = AnswerRenderer(60, INKS)
    for end in range(0, len(text), 100_003):
        painter.render(text[:end])
    grown, whole = plain(painter, text), plain(AnswerRenderer(60, INKS), text)
    assert grown[-3_000:] == whole[-3_000:]
    drawn = " ".join(grown).split()
    assert drawn[: len(words)] == words
    assert "".join(drawn[len(words) :]) == "x" * 30_000
    assert len(painter._unfinished_text) <= 4_000


def test_a_long_answer_looks_the_same_however_it_came() -> None:
    text = "Some words. " * 20_000 + "\n\nand\n\nlines\n" * 200
    painter = AnswerRenderer(60, INKS)
    for end in range(0, len(text), 7_001):
        painter.render(text[:end])
    grown, whole = plain(painter, text), plain(AnswerRenderer(60, INKS), text)
    assert " ".join(" ".join(grown).split()) == " ".join(" ".join(whole).split())


def test_a_line_end_that_streams_in_two_pieces_is_a_line_end() -> None:
    painter = AnswerRenderer(60, INKS)
    plain(painter, "one\r")
    assert plain(painter, "one\r\n\r\ntwo") == plain(AnswerRenderer(60, INKS), "one\n\ntwo")


def test_no_line_of_a_plan_is_wider_than_the_screen() -> None:
    steps = "- 漢字 of `calc.py`\n" * 40
    plan = Call("1", "submit_plan", {"plan": f"# Mend it\n\n{steps}"}, "denied", text="the user rejected the plan")
    for width in (5, 8, 13, 20, 33):
        for drawn in (render_block(plan, "normal", width, INKS), render_block(plan, "full", width, INKS)):
            assert max(map(Segment.get_line_length, drawn)) <= width
    assert len(render_block(plan, "compact", 40, INKS)) == 2, "its line, and why it was not accepted"
    last = render_block(plan, "normal", 40, INKS)[25]
    assert "".join(segment.text for segment in last) == "  │ … 18 more lines"
