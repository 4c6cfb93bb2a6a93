"""A theme's colours as styles, named by what they are used for."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from rich.style import Style
from rich.text import Text
from rich.theme import Theme as RichTheme
from textual.color import Color

from ebbtide.tools.lazy import dataclass
from ebbtide.tui.text.contrast import MAX_TINT_CONTRAST, MIN_CONTRAST, contrast_ratio, readable_color, tinted_background
from ebbtide.tui.text.spans import Line, TextStyle


@dataclass(frozen=True, slots=True)
class Palette:
    text: Style
    strong: Style
    dim: Style
    faint: Style
    """Text that is rarely read, such as line numbers. As pale as the minimum contrast allows."""
    border: Style
    """Lines and borders. Paler than any text."""
    accent: Style
    link: Style
    good: Style
    warn: Style
    bad: Style
    user: Style
    """Background of text from the user."""
    user_bar: Style
    """The bar to the left of text from the user."""
    model_bar: Style
    """The bar to the left of text from the model."""
    code: Style
    """Code within a sentence."""
    marked_block: Style
    """Background of the marked block."""
    selected: Style
    search_match: Style
    """Search matches, except the current one."""
    current_match: Style
    """The current search match."""
    added: Style
    removed: Style
    added_line: Style
    """Style of an added line. It is a background if colours can be mixed, so that code keeps its own colours. Otherwise
    it is a text colour. This also applies to the next three styles."""
    removed_line: Style
    added_word: Style
    removed_word: Style
    keyword: Style
    literal: Style
    comment: Style
    name: Style

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
                "markdown.hr": self.border,
                "markdown.link": self.link,
                "markdown.link_url": self.link,
                "markdown.table.border": self.border,
                "markdown.table.header": self.strong,
            }
        )


_BLEND_SHARES = {"dim": 0.62, "faint": 0.5, "user": 0.08, "selected": 0.26, "found": 0.24, "word": 0.36}
"""How much of the text colour goes into paler text, and how much of the tint into tinted backgrounds. A theme can
override each value with a variable such as `dim-part`."""


def get_palette(colors: Mapping[str, str]) -> Palette:
    """Build the palette from a theme's colour variables. Cached, because every line needs it."""
    return _build_palette(tuple(colors.items()))


@lru_cache(maxsize=16)
def _build_palette(variables: tuple[tuple[str, str], ...]) -> Palette:
    colors = dict(variables)
    background, foreground = Color.parse(colors["background"]), Color.parse(colors["foreground"])
    if background.ansi is not None or foreground.ansi is not None:
        return _build_ansi_palette(colors, foreground)
    max_tint_contrast = float(colors.get("spread", MAX_TINT_CONTRAST))
    min_contrast = float(colors.get("least-contrast", MIN_CONTRAST)) * max_tint_contrast

    def blend_share(name: str) -> float:
        return float(colors.get(f"{name}-part", _BLEND_SHARES[name]))

    def make_readable(color: Color) -> Color:
        return readable_color(color, background, min_contrast)

    def tinted_style(color: Color, share: float) -> Style:
        return Style(bgcolor=tinted_background(background, color, share, max_tint_contrast).rich_color)

    def word_style(color: Color) -> Style:
        """Build a style that makes words stand out from the rest of their line: plain text on a tinted background."""
        max_contrast = contrast_ratio(foreground, background) / float(colors.get("least-contrast", MIN_CONTRAST))
        return _color_style(foreground) + Style(
            bgcolor=tinted_background(background, color, blend_share("word"), max_contrast).rich_color
        )

    names = ("primary", "accent", "success", "warning", "error")
    primary, accent, good, warn, bad = (make_readable(Color.parse(colors[name])) for name in names)
    faint = make_readable(background.blend(foreground, blend_share("faint")))
    return Palette(
        text=_color_style(foreground),
        strong=_color_style(foreground, bold=True),
        dim=_color_style(make_readable(background.blend(foreground, blend_share("dim")))),
        faint=_color_style(faint),
        border=_color_style(Color.parse(colors.get("border", faint.hex))),
        accent=_color_style(primary, bold=True),
        link=_color_style(primary, underline=True),
        good=_color_style(good),
        warn=_color_style(warn),
        bad=_color_style(bad),
        user=tinted_style(primary, blend_share("user")),
        user_bar=_color_style(primary),
        model_bar=_color_style(background.blend(accent, 0.5)),
        code=_color_style(accent),
        marked_block=tinted_style(primary, 0.16),
        selected=tinted_style(primary, blend_share("selected")),
        search_match=tinted_style(warn, blend_share("found")) + Style(underline=True),
        current_match=Style(color=background.rich_color, bgcolor=warn.rich_color),
        added=_color_style(good) + tinted_style(good, 0.14),
        removed=_color_style(bad) + tinted_style(bad, 0.14),
        added_line=tinted_style(good, 0.18),
        removed_line=tinted_style(bad, 0.18),
        added_word=word_style(good),
        removed_word=word_style(bad),
        keyword=_color_style(primary),
        literal=_color_style(good),
        comment=_color_style(faint, italic=True),
        name=_color_style(warn),
    )


def _build_ansi_palette(colors: Mapping[str, str], foreground: Color) -> Palette:
    """Build the palette for the terminal's own colours. They cannot be mixed, so reverse, underline or bold is used in
    place of backgrounds, and paler text is dim."""
    names = ("primary", "accent", "success", "warning", "error")
    primary, accent, good, warn, bad = (Color.parse(colors[name]) for name in names)
    text, dim = _color_style(foreground), _color_style(foreground) + Style(dim=True)
    return Palette(
        text=text,
        strong=_color_style(foreground, bold=True),
        dim=dim,
        faint=dim,
        border=dim,
        accent=_color_style(primary, bold=True),
        link=_color_style(primary, underline=True),
        good=_color_style(good),
        warn=_color_style(warn),
        bad=_color_style(bad),
        user=Style(bold=True),
        user_bar=_color_style(primary, bold=True),
        model_bar=_color_style(accent),
        code=_color_style(accent),
        marked_block=Style(bold=True, underline=True),
        selected=Style(reverse=True, dim=False),  # dim text would be hard to read in reverse
        search_match=Style(bold=True, underline=True),
        current_match=Style(bold=True, reverse=True),
        added=_color_style(good),
        removed=_color_style(bad),
        added_line=_color_style(good),
        removed_line=_color_style(bad),
        added_word=_color_style(good, bold=True, underline=True),
        removed_word=_color_style(bad, bold=True, underline=True),
        keyword=_color_style(primary, bold=True),
        literal=_color_style(good),
        comment=dim + Style(italic=True),
        name=_color_style(warn),
    )


def _color_style(
    color: Color, bold: bool | None = None, italic: bool | None = None, underline: bool | None = None
) -> Style:
    return Style(color=color.rich_color, bold=bold, italic=italic, underline=underline)


def clipped_text(lines: Sequence[Line], palette: Palette) -> Text:
    """Convert lines to text that is cut at the edge of the screen."""
    text = Text(no_wrap=True, overflow="ellipsis", end="")
    for index, line in enumerate(lines):
        text.append("\n" if index else "")
        text.append_text(styled_line(line, palette))
    return text


def wrapped_text(lines: Sequence[Line], palette: Palette) -> Text:
    """Convert lines to text that is wrapped at the edge of the screen."""
    text = clipped_text(lines, palette)
    text.no_wrap, text.overflow = False, "fold"
    return text


def styled_line(line: Line, palette: Palette) -> Text:
    """Convert a line to styled text that can be wrapped."""
    styles: Mapping[TextStyle, Style] = {
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
    for span_text, style in line:
        text.append(span_text, styles[style])
    return text
