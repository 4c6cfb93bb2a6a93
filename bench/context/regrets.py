"""Detects what a session would have needed of content that had left its context. Pure.

A *regret* is an output of which a later reply uses something distinctive that the reply's request does not show,
counted at most once per output and reply. Distinctive are

- names: ASCII words of at least 8 characters, joined by `_`, `.` or `-`, that contain a digit, `_`, `.` or a capital
after a small letter, since people do not write these by chance. Paths are split at slashes, since the start of a path
is easily repeated;
- lines of a call's arguments, stripped, of at least 24 characters, that are also a line of the output, ignoring line
numbers.

It must be part of an output of the session, none of the outputs that contain it may be shown whole, and no other text
of the request may contain it: no visible part of an output, call, reply, user message or summary. The regret belongs to
the newest output that contains it. Its cause is what removed it from the context first: `cut` on arrival, `masked`
later, or `summarised`. A regretted output counts as brought back and is not regretted again before the next rewrite."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from bench.context.recordings import Kind, RecordedCall
from ebbtide.agent.eviction.inventory import strings_in

Cause: TypeAlias = Literal["cut", "masked", "summarised"]
CAUSES: tuple[Cause, ...] = ("cut", "masked", "summarised")

MIN_NAME_CHARS, MIN_LINE_CHARS = 8, 24
"""Minimum lengths in characters."""
_NAME = re.compile(r"[A-Za-z0-9_]+(?:[.-][A-Za-z0-9_]+)*")
_DISTINCTIVE = re.compile(r"[0-9_.]|[a-z][A-Z]")
_LINE_NUMBER_PREFIX = re.compile(r"^\s*(?:[^\s:]{1,200}:)?\d+[:\t→|-]")
"""A prefix that tools add when they number lines."""


def distinctive_names(text: str) -> set[str]:
    """Return the distinctive names in a text."""
    return {name for name in set(_NAME.findall(text)) if len(name) >= MIN_NAME_CHARS and _DISTINCTIVE.search(name)}


def distinctive_lines(text: str) -> set[str]:
    """Return the lines of a text that are long enough to be distinctive."""
    return {line for one in text.split("\n") if len(line := one.strip()) >= MIN_LINE_CHARS}


def reply_parts(text: str, calls: Iterable[RecordedCall]) -> set[str]:
    """Return everything distinctive in a reply."""
    used = distinctive_names(text)
    for call in calls:
        for argument in strings_in(call.arguments):
            used |= distinctive_names(argument) | distinctive_lines(argument)
    return used


def distinctive_parts(output: str) -> set[str]:
    """Return everything distinctive in an output."""
    lines = {_LINE_NUMBER_PREFIX.sub("", line, count=1) for line in output.split("\n")}
    return distinctive_names(output) | distinctive_lines("\n".join(lines))


@dataclass(slots=True)
class SeenOutput:
    kind: Kind
    full_text: str
    arrival_step: int
    """Step in which it arrived."""
    first_text: str | None = None
    """The text as first shown; None before it is shown."""
    visible_text: str | None = None
    """The text as it is shown now; None after a summary replaced it."""
    arrived_complete: bool = False
    masked_at: int | None = None
    """Age in steps when the output was first shown in another form; None if it never was."""
    is_recalled: bool = False
    """Whether the output has been regretted since the last rewrite; it then counts as recalled."""

    @property
    def is_complete(self) -> bool:
        return self.is_recalled or (self.arrived_complete and self.visible_text is self.first_text)

    @property
    def first_cause(self) -> Cause | None:
        """The cause that first removed the output, or a part of it, from the context; None if it is shown
        completely."""
        if self.first_text is not None and not self.arrived_complete:
            return "cut"
        if self.masked_at is not None:
            return "masked"
        return "summarised" if self.first_text is not None and self.visible_text is None else None

    def cause_for(self, wanted: str) -> Cause:
        """Return what removed a text that the output contains from the context."""
        if wanted not in (self.first_text or ""):
            return "cut"
        return "masked" if self.masked_at is not None else "summarised"


@dataclass(frozen=True, slots=True)
class Regret:
    id: str
    """Id of the call."""
    kind: Kind
    cause: Cause
    wanted: str
    """One of the distinctive texts that the reply uses."""
    characters: int
    """Length of the output."""
    age: int
    """Steps since it arrived."""


@dataclass(slots=True)
class SeenOutputs:
    """The outputs of a session, as they arrived and as they are shown."""

    outputs: dict[str, SeenOutput] = field(default_factory=dict)
    _outputs_by_text: dict[str, list[str]] = field(default_factory=dict)
    """Ids of the outputs that contain a distinctive text, in order."""

    def add(self, call: RecordedCall, step: int) -> None:
        """Add an output that arrives."""
        self.outputs[call.id] = SeenOutput(call.kind, call.output, step)
        for found in sorted(distinctive_parts(call.output)):
            self._outputs_by_text.setdefault(found, []).append(call.id)

    def record_request(self, visible: Mapping[str, str], step: int) -> None:
        """Record how a step's request shows the outputs. `visible`: the shown texts by call id."""
        is_rewritten = False
        for id, output in self.outputs.items():
            now = visible.get(id)
            if now is not None and output.first_text is None:
                output.first_text = output.visible_text = now
                output.arrived_complete = output.full_text in now
            elif now != output.visible_text:
                is_rewritten = True
                if now is not None and output.masked_at is None:
                    output.masked_at = step - output.arrival_step
                output.visible_text = output.first_text if now == output.first_text else now
        if is_rewritten:
            for output in self.outputs.values():
                output.is_recalled = False

    def regrets(self, used: Iterable[str], step: int, view: Callable[[], str]) -> tuple[Regret, ...]:
        """Return the regrets of a reply that uses these texts. `view`: returns all text of the reply's request."""
        found: dict[str, Regret] = {}
        text: str | None = None
        for wanted in sorted(used):
            holders = self._outputs_by_text.get(wanted)
            if not holders or any(self.outputs[id].is_complete for id in holders):
                continue
            text = view() if text is None else text
            if wanted in text:
                continue
            output = self.outputs[holders[-1]]
            regret = Regret(
                holders[-1],
                output.kind,
                output.cause_for(wanted),
                wanted,
                len(output.full_text),
                step - output.arrival_step,
            )
            found.setdefault(regret.id, regret)
        for id in found:
            self.outputs[id].is_recalled = True
        return tuple(found.values())
