"""Terminals that draw letters and nothing else: which they are, and what stands for our marks there."""

from collections.abc import Mapping

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_BOXES = {" ☐ ": "[ ]", " ☑ ": "[x]", " ■ ": "[>]"}
_MARKS = str.maketrans(
    {
        **dict.fromkeys("▌▏│┃", "|"),
        **dict.fromkeys("─━", "-"),
        **dict.fromkeys("┼╭╮╰╯┌┐└┘├┤┬┴", "+"),
        **dict.fromkeys("●•◆", "*"),
        **dict.fromkeys("✗⊘☑", "x"),
        **dict.fromkeys("○◌☐", "o"),
        **dict.fromkeys("█▉▊▋▍▎▀▄▒▓▟■", "#"),
        **dict.fromkeys("≋✻▃", "="),
        **dict.fromkeys("·░▁", "."),
        **dict.fromkeys("→›»❯", ">"),
        "▂": "_",
        "↓": "v",
        "▲": "^",
        "↻": "@",
        "…": "~",
        "⋯": "~",
        "−": "-",
        "—": "-",
        "×": "x",
        "↳": "`",
    }
)


def draws_letters_only(environment: Mapping[str, str]) -> bool:
    """Whether the locale says so. Where nothing is said, the terminal is one of today."""
    said = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environment.get(name))), "")
    return bool(said) and "utf" not in said.lower()


class Letters(LineFilter):
    """Puts a letter in the place of each of our marks, as wide as it was. What others wrote stays."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(_lettered(text), style, control) for text, style, control in segments]


def _lettered(text: str) -> str:
    if text.isascii():
        return text
    for box, letters in _BOXES.items():
        text = text.replace(box, letters)
    return text.translate(_MARKS)
