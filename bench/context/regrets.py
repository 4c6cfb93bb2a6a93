"""Detects what a session would have needed of content that had left its context. Pure. Shares no code with the engine
that it judges, so that a list or pattern of the engine cannot hide a regret.

A *regret* is an output of which a later reply uses something distinctive that the reply's request does not show,
counted at most once per output and reply. There are two measures, to be read together. Distinctive by *names* are

- names: ASCII words of at least 8 characters, joined by `_`, `.` or `-`, that contain a digit, `_`, `.` or a capital
after a small letter, since people do not write these by chance. Paths are split at slashes, since the start of a path
is easily repeated;
- lines of a call's arguments, stripped, of at least 24 characters, that are also a line of the output, ignoring line
numbers.

Distinctive by *content* are

- lines, as above, of a reply's text as well;
- phrases of six words in one line, separated by blanks and punctuation only;
- values: numbers with at least five digits, or four with a point or comma among them, and checksums of at least seven
hexadecimal digits.

It must be part of an output of the session, none of the outputs that contain it may be shown whole, and no other text
of the request may contain it: no visible part of an output, call, reply, user message or summary. The regret belongs to
the newest output that contains it. Its cause is what removed it from the context first: `cut` on arrival, `masked`
later, or `summarised`. A regretted output counts as brought back, and the same measure does not count it again before
the next rewrite. A model would have to recall it once, whichever measure found it first."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from bench.context.recordings import Kind, RecordedCall, strings_in

Cause: TypeAlias = Literal["cut", "masked", "summarised"]
CAUSES: tuple[Cause, ...] = ("cut", "masked", "summarised")
Measure: TypeAlias = Literal["names", "content"]
MEASURES: tuple[Measure, ...] = ("names", "content")

MIN_NAME_CHARS, MIN_LINE_CHARS = 8, 24
"""Minimum lengths in characters."""
_NAME = re.compile(r"[A-Za-z0-9_]+(?:[.-][A-Za-z0-9_]+)*")
_DISTINCTIVE = re.compile(r"[0-9_.]|[a-z][A-Z]")
PHRASE_WORDS = 6
_PHRASE_WORD = re.compile(r"[(\"'`*\[]{0,3}([^\W\d_][^\W_]*(?:['’-][^\W\d_]+)*)[)\"'`*\].,;:!?]{0,3}")
"""A word of prose, with the punctuation around it."""
_VALUE = re.compile(r"(?<![\w.])(?:\d[\d.,]*\d|[0-9a-f]{7,64})(?![\w])")
_DIGITS = re.compile(r"\d")
_LINE_NUMBER_PREFIX = re.compile(r"^\s*(?:[^\s:]{1,200}:)?\d+[:\t→|-]")
"""A prefix that tools add when they number lines."""


def distinctive_names(text: str) -> set[str]:
    """Return the distinctive names in a text."""
    return {name for name in set(_NAME.findall(text)) if len(name) >= MIN_NAME_CHARS and _DISTINCTIVE.search(name)}


def distinctive_lines(text: str) -> set[str]:
    """Return the lines of a text that are long enough to be distinctive."""
    return {line for one in text.split("\n") if len(line := one.strip()) >= MIN_LINE_CHARS}


def distinctive_values(text: str) -> set[str]:
    """Return the distinctive numbers and checksums in a text."""
    return {value for value in set(_VALUE.findall(text)) if _is_distinctive_value(value)}


def _is_distinctive_value(value: str) -> bool:
    digits = len(_DIGITS.findall(value))
    if value.isalnum():
        return digits >= (5 if value.isdecimal() else 1) and not value.isalpha()
    return digits >= 4


def phrases(text: str) -> Iterator[str]:
    """Yield every sequence of `PHRASE_WORDS` words in a line, in lower case, surrounded by spaces."""
    for run in _word_runs(text):
        for start in range(len(run) - PHRASE_WORDS + 1):
            yield f" {' '.join(run[start : start + PHRASE_WORDS])} "


def _word_runs(text: str) -> Iterator[list[str]]:
    """Yield the words between anything that is neither a word nor a blank in a line."""
    for line in text.split("\n"):
        run: list[str] = []
        for token in line.split():
            if match := _PHRASE_WORD.fullmatch(token):
                run.append(match[1].lower())
            else:
                yield run
                run = []
        yield run


def normalized_phrases(text: str) -> str:
    """Return the words that can be in phrases of a text, with a line for each run of them."""
    return "\n".join(f" {' '.join(run)} " for run in _word_runs(text) if len(run) >= PHRASE_WORDS)


def reply_parts(text: str, calls: Iterable[RecordedCall]) -> set[str]:
    """Return everything in a reply that is distinctive by names."""
    used = distinctive_names(text)
    for call in calls:
        for argument in strings_in(call.arguments):
            used |= distinctive_names(argument) | distinctive_lines(argument)
    return used


def reply_content(text: str, calls: Iterable[RecordedCall]) -> set[str]:
    """Return everything in a reply that is distinctive by content. Phrases begin and end with a space, other parts do
    not."""
    written = [text, *(argument for call in calls for argument in strings_in(call.arguments))]
    return {part for one in written for part in _content_parts(one)}


def distinctive_parts(output: str) -> set[str]:
    """Return everything in an output that is distinctive by names."""
    return distinctive_names(output) | distinctive_lines(without_line_numbers(output))


def without_line_numbers(output: str) -> str:
    return "\n".join(_LINE_NUMBER_PREFIX.sub("", line, count=1) for line in output.split("\n"))


def _content_parts(text: str) -> Iterator[str]:
    yield from distinctive_lines(text)
    yield from distinctive_values(text)
    yield from phrases(text)


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
    regretted_by: set[Measure] = field(default_factory=set)
    """The measures that have counted a regret of the output since the last rewrite. For them it counts as recalled."""

    @property
    def is_complete(self) -> bool:
        return self.arrived_complete and self.visible_text is self.first_text

    @property
    def first_cause(self) -> Cause | None:
        """The cause that first removed the output, or a part of it, from the context; None if it is shown
        completely."""
        if self.first_text is not None and not self.arrived_complete:
            return "cut"
        if self.masked_at is not None:
            return "masked"
        return "summarised" if self.first_text is not None and self.visible_text is None else None


@dataclass(frozen=True, slots=True)
class Regret:
    measure: Measure
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
    needs_recall: bool
    """Whether the model would have to recall the output: no measure has counted a regret of it since the last rewrite.
    """


@dataclass(slots=True)
class SeenOutputs:
    """The outputs of a session, as they arrived and as they are shown."""

    outputs: dict[str, SeenOutput] = field(default_factory=dict)
    _holders: dict[Measure, dict[int, list[str]]] = field(default_factory=lambda: {one: {} for one in MEASURES})
    """For each measure, the ids of the outputs that contain a distinctive part, in order. Parts are stored as hashes,
    because a long session contains a million phrases."""
    _normalized: dict[str, str] = field(default_factory=dict)
    """Texts of requests with what `normalized_phrases` makes of them."""

    def add(self, call: RecordedCall, step: int) -> None:
        """Add an output that arrives."""
        self.outputs[call.id] = SeenOutput(call.kind, call.output, step)
        found: tuple[tuple[Measure, set[str]], ...] = (
            ("names", distinctive_parts(call.output)),
            ("content", set(_content_parts(without_line_numbers(call.output)))),
        )
        for measure, parts in found:
            holders = self._holders[measure]
            for key in set(map(hash, parts)):
                holders.setdefault(key, []).append(call.id)

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
                output.regretted_by.clear()

    def regrets(
        self, text: str, calls: Sequence[RecordedCall], step: int, view: Callable[[], Sequence[str]]
    ) -> tuple[Regret, ...]:
        """Return the regrets of a reply. `view`: returns all texts of the reply's request."""
        regrets = [
            *self._regrets_by("names", reply_parts(text, calls), step, view),
            *self._regrets_by("content", reply_content(text, calls), step, view),
        ]
        for regret in regrets:
            self.outputs[regret.id].regretted_by.add(regret.measure)
        return tuple(regrets)

    def _regrets_by(
        self, measure: Measure, used: Iterable[str], step: int, view: Callable[[], Sequence[str]]
    ) -> Iterator[Regret]:
        holders = self._holders[measure]
        found: set[str] = set()
        for part in sorted(used):
            ids = holders.get(hash(part))
            if not ids or any(self._counts_as_shown(id, measure) for id in ids) or ids[-1] in found:
                continue
            if not self._is_visible(part, view()):
                found.add(ids[-1])
                yield self._regret(measure, ids[-1], part, step)

    def _counts_as_shown(self, id: str, measure: Measure) -> bool:
        output = self.outputs[id]
        return output.is_complete or measure in output.regretted_by

    def _is_visible(self, part: str, texts: Sequence[str]) -> bool:
        if not part.startswith(" "):
            return any(part in text for text in texts)
        return any(part in self._words_of(text) for text in texts)

    def _words_of(self, text: str) -> str:
        words = self._normalized.get(text)
        if words is None:
            words = self._normalized[text] = normalized_phrases(without_line_numbers(text))
        return words

    def _regret(self, measure: Measure, id: str, part: str, step: int) -> Regret:
        output = self.outputs[id]
        return Regret(
            measure,
            id,
            output.kind,
            "cut" if self._was_cut(part, output) else "masked" if output.masked_at is not None else "summarised",
            part.strip(),
            len(output.full_text),
            step - output.arrival_step,
            not output.regretted_by,
        )

    def _was_cut(self, part: str, output: SeenOutput) -> bool:
        """Whether the text that was shown first did not contain a part of the output."""
        return not output.arrived_complete and not self._is_visible(part, (output.first_text or "",))
