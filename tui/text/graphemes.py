"""Grapheme clusters: user-perceived characters, such as a flag, a family emoji or a letter with accents."""

MAX_GRAPHEME_CODE_POINTS = 128
"""Maximum number of code points in a cluster."""


def grapheme_start(text: str, at: int) -> int:
    """Return the start of the cluster that ends at index `at`."""
    if at < 2 or text[at - 2 : at].isascii():
        return max(0, at - 1)
    from wcwidth import grapheme_boundary_before  # noqa: PLC0415  # deferred: most texts are ASCII

    return grapheme_boundary_before(text, at)


def grapheme_end(text: str, at: int) -> int:
    """Return the end of the cluster that starts at index `at`."""
    if text[at : at + 2].isascii():
        return min(len(text), at + 1)
    from wcwidth import iter_graphemes  # noqa: PLC0415  # deferred: most texts are ASCII

    return at + len(next(iter_graphemes(text[at : at + MAX_GRAPHEME_CODE_POINTS])))
