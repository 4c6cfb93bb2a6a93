"""Hooks that are functions of the client program: their answers are read like a program's output."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from ebbtide.agent.config.hook_tables import ProgramCall
from ebbtide.agent.hooks.answers import BLOCKING_EXIT_CODE
from ebbtide.tools.process.child import Exit

AskProgram: TypeAlias = Callable[[str, bytes], Awaitable[bytes]]
"""Calls the client's function with this id; input and output are JSON. Raises `ValueError` if it fails."""


async def ask_program(call: ProgramCall, told: bytes, seconds: float, ask: AskProgram | None) -> Exit:
    """Call the client's function. If it fails, the result is an objection for hooks that must answer; otherwise raises
    `ValueError`."""
    if ask is None:
        raise ValueError("no program drives this session")
    try:
        async with asyncio.timeout(seconds):
            return Exit(0, await ask(call.id, told), b"")
    except TimeoutError:
        if not call.must_answer:
            return Exit(None, b"", b"")
        why = f"it gave no answer in {seconds:g} s"
    except ValueError as error:
        if not call.must_answer:
            raise
        why = str(error)
    return Exit(BLOCKING_EXIT_CODE, b"", f"the program that decides about this could not be asked: {why}".encode())
