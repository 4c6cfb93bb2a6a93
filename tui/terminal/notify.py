"""Notifications for when the user is not looking at the window."""

import asyncio
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress

from ebbtide.agent.config.options import NotificationMethod
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tui.terminal.passthrough import wrap_for_outer_terminal
from ebbtide.tui.text.sanitise import sanitise_line

BELL = "\x07"

_MAX_TEXT_CHARS = 120
"""Maximum number of characters in a title or message."""

_OSC_9_PROGRAMS = {"iTerm.app", "WezTerm", "ghostty", "WarpTerminal"}
"""Terminals that support OSC 9, by their `TERM_PROGRAM`."""

_NOTIFY_TIMEOUT_S = 5.0
"""Time limit for a notification program, in seconds."""


def notification_sequence(method: NotificationMethod, title: str, text: str, environment: Mapping[str, str]) -> str:
    """Build the escape sequence for a notification; empty for `desktop` and `off`. `auto` picks the sequence that the
    terminal is known to support, or else the bell."""
    title, text = notification_text(title), notification_text(text)
    osc_9 = f"\x1b]9;{title}: {text}{BELL}"
    osc_777 = f"\x1b]777;notify;{title.replace(';', ',')};{text}{BELL}"
    match method:
        case "bell":
            return BELL
        case "osc":
            return wrap_for_outer_terminal(osc_777 if _supports_osc_777(environment) else osc_9, environment)
        case "auto" if _supports_osc_777(environment):
            return wrap_for_outer_terminal(osc_777, environment)
        case "auto" if _supports_osc_9(environment):
            return wrap_for_outer_terminal(osc_9, environment)
        case "auto":
            return BELL
        case "desktop" | "off":
            return ""


def notification_command(title: str, text: str, platform: str) -> tuple[str, ...]:
    """Build the command that shows a desktop notification, to be run without a shell."""
    title, text = notification_text(title), notification_text(text)
    if platform == "darwin":
        script = ("on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run")
        return ("osascript", *(word for line in script for word in ("-e", line)), title, text)
    body = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return ("notify-send", "--app-name=ebb", "--", title, body)


def notification_text(text: str) -> str:
    """Put text on one line without control characters. Long text is cut."""
    return ellipsize(sanitise_line(text).strip(), _MAX_TEXT_CHARS)


async def notify(
    method: NotificationMethod, title: str, text: str, environment: Mapping[str, str], write: Callable[[str], object]
) -> None:
    """Send a notification. If the desktop cannot be reached, ring the bell."""
    sequence = notification_sequence(method, title, text, environment)
    if sequence:
        write(sequence)
    if method == "desktop" and not await _run_program(notification_command(title, text, sys.platform)):
        write(BELL)


async def _run_program(argv: tuple[str, ...]) -> bool:
    """Run a program. Returns whether it exists and succeeds in time."""
    program = shutil.which(argv[0])
    if program is None:
        return False
    devnull = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            program, *argv[1:], stdin=devnull, stdout=devnull, stderr=devnull
        )
    except OSError:
        return False
    try:
        return await asyncio.wait_for(process.wait(), _NOTIFY_TIMEOUT_S) == 0
    except TimeoutError:
        return False
    finally:
        with suppress(ProcessLookupError):  # already exited
            process.kill()


def _supports_osc_9(environment: Mapping[str, str]) -> bool:
    return (
        environment.get("TERM_PROGRAM") in _OSC_9_PROGRAMS
        or environment.get("LC_TERMINAL") == "iTerm2"
        or any(environment.get(name) for name in ("KITTY_WINDOW_ID", "WT_SESSION", "GHOSTTY_RESOURCES_DIR"))
    )


def _supports_osc_777(environment: Mapping[str, str]) -> bool:
    return environment.get("TERM", "").startswith(("foot", "rxvt", "contour"))
