"""The layout of a question: lines of the choices, heights of the parts and key hints."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from rich.cells import cell_len, set_cell_size

from ebbtide.tui.text.cells import wrap_words
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.question import AnswerState, Choice, QuestionSpec, Writing, choices_of

MARK, NO_MARK = "❯ ", "  "
MAX_CHOICE_LINES, MAX_ABOUT_LINES = 5, 2
"""Maximum lines of the marked choice and of its details."""


def headline_and_reason(spec: QuestionSpec, width: int, place: str = "") -> tuple[Line, tuple[Line, ...]]:
    """The headline and the reason below it. `place`: position among several questions."""
    headline: Line = (*spec.headline, (f"  {place}", "dim")) if place else spec.headline
    if spec.is_short:
        whole: Line = (*headline, ("   ", "dim"), *spec.reason[0])
        if sum(cell_len(text) for text, _ in whole) <= width:
            return whole, ()
    return headline, spec.reason


def rows_of(spec: QuestionSpec, marked: AnswerState, width: int) -> list[tuple[int, Line]]:
    """The lines of the list, each with the index of its choice. The marked choice is shown in full, the others in
    one line."""
    rows: list[tuple[int, Line]] = []
    choices = choices_of(spec, marked)
    has_letters = any(choice.key for choice in choices)
    digits = len(str(min(9, len(choices))))
    for index, choice in enumerate(choices):
        is_marked = index == marked.at
        tick = ("[x] " if index in marked.ticked else "[ ] ") if spec.several else ""
        number = str(index + 1).rjust(digits) if index < 9 else " " * digits
        letter = f"{choice.key or ' '} " if has_letters else ""
        head: Line = (
            (MARK if is_marked else NO_MARK, "accent"),
            (f"{number} ", "accent" if not is_marked else "strong"),
            (letter, "dim"),
            (tick, "strong"),
        )
        head = tuple(span for span in head if span[0])
        taken = sum(cell_len(text) for text, _ in head)
        rows += [(index, line) for line in _choice_lines(choice, head, taken, width, is_marked=is_marked)]
    return rows


def _choice_lines(choice: Choice, head: Line, taken: int, width: int, *, is_marked: bool) -> list[Line]:
    room = max(1, width - taken)
    says, beside = sanitised_line(choice.label), sanitised_line(choice.rule_text)
    if choice.brief and not is_marked and cell_len(says) > room:
        says = sanitised_line(choice.brief)
    ink: Literal["strong", "text"] = "strong" if is_marked else "text"
    fits = not beside or cell_len(says) + 3 + cell_len(beside) <= room
    behind: Line = (("   " + beside, "dim"),) if beside and fits else ()
    if not is_marked:
        return [(*head, (_truncate(says, room), ink), *behind)]
    first, *rest = _few(says, room, MAX_CHOICE_LINES)
    indent = " " * min(taken, width - 1)
    said: list[Line] = [(*head, (first, ink), *behind), *(((indent, ink), (line, ink)) for line in rest)]
    about = ". ".join(part for part in ("" if fits else beside, sanitised_line(choice.more)) if part)
    return [*said, *(((indent, "dim"), (line, "dim")) for line in _few(about, room, MAX_ABOUT_LINES) if about)]


def _few(text: str, room: int, most: int) -> list[str]:
    """Wrap the text to at most `most` lines."""
    lines = wrap_words(text, room)
    return lines if len(lines) <= most else [*lines[: most - 1], _truncate(" ".join(lines[most - 1 :]), room)]


def _truncate(text: str, room: int) -> str:
    return text if cell_len(text) <= room else set_cell_size(text, max(0, room - 1)) + "…"


_MAX_MEASURED_CHOICES = 30
"""Maximum choices that are measured to find the height of the list."""


def height_of(spec: QuestionSpec, marked: AnswerState, width: int) -> int:
    """Lines of the list, for any marked choice, so that its height stays constant."""
    choices = choices_of(spec, marked)
    tried = range(len(choices)) if len(choices) <= _MAX_MEASURED_CHOICES else (marked.at,)
    return max((len(rows_of(spec, replace(marked, at=at), width)) for at in tried), default=0)


Part: TypeAlias = Literal["headline", "subject", "list", "field", "keys", "border", "reason", "air"]

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
    ("air", 4),
)
"""The order in which parts get lines, with their maximum. Air means blank lines between the others."""


def allot_lines(lines: int, wanted: Mapping[Part, int]) -> dict[Part, int]:
    """Distribute the lines of the panel over its parts. A choice and the subject come first."""
    given: dict[Part, int] = dict.fromkeys((part for part, _ in _SHARES), 0)
    for part, most in _SHARES:
        more = max(0, min(most, wanted.get(part, 0)) - given[part])
        given[part] += min(more, max(0, lines - sum(given.values())))
    return given


def question_key_hints(
    spec: QuestionSpec, marked: AnswerState, writing: Writing | None, *, is_away: bool, is_whole: bool, hidden: int
) -> str:
    """The key hints that apply now. `hidden`: lines of the subject that do not fit."""
    if is_away:
        return "Tab goes back to the question"
    if writing is not None:
        does = "Enter runs it  Ctrl-J begins a line" if writing.how == "command" else "Enter sends it"
        return f"{does}  Esc goes back"
    said = ["Space ticks", "Enter sends"] if spec.several else ["Enter chooses"]
    said.append(f"Esc {spec.stop}")
    if is_whole:
        said.append("Ctrl-O folds  PgUp, PgDn read")
    elif hidden:
        said.append(f"Ctrl-O shows {hidden:,} more lines" if hidden > 1 else "Ctrl-O shows one more line")
    if spec.for_project:
        said.append("p keeps rules " + ("for this session" if marked.for_project else "for the project"))
    return "  ".join(said)
