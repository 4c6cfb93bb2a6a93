"""A question as the panel asks it: what it is about, what may be answered, and what each key does. Plain values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from ebbtide.agent.events.permissions import Decision
from ebbtide.agent.events.plan import PlanDecision
from ebbtide.tui.text.spans import Line

Answer: TypeAlias = Decision | PlanDecision | str | bool


@dataclass(frozen=True, slots=True)
class Subject:
    """What is to be judged."""

    kind: Literal["code", "diff", "arguments", "markdown", "words", "lines"]
    text: str = ""
    language: str = ""
    marks: tuple[tuple[int, int], ...] = ()
    """Where in the text something stands that is to be seen first."""
    lines: tuple[Line, ...] = ()
    arguments: Mapping[str, object] = field(default_factory=dict)
    is_named: bool = False
    """The headline says the only file that it is about."""


@dataclass(frozen=True, slots=True)
class Writing:
    """What is written in place of a choice."""

    how: Literal["words", "command", "editor"]
    answer: Callable[[str], Answer | None]
    """What a text answers; None where it answers nothing."""
    hint: str = ""
    before: str = ""
    """The text that is changed."""
    file: str = ""
    """How the name of its file ends."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the answers."""

    label: str
    key: str = ""
    """A letter that means it, too."""
    answer: Answer | None = None
    writes: Writing | None = None
    is_lasting: bool = False
    """It holds beyond this question: a key alone only marks it."""
    rule_text: str = ""
    """A rule as it is kept."""
    more: str = ""
    """What is told of it while it is marked."""
    brief: str = ""
    """The same as `label` in a word or two."""


@dataclass(frozen=True, slots=True)
class QuestionSpec:
    """What is asked, whoever asks."""

    headline: Line
    subject: Subject
    choices: tuple[Choice, ...]
    reason: tuple[Line, ...] = ()
    for_project: tuple[Choice, ...] = ()
    """The same choices where rules are kept for the project; empty where none can be."""
    is_short: bool = False
    """The reason is a line that stands behind the headline where there is room."""
    stop: str = "stops the turn"
    """What Esc does."""
    words: Writing | None = None
    """What may be written besides, at any time."""
    several: bool = False
    """More than one may be chosen: the answers are texts."""
    about: object = None
    """What it was made of."""


@dataclass(frozen=True, slots=True)
class AnswerState:
    """How far an answer is: which choice is marked, and which are ticked."""

    at: int = 0
    ticked: frozenset[int] = frozenset()
    for_project: bool = False


KeyEffect: TypeAlias = Literal[
    "nothing", "text", "moved", "chosen", "whole", "read", "to words", "cleared", "back", "stopped"
]
"""What became of a key: `text` is meant for whatever takes text, `read` for what it is about, which is seen `whole`."""

_READING = ("pageup", "pagedown", "home", "end", "m")


def choices_of(spec: QuestionSpec, marked: AnswerState) -> tuple[Choice, ...]:
    return spec.for_project if marked.for_project else spec.choices


def key_effect(
    key: str, spec: QuestionSpec, marked: AnswerState, *, is_whole: bool = False
) -> tuple[KeyEffect, AnswerState]:
    """What a key does at the list. What lasts is only marked by a key: Enter chooses it."""
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
    """What a key does in the line for words, besides being one. `is_writing`: they stand in place of a choice."""
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
    """Whether a key that is a character means something here, and is no text."""
    return key_effect(key, spec, marked, is_whole=is_whole)[0] not in ("text", "nothing")


def _choice_index(key: str, choices: Sequence[Choice]) -> int | None:
    if len(key) == 1 and key in "123456789":
        return int(key) - 1 if int(key) <= len(choices) else None
    return next((index for index, choice in enumerate(choices) if choice.key and choice.key == key), None)


def typed_choice(line: str, spec: QuestionSpec, *, for_project: bool = False) -> Choice | None:
    """The choice that a line names, by its number or its letter; None where it names none."""
    choices = spec.for_project if for_project else spec.choices
    word = line.strip().lower()
    if word.isascii() and word.isdecimal():
        return choices[int(word) - 1] if 0 < int(word) <= len(choices) else None
    return next((choice for choice in choices if choice.key and choice.key == word), None)


def ticked_answer(spec: QuestionSpec, marked: AnswerState, words: str = "") -> str:
    """All that is ticked, and what was written, a line each; where nothing is, what is marked."""
    texts = [choice.answer for index, choice in enumerate(spec.choices) if index in marked.ticked]
    said = [text for text in (*texts, words) if isinstance(text, str) and text]
    if not said and spec.choices and isinstance(spec.choices[marked.at].answer, str):
        said = [str(spec.choices[marked.at].answer)]
    return "\n".join(said)
