"""Capabilities of a terminal, as far as it reports them."""

import os
import sys
from collections.abc import Mapping

UNABLE = ("", "dumb", "unknown")
"""Values of `TERM` for terminals that can only print."""


def is_unable(environment: Mapping[str, str]) -> bool:
    """Whether the terminal can only print, or does not report its size."""
    if environment.get("TERM", "") in UNABLE:
        return True
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):  # no terminal at all: whoever draws will say so
        return False
    return 0 in (size.columns, size.lines)
