"""Heuristics that detect new text which was probably not meant literally. Pure."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from ebbtide.tools.files.indentation import (
    MAX_SCANNED_LINES,
    indent_of,
    indent_plausibility,
    indent_step,
    opens_block,
    second_line_indent,
)
from ebbtide.tools.files.punctuation import ascii_punctuation
from ebbtide.tools.lazy import regex

_COMMENT = regex(r"(?:#|//|/\*|<!--|\{/\*|--|;|%)[^\w]*|[\[(]?(?:\.\.\.|\u2026)")
_OMISSION_WORD = regex(r"(?i)\b(?:rest|remaining|remainder|existing|unchanged|previous|other|same|more|omitted)\b")
_ELLIPSIS = regex(r"(?:\.\.\.|\u2026)[\])]?\s*(?:\*/\}?|-->)?\Z|\A[^\w]*(?:\.\.\.|\u2026)")
_WORDS = regex(r"[\w\s'\u2019,.\u2026()\[\]#/*<>!;%{}-]{1,100}")
MAX_EXAMINED_OCCURRENCES = 20
"""Maximum number of examined occurrences of the old text in the new text."""
MIN_DISTINCTIVE_CHARS = 6
"""Minimum number of letters and digits in a distinctive line, i.e. one that code does not commonly repeat, unlike
`break`."""
_COMMON_LINE = regex(r"(?:return|break|continue|finally|default|else|except|end\w*)\b[\s\w]{0,8}[:;]?|@\w+")
_CLOSERS = ("}", ")", "]", "end", "fi", "done")

_ESCAPED_QUOTE = regex(r"\\['\"`]")


def omission_placeholder(new: str, text: str) -> str | None:
    """Return the first line of the new text that is a placeholder for omitted lines, such as `# ... existing code ...`,
    unless the file contains that line."""
    if "..." not in new and "\u2026" not in new:
        return None
    lines = (line.strip() for line in new.split("\n"))
    return next((line for line in lines if _is_placeholder(line) and line not in text), None)


def _is_placeholder(line: str) -> bool:
    """Whether the line is a short comment with three dots and a word for omission."""
    return all((_COMMENT.match(line), _ELLIPSIS.search(line), _OMISSION_WORD.search(line), _WORDS.fullmatch(line)))


def duplicated_line(old: str, new: str, following_text: str) -> str | None:
    """Return a line at the end of the new text that already follows the old text, so that it would be duplicated, or
    None. Models often continue the new text with the next lines of the file. `following_text`: the file's text after
    the old text."""
    if not (old.endswith("\n") or following_text.startswith("\n")) or new.endswith("\n") != old.endswith("\n"):
        return None
    new_lines, old_lines = ([line.rstrip() for line in each.removesuffix("\n").split("\n")] for each in (new, old))
    following = [
        line.rstrip()
        for line in following_text.removeprefix("" if old.endswith("\n") else "\n").split("\n", len(new_lines))
    ]
    for count in range(min(len(new_lines) - len(old_lines), len(following)), 0, -1):
        lines = new_lines[-count:]
        repeated = next(
            (line.strip() for line in lines if line not in old_lines and _is_distinctive(line.strip())), None
        )
        if repeated is not None and lines == following[:count]:
            return repeated
    return None


def is_already_applied(new: str, old: str, text: str, start: int) -> bool:
    """Whether the old text at that position already is part of an occurrence of the new text."""
    at = -1
    for _ in range(MAX_EXAMINED_OCCURRENCES):
        at = new.find(old, at + 1)
        if at < 0:
            return False
        if at <= start and text.startswith(new, start - at):
            return True
    return False


def adds_distinctive_text(new: str, old: str) -> bool:
    """Whether the new text adds something that code does not commonly repeat in a row. Blanks and brackets are commonly
    repeated."""
    added = new.replace(old, "", 1)
    if "\n" in added:
        return any(_is_distinctive(line.strip()) for line in added.split("\n"))
    return any(map(str.isalnum, added))


def _is_distinctive(line: str) -> bool:
    return sum(map(str.isalnum, line)) >= MIN_DISTINCTIVE_CHARS and not _COMMON_LINE.fullmatch(line)


def is_level_unclear(before: str, old: str, new: str, step: Callable[[], str]) -> bool:
    """Whether the lines of `new` after the first may be indented relative to the start of the first line instead of the
    margin: `old` is one line without its indentation, and that interpretation fits at least as well."""
    if not before or before.strip() or old != old.lstrip() or sum(map(bool, map(str.strip, old.split("\n")))) > 1:
        return False
    deeper = second_line_indent(new.split("\n"))
    if deeper is None:
        return False
    unit, opens = len(step()) or 4, opens_block(new.split("\n")[0])
    if deeper % unit and not len(before) % unit:
        return True  # not an indentation level of the file
    reindented = [line for line in new.split("\n")[1:] if line.strip() == old.strip() and indent_of(line) != before]
    if reindented and not opens:
        return True  # `new` repeats the old line with another indentation for no apparent reason
    return indent_plausibility(deeper, unit, opens=opens) >= indent_plausibility(
        deeper - len(before), unit, opens=opens
    )


def has_irregular_step(old: str, new: str, step: str) -> bool:
    """Whether a line after one that opens a block is indented by a different step than the file's. Used for text whose
    levels may differ from those of the file."""
    old_pairs = set(pairwise(line.strip() for line in old.split("\n") if line.strip()))
    lines = [line for line in new.split("\n") if line.strip()]
    return bool(step) and any(
        opens_block(above)
        and len(indent_of(below)) > len(indent_of(above))
        and len(indent_of(below)) - len(indent_of(above)) != len(step)
        and (above.strip(), below.strip()) not in old_pairs
        for above, below in pairwise(lines)
    )


def indentation_mismatch(old: str, new: str, text: str, file_text: str) -> str | None:
    """Return how the new text's indentation differs from the file's; None if it does not, or if the old text matches
    and has two levels to compare."""
    new_lines = [line for line in new.split("\n") if line.strip()]
    old_indents, file_indents = (
        {indent_of(line) for line in each.split("\n") if line.strip()} for each in (old, file_text)
    )
    indents = old_indents | file_indents
    if len(new_lines) < 2 or (file_text == old and len(indents) > 1):
        return None
    lines = [line for line in text.split("\n", MAX_SCANNED_LINES)[:MAX_SCANNED_LINES] if line.strip()]
    file_kinds, kinds = ({indent_of(line)[:1] for line in each} - {""} for each in (lines, new_lines[1:]))
    is_bare = old_indents == {""} and "" in file_indents  # a first line without indentation reveals no levels
    if is_bare and file_kinds and kinds - file_kinds:
        other = "tabs" if "\t" in kinds - file_kinds else "blanks"
        return f"`new` is indented by {other} and the file is not"
    step, old_pairs = indent_step(lines), set(pairwise(line for line in old.split("\n") if line.strip()))
    is_flat = _lacks_file_levels(old.split("\n"), file_text.split("\n")) and _open_same_blocks(
        old.split("\n"), new_lines
    )
    for above, below in pairwise(new_lines):
        deeper = len(indent_of(below)) - len(indent_of(above))
        if not opens_block(above) or (above, below) in old_pairs or (is_flat and deeper == 0):
            continue
        if step and deeper > 0 and (deeper != len(step) if is_bare else file_text == old and deeper % len(step)):
            return f"`new` is indented in steps of {deeper} and the file in steps of {len(step)}"
        if (
            deeper <= 0
            and not below.strip().startswith(_CLOSERS)
            and _is_always_followed_deeper(lines, above.rstrip()[-1])
        ):
            return f"nothing in `new` is indented below {above.strip()!r}"
    return None


def _lacks_file_levels(old: Sequence[str], here: Sequence[str]) -> bool:
    """Whether the old text lacks indentation levels that the file has, so that the levels of the new text can only be
    derived from the old lines in it."""
    both = [(one, other) for one, other in zip(old, here, strict=False) if one.strip()]
    return any(
        indent_of(a) == indent_of(b) and len(indent_of(there)) > len(indent_of(here_above))
        for (a, here_above), (b, there) in pairwise(both)
    )


def _open_same_blocks(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether both texts have the same number of non-blank lines, and the lines at the same positions open blocks."""
    opens = [[opens_block(line) for line in lines if line.strip()] for lines in (old, new)]
    return opens[0] == opens[1]


def _is_always_followed_deeper(lines: Sequence[str], sign: str) -> bool:
    """Whether the file has lines that end with the character, and each of them is followed by a deeper line."""
    pairs = [(a, b) for a, b in pairwise(lines) if a.rstrip().endswith(sign) and not b.strip().startswith(_CLOSERS)]
    return bool(pairs) and all(len(indent_of(b)) > len(indent_of(a)) for a, b in pairs)


def escapes_outside_quotes(old: str, new: str, text: str) -> str | None:
    r"""Return the first escape in the new text outside quotes, if neither the old text nor the file has any: `\n` for a
    newline, or `\"` in a line without other quotes."""
    if "\\" not in new:
        return None
    if (
        "\\n" in new
        and "\n" not in new
        and _has_unquoted_newline_escapes(new)
        and not _has_unquoted_newline_escapes(text)
    ):
        return "\\n"
    for line in new.split("\n"):
        if _has_only_escaped_quotes(line) and not any(
            _has_only_escaped_quotes(each) for each in (*old.split("\n"), *text.split("\n"))
        ):
            return "\\" + line[line.index("\\") + 1]
    return None


def _has_unquoted_newline_escapes(text: str) -> bool:
    split = (line.split("\\n") for line in text.split("\n") if "\\n" in line)
    return any(sum(map(bool, map(str.strip, pieces))) > 1 and all(map(_has_paired_quotes, pieces)) for pieces in split)


def _has_paired_quotes(piece: str) -> bool:
    return all(ascii_punctuation(piece).count(sign) % 2 == 0 for sign in "'\"`")


def _has_only_escaped_quotes(line: str) -> bool:
    """Whether the line has at least two quotes of one kind, and all of its quotes are escaped."""
    found = _ESCAPED_QUOTE.findall(line)
    return any(found.count(each) > 1 for each in found) and not any(
        sign in _ESCAPED_QUOTE.sub("", line) for sign in "'\"`"
    )
