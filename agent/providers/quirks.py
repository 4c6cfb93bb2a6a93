"""Optional fields that some servers refuse: they are left out after the first refusal. It knows fields, not servers."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from agent.errors import BadRequest, Overloaded, ProviderError
from agent.providers.base import Chunk


class Quirks:
    """What a server has been found to refuse. `table` maps a clue in its error's text to the name of the quirk."""

    def __init__(self, table: Mapping[str, str], known: frozenset[str] = frozenset()) -> None:
        self._table = table
        self._found = known

    async def stream(self, ask: Callable[[frozenset[str]], AsyncGenerator[Chunk, None]]) -> AsyncGenerator[Chunk, None]:
        """The chunks of `ask`, which is asked again when the server refuses a field that can be done without."""
        while True:
            try:
                async with aclosing(ask(self._found)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                return
            except (BadRequest, Overloaded) as error:
                if not self._learn(error):
                    raise

    def _learn(self, error: ProviderError) -> bool:
        """True when the error names a field that has not been left out yet. An error in a stream has no status; local
        servers answer with 500 when a model's chat template refuses the messages."""
        if error.status not in (400, 422, 500):
            return False
        new = {quirk for clue, quirk in self._table.items() if clue in str(error)} - self._found
        self._found |= new
        return bool(new)
