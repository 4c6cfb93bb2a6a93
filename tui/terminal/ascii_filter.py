"""ASCII replacements for the interface's marks, used on terminals without UTF-8."""

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
    """Replaces each of the interface's marks with one ASCII character. Other text and the width stay the same."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(_to_ascii(text), style, control) for text, style, control in segments]


def _to_ascii(text: str) -> str:
    if text.isascii():
        return text
    for box, replacement in _BOXES.items():
        text = text.replace(box, replacement)
    return text.translate(_MARKS)
