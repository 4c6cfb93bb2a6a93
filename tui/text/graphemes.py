"""Grapheme clusters: what users perceive as one character, such as a flag, a family emoji or an accented letter."""

MAX_GRAPHEME_CODE_POINTS = 128
"""Maximum number of code points in a cluster."""


def grapheme_start(text: str, index: int) -> int:
    """Find the start of the cluster that ends at `index`."""
    if index < 2 or text[index - 2 : index].isascii():
        return max(0, index - 1)
    from wcwidth import grapheme_boundary_before  # noqa: PLC0415  # deferred: most texts are ASCII

    return grapheme_boundary_before(text, index)


def grapheme_end(text: str, index: int) -> int:
    """Find the end of the cluster that starts at `index`."""
    if text[index : index + 2].isascii():
        return min(len(text), index + 1)
    from wcwidth import iter_graphemes  # noqa: PLC0415  # deferred: most texts are ASCII

    return index + len(next(iter_graphemes(text[index : index + MAX_GRAPHEME_CODE_POINTS])))
