"""A palette for tests that draw without an app."""

from tui.text.styles import palette_of
from tui.text.themes import DARK

COLORS = {
    name: str(getattr(DARK, name))
    for name in ("background", "foreground", "primary", "accent", "success", "warning", "error")
}

PALETTE = palette_of(COLORS)
