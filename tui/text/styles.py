"""The colours of a theme as styles, named by purpose."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from rich.style import Style
from rich.text import Text
from rich.theme import Theme as RichTheme
from textual.color import Color

from ebbtide.tools.lazy import dataclass
from ebbtide.tui.text.contrast import MAX_GROUND_CONTRAST, MIN_CONTRAST, contrast, readable, tint
from ebbtide.tui.text.spans import Line, TextStyle


@dataclass(frozen=True, slots=True)
class Palette:
    text: Style
    strong: Style
    dim: Style
    faint: Style
    """For rarely read text such as line numbers: as pale as text may be."""
    rule: Style
    """For lines and frames, paler than any text."""
    accent: Style
    link: Style
    good: Style
    warn: Style
    bad: Style
    user: Style
    """Background of the user's text."""
    user_bar: Style
    """The bar beside it."""
    model_bar: Style
    """The bar beside model text."""
    code: Style
    """Code in a sentence."""
    marked: Style
    """Background of the marked block."""
    selected: Style
    found: Style
    """Search matches."""
    here: Style
    """The current match."""
    added: Style
    removed: Style
    added_line: Style
    """A background where colours can be mixed, so code keeps its colours; otherwise a text colour. The same for the
    next ones."""
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
                "markdown.h1": self.accent + Style(underline=self.accent.color == self.text.color),
                "markdown.h2": self.code + Style(bold=True),
                "markdown.h3": self.strong,
                "markdown.h4": self.strong + Style(italic=True),
                "markdown.h5": self.text + Style(italic=True),
                "markdown.h6": self.dim + Style(italic=True),
                "markdown.code": self.code,
                "markdown.code_block": self.text,
                "markdown.block_quote": self.dim,
                "markdown.list": self.text,
                "markdown.item.bullet": self.user_bar,
                "markdown.item.number": self.user_bar,
                "markdown.hr": self.rule,
                "markdown.link": self.link,
                "markdown.link_url": self.link,
                "markdown.table.border": self.rule,
                "markdown.table.header": self.strong,
            }
        )


_PARTS = {"dim": 0.62, "faint": 0.5, "user": 0.08, "selected": 0.26, "found": 0.24, "word": 0.36}
"""Share of the text colour in paler text, and of a colour in tinted backgrounds. A theme may override them with
variables such as `dim-part`."""


def palette_of(colors: Mapping[str, str]) -> Palette:
    """The palette of a theme's colour variables, cached because it is needed for every line."""
    return _palette_of(tuple(colors.items()))


@lru_cache(maxsize=16)
def _palette_of(variables: tuple[tuple[str, str], ...]) -> Palette:
    colors = dict(variables)
    ground, front = Color.parse(colors["background"]), Color.parse(colors["foreground"])
    if ground.ansi is not None or front.ansi is not None:
        return _without_grounds(colors, front)
    spread = float(colors.get("spread", MAX_GROUND_CONTRAST))
    least = float(colors.get("least-contrast", MIN_CONTRAST)) * spread

    def part(name: str) -> float:
        return float(colors.get(f"{name}-part", _PARTS[name]))

    def ink(color: Color) -> Color:
        return readable(color, ground, least)

    def behind(color: Color, share: float) -> Style:
        return Style(bgcolor=tint(ground, color, share, spread).rich_color)

    def word(color: Color) -> Style:
        """Plain text on a background that differs from the line's; it uses no other text colours."""
        most = contrast(front, ground) / float(colors.get("least-contrast", MIN_CONTRAST))
        return _ink(front) + Style(bgcolor=tint(ground, color, part("word"), most).rich_color)

    names = ("primary", "accent", "success", "warning", "error")
    primary, accent, good, warn, bad = (ink(Color.parse(colors[name])) for name in names)
    faint = ink(ground.blend(front, part("faint")))
    return Palette(
        text=_ink(front),
        strong=_ink(front, bold=True),
        dim=_ink(ink(ground.blend(front, part("dim")))),
        faint=_ink(faint),
        rule=_ink(Color.parse(colors.get("border", faint.hex))),
        accent=_ink(primary, bold=True),
        link=_ink(primary, underline=True),
        good=_ink(good),
        warn=_ink(warn),
        bad=_ink(bad),
        user=behind(primary, part("user")),
        user_bar=_ink(primary),
        model_bar=_ink(ground.blend(accent, 0.5)),
        code=_ink(accent),
        marked=behind(primary, 0.16),
        selected=behind(primary, part("selected")),
        found=behind(warn, part("found")) + Style(underline=True),
        here=Style(color=ground.rich_color, bgcolor=warn.rich_color),
        added=_ink(good) + behind(good, 0.14),
        removed=_ink(bad) + behind(bad, 0.14),
        added_line=behind(good, 0.18),
        removed_line=behind(bad, 0.18),
        added_word=word(good),
        removed_word=word(bad),
        keyword=_ink(primary),
        literal=_ink(good),
        comment=_ink(faint, italic=True),
        named=_ink(warn),
    )


def _without_grounds(colors: Mapping[str, str], front: Color) -> Palette:
    """For the terminal's own colours, which cannot be mixed: backgrounds become reverse, underline or bold, and
    paler text dim."""
    names = ("primary", "accent", "success", "warning", "error")
    primary, accent, good, warn, bad = (Color.parse(colors[name]) for name in names)
    text, dim = _ink(front), _ink(front) + Style(dim=True)
    return Palette(
        text=text,
        strong=_ink(front, bold=True),
        dim=dim,
        faint=dim,
        rule=dim,
        accent=_ink(primary, bold=True),
        link=_ink(primary, underline=True),
        good=_ink(good),
        warn=_ink(warn),
        bad=_ink(bad),
        user=Style(bold=True),
        user_bar=_ink(primary, bold=True),
        model_bar=_ink(accent),
        code=_ink(accent),
        marked=Style(bold=True, underline=True),
        selected=Style(reverse=True, dim=False),  # what is dim may be hard to read on it
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


def _ink(color: Color, bold: bool | None = None, italic: bool | None = None, underline: bool | None = None) -> Style:
    return Style(color=color.rich_color, bold=bold, italic=italic, underline=underline)


def clipped_text(lines: Sequence[Line], palette: Palette) -> Text:
    """The lines, cut at the edge of the screen."""
    text = Text(no_wrap=True, overflow="ellipsis", end="")
    for index, line in enumerate(lines):
        text.append("\n" if index else "")
        text.append_text(styled_line(line, palette))
    return text


def wrapped_text(lines: Sequence[Line], palette: Palette) -> Text:
    """The lines, wrapped at the edge of the screen."""
    text = clipped_text(lines, palette)
    text.no_wrap, text.overflow = False, "fold"
    return text


def styled_line(line: Line, palette: Palette) -> Text:
    """The styled text of a line, for wrapping."""
    inks: Mapping[TextStyle, Style] = {
        "text": palette.text,
        "strong": palette.strong,
        "dim": palette.dim,
        "accent": palette.accent,
        "good": palette.good,
        "warn": palette.warn,
        "bad": palette.bad,
        "code": palette.code,
    }
    text = Text(end="")
    for words, ink in line:
        text.append(words, inks[ink])
    return text
