"""Track when a name that occurs in few outputs was last mentioned. Pure.

An output whose names are still mentioned is in use; one whose names have not been mentioned for long is finished. In
recorded sessions this predicts which outputs are needed again better than their age does (`python -m
bench.context.reread_rates FOLDER`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import field

from ebbtide.agent.context.incremental import memoized
from ebbtide.agent.context.name_index import names_of
from ebbtide.agent.messages import Assistant, Message, ToolOutput
from ebbtide.tools.lazy import dataclass

HOLDERS = 3
"""Maximum number of outputs that may contain a name for it to still identify them."""


@dataclass(slots=True)
class NamedOutputs:
    """The outputs so far, by the names in them."""

    last: dict[str, int] = field(default_factory=dict)
    """Number of the reply up to which an output was last mentioned, by the output's key."""
    _holders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys of the outputs that contain a name; empty if there are too many."""

    def record_mentions(self, message: Message, reply: int) -> None:
        """Record the names in a message. `reply`: number of replies including this one."""
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
    """Return the names in a message's text and calls; outputs do not count as mentions."""
    texts = [message.text]
    if isinstance(message, Assistant):
        texts += [text for call in message.calls for text in texts_in(call.arguments)]
    return frozenset().union(*map(names_of, texts))


def texts_in(value: object) -> Iterator[str]:
    """Yield all strings in an argument."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts_in(inner)
