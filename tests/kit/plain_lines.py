"""For tests that draw without an app: a palette, and lines without their inks."""

from collections.abc import Iterable

from ebbtide.tui.text.styles import get_palette
from ebbtide.tui.text.themes import DARK

COLORS = {
    name: str(getattr(DARK, name))
    for name in ("background", "foreground", "primary", "accent", "success", "warning", "error")
}

PALETTE = get_palette(COLORS)


def plain(line: Iterable[tuple[str, str]]) -> str:
    """What a line says, without its inks."""
    return "".join(words for words, _ in line)
