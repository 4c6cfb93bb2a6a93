"""Removes what models add when they quote text: line numbers, escapes, surrounding empty lines.

A correction gives `old` and `new` without such artefacts. It is used only if `old` itself is not in the file.
"""

from collections.abc import Iterator
from itertools import pairwise, takewhile

from ebbtide.tools.files.punctuation import ascii_punctuation
from ebbtide.tools.lazy import dataclass, regex


@dataclass(frozen=True, slots=True)
class Correction:
    old: str
    new: str | None
    """The new text; None if it is unclear what it would be without the artefact."""
    note: str
    """What was removed."""


_LINE_NUMBER_FORMS = tuple(
    regex(rf" *(\d+){separator}")
    for separator in (r"\t", "\u2192", "\u2192 ", r" \| ?", r"\|", "[:-]", ": ", r"\. ?", r"\) ?")
)
"""Matches line numbers as printed by `read`, `cat -n`, `grep -n` and other agents' tools."""
_BARE_LINE_NUMBER = regex(r" *(\d+)\Z")
"""Matches a line number with nothing after it, as printed for an empty line."""

_ESCAPE = regex(r"\\([ntr'\"`\\$])")
_QUOTE = regex(r"\\.|['\"`]")
_ESCAPE_VALUES = {"n": "\n", "t": "\t", "r": "\r"}


def possible_corrections(old: str, new: str) -> Iterator[Correction]:
    """Yield the corrections to try, in order."""
    yield from _without_numbers(old, new)
    yield from _without_empty_edges(old, new)
    yield from _without_escapes(old, new)


def _without_numbers(old: str, new: str) -> Iterator[Correction]:
    for number_form in _LINE_NUMBER_FORMS:
        lines = old.removesuffix("\n").split("\n")
        matches = [number_form.match(line) or _BARE_LINE_NUMBER.match(line) for line in lines]
        numbers = [int(match[1]) for match in matches if match is not None]
        if len(numbers) < len(lines) or any(following - number != 1 for number, following in pairwise(numbers)):
            continue
        if not any(number_form.match(line) for line in lines):
            continue
        old_without_numbers = "\n".join(
            line[match.end() :] for line, match in zip(lines, matches, strict=True) if match is not None
        )
        new_matches = [number_form.match(line) or _BARE_LINE_NUMBER.match(line) for line in new.split("\n")]
        numbered_flags = {
            match is not None for line, match in zip(new.split("\n"), new_matches, strict=True) if line.strip()
        }
        new_without_numbers = (
            None
            if len(numbered_flags) > 1 or (numbered_flags == {False} and number_form.pattern.endswith(" "))
            else new
        )
        if numbered_flags == {True}:
            new_without_numbers = "\n".join(
                line[match.end() :] if match else line for line, match in zip(new.split("\n"), new_matches, strict=True)
            )
        is_emptied = bool(new) and new_without_numbers == ""  # the result must be one empty line rather than no line
        has_final_newline = (
            old.endswith("\n") or is_emptied or (not new and old_without_numbers.endswith("\n"))
        )  # so that a numbered line without text is removed as well
        yield Correction(
            old_without_numbers + "\n" * has_final_newline, "\n" if is_emptied else new_without_numbers, "line numbers"
        )


def _without_empty_edges(old: str, new: str) -> Iterator[Correction]:
    """Yield the texts without surrounding empty lines, if both have the same number of them or only the old text has
    any."""
    if not old.strip() or not new.strip():
        return
    leading_count, new_leading_count = _count_leading_blank_lines(old), _count_leading_blank_lines(new)
    trailing_count, new_trailing_count = _count_leading_blank_lines(old[::-1]), _count_leading_blank_lines(new[::-1])
    if (
        (leading_count or trailing_count > 1)
        and new_leading_count in (0, leading_count)
        and new_trailing_count in (min(trailing_count, 1), trailing_count)
    ):
        old_lines, new_lines = old.split("\n"), new.split("\n")
        trimmed_old = old_lines[leading_count : len(old_lines) - trailing_count]
        trimmed_new = new_lines[new_leading_count : len(new_lines) - new_trailing_count]
        yield Correction("\n".join(trimmed_old), "\n".join(trimmed_new), "empty lines around it")


def _count_leading_blank_lines(text: str) -> int:
    """Count the blank lines at the start."""
    return sum(1 for _ in takewhile(lambda line: not line.strip(), text.split("\n")))


def _without_escapes(old: str, new: str) -> Iterator[Correction]:
    escaped, new_escaped = set(_ESCAPE.findall(old)), set(_ESCAPE.findall(new))
    if not escaped or ("n" in escaped and "\n" in old):
        return
    unescaped_new: str | None = _unescape(new) if new_escaped else new
    if not new_escaped <= escaped or ("n" in new_escaped and ("\n" in new or not _is_balanced(_unescape(new)))):
        unescaped_new = None
    yield Correction(_unescape(old), unescaped_new, "escapes")


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPE_VALUES.get(match[1], match[1]), text)


def _is_balanced(text: str) -> bool:
    r"""Whether every line's quotes are closed. Wrongly unescaping a `\n` inside a string would leave them open."""
    return all(map(_ends_outside_quotes, ascii_punctuation(text).split("\n")))


def _ends_outside_quotes(line: str) -> bool:
    open_quote = ""
    for match in _QUOTE.finditer(line):
        quote = match[0]
        if len(quote) == 1 and open_quote in ("", quote):
            open_quote = "" if open_quote else quote
    return not open_quote
