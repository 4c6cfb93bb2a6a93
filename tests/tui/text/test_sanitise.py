import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.tui.text.sanitise import (
    count_invisible_characters,
    describe_invisible_count,
    line_with_control_pictures,
    normalise_paste,
    sanitise,
    sanitise_line,
    stable_prefix,
    with_control_pictures,
)


@pytest.mark.parametrize(
    ("text", "expected"),
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
        ("❤\ufe0f ☎\ufe0e 1\ufe0f\u20e3 ⚠\ufe0f", "❤\ufe0f ☎\ufe0e 1\ufe0f\u20e3 ⚠\ufe0f"),
        ("\ufe0fa\ufe0eb\ufe0f❤\ufe0f\ufe0f\ufe00", "�a�b�❤\ufe0f��"),
        ("👩‍👩‍👧 👩🏽‍💻 🏳️‍🌈 ❤️‍🔥 🇩🇪", "👩‍👩‍👧 👩🏽‍💻 🏳️‍🌈 ❤️‍🔥 🇩🇪"),
        ("a\u200db 👩\u200d", "a�b 👩�"),
        ("👩\u200d\u200d👩 \u200d👩 日\u200d👩 👩\u200da", "👩��👩 �👩 日�👩 👩�a"),
        ("🏴\U000e0067\U000e007f", "🏴��"),
        ("می\u200cخواهم نه\u200c", "می\u200cخواهم نه�"),
        ("क्\u200dष क्\u200cष", "क्\u200cष क्\u200cष"),
        ("sign\U0001d173 of\U00013430 music\U0001bca0", "sign� of� music�"),
    ],
)
def test_what_steers_or_hides_becomes_visible(text: str, expected: str) -> None:
    assert sanitise(text) == expected


EMOJI = st.sampled_from(
    [
        "👩",
        "\u200d",
        "\u200c",
        "خ",
        "ष",
        "❤",
        "\ufe0f",
        "🏽",
        "1",
        "\u20e3",
        "🇩",
        "a",
        "\r",
        "\n",
        "\u202e",
        "👧",
        "\ufe0e",
    ]
)


@given(st.lists(EMOJI, max_size=12).map("".join), st.data())
def test_a_text_in_pieces_becomes_what_it_becomes_as_a_whole(text: str, data: st.DataObject) -> None:
    text_so_far, seen = "", 0
    for end in (data.draw(st.integers(0, len(text))), len(text)):
        piece = stable_prefix(text[:end])
        text_so_far += sanitise(piece[seen:], piece[:seen])
        seen = max(seen, len(piece))
    assert text_so_far == sanitise(stable_prefix(text))


PREPENDED = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
"""Format characters that are signs to be seen."""
SPELT = "[\u0620-\u0dff\u1000-\u109f\u1780-\u17d3]"
PICTURE = "[\ufe0f\u2194-\u2bff\U0001f300-\U0001faff]"


@given(st.text(st.characters(categories=("Cc", "Cf", "Cs", "Zl", "Zp", "Mn", "So", "Lu"))) | st.text())
def test_no_control_or_format_character_is_left(text: str) -> None:
    hidden = ("Cc", "Cs", "Cf", "Zl", "Zp")
    assert not [
        char
        for char in sanitise(text)
        if unicodedata.category(char) in hidden and char not in f"\n\t\u200c\u200d{PREPENDED}"
    ]
    assert not re.search(f"(?<!{SPELT})\u200c|\u200c(?!{SPELT})", sanitise(text))
    assert not re.search(f"(?<!{PICTURE})\u200d|\u200d(?!{PICTURE})", sanitise(text))
    assert "\n" not in sanitise_line(text)


@given(st.text(st.characters(categories=("Cc", "Cf", "Cs", "Zl", "Zp", "Mn", "So", "Lu"))) | st.text())
def test_as_many_characters_are_drawn_as_there_are(text: str) -> None:
    assert len(with_control_pictures(text)) == len(text) == len(line_with_control_pictures(text))
    assert line_with_control_pictures(text) == sanitise_line(line_with_control_pictures(text))


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("plain\n\ttext äöü 日本\u3000\xa0\ue000", ""),
        ("👩‍👩‍👧 ❤\ufe0f 1\ufe0f\u20e3", ""),
        ("a\u200bb", "1 invisible character"),
        ("می\u200cخواهم", "1 invisible character"),
        ("run it" + "".join(chr(0xE0000 + ord(char)) for char in "rm -rf ~/.ssh"), "13 invisible characters"),
        ("\u202e\u2066\u200f\xad\ufeff\x1b\x9b", "7 invisible characters"),
        ("\u200b" * 1_200, "1,200 invisible characters"),
    ],
)
def test_what_nobody_sees_is_counted(text: str, warning: str) -> None:
    assert describe_invisible_count(count_invisible_characters(text)) == warning


@pytest.mark.parametrize(
    ("pasted", "sent"),
    [
        ("a\r\nb\rc\nd", "a\nb\nc\nd"),
        ("\u2028\x0b\x0c\x1c\x85", "\u2028\x0b\x0c\x1c\x85"),
        ("lone \ud83d, whole \ud83d\ude00", "lone �, whole 😀"),
    ],
)
def test_what_is_pasted_is_sent_as_it_is(pasted: str, sent: str) -> None:
    assert normalise_paste(pasted) == sent
