"""How a server counts what it reads of a request, on all four wires: whole, in part, by a factor or in steps."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ebbtide.agent.messages import Usage


@dataclass(slots=True)
class Reader:
    """A server's way of reading. It counts a token for every `chars` characters."""

    window: int | None = None
    """Tokens that it reads at most. It leaves out the oldest messages, then the beginning of the newest, and says
    nothing; None: it reads all."""
    chars: float = 3.6
    factor: float = 1.0
    """How many times as much it counts as it reads."""
    step: int = 1
    """It counts in steps of so many tokens, rounded down."""
    counts_tools: bool = True
    counts_read: bool = True
    """False: of what stands at the beginning as in the last request it counts nothing."""
    counted: list[tuple[int, int]] = field(default_factory=list)
    """Of each request: tokens that were sent and that were read."""
    _before: tuple[str, ...] = ()

    def usage(self, body: Mapping[str, Any], output: int) -> Usage:
        """What it counts of a request."""
        opening, messages = _parts(body, with_tools=self.counts_tools)
        sent = self._count((*opening, *messages))
        read = self._read(opening, messages)
        self.counted.append((sent, self._count(read)))
        counted = self._count(read if self.counts_read else self._new(read))
        self._before = read
        return Usage(input=max(int(counted * self.factor) // self.step * self.step, 1), output=output)

    def _read(self, opening: tuple[str, ...], messages: tuple[str, ...]) -> tuple[str, ...]:
        if self.window is None:
            return (*opening, *messages)
        while len(messages) > 1 and self._count((*opening, *messages)) > self.window:
            messages = messages[1:]
        whole = (*opening, *messages)
        over = self._count(whole) - self.window
        return whole if over <= 0 else ("".join(whole)[-int(self.window * self.chars) :],)

    def _new(self, read: tuple[str, ...]) -> tuple[str, ...]:
        same = 0
        while same < min(len(read), len(self._before)) and read[same] == self._before[same]:
            same += 1
        return read[same:]

    def _count(self, texts: tuple[str, ...]) -> int:
        return int(sum(map(len, texts)) / self.chars)


def _parts(body: Mapping[str, Any], *, with_tools: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a template puts in front of the messages, and each message, as texts."""
    messages = body.get("messages", body.get("input", ()))
    opening = [text(body[key]) for key in ("system", "instructions") if key in body]
    opening += [text(tool) for tool in body.get("tools", ()) if with_tools]
    opening += [text(one) for one in messages if one.get("role") == "system"]
    return tuple(opening), tuple(text(one) for one in messages if one.get("role") != "system")


def text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
