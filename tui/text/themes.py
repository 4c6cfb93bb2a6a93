"""The program's own themes, and Textual's themes made more readable."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, TypeAlias

from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from ebbtide.agent.config.options import ThemeName
from ebbtide.tui.text.contrast import MAX_TINT_CONTRAST, MIN_CONTRAST, luminance, readable_color, tinted_background

BackgroundTone: TypeAlias = Literal["dark", "light"]
"""Whether the terminal's background is dark or light."""


def _border_colors(border: str, blurred: str, dragged: str, *, background: str) -> dict[str, str]:
    """Set the colours of borders and matching scrollbars. `dragged`: colour of a scrollbar while it is being
    dragged."""
    background_parts = ("background", "background-hover", "background-active", "corner-color")
    return {
        "border": border,
        "border-blurred": blurred,
        "scrollbar": blurred,
        "scrollbar-hover": border,
        "scrollbar-active": dragged,
        **{f"scrollbar-{name}": background for name in background_parts},
    }


def _cursor_colors(background: str, foreground: str, style: str = "none") -> dict[str, str]:
    """Set the colours of a list's highlighted line and of selected text."""
    return {
        "block-cursor-background": background,
        "block-cursor-foreground": foreground,
        "block-cursor-text-style": style,
        "block-cursor-blurred-background": background,
        "block-cursor-blurred-foreground": foreground,
        "block-cursor-blurred-text-style": style,
        "input-selection-background": background,
        "input-selection-foreground": foreground,
        "screen-selection-background": background,
        "screen-selection-foreground": foreground,
    }


DARK = Theme(
    name="ebb-dark",
    primary="#6cc5bd",
    secondary="#8ea3b5",
    accent="#9ab8e8",
    foreground="#d9e1e8",
    background="#10171d",
    surface="#161f27",
    panel="#1b2630",
    success="#9cc98b",
    warning="#e2bd7e",
    error="#ec8f86",
    dark=True,
    variables={
        **_border_colors("#3d4f5c", "#2a3742", "#55707f", background="#10171d"),
        **_cursor_colors("#1d2d36", "#eef3f6"),
        "text-muted": "#94a2ae",
        "text-disabled": "#94a2ae",
    },
)
"""Night sea: bluish greys with a single accent, the colour of shallow water."""

LIGHT = Theme(
    name="ebb-light",
    primary="#0b6a72",
    secondary="#566a78",
    accent="#3a5a9c",
    foreground="#1f2b33",
    background="#fbf9f4",
    surface="#f3f0e8",
    panel="#ebe7dd",
    success="#376b2e",
    warning="#845208",
    error="#ab372f",
    dark=False,
    variables={
        **_border_colors("#b3b9b6", "#d8d8d0", "#93a09f", background="#fbf9f4"),
        **_cursor_colors("#dbe7e4", "#12191e"),
        "text-muted": "#56636c",
        "text-disabled": "#56636c",
        "dim-part": "0.72",
        "faint-part": "0.68",
        "word-part": "0.30",
    },
)
"""Midday shore: sand-tinted paper, ink, and a deeper water colour."""

HIGH_CONTRAST = Theme(
    name="ebb-high-contrast",
    primary="#9fd4ff",
    secondary="#d0d0d0",
    accent="#7dffc2",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#101010",
    success="#7dff7d",
    warning="#ffd75f",
    error="#ffb3b3",
    dark=True,
    variables={
        **_border_colors("#ffffff", "#b0b0b0", "#ffffff", background="#000000"),
        **_cursor_colors("#0f3350", "#ffffff", "bold"),
        "text-muted": "#dcdcdc",
        "text-disabled": "#dcdcdc",
        "least-contrast": "7",
        "spread": "1.8",
        "dim-part": "0.84",
        "faint-part": "0.80",
    },
)


def _create_ansi_theme(
    name: str, tone: BackgroundTone, primary: str, accent: str, success: str, warning: str, error: str
) -> Theme:
    """Create a theme from the terminal's own colours. It uses reverse or underline in place of backgrounds."""
    return Theme(
        name=name,
        primary=primary,
        secondary="ansi_default",
        accent=accent,
        foreground="ansi_default",
        background="ansi_default",
        surface="ansi_default",
        panel="ansi_default",
        boost="ansi_default",
        success=success,
        warning=warning,
        error=error,
        dark=tone == "dark",
        ansi=True,
        variables={
            "ansi-background": "ansi_default",
            "ansi-foreground": "ansi_default",
            "foreground-disabled": "ansi_default",
            "surface-active": "ansi_default",
            "block-cursor-background": "ansi_default",
            "block-cursor-foreground": "ansi_default",
            "block-cursor-text-style": "reverse",
            "input-cursor-background": "ansi_default",
            "input-cursor-foreground": "ansi_default",
            "input-cursor-text-style": "reverse",
            "input-selection-background": "ansi_cyan",
            "input-selection-foreground": "ansi_black",
            "screen-selection-background": "ansi_cyan",
            "screen-selection-foreground": "ansi_black",
            **_border_colors("ansi_default", "ansi_default", "ansi_default", background="ansi_default"),
            "scrollbar": "ansi_bright_black",
            "scrollbar-hover": "ansi_bright_black",
        },
    )


ANSI = _create_ansi_theme(
    "ebb-ansi", "dark", "ansi_default", "ansi_default", "ansi_default", "ansi_default", "ansi_bright_red"
)  # fmt: skip
"""For terminals with an unknown background. Bright red is the only colour that is readable on all of them."""
ANSI_DARK = _create_ansi_theme(
    "ebb-ansi-dark", "dark", "ansi_cyan", "ansi_bright_magenta", "ansi_green", "ansi_yellow", "ansi_bright_red"
)  # fmt: skip
ANSI_LIGHT = _create_ansi_theme(
    "ebb-ansi-light", "light", "ansi_blue", "ansi_magenta", "ansi_blue", "ansi_magenta", "ansi_red"
)

_FIXED_THEMES: Mapping[ThemeName, Theme] = {"dark": DARK, "light": LIGHT, "high-contrast": HIGH_CONTRAST}


def theme_for(name: ThemeName, tone: BackgroundTone | None) -> Theme:
    """Choose the theme for a setting. `tone`: whether the terminal's background is dark or light; None if unknown."""
    if name == "ansi":
        return ANSI if tone is None else ANSI_LIGHT if tone == "light" else ANSI_DARK
    if name == "auto":
        return LIGHT if tone == "light" else DARK
    return _FIXED_THEMES.get(name) or _adapt_theme(name)


_TEXT_COLOR_NAMES = ("primary", "secondary", "accent", "success", "warning", "error")
_PLAIN_TEXT_FACTOR = 1.35
"""Contrast of plain text, relative to the minimum. It is higher because most reading is of plain text."""


@lru_cache
def _adapt_theme(name: str) -> Theme:
    """Adjust a well-known Textual theme so that all text is readable."""
    colors = BUILTIN_THEMES[name].to_color_system().generate()
    background = Color.parse(colors["background"])
    foreground = readable_color(
        Color.parse(colors["foreground"]), background, MIN_CONTRAST * MAX_TINT_CONTRAST * _PLAIN_TEXT_FACTOR
    )
    muted_color = readable_color(background.blend(foreground, 0.6), background, MIN_CONTRAST * MAX_TINT_CONTRAST).hex
    text_colors = {
        name: readable_color(Color.parse(colors[name]), background, MIN_CONTRAST * MAX_TINT_CONTRAST).hex
        for name in _TEXT_COLOR_NAMES
    }
    cursor_background = tinted_background(background, Color.parse(text_colors["primary"]), 0.22).hex
    return Theme(
        name=f"ebb-{name}",
        primary=text_colors["primary"],
        secondary=text_colors["secondary"],
        accent=text_colors["accent"],
        foreground=foreground.hex,
        background=background.hex,
        surface=tinted_background(background, Color.parse(colors["surface"]), 1.0, 1.12).hex,
        panel=tinted_background(background, Color.parse(colors["panel"]), 1.0, 1.2).hex,
        success=text_colors["success"],
        warning=text_colors["warning"],
        error=text_colors["error"],
        dark=luminance(background) < 0.18,
        variables={
            **_border_colors(
                *(background.blend(foreground, share).hex for share in (0.3, 0.18, 0.4)), background=background.hex
            ),
            **_cursor_colors(cursor_background, foreground.hex),
            "text-muted": muted_color,
            "text-disabled": muted_color,
        },
    )
