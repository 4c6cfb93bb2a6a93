"""Notifications for a user who is not looking at the window."""

import asyncio
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress

from ebbtide.agent.config.options import NotifyName
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tui.terminal.passthrough import through
from ebbtide.tui.text.sanitise import sanitised_line

BELL = "\x07"

_MAX_TEXT_CHARS = 120
"""Maximum characters of a title or text."""

_OSC_9_PROGRAMS = {"iTerm.app", "WezTerm", "ghostty", "WarpTerminal"}
"""Terminals (`TERM_PROGRAM`) that support OSC 9."""

_NOTIFY_TIMEOUT_S = 5.0
"""Timeout in seconds for a notification program."""


def sequence_for(way: NotifyName, title: str, text: str, environment: Mapping[str, str]) -> str:
    """The escape sequence of a notification. `auto`: what the terminal is known to support, or else the bell."""
    title, text = notification_text(title), notification_text(text)
    by_9 = f"\x1b]9;{title}: {text}{BELL}"
    by_777 = f"\x1b]777;notify;{title.replace(';', ',')};{text}{BELL}"
    match way:
        case "bell":
            return BELL
        case "osc":
            return through(by_777 if _understands_777(environment) else by_9, environment)
        case "auto" if _understands_777(environment):
            return through(by_777, environment)
        case "auto" if _understands_9(environment):
            return through(by_9, environment)
        case "auto":
            return BELL
        case "desktop" | "off":
            return ""


def program_for(title: str, text: str, platform: str) -> tuple[str, ...]:
    """The desktop notification command, run without a shell."""
    title, text = notification_text(title), notification_text(text)
    if platform == "darwin":
        script = ("on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run")
        return ("osascript", *(word for line in script for word in ("-e", line)), title, text)
    body = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return ("notify-send", "--app-name=ebb", "--", title, body)


def notification_text(text: str) -> str:
    """A text in one line without control characters, cut if long."""
    return ellipsize(sanitised_line(text).strip(), _MAX_TEXT_CHARS)


async def notify(
    way: NotifyName, title: str, text: str, environment: Mapping[str, str], write: Callable[[str], object]
) -> None:
    """Send a notification; if the desktop cannot be reached, ring the bell."""
    sequence = sequence_for(way, title, text, environment)
    if sequence:
        write(sequence)
    if way == "desktop" and not await _runs(program_for(title, text, sys.platform)):
        write(BELL)


async def _runs(argv: tuple[str, ...]) -> bool:
    """Whether the program exists and succeeds in time."""
    program = shutil.which(argv[0])
    if program is None:
        return False
    nowhere = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            program, *argv[1:], stdin=nowhere, stdout=nowhere, stderr=nowhere
        )
    except OSError:
        return False
    try:
        return await asyncio.wait_for(process.wait(), _NOTIFY_TIMEOUT_S) == 0
    except TimeoutError:
        return False
    finally:
        with suppress(ProcessLookupError):  # it has ended
            process.kill()


def _understands_9(environment: Mapping[str, str]) -> bool:
    return (
        environment.get("TERM_PROGRAM") in _OSC_9_PROGRAMS
        or environment.get("LC_TERMINAL") == "iTerm2"
        or any(environment.get(name) for name in ("KITTY_WINDOW_ID", "WT_SESSION", "GHOSTTY_RESOURCES_DIR"))
    )


def _understands_777(environment: Mapping[str, str]) -> bool:
    return environment.get("TERM", "").startswith(("foot", "rxvt", "contour"))
