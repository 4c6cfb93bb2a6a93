"""A question as a value: subject, choices and the meaning of each key. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from ebbtide.agent.events.permissions import Decision
from ebbtide.agent.events.plan import PlanDecision
from ebbtide.tui.text.spans import Line

Answer: TypeAlias = Decision | PlanDecision | str | bool


@dataclass(frozen=True, slots=True)
class Subject:
    """What the question is about."""

    kind: Literal["code", "diff", "arguments", "markdown", "words", "lines"]
    text: str = ""
    language: str = ""
    marks: tuple[tuple[int, int], ...] = ()
    """Ranges of the text to highlight."""
    lines: tuple[Line, ...] = ()
    arguments: Mapping[str, object] = field(default_factory=dict)
    is_named: bool = False
    """Whether the headline already names the only file."""


@dataclass(frozen=True, slots=True)
class Writing:
    """A text that the user writes for a choice."""

    how: Literal["words", "command", "editor"]
    answer: Callable[[str], Answer | None]
    """Turns the text into an answer, or None."""
    hint: str = ""
    before: str = ""
    """The initial text."""
    file: str = ""
    """Suffix of the file name in the editor."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One possible answer."""

    label: str
    key: str = ""
    """A letter that also selects it."""
    answer: Answer | None = None
    writes: Writing | None = None
    is_lasting: bool = False
    """Whether it lasts beyond this question: a key only marks it, and Enter confirms."""
    rule_text: str = ""
    """The rule as it is stored."""
    more: str = ""
    """Details shown while it is marked."""
    brief: str = ""
    """A short form of `label`."""


@dataclass(frozen=True, slots=True)
class QuestionSpec:
    """A question of any kind."""

    headline: Line
    subject: Subject
    choices: tuple[Choice, ...]
    reason: tuple[Line, ...] = ()
    for_project: tuple[Choice, ...] = ()
    """The same choices with rules stored for the project; empty if not possible."""
    is_short: bool = False
    """Whether the reason is one line, shown after the headline if it fits."""
    stop: str = "stops the turn"
    """What Esc does."""
    words: Writing | None = None
    """Free text that may be entered as well."""
    several: bool = False
    """Whether several choices can be selected: the answers are texts."""
    about: object = None
    """The object that it was made from."""


@dataclass(frozen=True, slots=True)
class AnswerState:
    """The marked and the selected choices."""

    at: int = 0
    ticked: frozenset[int] = frozenset()
    for_project: bool = False


KeyEffect: TypeAlias = Literal[
    "nothing", "text", "moved", "chosen", "whole", "read", "to words", "cleared", "back", "stopped"
]
"""The effect of a key. `text`: goes to the text field; `read`: scrolls the subject, shown `whole`."""

_READING = ("pageup", "pagedown", "home", "end", "m")


def choices_of(spec: QuestionSpec, marked: AnswerState) -> tuple[Choice, ...]:
    return spec.for_project if marked.for_project else spec.choices


def key_effect(
    key: str, spec: QuestionSpec, marked: AnswerState, *, is_whole: bool = False
) -> tuple[KeyEffect, AnswerState]:
    """The effect of a key in the list. Lasting choices are only marked by a key and need Enter."""
    choices = choices_of(spec, marked)
    count = len(choices)
    match key:
        case "escape":
            return "stopped", marked
        case _ if is_whole and (key in _READING or (key == "space" and not spec.several)):
            return "read", marked
        case "down" if spec.words is not None and marked.at == len(spec.choices) - 1:
            return "to words", marked
        case "up" | "down" if count:
            return "moved", replace(marked, at=(marked.at + (1 if key == "down" else -1)) % count)
        case "enter":
            return ("chosen" if count else "nothing"), marked
        case "ctrl+o":
            return "whole", marked
        case "space" if spec.several and count:
            return "moved", replace(marked, ticked=marked.ticked ^ {marked.at})
        case "p" if spec.for_project:
            return "moved", replace(marked, for_project=not marked.for_project)
    found = _choice_index(key, choices)
    if found is None:
        return ("text" if len(key) == 1 or key == "space" else "nothing"), marked
    there = replace(marked, at=found)
    if spec.several and key.isdecimal():
        return "moved", replace(there, ticked=there.ticked ^ {found})
    return ("moved" if choices[found].is_lasting else "chosen"), there


def key_effect_in_text(
    key: str, spec: QuestionSpec, marked: AnswerState, *, is_writing: bool, is_empty: bool, is_whole: bool
) -> tuple[KeyEffect, AnswerState]:
    """The effect of a key in the text field, apart from typing. `is_writing`: the text belongs to a choice."""
    match key:
        case "escape" if is_writing:
            return "back", marked
        case "escape":
            return ("cleared" if spec.choices and not is_empty else "stopped"), marked
        case "up" | "down" if spec.choices and not is_writing:
            return "moved", replace(marked, at=len(spec.choices) - 1 if key == "up" else 0)
        case "ctrl+o":
            return "whole", marked
        case "pageup" | "pagedown" if is_whole:
            return "read", marked
    return "nothing", marked


def is_known(key: str, spec: QuestionSpec, marked: AnswerState, *, is_whole: bool) -> bool:
    """Whether a character key has a meaning here and is not text."""
    return key_effect(key, spec, marked, is_whole=is_whole)[0] not in ("text", "nothing")


def _choice_index(key: str, choices: Sequence[Choice]) -> int | None:
    if len(key) == 1 and key in "123456789":
        return int(key) - 1 if int(key) <= len(choices) else None
    return next((index for index, choice in enumerate(choices) if choice.key and choice.key == key), None)


def typed_choice(line: str, spec: QuestionSpec, *, for_project: bool = False) -> Choice | None:
    """The choice with that number or letter, or None."""
    choices = spec.for_project if for_project else spec.choices
    word = line.strip().lower()
    if word.isascii() and word.isdecimal():
        return choices[int(word) - 1] if 0 < int(word) <= len(choices) else None
    return next((choice for choice in choices if choice.key and choice.key == word), None)


def ticked_answer(spec: QuestionSpec, marked: AnswerState, words: str = "") -> str:
    """All selected choices and the written text, one per line; without any, the marked choice."""
    texts = [choice.answer for index, choice in enumerate(spec.choices) if index in marked.ticked]
    said = [text for text in (*texts, words) if isinstance(text, str) and text]
    if not said and spec.choices and isinstance(spec.choices[marked.at].answer, str):
        said = [str(spec.choices[marked.at].answer)]
    return "\n".join(said)
