"""Computes the contrast between colours, and adjusts colours to be readable."""

from textual.color import Color

MIN_CONTRAST = 4.5
"""Minimum contrast between text and its background."""
MAX_TINT_CONTRAST = 1.3
"""Maximum contrast between a tinted background and the screen's background. Text is readable on every tint if its
contrast with the screen's background is at least `MIN_CONTRAST` times this value."""
_LIGHTNESS_STEP = 0.015
"""How much a colour's lightness is changed per step."""
_MAX_LIGHTNESS_STEPS = 100


def contrast_ratio(first_color: Color, second_color: Color) -> float:
    """Compute the contrast ratio of two colours, from 1 to 21 (WCAG)."""
    brighter, darker = sorted((luminance(first_color), luminance(second_color)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def luminance(color: Color) -> float:
    """Compute the relative luminance of a colour, from 0 to 1."""
    red, green, blue = (
        channel / 12.92 if channel <= 0.03928 else ((channel + 0.055) / 1.055) ** 2.4 for channel in color.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def readable_color(color: Color, background: Color, min_contrast: float = MIN_CONTRAST) -> Color:
    """Lighten or darken a colour until its contrast with the background is at least `min_contrast`. The hue stays the
    same."""
    step = _LIGHTNESS_STEP if luminance(background) < 0.18 else -_LIGHTNESS_STEP
    for _ in range(_MAX_LIGHTNESS_STEPS):
        if contrast_ratio(color, background) >= min_contrast:
            break
        color = color.lighten(step)
    return color


def tinted_background(
    background: Color, color: Color, max_share: float, max_contrast: float = MAX_TINT_CONTRAST
) -> Color:
    """Mix the background with `max_share` of a colour, or with less if the contrast would exceed `max_contrast`."""
    mixed = background.blend(color, max_share)
    while contrast_ratio(mixed, background) > max_contrast:
        max_share *= 0.9
        mixed = background.blend(color, max_share)
    return mixed
