"""The colours of one theme as styles. A palette knows what a colour is for, not where it is used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.style import Style
from rich.text import Text
from rich.theme import Theme as RichTheme
from textual.color import Color
from textual.theme import Theme

from tui.inks import Ink, Line

CALM = Theme(
    name="ebb",
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
        "border": "#3a4149",
        "border-blurred": "#2b3137",
        "block-cursor-background": "#2f3b46",
        "block-cursor-foreground": "#e6e9ec",
        "block-cursor-text-style": "none",
        "scrollbar": "#2b3137",
        "scrollbar-hover": "#3a4149",
        "scrollbar-active": "#4a535c",
        "scrollbar-background": "#14171a",
        "scrollbar-background-hover": "#14171a",
        "scrollbar-background-active": "#14171a",
        "scrollbar-corner-color": "#14171a",
    },
)
"""The theme that the terminal starts with."""


@dataclass(frozen=True, slots=True)
class Palette:
    text: Style
    strong: Style
    dim: Style
    faint: Style
    accent: Style
    link: Style
    good: Style
    warn: Style
    bad: Style
    user: Style
    """Behind what the user said."""
    code: Style
    """Code in a sentence."""
    marked: Style
    """Behind the block that the keyboard points at."""
    selected: Style
    found: Style
    """Words that were looked for."""
    here: Style
    """The place of them that is gone to."""
    added: Style
    removed: Style
    keyword: Style
    literal: Style
    comment: Style
    named: Style

    def markdown_theme(self) -> RichTheme:
        return RichTheme(
            {
                "markdown.h1": self.strong + Style(underline=True),
                "markdown.h2": self.strong,
                "markdown.h3": self.strong,
                "markdown.h4": self.strong + Style(italic=True),
                "markdown.h5": Style(italic=True),
                "markdown.h6": self.dim,
                "markdown.code": self.code,
                "markdown.code_block": self.text,
                "markdown.block_quote": self.dim,
                "markdown.list": self.text,
                "markdown.item.bullet": self.dim,
                "markdown.item.number": self.dim,
                "markdown.hr": self.faint,
                "markdown.link": self.link,
                "markdown.link_url": self.link,
                "markdown.table.border": self.faint,
                "markdown.table.header": self.strong,
            }
        )


def palette_of(colors: Mapping[str, str]) -> Palette:
    """The palette of a theme, from its colour variables."""
    ground, front = Color.parse(colors["background"]), Color.parse(colors["foreground"])
    names = ("primary", "accent", "success", "warning", "error")
    primary, accent, good, warn, bad = (_readable(Color.parse(colors[name]), ground, front) for name in names)
    return Palette(
        text=_ink(front),
        strong=_ink(front, bold=True),
        dim=_ink(_between(ground, front, 0.62)),
        faint=_ink(_between(ground, front, 0.32)),
        accent=_ink(primary, bold=True),
        link=_ink(primary, underline=True),
        good=_ink(good),
        warn=_ink(warn),
        bad=_ink(bad),
        user=_ground(_between(ground, front, 0.08)),
        code=_ink(accent),
        marked=_ground(_between(ground, primary, 0.16)),
        selected=_ground(_between(ground, primary, 0.40)),
        found=_ground(_between(ground, warn, 0.30)) + Style(underline=True),
        here=Style(color=ground.rich_color, bgcolor=warn.rich_color),
        added=_ink(good) + _ground(_between(ground, good, 0.12)),
        removed=_ink(bad) + _ground(_between(ground, bad, 0.12)),
        keyword=_ink(primary),
        literal=_ink(good),
        comment=_ink(_between(ground, front, 0.5), italic=True),
        named=_ink(warn),
    )


def _between(ground: Color, front: Color, part: float) -> Color:
    """A colour between two; terminal colours without a known value do not mix, the nearer end stands for them."""
    if ground.ansi is not None or front.ansi is not None:
        return front if part >= 0.5 else ground
    return ground.blend(front, part)


def _readable(color: Color, ground: Color, front: Color) -> Color:
    """The colour, moved towards the text's own until it stands out from the ground."""
    for _ in range(4):
        if color.ansi is not None or ground.ansi is not None or abs(color.brightness - ground.brightness) > 0.4:
            break
        color = color.blend(front, 0.2)
    return color


def _ink(color: Color, bold: bool | None = None, italic: bool | None = None, underline: bool | None = None) -> Style:
    return Style(color=color.rich_color, bold=bold, italic=italic, underline=underline)


def _ground(color: Color) -> Style:
    return Style(bgcolor=color.rich_color)


def painted(lines: Sequence[Line], palette: Palette) -> Text:
    """The lines as they are drawn, each cut where the screen ends."""
    inks: Mapping[Ink, Style] = {
        "text": palette.text,
        "strong": palette.strong,
        "dim": palette.dim,
        "accent": palette.accent,
        "good": palette.good,
        "warn": palette.warn,
        "bad": palette.bad,
    }
    text = Text(no_wrap=True, overflow="ellipsis", end="")
    for index, line in enumerate(lines):
        text.append("\n" if index else "")
        for words, ink in line:
            text.append(words, inks[ink])
    return text
