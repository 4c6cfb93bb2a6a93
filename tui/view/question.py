"""A question as the panel asks it: what it is about, what may be answered, and with which keys. Plain values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from rich.cells import cell_len, set_cell_size

from agent.events.plan import PlanDecision
from agent.events.session import Decision
from tui.text.cells import wrapped
from tui.text.inks import Line
from tui.text.sanitise import visible_line

Answer: TypeAlias = Decision | PlanDecision | str | bool

MARK, UNMARKED = "❯ ", "  "
MOST_LINES, MOST_BELOW = 5, 2
"""Lines of a choice that is marked, and those of what is told of it."""


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

    says: str
    key: str = ""
    """A letter that means it, too."""
    answer: Answer | None = None
    writes: Writing | None = None
    is_lasting: bool = False
    """It holds beyond this question: a key alone only marks it."""
    beside: str = ""
    """A rule as it is kept."""
    more: str = ""
    """What is told of it while it is marked."""
    brief: str = ""
    """The same as `says` in a word or two."""


@dataclass(frozen=True, slots=True)
class QuestionSpec:
    """What is asked, whoever asks."""

    headline: Line
    subject: Subject
    choices: tuple[Choice, ...]
    reason: tuple[Line, ...] = ()
    for_project: tuple[Choice, ...] = ()
    """The same choices where rules are kept for the project; empty where none can be."""
    stop: str = "stops the turn"
    """What Esc does."""
    words: Writing | None = None
    """What may be written besides, at any time."""
    several: bool = False
    """More than one may be chosen: the answers are texts."""
    about: object = None
    """What it was made of."""


@dataclass(frozen=True, slots=True)
class Marked:
    """How far an answer is: which choice is marked, and which are ticked."""

    at: int = 0
    ticked: frozenset[int] = frozenset()
    for_project: bool = False


Pressed: TypeAlias = Literal["nothing", "text", "moved", "chosen", "whole"]
"""What became of a key: `text` is meant for whatever takes text."""


def choices_of(spec: QuestionSpec, marked: Marked) -> tuple[Choice, ...]:
    return spec.for_project if marked.for_project else spec.choices


def pressed(key: str, spec: QuestionSpec, marked: Marked) -> tuple[Pressed, Marked]:
    """What a key does. What lasts is only marked by a key: Enter chooses it."""
    choices = choices_of(spec, marked)
    count = len(choices)
    match key:
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
    found = _meant(key, choices)
    if found is None:
        return ("text" if len(key) == 1 or key == "space" else "nothing"), marked
    there = replace(marked, at=found)
    if spec.several and key.isdecimal():
        return "moved", replace(there, ticked=there.ticked ^ {found})
    return ("moved" if choices[found].is_lasting else "chosen"), there


def is_known(key: str, spec: QuestionSpec, marked: Marked) -> bool:
    """Whether a key that is a character means something here, and is no text."""
    return pressed(key, spec, marked)[0] not in ("text", "nothing")


def _meant(key: str, choices: Sequence[Choice]) -> int | None:
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


def ticked_answer(spec: QuestionSpec, marked: Marked, words: str = "") -> str:
    """All that is ticked, and what was written, a line each; where nothing is, what is marked."""
    texts = [choice.answer for index, choice in enumerate(spec.choices) if index in marked.ticked]
    said = [text for text in (*texts, words) if isinstance(text, str) and text]
    if not said and spec.choices and isinstance(spec.choices[marked.at].answer, str):
        said = [str(spec.choices[marked.at].answer)]
    return "\n".join(said)


def rows_of(spec: QuestionSpec, marked: Marked, width: int) -> list[tuple[int, Line]]:
    """The lines of the list, each with the choice that it is of. The marked one is told whole, the others in a line."""
    rows: list[tuple[int, Line]] = []
    choices = choices_of(spec, marked)
    has_letters = any(choice.key for choice in choices)
    digits = len(str(min(9, len(choices))))
    for index, choice in enumerate(choices):
        is_marked = index == marked.at
        tick = ("[x] " if index in marked.ticked else "[ ] ") if spec.several else ""
        number = str(index + 1).rjust(digits) if index < 9 else " " * digits
        letter = f" {choice.key or ' '}" if has_letters else ""
        head: Line = (
            (MARK if is_marked else UNMARKED, "accent"),
            (f"{number}{letter} ", "accent" if not is_marked else "strong"),
            (tick, "strong"),
        )
        head = tuple(span for span in head if span[0])
        taken = sum(cell_len(text) for text, _ in head)
        rows += [(index, line) for line in _told(choice, head, taken, width, is_marked=is_marked)]
    return rows


def _told(choice: Choice, head: Line, taken: int, width: int, *, is_marked: bool) -> list[Line]:
    room = max(1, width - taken)
    says, beside = visible_line(choice.says), visible_line(choice.beside)
    if choice.brief and not is_marked and cell_len(says) > room:
        says = visible_line(choice.brief)
    ink: Literal["strong", "text"] = "strong" if is_marked else "text"
    fits = not beside or cell_len(says) + 3 + cell_len(beside) <= room
    behind: Line = (("   " + beside, "dim"),) if beside and fits else ()
    if not is_marked:
        return [(*head, (_cut(says, room), ink), *behind)]
    first, *rest = _few(says, room, MOST_LINES)
    indent = " " * min(taken, width - 1)
    said: list[Line] = [(*head, (first, ink), *behind), *(((indent, ink), (line, ink)) for line in rest)]
    about = ". ".join(part for part in ("" if fits else beside, visible_line(choice.more)) if part)
    return [*said, *(((indent, "dim"), (line, "dim")) for line in _few(about, room, MOST_BELOW) if about)]


def _few(text: str, room: int, most: int) -> list[str]:
    """The text in so many lines at most."""
    lines = wrapped(text, room)
    return lines if len(lines) <= most else [*lines[: most - 1], _cut(" ".join(lines[most - 1 :]), room)]


def _cut(text: str, room: int) -> str:
    return text if cell_len(text) <= room else set_cell_size(text, max(0, room - 1)) + "…"


_LISTED = 30
"""Choices of which each is tried as the marked one to find out how high the list may become."""


def height_of(spec: QuestionSpec, marked: Marked, width: int) -> int:
    """Lines of the list, whichever choice is marked: it stays as high while the mark moves."""
    choices = choices_of(spec, marked)
    tried = range(len(choices)) if len(choices) <= _LISTED else (marked.at,)
    return max((len(rows_of(spec, replace(marked, at=at), width)) for at in tried), default=0)


Part: TypeAlias = Literal["headline", "subject", "list", "field", "keys", "border", "reason"]

_SHARES: tuple[tuple[Part, int], ...] = (
    ("field", 1),
    ("list", 1),
    ("headline", 1),
    ("subject", 1),
    ("list", 3),
    ("keys", 1),
    ("subject", 3),
    ("border", 1),
    ("reason", 3),
    ("list", 7),
    ("headline", 4),
    ("reason", 9),
    ("keys", 3),
    ("subject", 6),
    ("list", 9_999),
    ("subject", 9_999),
)
"""Who is given lines first, and up to how many."""


def allotted(lines: int, wanted: Mapping[Part, int]) -> dict[Part, int]:
    """How many lines each part of the panel gets of so many. Something to choose from and what it is about come
    first."""
    given: dict[Part, int] = dict.fromkeys((part for part, _ in _SHARES), 0)
    for part, most in _SHARES:
        more = max(0, min(most, wanted.get(part, 0)) - given[part])
        given[part] += min(more, max(0, lines - sum(given.values())))
    return given
