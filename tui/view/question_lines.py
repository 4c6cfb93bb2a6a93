"""The layout of a question: the lines of its choices, the heights of its parts, and key hints."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from rich.cells import cell_len, set_cell_size

from ebbtide.tui.text.cells import wrap_words
from ebbtide.tui.text.sanitise import count_invisible_characters, describe_invisible_count, sanitise_line
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.key_hints import key_hint_lines
from ebbtide.tui.view.question import (
    AnswerState,
    Choice,
    QuestionSpec,
    TextEntry,
    choice_number,
    current_choices,
    has_extras,
)

CHOICE_MARK, NO_CHOICE_MARK = "❯ ", "  "
MAX_CHOICE_LINES, MAX_DETAILS_LINES = 5, 2
"""Maximum number of lines for the marked choice, and for its details."""


def headline_and_reason(spec: QuestionSpec, width: int, position_text: str = "") -> tuple[Line, tuple[Line, ...]]:
    """Get the headline and the reason below it. `position_text`: the question's position among several."""
    headline: Line = (*spec.headline, (f"  {position_text}", "dim")) if position_text else spec.headline
    if spec.has_one_line_reason:
        combined: Line = (*headline, ("   ", "dim"), *spec.reason[0])
        if sum(cell_len(text) for text, _ in combined) <= width:
            return combined, ()
    return headline, spec.reason


def choice_rows(spec: QuestionSpec, state: AnswerState, width: int) -> list[tuple[int, Line]]:
    """Format the list as lines, each with the index of its choice. The marked choice is shown in full, the others on
    one line each."""
    rows: list[tuple[int, Line]] = []
    choices = current_choices(spec, state)
    has_letters = any(choice.key for choice in choices)
    numbers = [choice_number(choice, index) for index, choice in enumerate(choices)]
    number_width = len(str(min(9, max(numbers, default=0))))
    for index, choice in enumerate(choices):
        is_marked = index == state.marked_index
        checkbox = ("[x] " if index in state.selected_indexes else "[ ] ") if spec.allows_multiple else ""
        number = str(numbers[index]).rjust(number_width) if numbers[index] < 10 else " " * number_width
        letter = f"{choice.key or ' '} " if has_letters else ""
        prefix: Line = (
            (CHOICE_MARK if is_marked else NO_CHOICE_MARK, "accent"),
            (f"{number} ", "accent" if not is_marked else "strong"),
            (letter, "dim"),
            (checkbox, "strong"),
        )
        prefix = tuple(span for span in prefix if span[0])
        prefix_width = sum(cell_len(text) for text, _ in prefix)
        rows += [(index, line) for line in _choice_lines(choice, prefix, prefix_width, width, is_marked=is_marked)]
    return rows


def _choice_lines(choice: Choice, prefix: Line, prefix_width: int, width: int, *, is_marked: bool) -> list[Line]:
    label_width = max(1, width - prefix_width)
    label, rule_text = sanitise_line(choice.label), sanitise_line(choice.rule_text)
    if choice.short_label and not is_marked and cell_len(label) > label_width:
        label = sanitise_line(choice.short_label)
    style: Literal["strong", "text"] = "strong" if is_marked else "text"
    rule_fits = not rule_text or cell_len(label) + 3 + cell_len(rule_text) <= label_width
    rule_suffix: Line = (("   " + rule_text, "dim"),) if rule_text and rule_fits else ()
    if not is_marked:
        return [(*prefix, (_truncate(label, label_width), style), *rule_suffix)]
    first_line, *remaining_lines = _wrap_limited(label, label_width, MAX_CHOICE_LINES)
    indent = " " * min(prefix_width, width - 1)
    lines: list[Line] = [
        (*prefix, (first_line, style), *rule_suffix),
        *(((indent, style), (line, style)) for line in remaining_lines),
    ]
    details = ". ".join(part for part in ("" if rule_fits else rule_text, sanitise_line(choice.details)) if part)
    return [
        *lines,
        *(
            ((indent, "dim"), (line, "dim"))
            for line in _wrap_limited(details, label_width, MAX_DETAILS_LINES)
            if details
        ),
    ]


def _wrap_limited(text: str, width: int, max_lines: int) -> list[str]:
    """Wrap text into at most `max_lines` lines, truncating the last one."""
    lines = wrap_words(text, width)
    return (
        lines
        if len(lines) <= max_lines
        else [*lines[: max_lines - 1], _truncate(" ".join(lines[max_lines - 1 :]), width)]
    )


def _truncate(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, max(0, width - 1)) + "…"


_MAX_MEASURED_CHOICES = 30
"""Maximum number of choices measured to determine the height of the list."""


def choices_height(spec: QuestionSpec, state: AnswerState, width: int) -> int:
    """Calculate how many lines the list needs whichever choice is marked, so that its height does not change."""
    choices = current_choices(spec, state)
    marked_indexes = range(len(choices)) if len(choices) <= _MAX_MEASURED_CHOICES else (state.marked_index,)
    return max(
        (len(choice_rows(spec, replace(state, marked_index=index), width)) for index in marked_indexes), default=0
    )


PanelPart: TypeAlias = Literal["headline", "subject", "list", "field", "keys", "border", "reason", "spacing"]

_LINE_ALLOTMENTS: tuple[tuple[PanelPart, int], ...] = (
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
    ("spacing", 4),
)
"""The order in which parts get lines. Each step raises a part's maximum to the given number of lines. `spacing`: blank
lines between parts."""


def allot_lines(lines: int, requested_lines: Mapping[PanelPart, int]) -> dict[PanelPart, int]:
    """Divide the panel's lines among its parts. The text field, one choice, the headline and the subject come first."""
    lines_by_part: dict[PanelPart, int] = dict.fromkeys((part for part, _ in _LINE_ALLOTMENTS), 0)
    for part, max_lines in _LINE_ALLOTMENTS:
        added_count = max(0, min(max_lines, requested_lines.get(part, 0)) - lines_by_part[part])
        lines_by_part[part] += min(added_count, max(0, lines - sum(lines_by_part.values())))
    return lines_by_part


MIN_BORDER_HEIGHT, MIN_BORDER_WIDTH = 6, 30
"""Minimum height and width for the panel to have a border."""
_MIN_SPACED_HEIGHT = 18
"""Minimum height for blank lines between parts of the panel."""
_SPACED_PARTS: tuple[PanelPart, ...] = ("list", "subject", "keys", "reason")
"""Parts that get a blank line above them if there is space, most important first."""


@dataclass(frozen=True, slots=True)
class PanelLayout:
    """The height of each part of the question panel."""

    lines: Mapping[PanelPart, int]
    spaced_parts: frozenset[PanelPart]
    """The parts with a blank line above them."""
    hidden_line_count: int
    """Number of lines of the subject that do not fit."""
    list_width: int


def panel_inner_width(width: int, max_lines: int) -> int:
    """Calculate the width of the panel's content."""
    return width if width < MIN_BORDER_WIDTH or max_lines < MIN_BORDER_HEIGHT else width - 2


def lay_out_panel(
    spec: QuestionSpec,
    state: AnswerState,
    text_entry: TextEntry | None,
    width: int,
    max_lines: int,
    content_lines: Mapping[PanelPart, int],
    key_hints: str,
) -> PanelLayout:
    """Divide `max_lines` lines among the parts of the panel. `width`: width of its content. `content_lines`: lines of
    the headline, the subject and the reason."""
    list_height = choices_height(spec, state, width)
    lines = allot_lines(
        max_lines,
        {
            **content_lines,
            "list": 0 if text_entry is not None else list_height,
            "field": int(text_entry.kind == "text" if text_entry is not None else spec.free_text is not None),
            "keys": len(key_hint_lines(key_hints, width)),
            "border": 1,
            "spacing": 4 if max_lines >= _MIN_SPACED_HEIGHT else 0,
        },
    )
    # The list reserves lines for choices that get longer when marked. If any are left over, they already separate it
    # from the keys.
    has_spare_lines = lines["list"] > len(choice_rows(spec, replace(state, marked_index=0), width))
    visible_parts = [part for part in _SPACED_PARTS if lines[part]][: lines["spacing"]]
    return PanelLayout(
        lines,
        frozenset(part for part in visible_parts if not (has_spare_lines and part == "keys")),
        max(0, content_lines["subject"] - lines["subject"]) if text_entry is None or text_entry.kind == "text" else 0,
        width - (list_height > lines["list"]),
    )


def question_key_hints(
    spec: QuestionSpec,
    state: AnswerState,
    text_entry: TextEntry | None,
    *,
    is_unfocused: bool,
    is_expanded: bool,
    hidden_line_count: int,
    has_prompt: bool = False,
    edited_text: str = "",
) -> str:
    """Get the key hints that apply now. `hidden_line_count`: number of lines of the subject that do not fit.
    `has_prompt`: whether the prompt is below the question. `edited_text`: text whose invisible characters are
    counted."""
    if is_unfocused:
        return "Tab back to the question"
    if text_entry is not None:
        warning = describe_invisible_count(count_invisible_characters(edited_text))
        return "  ".join(filter(None, (warning, _TEXT_KEY_HINTS[text_entry.kind], "Esc back")))
    hints = ["Space toggle", f"Enter {spec.submit_hint}"] if spec.allows_multiple else ["Enter select"]
    hints.append(f"Esc {spec.escape_hint}")
    if has_prompt:
        hints.append("Tab write a message")
    if is_expanded:
        hints.append("Ctrl-O collapse  PgUp, PgDn scroll")
    elif hidden_line_count:
        hints.append(
            f"Ctrl-O show {hidden_line_count:,} more lines" if hidden_line_count > 1 else "Ctrl-O show one more line"
        )
    if has_extras(spec):
        hints.append("r fewer rules" if state.lists_extras else "r more rules")
    if spec.project_choices:
        hints.append("p remember for " + ("this session" if state.is_for_project else "this project"))
    return "  ".join(hints)


_TEXT_KEY_HINTS = {"command": "Enter run  Alt-Enter new line", "text": "Enter send", "editor": ""}
