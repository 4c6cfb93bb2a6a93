"""The list of themes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from ebbtide.agent.config.options import ThemeName
from ebbtide.tui.text.spans import parse_inline_code
from ebbtide.tui.view.panel import Panel, PanelRow


@dataclass(frozen=True, slots=True)
class OfferedTheme:
    """An available theme."""

    name: ThemeName
    help: str


OFFERED_THEMES: tuple[OfferedTheme, ...] = (
    OfferedTheme("auto", "light or dark, as the terminal is"),
    OfferedTheme("dark", "the sea at night: blue greys, shallow water"),
    OfferedTheme("light", "the shore at noon: paper, ink, deep water"),
    OfferedTheme("high-contrast", "bright on black"),
    OfferedTheme("ansi", "the 16 colours of the terminal itself"),
    OfferedTheme("catppuccin-mocha", "pastels on a dark ground"),
    OfferedTheme("catppuccin-latte", "pastels on a light ground"),
    OfferedTheme("dracula", "violet and pink on slate"),
    OfferedTheme("gruvbox", "warm, as an old screen"),
    OfferedTheme("nord", "cold and calm"),
    OfferedTheme("solarized-dark", "sixteen colours on deep blue"),
    OfferedTheme("solarized-light", "the same on cream"),
    OfferedTheme("tokyo-night", "neon on midnight blue"),
)


def themes_panel(chosen: ThemeName, colorless: bool, wear: Callable[[ThemeName], None]) -> Panel:
    """The marked theme is previewed. `colorless`: colours are off for every theme."""
    told = "`NO_COLOR` is set in your environment, so that all themes look alike here"
    return Panel(
        "theme",
        ((("Theme", "strong"),),),
        tuple(
            PanelRow(
                offered.name,
                (
                    ("● " if offered.name == chosen else "  ", "good"),
                    (f"{offered.name:<18}", "text"),
                    (offered.help, "dim"),
                ),
                searched=f"{offered.name} {offered.help}",
                about=(parse_inline_code(told, "warn"),) if colorless else (),
            )
            for offered in OFFERED_THEMES
        ),
        "Up, Down preview   Enter keeps it   Esc cancels",
        empty="There is no such theme.",
        mark=chosen,
        marked=lambda row: wear(cast(ThemeName, row.value)),
    )
