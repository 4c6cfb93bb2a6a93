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


class AsciiFilter(LineFilter):
    """Replaces each of the interface's marks with an ASCII character. The width of the text stays the same, and other
    text is unchanged."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(_to_ascii(text), style, control) for text, style, control in segments]


def _to_ascii(text: str) -> str:
    if text.isascii():
        return text
    for box, replacement in _BOXES.items():
        text = text.replace(box, replacement)
    return text.translate(_MARKS)
