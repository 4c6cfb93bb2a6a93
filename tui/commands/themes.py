"""Chooses the colour theme."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from ebbtide.agent.config.options import THEMES, ThemeName
from ebbtide.agent.errors import AgentError
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.text.spans import parse_inline_code
from ebbtide.tui.view.panel import Panel, PanelRow


@dataclass(frozen=True, slots=True)
class OfferedTheme:
    """An available theme."""

    name: ThemeName
    help: str


OFFERED_THEMES: tuple[OfferedTheme, ...] = (
    OfferedTheme("auto", "light or dark, like your terminal"),
    OfferedTheme("dark", "the sea at night: blue-grey"),
    OfferedTheme("light", "paper and ink, with deep blue"),
    OfferedTheme("high-contrast", "bright on black"),
    OfferedTheme("ansi", "your terminal's own 16 colours"),
    OfferedTheme("catppuccin-mocha", "pastels on a dark ground"),
    OfferedTheme("catppuccin-latte", "pastels on a light ground"),
    OfferedTheme("dracula", "violet and pink on slate"),
    OfferedTheme("gruvbox", "warm and retro"),
    OfferedTheme("nord", "cold and calm"),
    OfferedTheme("solarized-dark", "sixteen colours on deep blue"),
    OfferedTheme("solarized-light", "sixteen colours on cream"),
    OfferedTheme("tokyo-night", "neon on midnight blue"),
)


def build_themes_panel(chosen_theme: ThemeName, is_colorless: bool, apply_theme: Callable[[ThemeName], None]) -> Panel:
    """Build the panel of themes, which previews the highlighted theme. `is_colorless`: whether colours are off in every
    theme."""
    message = "`NO_COLOR` is set, so all themes look alike"
    return Panel(
        "theme",
        ((("Theme", "strong"),),),
        tuple(
            PanelRow(
                theme.name,
                (
                    ("● " if theme.name == chosen_theme else "  ", "good"),
                    (f"{theme.name:<18}", "text"),
                    (theme.help, "dim"),
                ),
                search_text=f"{theme.name} {theme.help}",
                details=(parse_inline_code(message, "warn"),) if is_colorless else (),
            )
            for theme in OFFERED_THEMES
        ),
        "Up, Down preview   Enter select   Esc cancel",
        empty_message="No match.",
        initial_value=chosen_theme,
        on_row_marked=lambda row: apply_theme(cast(ThemeName, row.value)),
    )


async def choose_theme(context: CommandContext, name: str) -> None:
    themes, settings = context.themes, context.settings
    if name and name not in THEMES:
        return context.controller.show_notice(
            f"unknown theme `{name}`. Themes: {', '.join(f'`{theme}`' for theme in THEMES)}"
        )
    if not name:
        if themes is None:
            return context.show_hint(
                "There are no colours here. `/theme NAME` sets those of the full-screen interface."
            )
        previous_theme = themes.chosen_theme
        choice = await context.show(build_themes_panel(previous_theme, themes.is_colorless, themes.apply_theme))
        if choice is None:
            return themes.apply_theme(previous_theme)
        name = choice.value
    if themes is not None:
        themes.apply_theme(next(theme for theme in THEMES if theme == name))
    if settings is not None:
        try:
            context.show_hint(settings.set_value("tui.theme", name))
        except AgentError as error:
            context.controller.show_notice(str(error))
    return None
