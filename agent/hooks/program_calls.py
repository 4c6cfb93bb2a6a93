"""Hooks that are functions of the program that drives the session: their answers are read as what a program prints."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from ebbtide.agent.config.hook_tables import ProgramCall
from ebbtide.agent.hooks.answers import BLOCKING_EXIT_CODE
from ebbtide.tools.process.child import Exit

AskProgram: TypeAlias = Callable[[str, bytes], Awaitable[bytes]]
"""What the function of an id answers to what it is told, both JSON. Raises `ValueError` where it gives no answer."""


async def ask_program(call: ProgramCall, told: bytes, seconds: float, ask: AskProgram | None) -> Exit:
    """Raises `ValueError` where there is no answer, unless that is an objection."""
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
