"""What is drawn can be read, whatever the theme: contrasts are measured, not looked at."""

import itertools

import pytest
from rich.style import Style
from textual.color import Color
from textual.theme import Theme

from agent.config.options import THEMES as NAMES
from agent.config.options import ThemeName
from tests.tui.doubles import FakeSession, FakeSessions
from tui.app import EbbApp
from tui.commands import COMMANDS
from tui.keys import KEYS
from tui.screens.panel import PanelScreen
from tui.text.styles import Palette, contrast, palette_of
from tui.text.themes import ANSI, ANSI_DARK, ANSI_LIGHT, DARK, HIGH_CONTRAST, LIGHT, THEMES, Ground, theme_for
from tui.view.help import help_panel
from tui.view.themes import OFFERED
from tui.widgets.field import Field
from tui.widgets.prompt import PromptInput

TEXT = ("text", "strong", "accent", "link", "good", "warn", "bad", "code", "keyword", "literal", "named")
PALE = ("dim", "comment", "faint")
GROUNDS = (
    "user", "marked", "selected", "found", "added", "removed", "added_line", "removed_line", "added_word",
    "removed_word",
)  # fmt: skip
MIXED = (DARK, LIGHT, HIGH_CONTRAST)
OWN = (ANSI, ANSI_DARK, ANSI_LIGHT)

TERMINALS = {
    "xterm": "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5 7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff "
    "ffffff 000000 ffffff",
    "vga": "000000 aa0000 00aa00 aa5500 0000aa aa00aa 00aaaa aaaaaa 555555 ff5555 55ff55 ffff55 5555ff ff55ff 55ffff "
    "ffffff 000000 ffffff",
    "gnome": "2e3436 cc0000 4e9a06 c4a000 3465a4 75507b 06989a d3d7cf 555753 ef2929 8ae234 fce94f 729fcf ad7fa8 34e2e2 "
    "eeeeec 300a24 ffffff",
    "windows": "0c0c0c c50f1f 13a10e c19c00 0037da 881798 3a96dd cccccc 767676 e74856 16c60c f9f1a5 3b78ff b4009e "
    "61d6d6 f2f2f2 0c0c0c ffffff",
    "mac": "000000 990000 00a600 999900 0000b2 b200b2 00a6b2 bfbfbf 666666 e50000 00d900 e5e500 0000ff e500e5 00e5e5 "
    "e5e5e5 000000 ffffff",
    "solarized": "073642 dc322f 859900 b58900 268bd2 d33682 2aa198 eee8d5 002b36 cb4b16 586e75 657b83 839496 6c71c4 "
    "93a1a1 fdf6e3 002b36 fdf6e3",
}
"""The 16 colours of terminals as they come, and the dark and the light ground that they are used on."""


def colors_of(theme: Theme) -> dict[str, str]:
    return {**theme.to_color_system().generate(), **theme.variables}


def palette(theme: Theme) -> Palette:
    return palette_of(colors_of(theme))


def ink(palette: Palette, name: str) -> Color:
    color = getattr(palette, name).color
    assert color is not None
    return Color.from_rich_color(color)


def ground(palette: Palette, name: str) -> Color:
    color = getattr(palette, name).bgcolor
    assert color is not None, f"{name} has no ground"
    return Color.from_rich_color(color)


def test_contrast_is_counted_as_the_guidelines_do() -> None:
    black, white, grey = Color.parse("#000000"), Color.parse("#ffffff"), Color.parse("#767676")
    assert [round(contrast(*pair), 2) for pair in ((black, white), (white, white), (grey, white))] == [21.0, 1.0, 4.54]


@pytest.mark.parametrize("theme", MIXED, ids=lambda theme: theme.name)
def test_every_ink_can_be_read_on_the_ground_of_its_theme(theme: Theme) -> None:
    own, least = palette(theme), (7.0, 7.0) if theme is HIGH_CONTRAST else (4.5, 3.0)
    behind = Color.parse(colors_of(theme)["background"])
    measured = {name: contrast(ink(own, name), behind) for name in (*TEXT, *PALE)}
    assert {name: value for name, value in measured.items() if value < least[name in PALE]} == {}
    assert contrast(ink(own, "here"), ground(own, "here")) >= least[0]


@pytest.mark.parametrize("theme", MIXED, ids=lambda theme: theme.name)
def test_words_can_be_read_on_every_ground_that_something_gets(theme: Theme) -> None:
    own, least = palette(theme), 7.0 if theme is HIGH_CONTRAST else 4.5
    colors = colors_of(theme)
    grounds = {name: ground(own, name) for name in GROUNDS}
    grounds |= {name: Color.parse(colors[name]) for name in ("surface", "panel", "block-cursor-background")}
    for name, behind in grounds.items():
        assert contrast(ink(own, "text"), behind) >= least, name
        for pale in ("dim", "accent", "good", "warn", "bad", "code", "literal", "named"):
            assert contrast(ink(own, pale), behind) >= 3.0, (pale, name)
    assert contrast(ink(own, "added"), grounds["added"]) >= least
    assert contrast(ink(own, "removed"), grounds["removed"]) >= least


@pytest.mark.parametrize(("name", "least"), [("dark", 4.5), ("light", 4.5), ("high-contrast", 7.0)])
async def test_what_empty_fields_say_can_be_read(name: ThemeName, least: float) -> None:
    app = EbbApp(FakeSessions([FakeSession()]), guard=0.0, theme=name)
    async with app.run_test() as pilot:
        while not app.query(PromptInput):
            await pilot.pause()
        await app.push_screen(PanelScreen(help_panel(KEYS, COMMANDS)))
        styles = (
            app.screen_stack[0].query_one(PromptInput).get_component_rich_style("text-area--placeholder"),
            app.screen.query_one(Field).get_component_rich_style("input--placeholder"),
        )
        for style in styles:
            assert style.color is not None
            assert style.bgcolor is not None
            assert contrast(Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor)) >= least


@pytest.mark.parametrize("theme", OWN, ids=lambda theme: theme.name)
@pytest.mark.parametrize("terminal", TERMINALS)
def test_the_terminals_own_colours_are_read_on_its_ground(theme: Theme, terminal: str) -> None:
    *sixteen, dark, light = (Color.parse(f"#{value}") for value in TERMINALS[terminal].split())
    grounds = [*([dark] if theme is not ANSI_LIGHT else []), *([light] if theme is not ANSI_DARK else [])]
    own = palette(theme)
    for name, behind in itertools.product(TEXT, grounds):
        number = getattr(own, name).color.number
        if number is not None:  # the terminal's own colour for text needs no measuring
            assert contrast(sixteen[number], behind) >= 3.0, (name, number)


@pytest.mark.parametrize("theme", OWN, ids=lambda theme: theme.name)
def test_without_grounds_everything_still_differs_from_text(theme: Theme) -> None:
    own = palette(theme)
    styles: list[Style] = [getattr(own, name) for name in ("user", "marked", "selected", "found", "here")]
    for style in styles:
        assert style.bgcolor is None
        assert style.bold or style.underline or style.reverse
    assert own.found != own.here
    assert own.here != own.selected
    assert own.dim.dim
    assert all(style.color is None or style.color.triplet is None for style in (own.text, own.added, own.removed))


def test_each_setting_has_its_theme() -> None:
    cases: list[tuple[Ground | None, dict[str, Theme]]] = [
        (None, {"auto": DARK, "ansi": ANSI}),
        ("dark", {"auto": DARK, "ansi": ANSI_DARK}),
        ("light", {"auto": LIGHT, "ansi": ANSI_LIGHT}),
    ]
    always = {"dark": DARK, "light": LIGHT, "high-contrast": HIGH_CONTRAST}
    for on, expected in cases:
        assert {name: theme_for(name, on) for name in NAMES} == {**always, **expected}
    assert [offered.name for offered in OFFERED] == list(NAMES)
    assert len({theme.name for theme in THEMES}) == len(THEMES)
