"""Works around what some servers reject: optional fields, and adjacent messages of the same role. Each is avoided
after its first rejection."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing

from ebbtide.agent.errors import BadRequest, Overloaded, ProviderError
from ebbtide.agent.providers.base import Chunk
from ebbtide.agent.providers.wires.decoder import NO_IMAGE
from ebbtide.agent.providers.wires.http import Json

ALTERNATION = {"oles must alternate": "alternating", "nexpected role": "alternating"}
"""Errors from the chat templates of many local models, whatever server runs them, and from Mistral's servers."""


class Quirks:
    """What a server has rejected so far. `table` maps a clue in the error text to the name of a quirk."""

    def __init__(self, table: Mapping[str, str], known: frozenset[str] = frozenset()) -> None:
        self._table = table
        self._found = known

    async def stream(self, ask: Callable[[frozenset[str]], AsyncGenerator[Chunk, None]]) -> AsyncGenerator[Chunk, None]:
        """The chunks of `ask`, which is called again if the server rejects an optional field."""
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
        """Whether the error names a field that has not been left out yet. An error in a stream has no status; local
        servers respond with 500 if a model's chat template rejects the messages."""
        if error.status not in (400, 422, 500):
            return False
        new = {quirk for clue, quirk in self._table.items() if clue in str(error)} - self._found
        self._found |= new
        return bool(new)


def alternating(messages: Sequence[Json]) -> list[Json]:
    """The messages with alternating roles, as some models' templates require: adjacent messages of the user, or of
    the assistant, are merged."""
    joined: list[Json] = []
    for message in messages:
        before = joined[-1] if joined else {"role": "system"}
        said: Json = {"content": "\n\n".join(filter(None, (_words(before), _words(message))))}
        images = [*before.get("images", ()), *message.get("images", ())]
        if message["role"] == "user" and before["role"] in ("user", "tool"):
            joined[-1] = before | said | ({"images": images} if images else {})
        elif message["role"] == before["role"] == "assistant" and "tool_calls" not in before:
            joined[-1] = before | message | said
        else:
            joined.append(message)
    return joined


def _words(message: Json) -> str:
    """The text of a message without its images, which such templates do not support."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", NO_IMAGE) for part in content)
