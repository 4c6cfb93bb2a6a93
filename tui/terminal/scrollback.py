"""Prints the conversation to the terminal's scrollback."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Iterator

from rich.segment import Segment

from ebbtide.tui.render.blocks import paint
from ebbtide.tui.render.prose import PaletteConsole
from ebbtide.tui.text.styles import palette_of
from ebbtide.tui.text.themes import ANSI_DARK, ANSI_LIGHT
from ebbtide.tui.view.blocks import Block

_AT_ONCE = 20
"""Blocks rendered before yielding to the event loop."""

_BACK = "\n[that is all of it; Enter goes back]"


def ansi_blocks(blocks: Iterable[Block], width: int, *, dark: bool = True, colorless: bool = False) -> Iterator[str]:
    """The lines of each block, fully expanded, in the terminal's own colours. `dark`: its background."""
    theme = ANSI_DARK if dark else ANSI_LIGHT
    console = PaletteConsole(palette_of(theme.to_color_system().generate()))
    for block in blocks:
        yield "".join(f"{_line(line, colorless)}\n" for line in paint(block, "full", width, console)) + "\n"


def _line(segments: list[Segment], colorless: bool) -> str:
    """A line with colours, without hidden links and trailing spaces."""
    words = [(segment.text, segment.style) for segment in segments if not segment.control]
    while words and not words[-1][0].strip():
        words.pop()
    if colorless:
        return "".join(text for text, _ in words).rstrip()
    return "".join(style.update_link(None).render(text) if style else text for text, style in words)


async def print_all(blocks: Iterable[Block], width: int, *, dark: bool, colorless: bool) -> None:
    """Print it to the terminal while drawing is paused, and wait for Enter or Ctrl-C."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    terminal = sys.stdin.fileno()

    def typed() -> None:
        read = os.read(terminal, 4096)
        if not read or b"\n" in read:
            over.set()

    loop.add_signal_handler(signal.SIGINT, over.set)
    loop.add_reader(terminal, typed)
    try:
        async for text in _in_turns(ansi_blocks(blocks, width, dark=dark, colorless=colorless)):
            if over.is_set():
                return
            await asyncio.to_thread(_write, text)
        await asyncio.to_thread(_write, _BACK)
        await over.wait()
    finally:
        loop.remove_reader(terminal)
        loop.remove_signal_handler(signal.SIGINT)


async def _in_turns(texts: Iterator[str]) -> AsyncIterator[str]:
    """The same texts in batches, yielding to the event loop."""
    held: list[str] = []
    for text in texts:
        held.append(text)
        if len(held) == _AT_ONCE:
            yield "".join(held)
            held.clear()
            await asyncio.sleep(0)
    yield "".join(held)


def _write(text: str) -> None:
    """Write to the terminal, replacing characters that its encoding lacks."""
    terminal = sys.__stdout__
    assert terminal is not None, "the terminal was looked for before anything was drawn"
    terminal.buffer.write(text.encode(terminal.encoding or "utf-8", "replace"))
    terminal.buffer.flush()
