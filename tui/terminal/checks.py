"""The terminal checks of `ebb doctor`."""

import os
import sys
from collections.abc import Mapping

from ebbtide.agent.doctor.check_result import CheckResult
from ebbtide.tui.text.locale import draws_letters_only

MIN_TERMINAL_SIZE = (40, 12)
"""Minimum columns and lines to see all of the interface."""


def examine_terminal(environment: Mapping[str, str]) -> CheckResult:
    """Check stdout by environment and system: type, size, colours and encoding."""
    try:
        columns, lines = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        return CheckResult("terminal", "well", "standard output is none; what is printed is plain text")
    return terminal_finding(environment, columns, lines)


def terminal_finding(environment: Mapping[str, str], columns: int, lines: int) -> CheckResult:
    """Check a terminal of this size in this environment."""
    kind = environment.get("TERM", "")
    if kind in ("", "dumb"):
        told = f"TERM is `{kind}`" if kind else "TERM is not set"
        return CheckResult("terminal", "note", f"{told}: `ebb` speaks in lines there, as with `--plain`")
    letters = "letters only, as the locale has no UTF-8" if draws_letters_only(environment) else "UTF-8"
    words = f"{kind}, {columns} × {lines}, {_colours(environment, kind)}, {letters}"
    if columns < MIN_TERMINAL_SIZE[0] or lines < MIN_TERMINAL_SIZE[1]:
        least = f"{MIN_TERMINAL_SIZE[0]} × {MIN_TERMINAL_SIZE[1]}"
        return CheckResult("terminal", "note", words, f"it is small; from {least} on all of a screen is seen")
    return CheckResult("terminal", "well", words)


def _colours(environment: Mapping[str, str], kind: str) -> str:
    if environment.get("NO_COLOR"):
        return "no colours, as NO_COLOR says"
    if environment.get("COLORTERM", "").lower() in ("truecolor", "24bit") or kind.endswith("-direct"):
        return "16 million colours"
    return "256 colours (`COLORTERM=truecolor` where it has more)" if "256" in kind else "few colours"
