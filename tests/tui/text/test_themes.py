"""What is drawn can be read, whatever the theme: contrasts are measured, not looked at."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style
from textual.color import Color
from textual.theme import Theme

from ebbtide.agent.config.options import THEMES as NAMES
from ebbtide.tui.commands.themes import OFFERED_THEMES
from ebbtide.tui.text.contrast import MIN_CONTRAST, contrast_ratio, readable_color
from ebbtide.tui.text.styles import Palette, get_palette
from ebbtide.tui.text.themes import (
    ANSI,
    ANSI_DARK,
    ANSI_LIGHT,
    DARK,
    HIGH_CONTRAST,
    LIGHT,
    BackgroundTone,
    theme_for,
)

TEXT = ("text", "strong", "accent", "link", "good", "warn", "bad", "code", "keyword", "literal", "name")
INKS = (*TEXT, "dim", "comment", "faint")
GROUNDS = ("user", "marked_block", "selected", "search_match", "added", "removed", "added_line", "removed_line")
PAIRED = ("current_match", "added_word", "removed_word")
"""Grounds that come with an ink."""
MIXED = tuple(theme_for(name, None) for name in NAMES if name not in ("auto", "ansi"))
UNMIXED = (ANSI, ANSI_DARK, ANSI_LIGHT)

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
    return get_palette(colors_of(theme))


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
    assert [round(contrast_ratio(*pair), 2) for pair in ((black, white), (white, white), (grey, white))] == [
        21.0,
        1.0,
        4.54,
    ]


@pytest.mark.parametrize("theme", MIXED, ids=lambda theme: theme.name)
def test_every_ink_can_be_read_on_every_ground(theme: Theme) -> None:
    own, least = palette(theme), 7.0 if theme is HIGH_CONTRAST else MIN_CONTRAST
    colors = colors_of(theme)
    grounds = {name: ground(own, name) for name in GROUNDS}
    grounds |= {name: Color.parse(colors[name]) for name in ("background", "surface", "panel")}
    grounds["block-cursor-background"] = Color.parse(colors["block-cursor-background"])
    measured = {(name, on): contrast_ratio(ink(own, name), behind) for name in INKS for on, behind in grounds.items()}
    assert {pair: value for pair, value in measured.items() if value < least} == {}
    assert min(contrast_ratio(ink(own, name), ground(own, name)) for name in PAIRED) >= least


@pytest.mark.parametrize("theme", MIXED, ids=lambda theme: theme.name)
def test_changed_words_stand_out_from_their_line(theme: Theme) -> None:
    own = palette(theme)
    for word, line in (("added_word", "added_line"), ("removed_word", "removed_line")):
        assert contrast_ratio(ground(own, word), ground(own, line)) >= 1.15, word


CHANNEL = st.integers(0, 255)


@given(st.builds(Color, CHANNEL, CHANNEL, CHANNEL), st.builds(Color, CHANNEL, CHANNEL, CHANNEL))
def test_a_colour_is_moved_until_it_can_be_read_and_no_further(color: Color, behind: Color) -> None:
    found = readable_color(color, behind)
    best = max(contrast_ratio(Color.parse(end), behind) for end in ("#000000", "#ffffff"))
    assert contrast_ratio(found, behind) >= min(MIN_CONTRAST, best)
    assert found == color or contrast_ratio(found, behind) < MIN_CONTRAST * 1.1


def test_a_colour_that_is_made_readable_keeps_its_hue() -> None:
    moved = [readable_color(Color.parse(color), Color.parse("#fdf6e3")) for color in ("#859900", "#268bd2", "#dc322f")]
    assert [color.hex for color in moved] == ["#5E7900", "#0073B4", "#D72C2B"]


@pytest.mark.parametrize("theme", UNMIXED, ids=lambda theme: theme.name)
@pytest.mark.parametrize("terminal", TERMINALS)
def test_the_terminals_own_colours_are_read_on_its_ground(theme: Theme, terminal: str) -> None:
    *sixteen, dark, light = (Color.parse(f"#{value}") for value in TERMINALS[terminal].split())
    grounds = [*([dark] if theme is not ANSI_LIGHT else []), *([light] if theme is not ANSI_DARK else [])]
    own = palette(theme)
    for name, behind in itertools.product(TEXT, grounds):
        number = getattr(own, name).color.number
        if number is not None:  # the terminal's own colour for text needs no measuring
            assert contrast_ratio(sixteen[number], behind) >= 3.0, (name, number)


@pytest.mark.parametrize("theme", UNMIXED, ids=lambda theme: theme.name)
def test_without_grounds_everything_still_differs_from_text(theme: Theme) -> None:
    own = palette(theme)
    styles: list[Style] = [
        getattr(own, name) for name in ("user", "marked_block", "selected", "search_match", "current_match")
    ]
    for style in styles:
        assert style.bgcolor is None
        assert style.bold or style.underline or style.reverse
    assert own.search_match != own.current_match
    assert own.current_match != own.selected
    assert own.dim.dim
    assert all(style.color is None or style.color.triplet is None for style in (own.text, own.added, own.removed))


def test_each_setting_has_its_theme() -> None:
    cases: list[tuple[BackgroundTone | None, dict[str, Theme]]] = [
        (None, {"auto": DARK, "ansi": ANSI}),
        ("dark", {"auto": DARK, "ansi": ANSI_DARK}),
        ("light", {"auto": LIGHT, "ansi": ANSI_LIGHT}),
    ]
    adopted: dict[str, Theme] = {name: theme_for(name, None) for name in NAMES[5:]}
    always = {"dark": DARK, "light": LIGHT, "high-contrast": HIGH_CONTRAST, **adopted}
    for on, expected in cases:
        assert {name: theme_for(name, on) for name in NAMES} == {**always, **expected}
    assert [offered.name for offered in OFFERED_THEMES] == list(NAMES)
    own = (DARK, LIGHT, HIGH_CONTRAST, *UNMIXED)
    assert len({theme.name for theme in (*own, *adopted.values())}) == len(own) + len(NAMES[5:])
