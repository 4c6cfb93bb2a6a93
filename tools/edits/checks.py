"""Heuristics that detect new text that was probably not meant literally."""

from collections.abc import Callable, Sequence
from itertools import islice, pairwise

from ebbtide.tools.edits.indentation import (
    MAX_SCANNED_LINES,
    indent_of,
    indent_plausibility,
    indent_step,
    opens_block,
    second_line_indent_width,
)
from ebbtide.tools.edits.matching import find_occurrences
from ebbtide.tools.files.punctuation import ascii_punctuation
from ebbtide.tools.lazy import regex

_COMMENT = regex(r"(?:#|//|/\*|<!--|\{/\*|--|;|%)[^\w]*|[\[(]?(?:\.\.\.|\u2026)")
_OMISSION_WORD = regex(r"(?i)\b(?:rest|remaining|remainder|existing|unchanged|previous|other|same|more|omitted)\b")
_ELLIPSIS = regex(r"(?:\.\.\.|\u2026)[\])]?\s*(?:\*/\}?|-->)?\Z|\A[^\w]*(?:\.\.\.|\u2026)")
_WORDS = regex(r"[\w\s'\u2019,.\u2026()\[\]#/*<>!;%{}-]{1,100}")
MAX_EXAMINED_OCCURRENCES = 20
"""Maximum number of occurrences of the old text in the new text that are examined."""
MIN_DISTINCTIVE_CHARS = 6
"""Minimum number of letters and digits in a distinctive line. Shorter ones, such as `break`, are often repeated in
code."""
_COMMON_LINE = regex(r"(?:return|break|continue|finally|default|else|except|end\w*)\b[\s\w]{0,8}[:;]?|@\w+")
_CLOSERS = ("}", ")", "]", "end", "fi", "done")

_ESCAPED_QUOTE = regex(r"\\['\"`]")


def find_omission_placeholder(new: str, text: str) -> str | None:
    """Find the first line of the new text that replaces omitted lines, such as `# ... existing code ...`. Lines that
    occur in the file are ignored."""
    if "..." not in new and "\u2026" not in new:
        return None
    lines = (line.strip() for line in new.split("\n"))
    return next((line for line in lines if _is_placeholder(line) and line not in text), None)


def _is_placeholder(line: str) -> bool:
    """Whether the line is a short comment with an ellipsis and a word such as `rest` or `unchanged`."""
    return all((_COMMENT.match(line), _ELLIPSIS.search(line), _OMISSION_WORD.search(line), _WORDS.fullmatch(line)))


def find_duplicated_line(old: str, new: str, following_text: str) -> str | None:
    """Find a line at the end of the new text that would be duplicated, because it already follows the old text. None if
    there is no such line. Models often continue the new text with the next lines of the file. `following_text`: the
    file's text after the old text."""
    if not (old.endswith("\n") or following_text.startswith("\n")) or new.endswith("\n") != old.endswith("\n"):
        return None
    new_lines, old_lines = ([line.rstrip() for line in text.removesuffix("\n").split("\n")] for text in (new, old))
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
    """Whether the old text at offset `start` is already part of an occurrence of the new text."""
    return any(
        offset <= start and text.startswith(new, start - offset)
        for offset in islice(find_occurrences(new, old), MAX_EXAMINED_OCCURRENCES)
    )


def adds_distinctive_text(new: str, old: str) -> bool:
    """Whether the new text adds something distinctive. Spaces and brackets, for example, are often repeated in code."""
    added = new.replace(old, "", 1)
    if "\n" in added:
        return any(_is_distinctive(line.strip()) for line in added.split("\n"))
    return any(map(str.isalnum, added))


def _is_distinctive(line: str) -> bool:
    return sum(map(str.isalnum, line)) >= MIN_DISTINCTIVE_CHARS and not _COMMON_LINE.fullmatch(line)


def is_level_unclear(before: str, old: str, new: str, get_indent_step: Callable[[], str]) -> bool:
    """Whether the later lines of `new` may be indented relative to its first line instead of the margin. True if `old`
    is one line without its indentation, and the relative reading is at least as plausible."""
    if not before or before.strip() or old != old.lstrip() or sum(map(bool, map(str.strip, old.split("\n")))) > 1:
        return False
    second_width = second_line_indent_width(new.split("\n"))
    if second_width is None:
        return False
    unit, starts_block = len(get_indent_step()) or 4, opens_block(new.split("\n")[0])
    if second_width % unit and not len(before) % unit:
        return True  # not an indentation level of the file
    reindented = [line for line in new.split("\n")[1:] if line.strip() == old.strip() and indent_of(line) != before]
    if reindented and not starts_block:
        return True  # `new` repeats the old line with another indentation for no apparent reason
    return indent_plausibility(second_width, unit, follows_opener=starts_block) >= indent_plausibility(
        second_width - len(before), unit, follows_opener=starts_block
    )


def has_irregular_step(old: str, new: str, step: str) -> bool:
    """Whether a line that follows a block opener is indented by a step other than the file's. Used for text whose
    indentation levels may differ from the file's."""
    old_pairs = set(pairwise(line.strip() for line in old.split("\n") if line.strip()))
    lines = [line for line in new.split("\n") if line.strip()]
    return bool(step) and any(
        opens_block(above)
        and len(indent_of(below)) > len(indent_of(above))
        and len(indent_of(below)) - len(indent_of(above)) != len(step)
        and (above.strip(), below.strip()) not in old_pairs
        for above, below in pairwise(lines)
    )


def find_indentation_mismatch(old: str, new: str, text: str, file_text: str) -> str | None:
    """Describe how the new text's indentation differs from the file's. None if it does not differ, or if the old text
    matches and has two levels to compare."""
    new_lines = [line for line in new.split("\n") if line.strip()]
    old_indents, file_indents = (
        {indent_of(line) for line in lines_text.split("\n") if line.strip()} for lines_text in (old, file_text)
    )
    indents = old_indents | file_indents
    if len(new_lines) < 2 or (file_text == old and len(indents) > 1):
        return None
    lines = [line for line in text.split("\n", MAX_SCANNED_LINES)[:MAX_SCANNED_LINES] if line.strip()]
    file_kinds, kinds = (
        {indent_of(line)[:1] for line in indented_lines} - {""} for indented_lines in (lines, new_lines[1:])
    )
    lacks_indent = old_indents == {""} and "" in file_indents  # a first line without indentation reveals no levels
    if lacks_indent and file_kinds and kinds - file_kinds:
        new_kind = "tabs" if "\t" in kinds - file_kinds else "spaces"
        return f"`new` is indented by {new_kind} and the file is not"
    step, old_pairs = indent_step(lines), set(pairwise(line for line in old.split("\n") if line.strip()))
    is_flat = _lacks_file_levels(old.split("\n"), file_text.split("\n")) and _open_same_blocks(
        old.split("\n"), new_lines
    )
    for above, below in pairwise(new_lines):
        extra_width = len(indent_of(below)) - len(indent_of(above))
        if not opens_block(above) or (above, below) in old_pairs or (is_flat and extra_width == 0):
            continue
        if (
            step
            and extra_width > 0
            and (extra_width != len(step) if lacks_indent else file_text == old and extra_width % len(step))
        ):
            return f"`new` is indented in steps of {extra_width} and the file in steps of {len(step)}"
        if (
            extra_width <= 0
            and not below.strip().startswith(_CLOSERS)
            and _is_always_followed_by_deeper_line(lines, above.rstrip()[-1])
        ):
            return f"nothing in `new` is indented below {above.strip()!r}"
    return None


def _lacks_file_levels(old: Sequence[str], file_lines: Sequence[str]) -> bool:
    """Whether the old text lacks indentation levels that the file has. If so, the new text's levels can be derived only
    from old lines that it repeats."""
    pairs = [(old_line, file_line) for old_line, file_line in zip(old, file_lines, strict=False) if old_line.strip()]
    return any(
        indent_of(old_above) == indent_of(old_below) and len(indent_of(file_below)) > len(indent_of(file_above))
        for (old_above, file_above), (old_below, file_below) in pairwise(pairs)
    )


def _open_same_blocks(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether both texts have the same number of non-blank lines and open blocks at the same positions."""
    old_openings, new_openings = ([opens_block(line) for line in lines if line.strip()] for lines in (old, new))
    return old_openings == new_openings


def _is_always_followed_by_deeper_line(lines: Sequence[str], character: str) -> bool:
    """Whether lines end with the character, and the line after each of them is indented further."""
    pairs = [
        (above, below)
        for above, below in pairwise(lines)
        if above.rstrip().endswith(character) and not below.strip().startswith(_CLOSERS)
    ]
    return bool(pairs) and all(len(indent_of(below)) > len(indent_of(above)) for above, below in pairs)


def find_escape_outside_quotes(old: str, new: str, text: str) -> str | None:
    r"""Find the first escape outside quotes in the new text, if neither the old text nor the file has any. An escape is
    `\n` for a newline, or `\"` in a line without other quotes."""
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
            _has_only_escaped_quotes(other_line) for other_line in (*old.split("\n"), *text.split("\n"))
        ):
            return "\\" + line[line.index("\\") + 1]
    return None


def _has_unquoted_newline_escapes(text: str) -> bool:
    split_lines = (line.split("\\n") for line in text.split("\n") if "\\n" in line)
    return any(
        sum(map(bool, map(str.strip, pieces))) > 1 and all(map(_has_paired_quotes, pieces)) for pieces in split_lines
    )


def _has_paired_quotes(piece: str) -> bool:
    return all(ascii_punctuation(piece).count(quote) % 2 == 0 for quote in "'\"`")


def _has_only_escaped_quotes(line: str) -> bool:
    """Whether the line has at least two quotes of one kind, and all of its quotes are escaped."""
    escaped_quotes = _ESCAPED_QUOTE.findall(line)
    return any(escaped_quotes.count(escaped_quote) > 1 for escaped_quote in escaped_quotes) and not any(
        quote in _ESCAPED_QUOTE.sub("", line) for quote in "'\"`"
    )
