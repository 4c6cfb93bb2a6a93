"""ASCII replacements for the interface's marks, for terminals without UTF-8."""

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
    """Replaces each of our marks by a letter of the same width. Other text is unchanged."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(_to_letters(text), style, control) for text, style, control in segments]


def _to_letters(text: str) -> str:
    if text.isascii():
        return text
    for box, letters in _BOXES.items():
        text = text.replace(box, letters)
    return text.translate(_MARKS)
