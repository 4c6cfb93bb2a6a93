"""The themes, as a table: what each is called, whom it is for and its colours."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from textual.theme import Theme

from agent.config.options import ThemeName

Ground: TypeAlias = Literal["dark", "light"]
"""What the terminal draws on."""


def _edges(border: str, blurred: str, dragged: str, *, ground: str) -> dict[str, str]:
    """The colours of borders, and of scrollbars, which stand out as they do; `dragged`: of a bar that is held."""
    grounds = ("background", "background-hover", "background-active", "corner-color")
    return {
        "border": border,
        "border-blurred": blurred,
        "scrollbar": blurred,
        "scrollbar-hover": border,
        "scrollbar-active": dragged,
        **{f"scrollbar-{name}": ground for name in grounds},
    }


DARK = Theme(
    name="ebb-dark",
    primary="#7aa2c8",
    secondary="#8f9fb3",
    accent="#8bc0a8",
    foreground="#d3d7dc",
    background="#14171a",
    surface="#1a1e22",
    panel="#22272c",
    success="#8fbf86",
    warning="#d9b26f",
    error="#d98080",
    dark=True,
    variables={
        **_edges("#3a4149", "#2b3137", "#4a535c", ground="#14171a"),
        "block-cursor-background": "#2f3b46",
        "block-cursor-foreground": "#e6e9ec",
        "block-cursor-text-style": "none",
    },
)

LIGHT = Theme(
    name="ebb-light",
    primary="#2b5f8f",
    secondary="#56677c",
    accent="#1f6b52",
    foreground="#22272c",
    background="#fbfaf8",
    surface="#f1efec",
    panel="#e8e6e2",
    success="#2c6b2f",
    warning="#7a5200",
    error="#a62f2f",
    dark=False,
    variables={
        **_edges("#b4b8bd", "#d5d7d9", "#979ca2", ground="#fbfaf8"),
        "block-cursor-background": "#d3e0ec",
        "block-cursor-foreground": "#14181c",
        "block-cursor-text-style": "none",
        "dim-part": "0.68",
        "comment-part": "0.66",
        "faint-part": "0.50",
        "selected-part": "0.20",
        "found-part": "0.18",
    },
)

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
        **_edges("#ffffff", "#b0b0b0", "#ffffff", ground="#000000"),
        "block-cursor-background": "#0f3350",
        "block-cursor-foreground": "#ffffff",
        "block-cursor-text-style": "bold",
        "dim-part": "0.80",
        "comment-part": "0.70",
        "faint-part": "0.60",
        "selected-part": "0.22",
        "found-part": "0.20",
    },
)


def _ansi(name: str, ground: Ground, primary: str, accent: str, success: str, warning: str, error: str) -> Theme:
    """A theme of the terminal's own colours. Nothing has a ground: what would have one is reversed or underlined."""
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
        dark=ground == "dark",
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
            **_edges("ansi_default", "ansi_default", "ansi_default", ground="ansi_default"),
        },
    )


ANSI = _ansi(
    "ebb-ansi", "dark", "ansi_default", "ansi_default", "ansi_default", "ansi_default", "ansi_bright_red"
)  # fmt: skip
"""For a terminal whose ground is not known: bright red is the only colour that is read on all of them."""
ANSI_DARK = _ansi(
    "ebb-ansi-dark", "dark", "ansi_cyan", "ansi_bright_magenta", "ansi_green", "ansi_yellow", "ansi_bright_red"
)  # fmt: skip
ANSI_LIGHT = _ansi("ebb-ansi-light", "light", "ansi_blue", "ansi_magenta", "ansi_blue", "ansi_magenta", "ansi_red")

THEMES = (DARK, LIGHT, HIGH_CONTRAST, ANSI, ANSI_DARK, ANSI_LIGHT)


_FIXED: Mapping[ThemeName, Theme] = {"dark": DARK, "light": LIGHT, "high-contrast": HIGH_CONTRAST}


def theme_for(name: ThemeName, ground: Ground | None) -> Theme:
    """The theme that a setting means on a terminal with this ground; None: it is not known."""
    if name == "ansi":
        return ANSI if ground is None else ANSI_LIGHT if ground == "light" else ANSI_DARK
    if name == "auto":
        return LIGHT if ground == "light" else DARK
    return _FIXED[name]
