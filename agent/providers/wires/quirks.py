"""Works around servers that reject optional fields, or adjacent messages with the same role. Anything that a server has
rejected is not sent to it again."""

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing

from ebbtide.agent.errors import BadRequest, Overloaded, ProviderError
from ebbtide.agent.providers.base import Chunk
from ebbtide.agent.providers.wires.decoder import OMITTED_IMAGE_TEXT
from ebbtide.agent.providers.wires.http import JsonObject
from ebbtide.tools.lazy import regex

ALTERNATION_CLUES = {"oles must alternate": "alternating", "nexpected role": "alternating"}
"""Clues in errors from Mistral's servers and from the chat templates of local models."""


_DEMAND_PATTERN = regex(r"must be (?:passed|sent|included|provided)|is required|is missing", re.IGNORECASE)
"""Matches errors that demand a field instead of rejecting it."""


class Quirks:
    """What a server has rejected or required so far."""

    def __init__(
        self,
        rejected_quirk_by_clue: Mapping[str, str],
        known_quirks: frozenset[str] = frozenset(),
        demanded_quirk_by_clue: Mapping[str, str] = {},
    ) -> None:
        """Both mappings tell which quirk to use if an error message contains a text (a clue). `rejected_quirk_by_clue`:
        for errors that reject a field. `demanded_quirk_by_clue`: for errors that require one."""
        self._rejected_quirk_by_clue, self._demanded_quirk_by_clue = rejected_quirk_by_clue, demanded_quirk_by_clue
        self._active_quirks = known_quirks

    async def stream(
        self, ask: Callable[[frozenset[str]], AsyncGenerator[Chunk, None]], *, may_adapt: bool = True
    ) -> AsyncGenerator[Chunk, None]:
        """Yield the chunks of `ask`. If the server rejects or requires a field, call `ask` again with new quirks.
        `may_adapt`: whether errors may add quirks."""
        while True:
            try:
                async with aclosing(ask(self._active_quirks)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                return
            except (BadRequest, Overloaded) as error:
                if not may_adapt or not self._add_quirks(error):
                    raise

    def _add_quirks(self, error: ProviderError) -> bool:
        """Add the quirks that an error suggests, and return whether any of them is new. Errors in a stream have no
        status and suggest none. Status 500 is accepted because local servers send it if a model's chat template rejects
        the messages."""
        if error.status not in (400, 422, 500):
            return False
        quirk_by_clue = (
            self._demanded_quirk_by_clue if _DEMAND_PATTERN.search(str(error)) else self._rejected_quirk_by_clue
        )
        new_quirks = {quirk for clue, quirk in quirk_by_clue.items() if clue in str(error)} - self._active_quirks
        self._active_quirks |= new_quirks
        return bool(new_quirks)


def with_alternating_roles(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Merge adjacent messages of the same role, because some models' chat templates require alternating roles."""
    merged: list[JsonObject] = []
    for message in messages:
        previous = merged[-1] if merged else {"role": "system"}
        merged_text: JsonObject = {
            "content": "\n\n".join(filter(None, (_message_text(previous), _message_text(message))))
        }
        images = [*previous.get("images", ()), *message.get("images", ())]
        if message["role"] == "user" and previous["role"] in ("user", "tool"):
            merged[-1] = previous | merged_text | ({"images": images} if images else {})
        elif message["role"] == previous["role"] == "assistant" and "tool_calls" not in previous:
            merged[-1] = previous | message | merged_text
        else:
            merged.append(message)
    return merged


def _message_text(message: JsonObject) -> str:
    """Return the text of a message. A note replaces each image, because templates that require alternating roles do not
    support images."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", OMITTED_IMAGE_TEXT) for part in content)
