"""Where a terminal draws letters only, so do we: each mark has one that is as wide."""

import re
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color

from ebbtide.tui.terminal.ascii_filter import AsciiFilter
from ebbtide.tui.text.locale import is_ascii_locale
from tests.kit.app_pilot import terminal
from tests.kit.fake_sessions import FakeSession
from tests.tui.test_pictures_rest import WORK

ROOT = Path(__file__).parents[3]


def lettered(text: str) -> str:
    return "".join(segment.text for segment in AsciiFilter().apply([Segment(text)], Color.parse("black")))


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"LANG": "C"}, True),
        ({"LANG": "POSIX"}, True),
        ({"LANG": "de_DE"}, True),
        ({"LANG": "C.UTF-8"}, False),
        ({"LANG": "C", "LC_CTYPE": "en_US.utf8"}, False),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, True),
        ({"LC_ALL": "", "LANG": "en_US.UTF-8"}, False),
    ],
)
def test_the_locale_says_what_a_terminal_draws(environment: dict[str, str], expected: bool) -> None:
    assert is_ascii_locale(environment) is expected


def test_marks_become_letters_as_wide_and_the_words_of_others_stay() -> None:
    assert [lettered(" ☑  done"), lettered(" ☐  日本 é"), lettered("● ─┼│▌")] == ["[x] done", "[ ] 日本 é", "* -+||"]
    files = [file for file in (ROOT / "tui").rglob("*.py") if file.name != "sanitise.py"]  # it knows signs of others
    drawn = {sign for file in files for sign in re.findall(r"[─-➿≋⋯−×→…·]", file.read_text())}
    left = {sign for sign in drawn if not lettered(sign).isascii() or cell_len(lettered(sign)) != cell_len(sign)}
    assert left == set()


async def test_a_whole_screen_is_drawn_in_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    async with terminal(FakeSession([WORK])) as t:
        strips = t.app.screen._compositor.render_strips()
        assert "Ebbtide" in "".join(strip.text for strip in strips)
        await t.says("go", shows="kept now.")
        text = "\n".join(strip.text for strip in t.app.screen._compositor.render_strips())
        assert "* edit  src/lexer.py" in text
        assert [sign for sign in text if not sign.isascii()] == []
