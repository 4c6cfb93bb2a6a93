"""Copies text to the clipboard through the terminal or a program."""

import asyncio
import base64
import re
import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress

from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.process.groups import ProcessTree
from ebbtide.tui.terminal.passthrough import wrap_for_outer_terminal

MAX_OSC_52_BYTES = 74_000
"""Maximum number of bytes sent to the terminal's clipboard. Several terminals silently ignore anything longer."""

_COPY_TIMEOUT_S = 5.0
"""Time limit for a program to accept the text, in seconds."""

_KILL_TIMEOUT_S = 1.0
"""Time limit for a killed program to exit, in seconds."""

_CONTROL_CHARS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that would control a terminal if pasted into it."""


def without_control_chars(text: str) -> str:
    """Remove characters that would control a terminal if pasted into it."""
    plain = text.replace("\r\n", "\n").encode("utf-8", "replace").decode("utf-8")
    return _CONTROL_CHARS.sub(lambda match: chr(0x2400 + ord(match[0])) if ord(match[0]) < 0x20 else "\ufffd", plain)


def copy_sequence(text: str, environment: Mapping[str, str]) -> str:
    """Build the sequence that sets the terminal's clipboard (OSC 52). Inside tmux, it sets both clipboards, tmux's and
    the terminal's."""
    sequence = f"\x1b]52;c;{base64.b64encode(copyable_prefix(text).encode()).decode()}\x07"
    wrapped = wrap_for_outer_terminal(sequence, environment)
    return sequence if wrapped == sequence else sequence + wrapped


def copyable_prefix(text: str) -> str:
    """Cut text to the maximum length that terminals accept."""
    encoded = text.encode()
    return text if len(encoded) <= MAX_OSC_52_BYTES else encoded[:MAX_OSC_52_BYTES].decode(errors="ignore")


def copy_programs(environment: Mapping[str, str], platform: str) -> tuple[tuple[str, ...], ...]:
    """List the programs that can set the clipboard, best first; none if the machine is remote."""
    if environment.get("TMUX"):
        return (("tmux", "load-buffer", "-w", "-"),)
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        return ()
    if platform == "darwin":
        return (("pbcopy",),)
    wayland = (("wl-copy",),) if environment.get("WAYLAND_DISPLAY") else ()
    x11 = (("xclip", "-selection", "clipboard"), ("xsel", "-ib")) if environment.get("DISPLAY") else ()
    return wayland + x11


async def copy_text(text: str, environment: Mapping[str, str], platform: str, write: Callable[[str], object]) -> str:
    """Copy text in every way available. Returns a few words about the result."""
    text = without_control_chars(text)
    if not text:
        return "nothing to copy"
    for program in copy_programs(environment, platform):
        if await _pipe_to_program(program, text, environment):
            if program[0] != "tmux":
                write(copy_sequence(text, environment))
            return f"copied {pluralize(len(text), 'character')}"
    write(copy_sequence(text, environment))
    sent_count, total_text = len(copyable_prefix(text)), pluralize(len(text), "character")
    return f"copied {total_text}" if sent_count == len(text) else f"copied the first {sent_count:,} of {total_text}"


async def _pipe_to_program(argv: tuple[str, ...], text: str, environment: Mapping[str, str]) -> bool:
    """Run a program with the text as its input. Returns whether it exists and succeeded."""
    program = shutil.which(argv[0], path=environment.get("PATH"))
    if program is None:
        return False
    devnull = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *argv[1:],
            stdin=asyncio.subprocess.PIPE,
            stdout=devnull,
            stderr=devnull,
            env=dict(environment),
            start_new_session=True,
        )
    except OSError:
        return False
    try:
        await asyncio.wait_for(process.communicate(text.encode()), _COPY_TIMEOUT_S)
    except TimeoutError:
        ProcessTree(process.pid).signal(signal.SIGKILL, is_reaped=process.returncode is not None)
        with suppress(TimeoutError):  # other processes may keep the pipe open
            await asyncio.wait_for(process.wait(), _KILL_TIMEOUT_S)
        return False
    return process.returncode == 0
