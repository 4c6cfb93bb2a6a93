"""Heuristics for new text that was probably not meant literally. Pure."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from ebbtide.tools.files.indentation import MAX_SCANNED_LINES, first_step, indent_of, level_fit, opens_block, step_of
from ebbtide.tools.files.punctuation import plain_signs
from ebbtide.tools.lazy import regex

_COMMENT = regex(r"(?:#|//|/\*|<!--|\{/\*|--|;|%)[^\w]*|[\[(]?(?:\.\.\.|\u2026)")
_LEFT_OUT = regex(r"(?i)\b(?:rest|remaining|remainder|existing|unchanged|previous|other|same|more|omitted)\b")
_MARK = regex(r"(?:\.\.\.|\u2026)[\])]?\s*(?:\*/\}?|-->)?\Z|\A[^\w]*(?:\.\.\.|\u2026)")
_WORDS = regex(r"[\w\s'\u2019,.\u2026()\[\]#/*<>!;%{}-]{1,100}")
MAX_PARTS = 20
"""Maximum number of occurrences of the old text in the new text that are examined."""
MIN_DISTINCTIVE_CHARS = 6
"""Minimum number of letters and digits in a line that is not commonly repeated, unlike `break` or `return x`."""
_CUSTOMARY = regex(r"(?:return|break|continue|finally|default|else|except|end\w*)\b[\s\w]{0,8}[:;]?|@\w+")
_CLOSERS = ("}", ")", "]", "end", "fi", "done")

_ESCAPED_QUOTE = regex(r"\\['\"`]")


def left_out(new: str, text: str) -> str | None:
    """Return the first line of the new text that is a placeholder for omitted lines, such as `# ... existing code ...`,
    unless the file contains that line."""
    if "..." not in new and "\u2026" not in new:
        return None
    lines = (line.strip() for line in new.split("\n"))
    return next((line for line in lines if _is_placeholder(line) and line not in text), None)


def _is_placeholder(line: str) -> bool:
    """Whether the line is a short comment with three dots and a word for omission."""
    return all((_COMMENT.match(line), _MARK.search(line), _LEFT_OUT.search(line), _WORDS.fullmatch(line)))


def duplicated_line(old: str, new: str, behind: str) -> str | None:
    """Return a line at the end of the new text that already follows the old text, and would be duplicated. Models often
    continue with the following line. `behind`: the file from the end of the old text on."""
    if not (old.endswith("\n") or behind.startswith("\n")) or new.endswith("\n") != old.endswith("\n"):
        return None
    put, had = ([line.rstrip() for line in each.removesuffix("\n").split("\n")] for each in (new, old))
    following = [
        line.rstrip() for line in behind.removeprefix("" if old.endswith("\n") else "\n").split("\n", len(put))
    ]
    for count in range(min(len(put) - len(had), len(following)), 0, -1):
        lines = put[-count:]
        told = next((line.strip() for line in lines if line not in had and _is_distinctive(line.strip())), None)
        if told is not None and lines == following[:count]:
            return told
    return None


def stands_in(new: str, old: str, text: str, start: int) -> bool:
    """Whether the old text at that position is already part of an occurrence of the new text."""
    at = -1
    for _ in range(MAX_PARTS):
        at = new.find(old, at + 1)
        if at < 0:
            return False
        if at <= start and text.startswith(new, start - at):
            return True
    return False


def adds_once(new: str, old: str) -> bool:
    """Whether the new text adds something that code does not commonly repeat in a row, such as blanks and brackets."""
    added = new.replace(old, "", 1)
    if "\n" in added:
        return any(_is_distinctive(line.strip()) for line in added.split("\n"))
    return any(map(str.isalnum, added))


def _is_distinctive(line: str) -> bool:
    return sum(map(str.isalnum, line)) >= MIN_DISTINCTIVE_CHARS and not _CUSTOMARY.fullmatch(line)


def is_level_unclear(before: str, old: str, new: str, step: Callable[[], str]) -> bool:
    """Whether further lines of `new` may be indented relative to the margin or to the start of the first line. `old` is
    then one line without its indentation, and the second reading fits at least as well."""
    if not before or before.strip() or old != old.lstrip() or sum(map(bool, map(str.strip, old.split("\n")))) > 1:
        return False
    deeper = first_step(new.split("\n"))
    if deeper is None:
        return False
    unit, opens = len(step()) or 4, opens_block(new.split("\n")[0])
    if deeper % unit and not len(before) % unit:
        return True  # not an indentation level of the file
    moved = [line for line in new.split("\n")[1:] if line.strip() == old.strip() and indent_of(line) != before]
    if moved and not opens:
        return True  # the line itself is said to move, without a reason
    return level_fit(deeper, unit, opens=opens) >= level_fit(deeper - len(before), unit, opens=opens)


def has_odd_step(old: str, new: str, step: str) -> bool:
    """Whether a line below a block opener is indented by something other than a step of the file, in a text whose
    levels may not be those of the file."""
    known = set(pairwise(line.strip() for line in old.split("\n") if line.strip()))
    lines = [line for line in new.split("\n") if line.strip()]
    return bool(step) and any(
        opens_block(above)
        and len(indent_of(below)) > len(indent_of(above))
        and len(indent_of(below)) - len(indent_of(above)) != len(step)
        and (above.strip(), below.strip()) not in known
        for above, below in pairwise(lines)
    )


def odd_indentation(old: str, new: str, text: str, here: str) -> str | None:
    """Return how the new text's indentation differs from the file's, if the old text does not have two levels to
    compare."""
    put = [line for line in new.split("\n") if line.strip()]
    of_old, of_here = ({indent_of(line) for line in each.split("\n") if line.strip()} for each in (old, here))
    told = of_old | of_here
    if len(put) < 2 or (here == old and len(told) > 1):
        return None
    lines = [line for line in text.split("\n", MAX_SCANNED_LINES)[:MAX_SCANNED_LINES] if line.strip()]
    file_kinds, kinds = ({indent_of(line)[:1] for line in each} - {""} for each in (lines, put[1:]))
    is_bare = of_old == {""} and "" in of_here  # a first line without its indentation says nothing about levels
    if is_bare and file_kinds and kinds - file_kinds:
        other = "tabs" if "\t" in kinds - file_kinds else "blanks"
        return f"`new` is indented by {other} and the file is not"
    step, known = step_of(lines), set(pairwise(line for line in old.split("\n") if line.strip()))
    is_flat = _is_flat(old.split("\n"), here.split("\n")) and _opens_alike(old.split("\n"), put)
    for above, below in pairwise(put):
        deeper = len(indent_of(below)) - len(indent_of(above))
        if not opens_block(above) or (above, below) in known or (is_flat and deeper == 0):
            continue
        if step and deeper > 0 and (deeper != len(step) if is_bare else here == old and deeper % len(step)):
            return f"`new` is indented in steps of {deeper} and the file in steps of {len(step)}"
        if deeper <= 0 and not below.strip().startswith(_CLOSERS) and _always_deeper(lines, above.rstrip()[-1]):
            return f"nothing in `new` is indented below {above.strip()!r}"
    return None


def _is_flat(old: Sequence[str], here: Sequence[str]) -> bool:
    """Whether the old text lost indentation levels that the file has. The levels of the new text then follow only from
    its old lines."""
    both = [(one, other) for one, other in zip(old, here, strict=False) if one.strip()]
    return any(
        indent_of(a) == indent_of(b) and len(indent_of(there)) > len(indent_of(here_above))
        for (a, here_above), (b, there) in pairwise(both)
    )


def _opens_alike(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether both texts have the same number of non-blank lines, and the same of them open blocks."""
    opens = [[opens_block(line) for line in lines if line.strip()] for lines in (old, new)]
    return opens[0] == opens[1]


def _always_deeper(lines: Sequence[str], sign: str) -> bool:
    """Whether every line of the file that ends with the character is followed by a deeper one, and there is one."""
    pairs = [(a, b) for a, b in pairwise(lines) if a.rstrip().endswith(sign) and not b.strip().startswith(_CLOSERS)]
    return bool(pairs) and all(len(indent_of(b)) > len(indent_of(a)) for a, b in pairs)


def escapes_outside_quotes(old: str, new: str, text: str) -> str | None:
    r"""Return the first escape of the new text outside quotes, if neither the old text nor the file has any: `\n` for a
    newline, or `\"` in a line without other quotes."""
    if "\\" not in new:
        return None
    if "\\n" in new and "\n" not in new and _has_bare_line_ends(new) and not _has_bare_line_ends(text):
        return "\\n"
    for line in new.split("\n"):
        if _is_all_escaped(line) and not any(_is_all_escaped(each) for each in (*old.split("\n"), *text.split("\n"))):
            return "\\" + line[line.index("\\") + 1]
    return None


def _has_bare_line_ends(text: str) -> bool:
    split = (line.split("\\n") for line in text.split("\n") if "\\n" in line)
    return any(sum(map(bool, map(str.strip, pieces))) > 1 and all(map(_is_even, pieces)) for pieces in split)


def _is_even(piece: str) -> bool:
    return all(plain_signs(piece).count(sign) % 2 == 0 for sign in "'\"`")


def _is_all_escaped(line: str) -> bool:
    """Whether the line has at least two quotes of one kind, and all of its quotes are escaped."""
    found = _ESCAPED_QUOTE.findall(line)
    return any(found.count(each) > 1 for each in found) and not any(
        sign in _ESCAPED_QUOTE.sub("", line) for sign in "'\"`"
    )
