"""A question as data: its subject, its choices and what each key does."""

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

    kind: Literal["code", "diff", "arguments", "markdown", "text", "lines"]
    text: str = ""
    language: str = ""
    marks: tuple[tuple[int, int], ...] = ()
    """Ranges of the text to highlight."""
    lines: tuple[Line, ...] = ()
    arguments: Mapping[str, object] = field(default_factory=dict)
    is_named_in_headline: bool = False
    """Whether the subject is a single file that the headline already names."""


@dataclass(frozen=True, slots=True)
class TextEntry:
    """Text that the user must enter for a choice."""

    kind: Literal["text", "command", "editor"]
    parse_answer: Callable[[str], Answer | None]
    """Converts the text to an answer; None if the text is not valid."""
    hint: str = ""
    initial_text: str = ""
    file_suffix: str = ""
    """File name suffix for the file opened in the editor."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the possible answers."""

    label: str
    key: str = ""
    """A letter that selects the choice. Its number does so too."""
    answer: Answer | None = None
    """The answer. If there is a `text_entry`, it is the answer without any text."""
    text_entry: TextEntry | None = None
    further_question: "QuestionSpec | None" = None
    """A question that replaces this one until it is answered, or left with Esc."""
    number: int = 0
    """The digit that selects the choice; 0 for its position in the list."""
    is_extra: bool = False
    """Whether the choice is listed only after `r`."""
    is_lasting: bool = False
    """Whether the choice affects more than this question. If so, its key only marks it, and Enter confirms it."""
    rule_text: str = ""
    """The rule as it will be stored."""
    details: str = ""
    """Details shown while the choice is marked."""
    short_label: str = ""
    """A short form of `label`."""


@dataclass(frozen=True, slots=True)
class QuestionSpec:
    """A question of any kind."""

    headline: Line
    subject: Subject
    choices: tuple[Choice, ...]
    reason: tuple[Line, ...] = ()
    project_choices: tuple[Choice, ...] = ()
    """The same choices, but with rules that are stored for the project. Empty if rules cannot be stored for the
    project."""
    project_file: str = ""
    """The file in which the project's rules are stored."""
    has_one_line_reason: bool = False
    """Whether the reason is a single line. It is shown after the headline if it fits."""
    escape_hint: str = "stop the turn"
    """The key hint for what Esc does."""
    submit_hint: str = "send"
    """The key hint for what Enter does if several choices can be selected."""
    free_text: TextEntry | None = None
    """A field for an answer in the user's own words, if allowed."""
    allows_multiple: bool = False
    """Whether several choices can be selected. If so, their answers must be strings, unless there is `build_answer`."""
    build_answer: Callable[[frozenset[int]], Answer] | None = None
    """Converts the indexes of the selected choices to the answer."""
    initial_indexes: frozenset[int] = frozenset()
    """The choices that are selected at first."""
    shows_marked_change: bool = False
    """Whether the choices are the changes of the subject, a diff. The marked one is then scrolled into view."""
    source: object = None
    """The event from which the question was built; None for confirmations."""


DENIAL_HINT = "what to do instead, or nothing for a plain no"


def build_denial_choice(answer: Answer, build_denial: Callable[[str], Answer]) -> Choice:
    """Build the choice that denies, with a message for the model if the user writes one. `answer`: the denial without
    a message."""
    entry = TextEntry("text", build_denial, DENIAL_HINT)
    return Choice("No, tell it what to do instead", "n", answer, entry, number=4, short_label="No, do this instead")


@dataclass(frozen=True, slots=True)
class AnswerState:
    """Which choice is marked, and which ones are selected."""

    marked_index: int = 0
    selected_indexes: frozenset[int] = frozenset()
    is_for_project: bool = False
    lists_extras: bool = False
    """Whether all choices are listed."""


KeyEffect: TypeAlias = Literal[
    "none",
    "text",
    "move",
    "relist",
    "choose",
    "toggle subject",
    "scroll subject",
    "focus text",
    "clear text",
    "leave text",
    "stop",
]
"""What a key does. `text`: it goes to the text field. `relist`: it changes which choices are listed. `toggle subject`:
it shows the whole subject, or part of it again. `scroll subject`: it scrolls the subject while all of it is shown.
`leave text`: it returns to the choices."""

_SCROLL_KEYS = ("pageup", "pagedown", "home", "end", "m")


def initial_state(spec: QuestionSpec) -> AnswerState:
    return AnswerState(selected_indexes=spec.initial_indexes)


def current_choices(spec: QuestionSpec, state: AnswerState) -> tuple[Choice, ...]:
    """Get the listed choices."""
    choices = spec.project_choices if state.is_for_project else spec.choices
    return choices if state.lists_extras else tuple(choice for choice in choices if not choice.is_extra)


def choice_number(choice: Choice, index: int) -> int:
    """Get the number of a choice. `index`: its position in the list."""
    return choice.number or index + 1


def _with_extras_toggled(spec: QuestionSpec, state: AnswerState) -> AnswerState:
    """List the extra choices and mark the first one, or hide them again."""
    listed_count = len(current_choices(spec, replace(state, lists_extras=False)))
    if state.lists_extras:
        return replace(state, lists_extras=False, marked_index=min(state.marked_index, listed_count - 1))
    return replace(state, lists_extras=True, marked_index=listed_count)


def _with_scope_toggled(spec: QuestionSpec, state: AnswerState) -> AnswerState:
    """Offer rules for the project instead of the session, or the other way round."""
    toggled_state = replace(state, is_for_project=not state.is_for_project)
    last_index = len(current_choices(spec, toggled_state)) - 1
    return replace(toggled_state, marked_index=min(state.marked_index, last_index))


def decide_key_effect(
    key: str, spec: QuestionSpec, state: AnswerState, *, is_expanded: bool = False
) -> tuple[KeyEffect, AnswerState]:
    """Determine what a key does in the list. The key of a lasting choice only marks it; Enter confirms it."""
    choices = current_choices(spec, state)
    choice_count = len(choices)
    match key:
        case "escape":
            return "stop", state
        case _ if is_expanded and (key in _SCROLL_KEYS or (key == "space" and not spec.allows_multiple)):
            return "scroll subject", state
        case "down" if spec.free_text is not None and state.marked_index == len(spec.choices) - 1:
            return "focus text", state
        case "up" | "down" if choice_count:
            return "move", replace(
                state, marked_index=(state.marked_index + (1 if key == "down" else -1)) % choice_count
            )
        case "enter":
            return ("choose" if choice_count else "none"), state
        case "ctrl+o":
            return "toggle subject", state
        case "space" if spec.allows_multiple and choice_count:
            return "move", replace(state, selected_indexes=state.selected_indexes ^ {state.marked_index})
        case "p" if spec.project_choices:
            return "relist", _with_scope_toggled(spec, state)
        case "r" if has_extras(spec):
            return "relist", _with_extras_toggled(spec, state)
    index = _choice_index(key, choices)
    if index is None:
        return ("text" if len(key) == 1 or key == "space" else "none"), state
    moved_state = replace(state, marked_index=index)
    if spec.allows_multiple and key.isdecimal():
        return "move", replace(moved_state, selected_indexes=moved_state.selected_indexes ^ {index})
    return ("move" if choices[index].is_lasting else "choose"), moved_state


def key_effect_in_text(
    key: str, spec: QuestionSpec, state: AnswerState, *, is_entering_text: bool, is_empty: bool, is_expanded: bool
) -> tuple[KeyEffect, AnswerState]:
    """Determine what a key does in the text field, if it does more than type a character. `is_entering_text`: whether
    the text belongs to a choice."""
    match key:
        case "escape" if is_entering_text:
            return "leave text", state
        case "escape":
            return ("clear text" if spec.choices and not is_empty else "stop"), state
        case "up" | "down" if spec.choices and not is_entering_text:
            return "move", replace(state, marked_index=len(spec.choices) - 1 if key == "up" else 0)
        case "ctrl+o":
            return "toggle subject", state
        case "pageup" | "pagedown" if is_expanded:
            return "scroll subject", state
    return "none", state


def panel_key_effect(
    key: str,
    spec: QuestionSpec,
    state: AnswerState,
    focus: Literal["list", "text", "command"],
    *,
    is_entering_text: bool,
    is_empty: bool,
    is_expanded: bool,
) -> tuple[KeyEffect, AnswerState]:
    """Determine what a key does in the question panel. `focus`: the part that has the focus. `is_empty`: whether the
    text field is empty."""
    match focus:
        case "command":
            return ("leave text" if key == "escape" else "none"), state
        case "text":
            return key_effect_in_text(
                key, spec, state, is_entering_text=is_entering_text, is_empty=is_empty, is_expanded=is_expanded
            )
        case "list":
            return decide_key_effect(key, spec, state, is_expanded=is_expanded)


def is_list_key(key: str, spec: QuestionSpec, state: AnswerState, *, is_expanded: bool) -> bool:
    """Whether a character key does something in the list and is therefore not text."""
    return decide_key_effect(key, spec, state, is_expanded=is_expanded)[0] not in ("text", "none")


def has_extras(spec: QuestionSpec) -> bool:
    """Whether some choices are listed only on demand."""
    return any(choice.is_extra for choice in spec.choices)


def _choice_index(key: str, choices: Sequence[Choice]) -> int | None:
    """Find the choice with a number or letter."""
    is_number = len(key) < 10 and key.isascii() and key.isdecimal()
    for index, choice in enumerate(choices):
        if (choice_number(choice, index) == int(key)) if is_number else bool(key) and choice.key == key:
            return index
    return None


def find_typed_choice(line: str, spec: QuestionSpec, *, is_for_project: bool = False) -> Choice | None:
    """Find the choice whose number or letter was typed; None if there is none."""
    choices = spec.project_choices if is_for_project else spec.choices
    index = _choice_index(line.strip().lower(), choices)
    return choices[index] if index is not None else None


def choose(spec: QuestionSpec, state: AnswerState, entered_text: str) -> "Answer | TextEntry | QuestionSpec | None":
    """Determine what selecting the marked choice leads to: an answer, a text that the user must write, or a further
    question. `entered_text`: the user's own words."""
    if spec.allows_multiple:
        return selected_answer(spec, state, entered_text.strip())
    choices = current_choices(spec, state)
    choice = choices[state.marked_index] if state.marked_index < len(choices) else Choice("")
    if choice.further_question is not None:
        return replace(choice.further_question, source=spec.source)
    return choice.text_entry or choice.answer


def selected_answer(spec: QuestionSpec, state: AnswerState, entered_text: str = "") -> Answer:
    """Build the answer from all selected choices: their texts and the written text, one per line. If there are none,
    use the marked choice."""
    if spec.build_answer is not None:
        return spec.build_answer(state.selected_indexes)
    texts = [choice.answer for index, choice in enumerate(spec.choices) if index in state.selected_indexes]
    answers = [text for text in (*texts, entered_text) if isinstance(text, str) and text]
    if not answers and spec.choices and isinstance(spec.choices[state.marked_index].answer, str):
        answers = [str(spec.choices[state.marked_index].answer)]
    return "\n".join(answers)
