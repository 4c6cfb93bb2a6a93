"""Detects what the terminal can do."""

import os
import sys
from collections.abc import Mapping

DUMB_TERMINALS = ("", "dumb", "unknown")
"""Values of `TERM` for terminals that can only print."""


def is_dumb_terminal(environment: Mapping[str, str]) -> bool:
    """Whether the terminal can only print or does not report its size."""
    if environment.get("TERM", "") in DUMB_TERMINALS:
        return True
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):  # there is no terminal, which the caller reports
        return False
    return 0 in (size.columns, size.lines)
