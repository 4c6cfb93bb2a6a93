"""Terminals that draw letters and nothing else: what stands for our marks there."""

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_BOXES = {" ☐ ": "[ ]", " ☑ ": "[x]", " ■ ": "[>]"}
_MARKS = str.maketrans(
    {
        **dict.fromkeys("▌▏│┃", "|"),
        **dict.fromkeys("─–", "-"),
        **dict.fromkeys("┼╭╮╰╯┌┐└┘├┤┬┴", "+"),
        **dict.fromkeys("●•◆", "*"),
        **dict.fromkeys("✗⊘☑", "x"),
        **dict.fromkeys("○◌☐", "o"),
        **dict.fromkeys("█▉▊▋▍▎▀▄▅▆▇▒▓▟", "#"),
        **dict.fromkeys("≋✻▃━", "="),
        **dict.fromkeys("·░▁", "."),
        **dict.fromkeys("→›»❯■", ">"),
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


class Letters(LineFilter):
    """Puts a letter in the place of each of our marks, as wide as it was. What others wrote stays."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(_to_letters(text), style, control) for text, style, control in segments]


def _to_letters(text: str) -> str:
    if text.isascii():
        return text
    for box, letters in _BOXES.items():
        text = text.replace(box, letters)
    return text.translate(_MARKS)
