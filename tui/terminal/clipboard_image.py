"""Reads images from the desktop's clipboard, using whichever program is available."""

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ebbtide.tools.files.image_types import MAX_IMAGE_BYTES
from ebbtide.tools.process.child import run_with_input
from ebbtide.tools.process.shell import Launch

CLIPBOARD_TIMEOUT_S = 5.0
"""Time limit for a program that reads the clipboard, in seconds."""

_MAX_OUTPUT_BYTES = 2 * MAX_IMAGE_BYTES + 64
"""Maximum number of bytes read. This is enough for an image slightly above the limit, as two hex digits per byte."""

_APPLESCRIPT_HEX = re.compile(rb"\xc2\xabdata PNGf([0-9A-Fa-f]+)\xc2\xbb")


class NoClipboardImageError(Exception):
    """There is no image in the clipboard. The message is a sentence for the user."""


def reader_commands(environment: Mapping[str, str], platform: str = sys.platform) -> tuple[tuple[str, ...], ...]:
    """List the commands that might print the clipboard's image, best first."""
    commands: list[tuple[str, ...]] = []
    if environment.get("WAYLAND_DISPLAY"):
        commands.append(("wl-paste", "--no-newline", "--type", "image/png"))
    if environment.get("DISPLAY"):
        commands.append(("xclip", "-selection", "clipboard", "-t", "image/png", "-o"))
    if platform == "darwin":
        commands.append(("pngpaste", "-"))
        commands.append(("osascript", "-e", "the clipboard as «class PNGf»"))
    path = environment.get("PATH", "")
    resolved = ((shutil.which(name, path=path), arguments) for name, *arguments in commands)
    return tuple((program, *arguments) for program, arguments in resolved if program and os.path.isabs(program))


async def read_clipboard_image(environment: Mapping[str, str]) -> bytes:
    """Read the image in the clipboard. Raises `NoClipboardImageError`."""
    commands = reader_commands(environment)
    if not commands:
        raise NoClipboardImageError("cannot read images from the clipboard; install `wl-paste`, `xclip` or `pngpaste`")
    for command in commands:
        output = await _run_command(command)
        match = _APPLESCRIPT_HEX.search(output)
        data = bytes.fromhex(match[1].decode()) if match else output
        if len(data) > MAX_IMAGE_BYTES:
            raise NoClipboardImageError("the image in the clipboard is larger than 3.9 MB")
        if data.startswith(b"\x89PNG"):
            return data
    raise NoClipboardImageError("no image in the clipboard")


async def _run_command(command: Sequence[str]) -> bytes:
    """Run a program and return at most `_MAX_OUTPUT_BYTES` of its output; empty if it cannot be run or takes too
    long."""
    try:
        result = await run_with_input(
            Launch(tuple(command), os.environ), b"", Path("/"), CLIPBOARD_TIMEOUT_S, _MAX_OUTPUT_BYTES
        )
    except OSError:
        return b""
    return result.output if result.code is not None or len(result.output) == _MAX_OUTPUT_BYTES else b""
