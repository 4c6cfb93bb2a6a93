"""What a session would have needed of what had left its view. Pure.

A *regret* is an output of which a later reply uses something distinctive that the request, to which it is the reply,
does not show, at most one for each output and reply. Distinctive are

- names: ASCII words of at least 8 characters, joined by `_`, `.` or `-`, that hold a digit, a `_`, a `.` or a capital
  behind a small letter: what people would not say by chance. Paths are taken apart at their slashes, since how a path
  begins is easily said anew;
- lines of the arguments of a call, without blanks around them, of at least 24 characters, that stand as a line of
  their own in the output, numbers before it aside.

It stands in an output of the session, none of those in which it stands is shown whole, and it is in no other text of
the request: no part of an output that is still shown, no call, no reply, nothing the user said, no summary. The newest
output in which it stands is the one that is regretted. Its cause is what took it from the view first: `cut` when it
came in, `masked` later, or `summarised`. What was regretted counts as brought back, and is not regretted again before
the view is next rewritten.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from bench.context.recordings import Kind, RecordedCall
from ebbtide.agent.context.named_outputs import texts_in

Cause: TypeAlias = Literal["cut", "masked", "summarised"]
CAUSES: tuple[Cause, ...] = ("cut", "masked", "summarised")

MIN_NAME_CHARS, MIN_LINE_CHARS = 8, 24
"""Characters."""
_NAME = re.compile(r"[A-Za-z0-9_]+(?:[.-][A-Za-z0-9_]+)*")
_DISTINCTIVE = re.compile(r"[0-9_.]|[a-z][A-Z]")
_NUMBER = re.compile(r"^\s*(?:[^\s:]{1,200}:)?\d+[:\t→|-]")
"""What stands before a line that a tool has numbered."""


def names_in(text: str) -> set[str]:
    """The distinctive names of a text."""
    return {name for name in set(_NAME.findall(text)) if len(name) >= MIN_NAME_CHARS and _DISTINCTIVE.search(name)}


def lines_in(text: str) -> set[str]:
    """The lines of a text that are long enough to be distinctive."""
    return {line for one in text.split("\n") if len(line := one.strip()) >= MIN_LINE_CHARS}


def used_in(text: str, calls: Iterable[RecordedCall]) -> set[str]:
    """All that is distinctive in a reply."""
    used = names_in(text)
    for call in calls:
        for argument in texts_in(call.arguments):
            used |= names_in(argument) | lines_in(argument)
    return used


def distinctive_parts(output: str) -> set[str]:
    """All that is distinctive in an output."""
    lines = {_NUMBER.sub("", line, count=1) for line in output.split("\n")}
    return names_in(output) | lines_in("\n".join(lines))


@dataclass(slots=True)
class SeenOutput:
    kind: Kind
    whole: str
    step: int
    """At which it came in."""
    first: str | None = None
    """As it was first shown; None until then."""
    visible_text: str | None = None
    """As it is shown now; None when a summary stands for it."""
    came_whole: bool = False
    masked_at: int | None = None
    """Steps since it came in, when it was first shown otherwise than at first; None when it never was."""
    is_back: bool = False
    """It was regretted since the view was last rewritten."""

    @property
    def is_whole(self) -> bool:
        return self.is_back or (self.came_whole and self.visible_text is self.first)

    @property
    def left_by(self) -> Cause | None:
        """What took it, or a part of it, from the view first; None when all of it is there."""
        if self.first is not None and not self.came_whole:
            return "cut"
        if self.masked_at is not None:
            return "masked"
        return "summarised" if self.first is not None and self.visible_text is None else None

    def cause(self, wanted: str) -> Cause:
        """What took something that stands in it from the view."""
        if wanted not in (self.first or ""):
            return "cut"
        return "masked" if self.masked_at is not None else "summarised"


@dataclass(frozen=True, slots=True)
class Regret:
    id: str
    """Of the call."""
    kind: Kind
    cause: Cause
    wanted: str
    """One of the names or lines."""
    characters: int
    """Of the output."""
    age: int
    """Steps since it came in."""


@dataclass(slots=True)
class SeenOutputs:
    """The outputs of a session, as they came and as they are shown."""

    outputs: dict[str, SeenOutput] = field(default_factory=dict)
    _holders: dict[str, list[str]] = field(default_factory=dict)
    """In which outputs something distinctive stands, in order."""

    def add(self, call: RecordedCall, step: int) -> None:
        """An output that comes in."""
        self.outputs[call.id] = SeenOutput(call.kind, call.output, step)
        for found in sorted(distinctive_parts(call.output)):
            self._holders.setdefault(found, []).append(call.id)

    def look(self, shown: Mapping[str, str], step: int) -> None:
        """Takes note of what the request of a step shows of them, by their calls."""
        is_rewritten = False
        for id, output in self.outputs.items():
            now = shown.get(id)
            if now is not None and output.first is None:
                output.first = output.visible_text = now
                output.came_whole = output.whole in now
            elif now != output.visible_text:
                is_rewritten = True
                if now is not None and output.masked_at is None:
                    output.masked_at = step - output.step
                output.visible_text = output.first if now == output.first else now
        if is_rewritten:
            for output in self.outputs.values():
                output.is_back = False

    def regrets(self, used: Iterable[str], step: int, view: Callable[[], str]) -> tuple[Regret, ...]:
        """What is regretted of what a reply uses. `view`: all that its request shows."""
        found: dict[str, Regret] = {}
        text: str | None = None
        for wanted in sorted(used):
            holders = self._holders.get(wanted)
            if not holders or any(self.outputs[id].is_whole for id in holders):
                continue
            text = view() if text is None else text
            if wanted in text:
                continue
            output = self.outputs[holders[-1]]
            regret = Regret(
                holders[-1], output.kind, output.cause(wanted), wanted, len(output.whole), step - output.step
            )
            found.setdefault(regret.id, regret)
        for id in found:
            self.outputs[id].is_back = True
        return tuple(found.values())
