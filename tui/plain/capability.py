"""Detects what the terminal can do."""

import os
import sys
from collections.abc import Mapping

PRINT_ONLY_TERMS = ("", "dumb", "unknown")
"""Values of `TERM` for terminals that can only print."""


def is_print_only(environment: Mapping[str, str]) -> bool:
    """Whether the terminal can only print, or does not report its size."""
    if environment.get("TERM", "") in PRINT_ONLY_TERMS:
        return True
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):  # there is no terminal, which the caller reports
        return False
    return 0 in (size.columns, size.lines)
