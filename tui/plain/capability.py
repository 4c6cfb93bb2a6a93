"""What a terminal can do, as far as it says so."""

import os
import sys
from collections.abc import Mapping

UNABLE = ("", "dumb", "unknown")
"""Values of `TERM` by which a terminal can do nothing but print."""


def is_unable(environment: Mapping[str, str]) -> bool:
    """Whether the terminal can do nothing but print, or does not say how large it is."""
    if environment.get("TERM", "") in UNABLE:
        return True
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):  # no terminal at all: whoever draws will say so
        return False
    return 0 in (size.columns, size.lines)
