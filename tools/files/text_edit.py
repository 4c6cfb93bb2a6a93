"""Plans the replacement of one text in a file, or explains why it is refused. Does not access files."""

from collections.abc import Iterator

from ebbtide.tools.base import ToolError
from ebbtide.tools.files.alignment import UnclearError, has_lost_indent, require_first_line
from ebbtide.tools.files.corrections import Correction, corrections
from ebbtide.tools.files.edit_checks import (
    adds_once,
    duplicated_line,
    escapes_outside_quotes,
    has_odd_step,
    is_level_unclear,
    left_out,
    odd_indentation,
    stands_in,
)
from ebbtide.tools.files.indentation import indent_of, step_of
from ebbtide.tools.files.matching import (
    Closeness,
    Matches,
    NearMiss,
    TextSpan,
    alike,
    begins_inside_indent,
    find,
    is_precise,
    line_number,
    nearest,
    replacement,
    whole_lines,
)
from ebbtide.tools.files.paths import read_call
from ebbtide.tools.files.text import Replacement, showable
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.plain_text import cut_line, number_lines

MAX_SHOWN_LINES = 40
"""Maximum number of lines shown after a loose match, or of a near miss."""
MAX_SHOWN_CHARS = 2000
"""Maximum number of characters of such a line."""
MIN_RECOGNISED_CHARS = 8
"""Minimum number of letters and digits by which new text can be recognised."""
MAX_NAMED_PLACES = 20
"""Maximum number of positions listed."""

DIFFERENCE_LABELS: dict[Closeness, str] = {"signs": "typographic signs", "blanks": "blanks"}
"""What differs from the file in a looser reading."""


@dataclass(frozen=True, slots=True)
class EditTarget:
    """The file to edit."""

    name: str
    text: str
    is_known: bool
    """Whether the model has seen its content. Otherwise errors show no lines of it."""


@dataclass(frozen=True, slots=True)
class TextEdit:
    changes: tuple[Replacement, ...]
    remark: str


def plan_edit(target: EditTarget, old: str, new: str, is_everywhere: bool) -> TextEdit:
    """Return the changes that the edit makes. If `old` is literally in the file, they are those of `str.replace`.
    Raises `ToolError` if `old` occurs several times, or if it is not there and the intention would be a guess."""
    matches = find(target.text, old)
    if old in target.text:
        return _exact_edit(target, matches, old, new, is_everywhere=is_everywhere)
    correction = None
    if not matches.places:
        _require_unapplied(target, old, new)
        matches, correction = _find_corrected(target, old, new)
    if correction is not None:
        old, new = correction.old, _new_of(correction, target, matches)
    if len(matches.places) > 1 and not (is_everywhere and correction is None):
        raise ToolError(_several(target, matches, correction))
    if not target.is_known and (matches.closeness != "exact" or correction is not None):
        raise ToolError(
            f"`old` is not exactly in `{target.name}`, which was not read in this session: "
            f"first {read_call(target.name)}"
        )
    inside = matches.closeness in ("exact", "signs") and begins_inside_indent(target.text, matches.places[0])
    if inside and ("\n" in old + new or indent_of(old) != indent_of(new)):
        matches = alike(target.text, old)
        if len(matches.places) != 1:
            raise ToolError(_several(target, matches, correction) if matches.places else _nowhere(target, old))
    new, is_ended = _match_line_end(target, matches, old, new)
    _require_sense(target, matches, old, new)
    places = matches.apart if new else [whole_lines(target.text, place, old) for place in matches.apart]
    try:
        changes = tuple(replacement(target.text, place, old, new) for place in places)
    except UnclearError as error:
        raise ToolError(_unclear(target, matches, str(error))) from error
    return TextEdit(changes, _remark(matches.closeness, correction, is_ended=is_ended))


def _exact_edit(target: EditTarget, matches: Matches, old: str, new: str, *, is_everywhere: bool) -> TextEdit:
    """Replace each occurrence of `old` with `new`, unchanged. Raises `ToolError` for several occurrences and for
    placeholders."""
    if len(matches.places) > 1 and not is_everywhere:
        raise ToolError(_several(target, matches, None))
    _refuse_placeholder(target, new)
    changes = tuple(Replacement(place.start, place.end, new) for place in matches.apart)
    return TextEdit(changes, "; ".join(_doubts(target, matches, old, new)))


def _doubts(target: EditTarget, matches: Matches, old: str, new: str) -> Iterator[str]:
    """Yield likely mistakes in an exact edit. It is applied anyway, and the model reads these notes with the result."""
    place = matches.places[0]
    before, behind = target.text[: place.start], target.text[place.end : place.end + 1]
    is_inside = bool(new or before) and not (before + new).endswith("\n")
    if old.endswith("\n") and is_inside and behind not in ("", "\n"):
        yield "`old` ends with a newline and `new` does not, so two lines were joined"
    if old in new and adds_once(new, old) and stands_in(new, old, target.text, place.start):
        yield "the file had `new` there already, so what it adds is there twice now"
    elif len(matches.places) == 1 and (line := duplicated_line(old, new, target.text[place.end :])) is not None:
        yield f"`new` ends with {line!r}, which already followed `old`, so it is there twice now"


def _require_unapplied(target: EditTarget, old: str, new: str) -> None:
    """Raise `ToolError` if the file already has the new text exactly once: the edit was already applied."""
    places = find(target.text, new) if target.is_known and sum(map(str.isalnum, new)) >= MIN_RECOGNISED_CHARS else None
    if places is None or places.closeness != "exact" or len(places.places) != 1 or old.strip() in new:
        return
    line = line_number(target.text, places.places[0].start)
    raise ToolError(
        f"`old` is not in `{target.name}`, but `new` is, at line {line}: this change is already made, so continue"
    )


def _find_corrected(target: EditTarget, old: str, new: str) -> tuple[Matches, Correction]:
    """Find `old` without artefacts that the model added. Raises `ToolError` if it is still not found."""
    tried = [(find(target.text, each.old), each) for each in corrections(old, new)]
    found = [
        (matches if is_precise(target.text, each.old, matches) else alike(target.text, each.old), each)
        for matches, each in tried
        if matches.places
    ]
    if not found:
        raise ToolError(_nowhere(target, old))
    ranks: tuple[Closeness, ...] = ("exact", "signs", "blanks")
    return min(found, key=lambda pair: (ranks.index(pair[0].closeness), len(pair[0].places)))


def _new_of(correction: Correction, target: EditTarget, matches: Matches) -> str:
    if correction.new is None:
        where = f"line {line_number(target.text, matches.places[0].start)} of `{target.name}`"
        raise ToolError(
            f"`old` is at {where} without its {correction.note}, but which of those in `new` are meant cannot be told: "
            "write both without"
        )
    if correction.new == correction.old:
        raise ToolError(f"`old` and `new` are identical without their {correction.note}: nothing would change")
    return correction.new


def _match_line_end(target: EditTarget, matches: Matches, old: str, new: str) -> tuple[str, bool]:
    """Add the final newline that only `old` has, unless joining the last line with the next may be intended. Also
    returns whether it was added. Raises `ToolError` if that is unclear."""
    if not old.endswith("\n") or not new or new.endswith("\n"):
        return new, False
    if new + "\n" == old or not all(_stands_apart(target.text, place, new) for place in matches.places):
        raise ToolError("`old` ends with a newline and `new` does not, which would join lines: end both alike")
    return new + "\n", True


def _stands_apart(text: str, place: TextSpan, new: str) -> bool:
    """Whether `new` cannot be meant to continue on the next line: that line is indented, does not exist, or would merge
    with it into one word."""
    behind = text[place.end :].partition("\n")[0]
    is_indented = bool(behind.strip()) and behind[0] in " \t"
    is_one_word = f"_{new[-1]}".isidentifier() and f"_{behind[:1]}".isidentifier() and bool(behind)
    return place.end == len(text) or is_indented or is_one_word


def _require_sense(target: EditTarget, matches: Matches, old: str, new: str) -> None:
    """Raise `ToolError` if the edit would change more than intended, or other lines than it seems to."""
    place = matches.places[0]
    _refuse_placeholder(target, new)
    if has_lost_indent(old.split("\n"), new.split("\n")):
        raise ToolError("the first line of `new` lacks the indentation that it has in `old`: write it as it is to be")
    if len(matches.places) == 1 and (line := duplicated_line(old, new, target.text[place.end :])) is not None:
        raise ToolError(
            f"`new` ends with {line!r}, which already follows `old` and would be there twice: include it in "
            "`old`, or leave it out of `new`"
        )
    if matches.closeness in ("exact", "signs"):
        _require_levels(target, place, old, new)
    odd = odd_indentation(old, new, target.text, target.text[place.start : place.end])
    if odd is not None:
        raise ToolError(f"{odd}: indent it as `{target.name}` is, and include an indented line of the file in `old`")
    escape = escapes_outside_quotes(old, new, target.text)
    if escape is not None:
        raise ToolError(f"`new` has `{escape}` outside of quotes: write it without the backslash, and newlines as such")


def _refuse_placeholder(target: EditTarget, new: str) -> None:
    """Raise `ToolError` for a placeholder such as `# ... existing code ...`, which would delete code."""
    missing = left_out(new, target.text)
    if missing is not None:
        raise ToolError(
            f"`new` has {missing!r} for lines that it leaves out: write them out, or replace less of the file"
        )


def _require_levels(target: EditTarget, place: TextSpan, old: str, new: str) -> None:
    """Raise `ToolError` if `old` matches exactly but the indentation of `new` is ambiguous."""
    before = target.text[target.text.rfind("\n", 0, place.start) + 1 : place.start]
    begins_empty = bool(new) and not new.split("\n")[0].strip()
    old, new = old.removesuffix("\n"), new.removesuffix("\n")
    is_unclear = is_level_unclear(before, old, new, lambda: step_of(target.text.split("\n")))
    if before and not before.strip() and "\n" in old and new:
        try:
            require_first_line(old.split("\n"), new.split("\n"), before)
        except UnclearError:
            is_unclear = True
    is_inside = bool(before) and not before.strip()
    is_unclear = is_unclear or (is_inside and has_odd_step(old, f"{before}{new}", step_of(target.text.split("\n"))))
    if is_unclear or (is_inside and begins_empty):
        raise ToolError(
            f"`old` starts after the indentation of line {line_number(target.text, place.start)} of `{target.name}`, "
            "so it is unclear how far the lines of `new` are to be indented: write both with the file's indentation"
        )


def _nowhere(target: EditTarget, old: str) -> str:
    if not target.is_known:
        return f"`old` is not in `{target.name}`, which was not read in this session: first {read_call(target.name)}"
    hint = "; it has `...` for lines that it leaves out: write them out" if left_out(old, target.text) else ""
    return f"`old` is not in `{target.name}`{hint}{near(nearest(target.text, old))}"


def _several(target: EditTarget, matches: Matches, correction: Correction | None) -> str:
    places = matches.places[:MAX_NAMED_PLACES]
    lines = ", ".join(str(line_number(target.text, place.start)) for place in places)
    taken_off = f" without its {correction.note}" if correction is not None else ""
    differing = "" if matches.closeness == "exact" else f" but for {DIFFERENCE_LABELS[matches.closeness]}"
    return (
        f"`old`{taken_off} is in `{target.name}` {len(matches.places)} times{differing}, at lines {lines}: "
        "add lines around it until it is unique, or set `replace_all`"
    )


def _unclear(target: EditTarget, matches: Matches, line: str) -> str:
    place = matches.places[0]
    first = line_number(target.text, place.start)
    here = target.text[place.start : place.end].removesuffix("\n").split("\n")
    shown = number_lines([cut_line(showable(each), MAX_SHOWN_CHARS) for each in here[:MAX_SHOWN_LINES]], first)
    return (
        f"`old` is at line {first} of `{target.name}` with other indentation, so it is unclear how far "
        f"{line.strip()!r} of `new` is to be indented: write `old` and `new` as the file has it:\n{shown}"
    )


def _remark(closeness: Closeness, correction: Correction | None, *, is_ended: bool) -> str:
    remarks = [f"`old` had {correction.note} that the file lacks"] if correction is not None else []
    if closeness in DIFFERENCE_LABELS:
        remarks.append(f"`old` differed from the file in {DIFFERENCE_LABELS[closeness]}")
    if is_ended:
        remarks.append("`new` was given the newline at the end of `old`")
    return "; ".join(remarks)


def near(miss: NearMiss | None) -> str:
    """Return the end of a sentence that shows the closest lines."""
    if miss is None:
        return ", and no lines are similar: read the file again"
    last = miss.first_line + len(miss.lines) - 1
    shown = number_lines(
        [cut_line(showable(line), MAX_SHOWN_CHARS) for line in miss.lines[:MAX_SHOWN_LINES]], miss.first_line
    )
    return f"; the closest lines are {miss.first_line}-{last}:\n{shown}"
