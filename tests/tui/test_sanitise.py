import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.sanitise import visible, visible_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext äöü 日本", "plain\n\ttext äöü 日本"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("a\x9b31mb", "a�31mb"),
        ("a\r\nb\rc", "a\nb␍c"),
        ("evil\u202etxt.exe", "evil�txt.exe"),
        ("in\u200bvisible\u2066", "in�visible�"),
        ("tag\U000e0041\U000e007f", "tag��"),
        ("lone \ud83d surrogate", "lone � surrogate"),
        ("\x7f", "␡"),
    ],
)
def test_what_steers_or_hides_becomes_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_no_control_or_format_character_is_left(text: str) -> None:
    assert not [char for char in visible(text) if char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cs")]
    assert "\n" not in visible_line(text)
