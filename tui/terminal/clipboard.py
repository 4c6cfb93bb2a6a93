"""Reads images from the desktop's clipboard with an available program."""

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ebbtide.tools.files.pictures import MAX_PICTURE_BYTES
from ebbtide.tools.process.child import answer_of
from ebbtide.tools.process.shell import Launch

CLIPBOARD_TIMEOUT_S = 5.0
"""Timeout in seconds for such a program."""

_MAX_PICTURE_BYTES = 2 * MAX_PICTURE_BYTES + 64
"""Maximum bytes read: those of a slightly too large image, as two hex digits each."""

_HEX = re.compile(rb"\xc2\xabdata PNGf([0-9A-Fa-f]+)\xc2\xbb")


class NoPicture(Exception):
    """Why there is no image, as a sentence for the user."""


def readers(environment: Mapping[str, str], platform: str = sys.platform) -> tuple[tuple[str, ...], ...]:
    """Commands that may print the image, best first."""
    found: list[tuple[str, ...]] = []
    if environment.get("WAYLAND_DISPLAY"):
        found.append(("wl-paste", "--no-newline", "--type", "image/png"))
    if environment.get("DISPLAY"):
        found.append(("xclip", "-selection", "clipboard", "-t", "image/png", "-o"))
    if platform == "darwin":
        found.append(("pngpaste", "-"))
        found.append(("osascript", "-e", "the clipboard as «class PNGf»"))
    path = environment.get("PATH", "")
    located = ((shutil.which(name, path=path), rest) for name, *rest in found)
    return tuple((program, *rest) for program, rest in located if program and os.path.isabs(program))


async def picture(environment: Mapping[str, str]) -> bytes:
    """Return the image in the clipboard. Raises `NoPicture`."""
    commands = readers(environment)
    if not commands:
        raise NoPicture("no program here reads pictures from the clipboard; install `wl-paste`, `xclip` or `pngpaste`")
    for command in commands:
        printed = await _output_of(command)
        found = _HEX.search(printed)
        data = bytes.fromhex(found[1].decode()) if found else printed
        if len(data) > MAX_PICTURE_BYTES:
            raise NoPicture("the picture in the clipboard is larger than 3.9 MB")
        if data.startswith(b"\x89PNG"):
            return data
    raise NoPicture("there is no picture in the clipboard")


async def _output_of(command: Sequence[str]) -> bytes:
    """The program's output, up to more than an image may have; empty if it cannot run or takes too long."""
    try:
        answer = await answer_of(
            Launch(tuple(command), os.environ), b"", Path("/"), CLIPBOARD_TIMEOUT_S, _MAX_PICTURE_BYTES
        )
    except OSError:
        return b""
    return answer.out if answer.code is not None or len(answer.out) == _MAX_PICTURE_BYTES else b""
