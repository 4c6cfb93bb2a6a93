"""Detects content that a session would have needed after it had left the context. Pure. Shares no code with the engine
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
- phrases of six words in one line, separated by blanks and punctuation only, ignoring case. In scripts without blanks,
such as Chinese, a character counts as half a word;
- values: numbers with at least five digits, numbers and versions with at least four if points or commas separate them,
and checksums of at least seven hexadecimal digits. A leading `v` and a unit are not part of the value.

It must be part of an output of the session, none of the outputs that contain it may be shown whole, and no other text
of the request may contain it: no visible part of an output, call, reply, user message or summary. The regret belongs to
the newest output that contains it. Its cause is what removed it from the context first: `cut` on arrival, `masked`
later, or `summarised`. A regretted output counts as recalled, and the same measure does not count it again before the
next rewrite. The model would have to recall it once, whichever measure found it first."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, TypeAlias

from bench.context.recordings import Kind, RecordedCall, strings_in

Cause: TypeAlias = Literal["cut", "masked", "summarised"]
CAUSES: tuple[Cause, ...] = ("cut", "masked", "summarised")
Measure: TypeAlias = Literal["names", "content"]
MEASURES: tuple[Measure, ...] = ("names", "content")

MIN_NAME_CHARS, MIN_LINE_CHARS = 8, 24
"""Minimum lengths in characters."""
MIN_DIGITS, MIN_SEPARATED_DIGITS = 5, 4
"""Minimum numbers of digits of a value, without and with points or commas between them."""
PHRASE_WORDS, PHRASE_CHARACTERS = 6, 12
"""Length of a phrase in words, and in characters of a script without blanks."""

_NAME = re.compile(r"[A-Za-z0-9_]+(?:[.-][A-Za-z0-9_]+)*")
_DISTINCTIVE = re.compile(r"[0-9_.]|[a-z][A-Z]")
_VALUE = re.compile(
    r"(?<![\w.])v?(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)+|[0-9a-fA-F]{7,128}|\d{5,})(?=[a-zA-Zµ]{0,3}(?!\w))"
)
"""A number, version or checksum, before a unit of at most three letters."""
_NUMBER = re.compile(r"[\d.,]+")
_DIGIT = re.compile(r"\d")
_MARKS = "".join(char for char in map(chr, range(0x300, 0x3100)) if unicodedata.category(char).startswith("M"))
"""Characters that combine with the letter before them, such as vowel signs of Hindi."""
_UNSPACED = (
    rf"[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff][{_MARKS}]*"
)
_UNSPACED_CHARACTER = re.compile(_UNSPACED)
"""A character of a script that is written without blanks: Thai, Lao, Burmese, Khmer, Japanese or Chinese."""
_PHRASE_WORD = re.compile(
    rf"(?!\S*_)[(\[\"'`*“„‘‚«¿¡「『（《]{{0,3}}([^\W\d][\w{_MARKS}]*(?:['-][^\W\d][\w{_MARKS}]*)*)?"
    r"[)\]\"'`*.,;:!?…”»」』）》、。，；：！？।]{0,3}"
)
"""A word of prose with the punctuation around it, or punctuation only."""
_LINE_NUMBER_PREFIX = re.compile(r"^\s*(?:[^\s:]{1,200}:)?\d+[:\t→|-]")
"""A prefix that tools add when they number lines."""


def distinctive_names(text: str) -> set[str]:
    """Return the distinctive names in a text."""
    return {name for name in set(_NAME.findall(text)) if len(name) >= MIN_NAME_CHARS and _DISTINCTIVE.search(name)}


def distinctive_lines(text: str) -> set[str]:
    """Return the lines of a text that are long enough to be distinctive."""
    return {line for one in text.split("\n") if len(line := one.strip()) >= MIN_LINE_CHARS}


def distinctive_values(text: str) -> set[str]:
    """Return the distinctive numbers, versions and checksums in a text."""
    return {value for value in set(_VALUE.findall(text)) if _has_enough_digits(value)}


def _has_enough_digits(value: str) -> bool:
    digits = len(_DIGIT.findall(value))
    if "." in value or "," in value:
        return digits >= MIN_SEPARATED_DIGITS
    return digits >= (MIN_DIGITS if value.isdecimal() else 1)


def phrases(text: str) -> Iterator[str]:
    """Yield every phrase in a text as words in lower case, each with a space before and after it."""
    for run in _word_runs(text):
        for start in range(len(run) - PHRASE_WORDS + 1):
            size = PHRASE_CHARACTERS if _UNSPACED_CHARACTER.match(run[start]) else PHRASE_WORDS
            if start + size <= len(run):
                yield f" {' '.join(run[start : start + size])} "


def _word_runs(text: str) -> Iterator[list[str]]:
    """Yield the words between any two things in a line that are neither words, blanks nor punctuation."""
    if not text.isascii():
        text = _UNSPACED_CHARACTER.sub(r" \g<0> ", unicodedata.normalize("NFC", text).replace("’", "'"))
    for line in text.split("\n"):
        run: list[str] = []
        for token in line.split():
            match = _PHRASE_WORD.fullmatch(token)
            if match is None:
                yield run
                run = []
            elif match[1]:
                run.append(match[1].lower())
        yield run


def reply_parts(text: str, calls: Iterable[RecordedCall]) -> set[str]:
    """Return everything in a reply that is distinctive by names."""
    used = distinctive_names(text)
    for call in calls:
        for argument in strings_in(call.arguments):
            used |= distinctive_names(argument) | distinctive_lines(argument)
    return used


def reply_content(text: str, calls: Iterable[RecordedCall]) -> set[str]:
    """Return everything in a reply that is distinctive by content. Only phrases start and end with a space."""
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
    was_due: bool = False
    """Whether a request has been made since it arrived."""
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
        return "summarised" if self.was_due and self.visible_text is None else None


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
    """Whether the model would have to recall the output for this. It would not if another measure has counted a regret
    of an output with the same text since the last rewrite."""


Holders: TypeAlias = tuple[str, "Holders | None"]
"""The id of the newest output that contains a distinctive text, and the older ones."""


@dataclass(slots=True)
class SeenOutputs:
    """The outputs of a session, as they arrived and as they are shown."""

    outputs: dict[str, SeenOutput] = field(default_factory=dict)
    _holders: dict[Measure, dict[int, Holders]] = field(default_factory=lambda: {one: {} for one in MEASURES})
    """The outputs that contain a distinctive text, by measure and hash of the text, because a long session contains a
    million phrases."""
    _phrases: dict[str, frozenset[int]] = field(default_factory=dict)
    """The texts of the latest request with the hashes of their phrases, as far as they were needed."""
    _request_texts: Sequence[str] = ()

    def add(self, call: RecordedCall, step: int) -> None:
        """Add an output that arrives."""
        self.outputs[call.id] = SeenOutput(call.kind, call.output, step)
        unnumbered = without_line_numbers(call.output)
        self._add_holders("names", call.id, chain(distinctive_names(call.output), distinctive_lines(unnumbered)))
        self._add_holders("content", call.id, _content_parts(unnumbered))

    def _add_holders(self, measure: Measure, call_id: str, parts: Iterable[str]) -> None:
        holders = self._holders[measure]
        newest: dict[int, Holders] = {}  # one tuple for all texts with the same older holders
        for key in set(map(hash, parts)):
            older = holders.get(key)
            holders[key] = newest.setdefault(id(older), (call_id, older))

    def record_request(self, visible: Mapping[str, str], step: int) -> None:
        """Record how a step's request shows the outputs. `visible`: the shown texts by call id."""
        is_rewritten = False
        for id, output in self.outputs.items():
            now = visible.get(id)
            output.was_due = True
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
        """Return the regrets of a reply. `view`: returns all texts of the reply's request, and is called only if
        needed."""
        regrets: list[Regret] = []
        parts: tuple[tuple[Measure, set[str]], ...] = (
            ("names", reply_parts(text, calls)),
            ("content", reply_content(text, calls)),
        )
        for measure, used in parts:
            found = tuple(self._regrets_by(measure, used, step, view))
            for regret in found:
                self.outputs[regret.id].regretted_by.add(measure)
            regrets += found
        return tuple(regrets)

    def _regrets_by(
        self, measure: Measure, used: Iterable[str], step: int, view: Callable[[], Sequence[str]]
    ) -> Iterator[Regret]:
        regretted: set[str] = set()
        for part in sorted(used):
            holders = self._holders[measure].get(hash(part))
            if holders is None or holders[0] in regretted:
                continue
            if any(self._counts_as_visible(one, measure) for one in self._outputs_of(holders)):
                continue
            if not self._is_visible(measure, part, view()):
                regretted.add(holders[0])
                yield self._regret(measure, part, holders, step)

    def _outputs_of(self, holders: Holders) -> Iterator[SeenOutput]:
        """Yield the outputs that contain a text, newest first."""
        older: Holders | None = holders
        while older is not None:
            id, older = older
            yield self.outputs[id]

    @staticmethod
    def _counts_as_visible(output: SeenOutput, measure: Measure) -> bool:
        return output.is_complete or measure in output.regretted_by

    def _is_visible(self, measure: Measure, part: str, texts: Sequence[str]) -> bool:
        if measure == "names":
            return any(part in text for text in texts)
        if part.startswith(" "):
            return any(hash(part) in visible for visible in self._phrases_of(texts))
        return any(_contains_whole(text, part) for text in texts)

    def _phrases_of(self, texts: Sequence[str]) -> Iterator[frozenset[int]]:
        """Yield the hashes of the phrases of each text of a request."""
        if texts is not self._request_texts:
            known, self._request_texts = self._phrases, texts
            self._phrases = {text: known[text] for text in texts if text in known}
        for text in texts:
            if text not in self._phrases:
                self._phrases[text] = frozenset(map(hash, phrases(without_line_numbers(text))))
            yield self._phrases[text]

    def _regret(self, measure: Measure, part: str, holders: Holders, step: int) -> Regret:
        output = self.outputs[holders[0]]
        return Regret(
            measure,
            holders[0],
            output.kind,
            "cut" if _was_cut(part, output) else "masked" if output.masked_at is not None else "summarised",
            part.strip(),
            len(output.full_text),
            step - output.arrival_step,
            not any(one.regretted_by for one in self._outputs_of(holders)),
        )


def _was_cut(part: str, output: SeenOutput) -> bool:
    """Whether the text that was shown first did not contain a part of the output."""
    if output.first_text is None or output.arrived_complete:
        return False
    if part.startswith(" "):
        return part not in phrases(without_line_numbers(output.first_text))
    return part not in output.first_text


def _contains_whole(text: str, part: str) -> bool:
    """Whether a text contains a line or value. A number in the middle of a longer one does not count."""
    if part not in text:
        return False
    if not _NUMBER.fullmatch(part):
        return True
    return re.search(rf"(?<!\d){re.escape(part)}(?!\d)", text) is not None
