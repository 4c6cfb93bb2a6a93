"""The question which changes of a call are made: one choice for each run of changed lines in its diff."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from ebbtide.agent.events.permissions import Decision, PermissionAsked
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line
from ebbtide.tui.text.unified_diff import DiffLine, FileDiff, Hunk, parse_diff
from ebbtide.tui.view.question import Choice, QuestionSpec, Subject, TextEntry

CHANGE_NUMBERS_HINT = "the numbers of the changes to make, separated by spaces"


def build_changes_choice(question: PermissionAsked, headline: Line) -> tuple[Choice, ...]:
    """Build the choice that leads to the changes of a call; empty if they cannot be refused one by one. `headline`: the
    headline of the question about the call."""
    labels = change_labels(question.preview)
    if question.change_count < 2 or len(labels) != question.change_count:
        return ()

    def build_answer(selected_indexes: frozenset[int]) -> Decision:
        return _decision(selected_indexes, len(labels))

    further_question = QuestionSpec(
        (*headline, ("  which changes?", "text")),
        Subject("diff", question.preview),
        tuple(Choice(label) for label in labels),
        escape_hint="back",
        submit_hint="make these changes",
        allows_multiple=True,
        build_answer=build_answer,
        initial_indexes=frozenset(range(len(labels))),
        shows_marked_change=True,
    )
    entry = TextEntry("text", lambda text: _parse_numbers(text, len(labels)), CHANGE_NUMBERS_HINT)
    label = f"Choose among the {pluralize(len(labels), 'change')}"
    return (Choice(label, "c", text_entry=entry, further_question=further_question),)


def change_labels(diff: str) -> tuple[str, ...]:
    """Describe each change of a diff: its place, its size and its first line."""
    files = parse_diff(diff)
    return tuple(
        _change_label(lines, f"{sanitise_line(file.name)}:" if len(files) > 1 else "line ")
        for file in files
        for lines in _changes(file)
    )


def _changes(file: FileDiff) -> Iterator[Sequence[DiffLine]]:
    """Yield the runs of changed lines."""
    for part in file.parts:
        if isinstance(part, Hunk):
            for is_changed, lines in groupby(part.lines, key=lambda line: line.kind != "kept"):
                if is_changed:
                    yield tuple(lines)


def _change_label(lines: Sequence[DiffLine], place: str) -> str:
    added = [line for line in lines if line.kind == "added"]
    removed = [line for line in lines if line.kind == "removed"]
    first_line = (added or removed)[0]
    text = next((line.text.strip() for line in (*added, *removed) if line.text.strip()), "")
    number = first_line.new_number or first_line.old_number
    return f"{place}{number}  +{len(added)} −{len(removed)}  {sanitise_line(text)}".rstrip()


def _decision(selected_indexes: frozenset[int], count: int) -> Decision:
    """Allow the selected changes. If none are selected, deny the call."""
    if not selected_indexes:
        return Decision("deny")
    return Decision("allow", refused_changes=tuple(index for index in range(count) if index not in selected_indexes))


def _parse_numbers(text: str, count: int) -> Decision | None:
    """Parse the numbers of the changes to make; None if the text is anything else."""
    words = re.split(r"[\s,]+", text.strip())
    if not all(word.isascii() and word.isdecimal() and len(word) < 6 and 0 < int(word) <= count for word in words):
        return None
    return _decision(frozenset(int(word) - 1 for word in words), count)
