"""The terminal check of `ebb doctor`."""

import os
import sys
from collections.abc import Mapping

from ebbtide.agent.integrations.doctor.check_result import CheckResult
from ebbtide.tui.text.locale import is_ascii_locale

MIN_TERMINAL_SIZE = (40, 12)
"""Minimum columns and lines for the whole interface to be visible."""


def check_stdout_terminal(environment: Mapping[str, str]) -> CheckResult:
    """Check the terminal on stdout: its type, size, colours and encoding."""
    try:
        columns, lines = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        return CheckResult("terminal", "well", "standard output is not a terminal; output is plain text")
    return check_terminal(environment, columns, lines)


def check_terminal(environment: Mapping[str, str], columns: int, lines: int) -> CheckResult:
    """Check a terminal of this size in this environment."""
    term = environment.get("TERM", "")
    if term in ("", "dumb"):
        kind_text = f"TERM is `{term}`" if term else "TERM is not set"
        return CheckResult("terminal", "note", f"{kind_text}: `ebb` uses line mode, as with `--plain`")
    encoding_text = "ASCII only, because the locale is not UTF-8" if is_ascii_locale(environment) else "UTF-8"
    description = f"{term}, {columns} × {lines}, {_color_text(environment, term)}, {encoding_text}"
    if columns < MIN_TERMINAL_SIZE[0] or lines < MIN_TERMINAL_SIZE[1]:
        min_size = f"{MIN_TERMINAL_SIZE[0]} × {MIN_TERMINAL_SIZE[1]}"
        return CheckResult("terminal", "note", description, f"too small to show everything; use at least {min_size}")
    return CheckResult("terminal", "well", description)


def _color_text(environment: Mapping[str, str], term: str) -> str:
    if environment.get("NO_COLOR"):
        return "no colours (NO_COLOR is set)"
    if environment.get("COLORTERM", "").lower() in ("truecolor", "24bit") or term.endswith("-direct"):
        return "16 million colours"
    return "256 colours (set `COLORTERM=truecolor` if it supports more)" if "256" in term else "few colours"
