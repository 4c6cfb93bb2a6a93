"""Copies text to the clipboard, by terminal or program."""

import asyncio
import base64
import re
import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress

from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.process.groups import ProcessFamily
from ebbtide.tui.terminal.passthrough import through

MAX_OSC_52_BYTES = 74_000
"""Maximum bytes sent to a terminal's clipboard: several silently accept no more."""

_COPY_TIMEOUT_S = 5.0
"""Timeout in seconds for a program to take a text."""

_KILL_TIMEOUT_S = 1.0
"""Timeout in seconds for a program to exit when killed."""

_STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that would control a terminal into which they are pasted."""


def harmless(text: str) -> str:
    """The text without characters that would control a terminal into which it is pasted."""
    plain = text.replace("\r\n", "\n").encode("utf-8", "replace").decode("utf-8")
    return _STEERS.sub(lambda found: chr(0x2400 + ord(found[0])) if ord(found[0]) < 0x20 else "\ufffd", plain)


def sequence_for(text: str, environment: Mapping[str, str]) -> str:
    """The sequence that sets the terminal's clipboard (OSC 52); in tmux both tmux's and the terminal's."""
    sequence = f"\x1b]52;c;{base64.b64encode(within(text).encode()).decode()}\x07"
    behind = through(sequence, environment)
    return sequence if behind == sequence else sequence + behind


def within(text: str) -> str:
    """The start of the text, as much as a terminal accepts."""
    raw = text.encode()
    return text if len(raw) <= MAX_OSC_52_BYTES else raw[:MAX_OSC_52_BYTES].decode(errors="ignore")


def programs_for(environment: Mapping[str, str], platform: str) -> tuple[tuple[str, ...], ...]:
    """Programs that set the clipboard, best first; none on a remote machine."""
    if environment.get("TMUX"):
        return (("tmux", "load-buffer", "-w", "-"),)
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        return ()
    if platform == "darwin":
        return (("pbcopy",),)
    wayland = (("wl-copy",),) if environment.get("WAYLAND_DISPLAY") else ()
    x11 = (("xclip", "-selection", "clipboard"), ("xsel", "-ib")) if environment.get("DISPLAY") else ()
    return wayland + x11


async def copy(text: str, environment: Mapping[str, str], platform: str, write: Callable[[str], object]) -> str:
    """Copy a text by every available method; return the result in a few words."""
    text = harmless(text)
    if not text:
        return "nothing to copy"
    for program in programs_for(environment, platform):
        if await _takes(program, text, environment):
            if program[0] != "tmux":
                write(sequence_for(text, environment))
            return f"copied {pluralize(len(text), 'character')}"
    write(sequence_for(text, environment))
    sent, whole = len(within(text)), pluralize(len(text), "character")
    return f"copied {whole}" if sent == len(text) else f"copied the first {sent:,} of {whole}"


async def _takes(argv: tuple[str, ...], text: str, environment: Mapping[str, str]) -> bool:
    """Whether the program exists and took the text."""
    program = shutil.which(argv[0], path=environment.get("PATH"))
    if program is None:
        return False
    nowhere = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *argv[1:],
            stdin=asyncio.subprocess.PIPE,
            stdout=nowhere,
            stderr=nowhere,
            env=dict(environment),
            start_new_session=True,
        )
    except OSError:
        return False
    try:
        await asyncio.wait_for(process.communicate(text.encode()), _COPY_TIMEOUT_S)
    except TimeoutError:
        ProcessFamily(process.pid).signal(signal.SIGKILL, is_reaped=process.returncode is not None)
        with suppress(TimeoutError):  # what has its pipe from elsewhere is not waited for
            await asyncio.wait_for(process.wait(), _KILL_TIMEOUT_S)
        return False
    return process.returncode == 0
