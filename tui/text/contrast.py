"""Whether colours can be read on each other, and what has to be done to them where they cannot."""

from textual.color import Color

MIN_CONTRAST = 4.5
"""The contrast that text needs with its ground, so that it can be read."""
MAX_GROUND_CONTRAST = 1.3
"""The most by which a ground that something gets may differ from the one of the screen. So an ink that has this much
more than `MIN_CONTRAST` there can be read on each of them."""
_STEP = 0.015
"""Of all lightness, by which a colour is moved at a time."""
_STEPS = 100


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


def readable(color: Color, ground: Color, least: float = MIN_CONTRAST) -> Color:
    """The colour, as much lighter or darker as it takes to have that contrast with the ground; its hue stays."""
    step = _STEP if luminance(ground) < 0.18 else -_STEP
    for _ in range(_STEPS):
        if contrast(color, ground) >= least:
            break
        color = color.lighten(step)
    return color


def tint(ground: Color, color: Color, part: float, most: float = MAX_GROUND_CONTRAST) -> Color:
    """The ground with so much of a colour in it, or less, so that it differs from the ground no more than that."""
    mixed = ground.blend(color, part)
    while contrast(mixed, ground) > most:
        part *= 0.9
        mixed = ground.blend(color, part)
    return mixed
