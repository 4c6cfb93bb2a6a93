"""Lines for a program whose input was piped in: nobody types, and it ends when all is answered."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic

from tui.prompt.key_arrivals import Arrival


class Unattended:
    """Prints to standard output."""

    def __init__(self, finished: Callable[[], Awaitable[None]]) -> None:
        """`finished`: waits until nothing is left to be done."""
        self._finished = finished
        self._arrival = Arrival(monotonic())

    async def read(self) -> str:
        await self._finished()
        raise EOFError

    @property
    def arrival(self) -> Arrival:
        return self._arrival

    def show(self, lines: Sequence[str]) -> None:
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()

    async def rest(self) -> None:
        """Lines are printed at once."""

    def ask(self, prompt: str) -> None:
        """Nobody is there to read it."""

    def put(self, text: str) -> bool:
        return False

    def begin(self, prompt: str, text: str) -> bool:
        return False

    async def lend(self, work: Callable[[], str]) -> str:
        return ""

    @property
    def edits(self) -> bool:
        return False

    @property
    def written(self) -> str:
        return ""

    def close(self) -> None:
        """It ends by itself."""
