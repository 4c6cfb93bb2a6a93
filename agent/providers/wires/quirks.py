"""What some servers refuse and can be done without: optional fields, messages of one role behind each other. It is left
out after the first refusal."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing

from ebbtide.agent.errors import BadRequest, Overloaded, ProviderError
from ebbtide.agent.providers.base import Chunk
from ebbtide.agent.providers.wires.decoder import NO_IMAGE
from ebbtide.agent.providers.wires.http import Json

ALTERNATION = {"oles must alternate": "alternating", "nexpected role": "alternating"}
"""What the chat templates of many local models say, for whatever server runs them, and Mistral's own servers."""


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


def alternating(messages: Sequence[Json]) -> list[Json]:
    """The messages as the templates of some models want them, which take no user right behind outputs or another user,
    and no reply behind a reply: what is said there is said in one message."""
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
    """What a message says without the pictures among its words, for which such templates have no place."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", NO_IMAGE) for part in content)
