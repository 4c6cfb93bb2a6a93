"""Contrast of colours, and adjusting them for readability."""

from textual.color import Color

MIN_CONTRAST = 4.5
"""Minimum contrast of text with its background."""
MAX_GROUND_CONTRAST = 1.3
"""Maximum contrast of a tinted background with the screen's. Text with that much more than `MIN_CONTRAST` on the
screen is readable on all of them."""
_STEP = 0.015
"""Step by which the lightness of a colour is changed."""
_STEPS = 100


def contrast(one: Color, other: Color) -> float:
    """The contrast ratio of two colours, 1 to 21 (WCAG)."""
    brighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def luminance(color: Color) -> float:
    """The relative luminance of a colour, 0 to 1."""
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in color.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def readable(color: Color, ground: Color, least: float = MIN_CONTRAST) -> Color:
    """The colour, lightened or darkened until it has that contrast with the background; its hue stays."""
    step = _STEP if luminance(ground) < 0.18 else -_STEP
    for _ in range(_STEPS):
        if contrast(color, ground) >= least:
            break
        color = color.lighten(step)
    return color


def tint(ground: Color, color: Color, part: float, most: float = MAX_GROUND_CONTRAST) -> Color:
    """The background mixed with up to that part of a colour, within the maximum contrast."""
    mixed = ground.blend(color, part)
    while contrast(mixed, ground) > most:
        part *= 0.9
        mixed = ground.blend(color, part)
    return mixed
