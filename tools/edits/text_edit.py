"""Plans the replacement of text in a file, or explains why it is refused. No I/O."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from ebbtide.tools.base import ToolError
from ebbtide.tools.edits.alignment import AmbiguousLineError, has_lost_indent, require_same_first_indent
from ebbtide.tools.edits.checks import (
    adds_distinctive_text,
    find_duplicated_line,
    find_escape_outside_quotes,
    find_indentation_mismatch,
    find_omission_placeholder,
    has_irregular_step,
    is_already_applied,
    is_level_unclear,
)
from ebbtide.tools.edits.corrections import Correction, possible_corrections
from ebbtide.tools.edits.indentation import indent_of, indent_step
from ebbtide.tools.edits.matching import (
    CLOSENESS_ORDER,
    Closeness,
    Matches,
    NearMiss,
    TextSpan,
    adapt_replacement,
    begins_inside_indent,
    extend_over_newline,
    find_loosely,
    find_nearest_lines,
    find_text,
    is_only_match,
    line_number,
)
from ebbtide.tools.files.paths import read_hint
from ebbtide.tools.files.text import Replacement, without_surrogates
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.plain_text import number_lines, truncate_line

MAX_SNIPPET_LINES = 40
"""Maximum number of lines shown after an inexact match, or of a near miss."""
MAX_SNIPPET_CHARS = 2000
"""Maximum number of characters shown per line."""
MIN_RECOGNISED_CHARS = 8
"""Minimum number of letters and digits in new text for it to be recognised in the file."""
MAX_LISTED_POSITIONS = 20
"""Maximum number of line numbers listed for an ambiguous match."""

DIFFERENCE_LABELS: dict[Closeness, str] = {"punctuation": "typographic punctuation", "whitespace": "whitespace"}
"""Names of the differences that an inexact match ignores."""


@dataclass(frozen=True, slots=True)
class EditTarget:
    """The file to edit."""

    name: str
    text: str
    was_read: bool
    """Whether the model has seen the file's content. If not, error messages show none of its lines."""


@dataclass(frozen=True, slots=True)
class TextEdit:
    changes: tuple[Replacement, ...]
    remark: str


def plan_edit(target: EditTarget, old: str, new: str, replace_all: bool) -> TextEdit:
    """Plan the changes that an edit makes. If the file contains `old` literally, the result is the same as with
    `str.replace`. Raises `ToolError` if `old` occurs several times, or if it does not occur and the model's intention
    can only be guessed."""
    matches = find_text(target.text, old)
    if old in target.text:
        return _exact_edit(target, matches, old, new, replace_all=replace_all)
    correction = None
    if not matches.spans:
        _require_not_applied(target, old, new)
        matches, correction = _find_corrected(target, old, new)
    if correction is not None:
        old, new = correction.old, _corrected_new(correction, target, matches)
    if len(matches.spans) > 1 and not (replace_all and correction is None):
        raise ToolError(_ambiguous_match_text(target, matches, correction))
    if not target.was_read and (matches.closeness != "exact" or correction is not None):
        raise ToolError(f"`old` is not exactly in `{target.name}`, {read_first_hint(target.name)}")
    is_close = matches.closeness in ("exact", "punctuation")
    begins_in_indent = is_close and begins_inside_indent(target.text, matches.spans[0])
    if begins_in_indent and ("\n" in old + new or indent_of(old) != indent_of(new)):
        matches = find_loosely(target.text, old)
        if len(matches.spans) != 1:
            raise ToolError(
                _ambiguous_match_text(target, matches, correction) if matches.spans else _not_found_text(target, old)
            )
    new, has_added_newline = _match_final_newline(target, matches, old, new)
    _require_plausible_edit(target, matches, old, new)
    spans = (
        matches.non_overlapping
        if new
        else [extend_over_newline(target.text, span, old) for span in matches.non_overlapping]
    )
    try:
        changes = tuple(adapt_replacement(target.text, span, old, new) for span in spans)
    except AmbiguousLineError as error:
        raise ToolError(_unclear_indentation_text(target, matches, str(error))) from error
    return TextEdit(changes, _difference_remark(matches.closeness, correction, has_added_newline=has_added_newline))


def _exact_edit(target: EditTarget, matches: Matches, old: str, new: str, *, replace_all: bool) -> TextEdit:
    """Replace each occurrence of `old` with `new`, unchanged. Raises `ToolError` if there are several occurrences and
    not `replace_all`, or if `new` contains a placeholder."""
    if len(matches.spans) > 1 and not replace_all:
        raise ToolError(_ambiguous_match_text(target, matches, None))
    _refuse_placeholder(target, new)
    changes = tuple(Replacement(span.start, span.end, new) for span in matches.non_overlapping)
    return TextEdit(changes, "; ".join(_exact_edit_warnings(target, matches, old, new)))


def _exact_edit_warnings(target: EditTarget, matches: Matches, old: str, new: str) -> Iterator[str]:
    """Yield warnings about likely mistakes in an exact edit. The edit is made anyway, and the model sees the warnings
    with the result."""
    span = matches.spans[0]
    preceding_text, next_character = target.text[: span.start], target.text[span.end : span.end + 1]
    leaves_line_open = bool(new or preceding_text) and not (preceding_text + new).endswith("\n")
    if old.endswith("\n") and leaves_line_open and next_character not in ("", "\n"):
        yield "`old` ends with a newline and `new` does not, so two lines were joined"
    if old in new and adds_distinctive_text(new, old) and is_already_applied(new, old, target.text, span.start):
        yield "the file already had `new` there, so what it adds is now duplicated"
    elif len(matches.spans) == 1 and (line := find_duplicated_line(old, new, target.text[span.end :])) is not None:
        yield f"`new` ends with {line!r}, which already followed `old`, so it is now duplicated"


def _require_not_applied(target: EditTarget, old: str, new: str) -> None:
    """Raise `ToolError` if the edit has probably been made already: the file contains the new text exactly once."""
    new_matches = (
        find_text(target.text, new) if target.was_read and sum(map(str.isalnum, new)) >= MIN_RECOGNISED_CHARS else None
    )
    if new_matches is None or new_matches.closeness != "exact" or len(new_matches.spans) != 1 or old.strip() in new:
        return
    line = line_number(target.text, new_matches.spans[0].start)
    raise ToolError(
        f"`old` is not in `{target.name}`, but `new` is, at line {line}: this change is already made, so continue"
    )


def _find_corrected(target: EditTarget, old: str, new: str) -> tuple[Matches, Correction]:
    """Find `old` after removing artefacts that the model added. Raises `ToolError` if it is still not found."""
    candidates = [(find_text(target.text, correction.old), correction) for correction in possible_corrections(old, new)]
    matching = [
        (
            matches
            if is_only_match(target.text, correction.old, matches)
            else find_loosely(target.text, correction.old),
            correction,
        )
        for matches, correction in candidates
        if matches.spans
    ]
    if not matching:
        raise ToolError(_not_found_text(target, old))
    return min(matching, key=lambda pair: (CLOSENESS_ORDER.index(pair[0].closeness), len(pair[0].spans)))


def _corrected_new(correction: Correction, target: EditTarget, matches: Matches) -> str:
    if correction.new is None:
        position = f"line {line_number(target.text, matches.spans[0].start)} of `{target.name}`"
        raise ToolError(
            f"`old` is at {position} without its {correction.note}, but it is unclear which of those in "
            "`new` are meant: write both texts without them"
        )
    if correction.new == correction.old:
        raise ToolError(f"`old` and `new` are identical without their {correction.note}: nothing would change")
    return correction.new


def _match_final_newline(target: EditTarget, matches: Matches, old: str, new: str) -> tuple[str, bool]:
    """Add the final newline that `old` has and `new` lacks, unless the last line may be meant to join the next one.
    Also return whether it was added. Raises `ToolError` if this is unclear."""
    if not old.endswith("\n") or not new or new.endswith("\n"):
        return new, False
    if new + "\n" == old or not all(_must_end_line(target.text, span, new) for span in matches.spans):
        raise ToolError(
            "`old` ends with a newline and `new` does not, which would join lines: end both in the same way"
        )
    return new + "\n", True


def _must_end_line(text: str, span: TextSpan, new: str) -> bool:
    """Whether `new` cannot be meant to join the text after `old`. That text is missing, is indented, or would merge
    with `new` into one word."""
    following_text = text[span.end :].partition("\n")[0]
    is_indented = bool(following_text.strip()) and following_text[0] in " \t"
    is_one_word = f"_{new[-1]}".isidentifier() and f"_{following_text[:1]}".isidentifier() and bool(following_text)
    return span.end == len(text) or is_indented or is_one_word


def _require_plausible_edit(target: EditTarget, matches: Matches, old: str, new: str) -> None:
    """Raise `ToolError` if the edit would probably change too much, or the wrong lines."""
    span = matches.spans[0]
    _refuse_placeholder(target, new)
    if has_lost_indent(old.split("\n"), new.split("\n")):
        raise ToolError(
            "the first line of `new` lacks the indentation that it has in `old`: write it with its indentation"
        )
    if len(matches.spans) == 1 and (line := find_duplicated_line(old, new, target.text[span.end :])) is not None:
        raise ToolError(
            f"`new` ends with {line!r}, which already follows `old` and would be duplicated: include it in "
            "`old`, or omit it from `new`"
        )
    if matches.closeness in ("exact", "punctuation"):
        _require_clear_indentation(target, span, old, new)
    mismatch = find_indentation_mismatch(old, new, target.text, target.text[span.start : span.end])
    if mismatch is not None:
        raise ToolError(
            f"{mismatch}: indent it as in `{target.name}`, and include an indented line of the file in `old`"
        )
    escape = find_escape_outside_quotes(old, new, target.text)
    if escape is not None:
        raise ToolError(
            f"`new` has `{escape}` outside quotes: write it without the backslash, and newlines as real newlines"
        )


def _refuse_placeholder(target: EditTarget, new: str) -> None:
    """Raise `ToolError` if the new text has a placeholder such as `# ... existing code ...`, which would delete
    code."""
    placeholder = find_omission_placeholder(new, target.text)
    if placeholder is not None:
        raise ToolError(
            f"`new` has {placeholder!r} for lines that it omits: write them out, or replace less of the file"
        )


def _require_clear_indentation(target: EditTarget, span: TextSpan, old: str, new: str) -> None:
    """Raise `ToolError` if `old` matches exactly but the indentation of `new` is ambiguous."""
    indentation = target.text[target.text.rfind("\n", 0, span.start) + 1 : span.start]
    begins_empty = bool(new) and not new.split("\n")[0].strip()
    old, new = old.removesuffix("\n"), new.removesuffix("\n")
    is_unclear = is_level_unclear(indentation, old, new, lambda: indent_step(target.text.split("\n")))
    if indentation and not indentation.strip() and "\n" in old and new:
        try:
            require_same_first_indent(old.split("\n"), new.split("\n"), indentation)
        except AmbiguousLineError:
            is_unclear = True
    is_inside = bool(indentation) and not indentation.strip()
    is_unclear = is_unclear or (
        is_inside and has_irregular_step(old, f"{indentation}{new}", indent_step(target.text.split("\n")))
    )
    if is_unclear or (is_inside and begins_empty):
        raise ToolError(
            f"`old` starts after the indentation of line {line_number(target.text, span.start)} of `{target.name}`, "
            "so it is unclear how far the lines of `new` should be indented: write both with the file's indentation"
        )


def _not_found_text(target: EditTarget, old: str) -> str:
    if not target.was_read:
        return f"`old` is not in `{target.name}`, {read_first_hint(target.name)}"
    hint = (
        "; it has `...` for lines that it omits: write them out" if find_omission_placeholder(old, target.text) else ""
    )
    return f"`old` is not in `{target.name}`{hint}{_near_miss_text(find_nearest_lines(target.text, old))}"


def _ambiguous_match_text(target: EditTarget, matches: Matches, correction: Correction | None) -> str:
    lines = listed_positions(line_number(target.text, span.start) for span in matches.spans)
    correction_text = f" without its {correction.note}" if correction is not None else ""
    difference_text = "" if matches.closeness == "exact" else f" apart from {DIFFERENCE_LABELS[matches.closeness]}"
    return (
        f"`old`{correction_text} is in `{target.name}` {len(matches.spans)} times{difference_text}, at lines {lines}: "
        "add lines around it until it is unique, or set `replace_all`"
    )


def _unclear_indentation_text(target: EditTarget, matches: Matches, line: str) -> str:
    span = matches.spans[0]
    first_line = line_number(target.text, span.start)
    file_lines = target.text[span.start : span.end].removesuffix("\n").split("\n")
    return (
        f"`old` is at line {first_line} of `{target.name}` with other indentation, so it is unclear how far "
        f"{line.strip()!r} of `new` should be indented: write `old` and `new` with the file's indentation:\n"
        f"{number_lines(first_lines(file_lines), first_line)}"
    )


def _difference_remark(closeness: Closeness, correction: Correction | None, *, has_added_newline: bool) -> str:
    remarks = [f"`old` had {correction.note} that the file lacks"] if correction is not None else []
    if closeness in DIFFERENCE_LABELS:
        remarks.append(f"`old` differed from the file in {DIFFERENCE_LABELS[closeness]}")
    if has_added_newline:
        remarks.append("`new` was given the newline at the end of `old`")
    return "; ".join(remarks)


def _near_miss_text(miss: NearMiss | None) -> str:
    """Quote the most similar lines, worded as the end of a sentence."""
    if miss is None:
        return ", and no lines are similar: read the file again"
    last = miss.first_line + len(miss.lines) - 1
    return (
        f"; the closest lines are {miss.first_line}-{last}:\n{number_lines(first_lines(miss.lines), miss.first_line)}"
    )


def read_first_hint(name: str) -> str:
    """Format a hint to read the file first, worded as the end of a sentence. Shown instead of lines from the file."""
    return f"which was not read in this session: first {read_hint(name)}"


def numbered_snippet(text: str, first_line: int, last_line: int) -> str:
    """Return the first few of the requested lines, with their numbers."""
    end = min(last_line, first_line - 1 + MAX_SNIPPET_LINES)
    return number_lines(without_surrogates(text).split("\n")[first_line - 1 : end], first_line)


def listed_positions(line_numbers: Iterable[int]) -> str:
    return ", ".join(map(str, islice(line_numbers, MAX_LISTED_POSITIONS)))


def first_lines(lines: Sequence[str]) -> list[str]:
    """Return the first few lines, each truncated, for an error message."""
    return [truncate_line(without_surrogates(line), MAX_SNIPPET_CHARS) for line in lines[:MAX_SNIPPET_LINES]]
