"""When something that stands in an output, and in hardly another, was last named. Pure.

An output whose names are still spoken of is at work; one whose names have not been spoken of for long is done with. On
recorded sessions this tells better which outputs are needed again than how long ago they came in
(`python -m bench.context.reread_rates FOLDER`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import field

from ebbtide.agent.context.incremental import memoized
from ebbtide.agent.context.name_index import names_of
from ebbtide.agent.messages import Assistant, Message, ToolOutput
from ebbtide.tools.lazy import dataclass

HOLDERS = 3
"""Outputs in which a name may stand and still tell which of them is meant."""


@dataclass(slots=True)
class NamedOutputs:
    """The outputs so far by the names in them."""

    last: dict[str, int] = field(default_factory=dict)
    """By the key of an output that was named: the number of the reply up to which it was."""
    _holders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The keys of the outputs in which a name stands; none where they are too many."""

    def record_mentions(self, message: Message, reply: int) -> None:
        """Takes note of what the message names; `reply`: how many replies there are with it."""
        for name in _mentioned_names(message):
            for key in self._holders.get(name, ()):
                self.last[key] = reply

    def add(self, key: str, output: ToolOutput) -> None:
        for name in _names_in(output):
            before = self._holders.get(name)
            if before is None:
                self._holders[name] = (key,)
            elif before:
                self._holders[name] = (*before, key) if len(before) < HOLDERS else ()


@memoized
def _names_in(output: ToolOutput) -> frozenset[str]:
    return names_of(output.text)


@memoized
def _mentioned_names(message: Message) -> frozenset[str]:
    """The names in what a message says and calls for; what calls gave back is not said."""
    texts = [message.text]
    if isinstance(message, Assistant):
        texts += [text for call in message.calls for text in texts_in(call.arguments)]
    return frozenset().union(*map(names_of, texts))


def texts_in(value: object) -> Iterator[str]:
    """The texts of an argument."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts_in(inner)
