"""Prints the conversation to the terminal's scrollback."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Iterator

from rich.segment import Segment

from ebbtide.tui.render.blocks import render_block
from ebbtide.tui.render.themed_markdown import PaletteConsole
from ebbtide.tui.text.styles import get_palette
from ebbtide.tui.text.themes import ANSI_DARK, ANSI_LIGHT
from ebbtide.tui.view.blocks import Block

_BLOCKS_PER_BATCH = 20
"""Number of blocks rendered between yields to the event loop."""

_END_MESSAGE = "\n[end of conversation; press Enter to return]"


def ansi_blocks(
    blocks: Iterable[Block], width: int, *, is_dark: bool = True, is_colorless: bool = False
) -> Iterator[str]:
    """Yield each block's text, fully expanded, in the terminal's own colours. `is_dark`: whether the terminal's
    background is dark."""
    theme = ANSI_DARK if is_dark else ANSI_LIGHT
    console = PaletteConsole(get_palette(theme.to_color_system().generate()))
    for block in blocks:
        yield (
            "".join(f"{_ansi_line(line, is_colorless)}\n" for line in render_block(block, "full", width, console))
            + "\n"
        )


def _ansi_line(segments: list[Segment], is_colorless: bool) -> str:
    """Format a line with colours but without hyperlinks or trailing spaces."""
    styled_texts = [(segment.text, segment.style) for segment in segments if not segment.control]
    while styled_texts and not styled_texts[-1][0].strip():
        styled_texts.pop()
    if is_colorless:
        return "".join(text for text, _ in styled_texts).rstrip()
    return "".join(style.update_link(None).render(text) if style else text for text, style in styled_texts)


async def print_blocks(blocks: Iterable[Block], width: int, *, is_dark: bool, is_colorless: bool) -> None:
    """Print the conversation to the terminal while drawing is paused, then wait for Enter or Ctrl-C."""
    loop = asyncio.get_running_loop()
    finished = asyncio.Event()
    stdin_descriptor = sys.stdin.fileno()

    def read_key() -> None:
        data = os.read(stdin_descriptor, 4096)
        if not data or b"\n" in data:
            finished.set()

    loop.add_signal_handler(signal.SIGINT, finished.set)
    loop.add_reader(stdin_descriptor, read_key)
    try:
        async for text in _batch_texts(ansi_blocks(blocks, width, is_dark=is_dark, is_colorless=is_colorless)):
            if finished.is_set():
                return
            await asyncio.to_thread(_write, text)
        await asyncio.to_thread(_write, _END_MESSAGE)
        await finished.wait()
    finally:
        loop.remove_reader(stdin_descriptor)
        loop.remove_signal_handler(signal.SIGINT)


async def _batch_texts(texts: Iterator[str]) -> AsyncIterator[str]:
    """Yield texts in batches, returning to the event loop between them."""
    batch: list[str] = []
    for text in texts:
        batch.append(text)
        if len(batch) == _BLOCKS_PER_BATCH:
            yield "".join(batch)
            batch.clear()
            await asyncio.sleep(0)
    yield "".join(batch)


def _write(text: str) -> None:
    """Write to the terminal, replacing characters that its encoding lacks."""
    terminal = sys.__stdout__
    assert terminal is not None, "a terminal was found before anything was drawn"
    terminal.buffer.write(text.encode(terminal.encoding or "utf-8", "replace"))
    terminal.buffer.flush()
