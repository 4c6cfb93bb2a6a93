"""The colours of one theme as styles. A palette knows what a colour is for, not where it is used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rich.style import Style
from rich.text import Text
from rich.theme import Theme as RichTheme
from textual.color import Color

from tui.text.inks import Ink, Line


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
    added_line: Style
    """Where colours mix a ground, which leaves the inks of code as they are; otherwise an ink. So are the next ones."""
    removed_line: Style
    added_word: Style
    removed_word: Style
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


_PARTS = {"dim": 0.62, "comment": 0.5, "faint": 0.42, "selected": 0.30, "found": 0.27}
"""How much of the text's colour is in what is paler, and of a colour in the ground that is made of it. A theme may say
otherwise, by variables such as `dim-part`."""


def palette_of(colors: Mapping[str, str]) -> Palette:
    """The palette of a theme, from its colour variables. It is asked for line by line."""
    return _palette_of(tuple(colors.items()))


@lru_cache(maxsize=16)
def _palette_of(variables: tuple[tuple[str, str], ...]) -> Palette:
    colors = dict(variables)
    ground, front = Color.parse(colors["background"]), Color.parse(colors["foreground"])
    if ground.ansi is not None or front.ansi is not None:
        return _without_grounds(colors, front)
    names = ("primary", "accent", "success", "warning", "error")
    primary, accent, good, warn, bad = (_readable(Color.parse(colors[name]), ground, front) for name in names)

    def part(name: str) -> float:
        return float(colors.get(f"{name}-part", _PARTS[name]))

    return Palette(
        text=_ink(front),
        strong=_ink(front, bold=True),
        dim=_ink(ground.blend(front, part("dim"))),
        faint=_ink(ground.blend(front, part("faint"))),
        accent=_ink(primary, bold=True),
        link=_ink(primary, underline=True),
        good=_ink(good),
        warn=_ink(warn),
        bad=_ink(bad),
        user=_ground(ground.blend(front, 0.08)),
        code=_ink(accent),
        marked=_ground(ground.blend(primary, 0.16)),
        selected=_ground(ground.blend(primary, part("selected"))),
        found=_ground(ground.blend(warn, part("found"))) + Style(underline=True),
        here=Style(color=ground.rich_color, bgcolor=warn.rich_color),
        added=_ink(good) + _ground(ground.blend(good, 0.12)),
        removed=_ink(bad) + _ground(ground.blend(bad, 0.12)),
        added_line=_ground(ground.blend(good, 0.10)),
        removed_line=_ground(ground.blend(bad, 0.10)),
        added_word=_ground(ground.blend(good, 0.26)),
        removed_word=_ground(ground.blend(bad, 0.26)),
        keyword=_ink(primary),
        literal=_ink(good),
        comment=_ink(ground.blend(front, part("comment")), italic=True),
        named=_ink(warn),
    )


def _without_grounds(colors: Mapping[str, str], front: Color) -> Palette:
    """For the terminal's own colours, which cannot be mixed: what would have a ground is reversed, underlined or bold,
    and what would be paler is dim."""
    names = ("primary", "accent", "success", "warning", "error")
    primary, accent, good, warn, bad = (Color.parse(colors[name]) for name in names)
    text, dim = _ink(front), _ink(front) + Style(dim=True)
    return Palette(
        text=text,
        strong=_ink(front, bold=True),
        dim=dim,
        faint=dim,
        accent=_ink(primary, bold=True),
        link=_ink(primary, underline=True),
        good=_ink(good),
        warn=_ink(warn),
        bad=_ink(bad),
        user=Style(bold=True),
        code=_ink(accent),
        marked=Style(bold=True, underline=True),
        selected=Style(reverse=True),
        found=Style(bold=True, underline=True),
        here=Style(bold=True, reverse=True),
        added=_ink(good),
        removed=_ink(bad),
        added_line=_ink(good),
        removed_line=_ink(bad),
        added_word=_ink(good, bold=True, underline=True),
        removed_word=_ink(bad, bold=True, underline=True),
        keyword=_ink(primary, bold=True),
        literal=_ink(good),
        comment=dim + Style(italic=True),
        named=_ink(warn),
    )


LEAST = 4.5
"""The contrast that text needs with its ground, so that it can be read."""


def contrast(one: Color, other: Color) -> float:
    """How far two colours differ in brightness, from 1 to 21, as the guidelines for accessible content count it."""
    brighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def luminance(color: Color) -> float:
    """The brightness of a colour as eyes see it, from 0 to 1."""
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in color.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _readable(color: Color, ground: Color, front: Color) -> Color:
    """The colour, moved towards the text's own until it stands out from the ground."""
    for _ in range(8):
        if contrast(color, ground) >= LEAST:
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
