"""Aligns three versions of the same lines: as the model quoted them, as the model wants them, and as they are in the
file.

Lines that occur in both the old and the new text keep the file's bytes. Other lines get the file's indentation and
punctuation.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from itertools import pairwise

from ebbtide.tools.edits.indentation import (
    IndentMap,
    indent_of,
    indent_plausibility,
    opens_block,
    second_line_indent_width,
)
from ebbtide.tools.files.line_diff import find_differing_regions
from ebbtide.tools.files.punctuation import FilePunctuation
from ebbtide.tools.lazy import dataclass

MAX_EXACT_PAIRS = 160_000
"""Maximum number of line pairs for which all best alignments are compared. If there are more pairs, only one alignment
is used."""
MIN_SIMILARITY = 0.5
"""Minimum similarity, from 0 to 1, for one line to count as a changed version of another."""
MAX_COMPARED_PAIRS = 400
"""Maximum number of pairs of changed lines for which similarity is computed."""


class AmbiguousLineError(Exception):
    """Raised if it is ambiguous how to write a line of the new text in the file's style."""


@dataclass(frozen=True, slots=True)
class AlignedBlock:
    """Lines as the model quoted them, with the corresponding lines of the file."""

    old: Sequence[str]
    file_lines: Sequence[str]
    new: Sequence[str]
    marked_pairs: Sequence[tuple[int, int]] = ()
    """Lines that the model marked as unchanged, as ascending pairs of indices in `old` and `new`."""
    indent_step: Callable[[], str] = field(default=str)
    """Returns one level of the file's indentation."""


def rewrite_block(block: AlignedBlock) -> list[str]:
    """Write the new lines in the file's style. Raises `AmbiguousLineError` if the style is ambiguous."""
    if list(block.old) == list(block.file_lines):
        return list(block.new)
    if block.old and block.new and has_lost_indent(block.old, block.new):
        raise AmbiguousLineError(block.new[0])
    rewriter = _BlockRewriter(block)
    if block.marked_pairs:
        rewriter.require_unchanged()
    return rewriter.rewrite()


class _BlockRewriter:
    def __init__(self, block: AlignedBlock) -> None:
        self.old = block.old
        self.file_lines = block.file_lines
        self.new = block.new
        self.marked_pairs = block.marked_pairs
        self.indent_step = block.indent_step
        if self.new and _begins_with_moved_line(self.old, self.new):
            raise AmbiguousLineError(self.new[0])
        lost_indent = _find_lost_indent(self.old, self.file_lines)
        if lost_indent is not None:
            self.old, self.new = _restore_indent(self.old, self.new, lost_indent)
        else:
            lacks_indent = (
                bool(self.old[0].strip()) and not indent_of(self.old[0]) and bool(indent_of(self.file_lines[0]))
            )
            if lacks_indent and _have_same_lines(self.old, self.new, _stripped):
                raise AmbiguousLineError(self.old[0])
            self._require_clear_levels([index for index, line in enumerate(self.old) if line.strip()])
        self._require_uniform_steps()
        self.model_indents = frozenset(indent_of(line) for line in (*self.old, *self.new) if line.strip())
        self.indent_map = self._create_indent_map(range(len(self.old)))
        self.punctuation = FilePunctuation.from_texts("\n".join(self.old), "\n".join(self.file_lines))
        line_pairs = list(zip(self.old, self.file_lines, strict=True))
        self.has_extra_trailing_whitespace = any(
            old != old.rstrip() and file_line == file_line.rstrip() for old, file_line in line_pairs
        )
        self.empty_line_pairs = _empty_line_pairs(self.old, self.new)
        self.file_texts: dict[str, set[str]] = {}
        for old, file_line in line_pairs:
            self.file_texts.setdefault(_stripped(old), set()).add(_stripped(file_line))

    def rewrite(self) -> list[str]:
        return list(self._rewritten_lines(self.marked_pairs, len(self.old), len(self.new)))

    def require_unchanged(self) -> None:
        """Check that the lines marked as unchanged can be matched in only one way, or that every way gives the same
        result. Different lines may look alike if the model quoted them without indentation. Raises
        `AmbiguousLineError`."""
        self._find_unchanged_pairs(range(len(self.old)), range(len(self.new)))

    def _require_clear_levels(self, text_indices: Sequence[int]) -> None:
        """Check that the indentation of the new lines is clear if only one old line is not blank. `text_indices`:
        indices of the old lines that are not blank. Raises `AmbiguousLineError`."""
        new = [line for line in self.new if line.strip()]
        second_width = second_line_indent_width(new)
        if len(text_indices) != 1 or second_width is None:
            return
        file_indent, starts_block = indent_of(self.file_lines[text_indices[0]]), opens_block(new[0])
        if indent_of(self.old[text_indices[0]]):
            if (
                self.old[text_indices[0]] != self.file_lines[text_indices[0]]
                and second_width > len(indent_of(new[0]))
                and not starts_block
            ):
                raise AmbiguousLineError(new[1])
        elif file_indent:
            unit = len(self.indent_step()) or 4
            plausibility = indent_plausibility(second_width, unit, follows_opener=starts_block)
            depths = [len(indent_of(line)) for line in new]
            if plausibility < 2 or plausibility <= indent_plausibility(
                second_width - len(file_indent), unit, follows_opener=starts_block
            ):
                raise AmbiguousLineError(new[1])
            if any((depth - depths[0]) % unit for depth in depths):
                raise AmbiguousLineError(next(line for line in new if (len(indent_of(line)) - depths[0]) % unit))

    def _require_uniform_steps(self) -> None:
        """Check that a line that follows a block opener is at most one indentation step deeper. Pairs of lines that
        also occur in the old text are not checked. Raises `AmbiguousLineError`."""
        old, new = ([line for line in lines if line.strip()] for lines in (self.old, self.new))
        depths = sorted({len(indent_of(line)) for line in (*old, *new)})
        step = min((wider - narrower for narrower, wider in pairwise(depths)), default=0)
        old_pairs = set(pairwise(old))
        for above, below in pairwise(new):
            extra_width = len(indent_of(below)) - len(indent_of(above))
            if opens_block(above) and extra_width > 0 and extra_width != step and (above, below) not in old_pairs:
                raise AmbiguousLineError(below)

    def _create_indent_map(self, old_range: range) -> IndentMap:
        pairs = (
            (indent_of(self.old[index]), indent_of(self.file_lines[index]))
            for index in old_range
            if self.old[index].strip()
        )
        return IndentMap(frozenset(pairs), self.model_indents, self.indent_step)

    def _rewritten_lines(self, marked_pairs: Sequence[tuple[int, int]], old_end: int, new_end: int) -> Iterator[str]:
        old_start = new_start = 0
        for old_stop, new_stop in [*marked_pairs, (old_end, new_end)]:
            pairs = self._find_unchanged_pairs(range(old_start, old_stop), range(new_start, new_stop))
            for old_index, new_index in pairs:
                yield from self._changed_lines(range(old_start, old_index), range(new_start, new_index))
                yield self._unchanged_line(old_index, new_index)
                old_start, new_start = old_index + 1, new_index + 1
            yield from self._changed_lines(range(old_start, old_stop), range(new_start, new_stop))
            if new_stop < new_end:
                yield self.file_lines[old_stop]
            old_start, new_start = old_stop + 1, new_stop + 1

    def _find_unchanged_pairs(self, old_range: range, new_range: range) -> list[tuple[int, int]]:
        """Pair the lines that occur in both texts. Raises `AmbiguousLineError` if another pairing would give a
        different result."""
        old_texts = [_stripped(self.old[old_index]) for old_index in old_range]
        new_texts = [_stripped(self.new[new_index]) for new_index in new_range]
        if len(old_range) * len(new_range) > MAX_EXACT_PAIRS:
            if len(self.indent_map.pairs) > len({model_indent for model_indent, _ in self.indent_map.pairs}):
                raise AmbiguousLineError(self.new[new_range.start])
            return [
                (old_index + old_range.start, new_index + new_range.start)
                for old_index, new_index in _equal_pairs(old_texts, new_texts)
            ]
        weights = [
            [
                self._pair_weight(old_index, new_index) if _stripped(self.new[new_index]) == old_text else 0
                for new_index in new_range
            ]
            for old_index, old_text in zip(old_range, old_texts, strict=True)
        ]
        pairs = []
        for old_index, new_index, old_indices, may_be_new in _choose_best_pairs(
            weights, len(old_range), len(new_range)
        ):
            self._require_same_result(
                [row + old_range.start for row in old_indices], may_be_new, new_index + new_range.start
            )
            pairs.append((old_index + old_range.start, new_index + new_range.start))
        return pairs

    def _pair_weight(self, old_index: int, new_index: int) -> int:
        old_line, new_line = self.old[old_index], self.new[new_index]
        return 4 if old_line == new_line else 3 if old_line.rstrip() == new_line.rstrip() else 2

    def _require_same_result(self, old_indices: Sequence[int], may_be_new: bool, new_index: int) -> None:
        """Check that a new line gets the same result whichever old line it corresponds to, and also if it was added.
        Raises `AmbiguousLineError`."""
        if len(old_indices) + may_be_new < 2:
            return
        outcomes = {self._unchanged_line(old_index, new_index) for old_index in old_indices}
        if may_be_new and self.new[new_index].strip():
            outcomes = {outcome.rstrip() for outcome in outcomes}
            indent = self.indent_map.translate(indent_of(self.new[new_index]))
            outcomes.add("" if indent is None else indent + self._text_with_file_style(new_index).rstrip())
        if len(outcomes) > 1:
            raise AmbiguousLineError(self.new[new_index])

    def _unchanged_line(self, old_index: int, new_index: int) -> str:
        """Return a line that occurs in both texts. It keeps the file's bytes, but is re-indented if the model moved
        it."""
        old_line, new_line, file_line = self.old[old_index], self.new[new_index], self.file_lines[old_index]
        if not file_line.strip() and new_index in self.empty_line_pairs:
            return file_line
        if old_line.rstrip() != old_line and new_line.rstrip() == new_line and file_line.rstrip() != file_line:
            file_line = file_line.rstrip()
        if indent_of(old_line) == indent_of(new_line) or not file_line.strip():
            return file_line
        indent = self.indent_map.translate(indent_of(new_line))
        if indent is None:
            raise AmbiguousLineError(new_line)
        return indent + file_line.lstrip(" \t")

    def _changed_lines(self, old_range: range, new_range: range) -> Iterator[str]:
        """Yield the lines that replace old lines or are inserted between unchanged ones."""
        partners = self._partners(old_range, new_range)
        for new_index in new_range:
            line = self.new[new_index]
            if not line.strip():
                old_index = self.empty_line_pairs.get(new_index)
                yield (
                    self.file_lines[old_index]
                    if old_index is not None
                    else ""
                    if self.has_extra_trailing_whitespace
                    else line
                )
                continue
            indent = self._infer_file_indent(new_index, old_range, new_range, partners)
            if indent is None:
                raise AmbiguousLineError(line)
            yield indent + self._text_with_file_style(new_index, partners.get(new_index))

    def _infer_file_indent(
        self, new_index: int, old_range: range, new_range: range, partners: dict[int, int]
    ) -> str | None:
        indent = indent_of(self.new[new_index])
        file_indent = self.indent_map.translate(indent)
        if file_indent is not None:
            return file_indent
        if len(self.indent_map.file_indents(indent)) < 2:
            return (
                self._create_indent_map(old_range).translate(indent)
                if old_range and not self.indent_map.has_merged_levels
                else None
            )
        partner = partners.get(new_index)
        if (
            partner is not None
            and len(old_range) == len(new_range) == len(partners)
            and indent == indent_of(self.old[partner])
        ):
            return indent_of(self.file_lines[partner])
        if len(new_range) > 1:
            return None
        if old_range:
            return (
                self._create_indent_map(old_range).translate(indent)
                if self._create_indent_map(old_range).file_indents(indent)
                else None
            )
        return self._indent_between(indent, old_range.start)

    def _indent_between(self, indent: str, next_index: int) -> str | None:
        """Return the file's indentation for a line between two lines on the same level. None if there are no such
        lines."""
        neighbours = [
            index
            for index in (next_index - 1, next_index)
            if 0 <= index < len(self.old) and indent_of(self.old[index]) == indent
        ]
        file_indents = {indent_of(self.file_lines[index]) for index in neighbours if self.old[index].strip()}
        return file_indents.pop() if len(neighbours) == 2 and len(file_indents) == 1 else None

    def _partners(self, old_range: range, new_range: range) -> dict[int, int]:
        """Map each changed line to the old line that it corresponds to, if that is clear."""
        if len(old_range) == len(new_range) == 1:
            return {new_range.start: old_range.start}
        if not old_range or len(old_range) * len(new_range) > MAX_COMPARED_PAIRS:
            return {}
        if len(old_range) == len(new_range):
            return {
                new_index: old_index
                for old_index, new_index in zip(old_range, new_range, strict=True)
                if self._similarity(old_index, new_index) >= MIN_SIMILARITY
            }
        partners, search_start = dict[int, int](), old_range.start
        for new_index in new_range:
            most_similar = max(
                range(search_start, old_range.stop),
                key=lambda old_index: self._similarity(old_index, new_index),
                default=None,
            )
            if most_similar is not None and self._similarity(most_similar, new_index) >= MIN_SIMILARITY:
                partners[new_index], search_start = most_similar, most_similar + 1
        return partners

    def _similarity(self, old_index: int, new_index: int) -> float:
        from difflib import SequenceMatcher  # noqa: PLC0415  # deferred: only changed lines of a loose match need it

        return SequenceMatcher(
            None, _stripped(self.old[old_index]), _stripped(self.new[new_index]), autojunk=False
        ).ratio()

    def _text_with_file_style(self, new_index: int, partner: int | None = None) -> str:
        """Return a new line without indentation, with the file's punctuation and the trailing whitespace of its
        corresponding old line."""
        line = self.new[new_index].lstrip(" \t")
        file_texts = self.file_texts.get(_stripped(line), set())
        line = line.rstrip() if self.has_extra_trailing_whitespace else line
        if len(file_texts) == 1:
            return next(iter(file_texts)) + line[len(line.rstrip(" \t")) :]
        if partner is None:
            return self.punctuation.apply_to(line)
        old_text, file_text = self.old[partner].lstrip(" \t"), self.file_lines[partner].lstrip(" \t")
        line = self.punctuation.adapt_text(old_text.rstrip(), line, file_text.rstrip())
        lacks_whitespace = line == line.rstrip() and (
            old_text == old_text.rstrip() or self.has_extra_trailing_whitespace
        )
        return line + file_text[len(file_text.rstrip()) :] if lacks_whitespace else line


def _find_lost_indent(old: Sequence[str], file_lines: Sequence[str]) -> str | None:
    """Return the indentation that only the first line lost. None if it lost none. Raises `AmbiguousLineError` if the
    later lines do not make this clear."""
    first_indent, quoted_indent = indent_of(file_lines[0]), indent_of(old[0])
    later_indents = {
        (indent_of(file_line), indent_of(old_line))
        for old_line, file_line in zip(old[1:], file_lines[1:], strict=True)
        if old_line.strip()
    }
    is_shifted = not quoted_indent or all(
        old_indent == quoted_indent + file_indent for file_indent, old_indent in later_indents
    )
    if not old[0].strip() or not first_indent or not later_indents or not is_shifted:
        return None
    expected = (
        quoted_indent + first_indent if quoted_indent else IndentMap(frozenset(later_indents)).translate(first_indent)
    )
    if expected is not None:
        return expected if len(expected) > len(quoted_indent) else None
    if not quoted_indent and any(
        old_indent and len(file_indent) <= len(first_indent) for file_indent, old_indent in later_indents
    ):
        raise AmbiguousLineError(old[0])
    return None


def _restore_indent(old: Sequence[str], new: Sequence[str], indent: str) -> tuple[list[str], list[str]]:
    """Restore the indentation of the first line of both texts. Raises `AmbiguousLineError`."""
    if not new or not new[0].strip() or indent_of(new[0]) != indent_of(old[0]):
        raise AmbiguousLineError(new[0] if new else "")
    require_same_first_indent(old, new, indent)
    return [indent + old[0].lstrip(" \t"), *old[1:]], [indent + new[0].lstrip(" \t"), *new[1:]]


def require_same_first_indent(old: Sequence[str], new: Sequence[str], indent: str) -> None:
    """Check that the first lines of both texts, which both lack their indentation, are meant to have the same
    indentation. Raises `AmbiguousLineError`."""
    if _have_same_lines(old, new, str.rstrip):
        raise AmbiguousLineError(new[0])  # the purpose of the change may be this indentation
    first_text, old_texts = _stripped(new[0]), [_stripped(line) for line in old]
    possible_indents: set[str] = {indent}
    if first_text != old_texts[0] or [_stripped(line) for line in new].count(first_text) != old_texts.count(first_text):
        possible_indents |= {
            indent_of(line) for line, old_text in zip(old[1:], old_texts[1:], strict=True) if old_text == first_text
        }
        possible_indents |= {indent_of(line) for line in new[1:] if _stripped(line) == old_texts[0]}
    if len(possible_indents) > 1 or _has_reindented_line(old[1:], new[1:]):
        raise AmbiguousLineError(new[0])


def _have_same_lines(old: Sequence[str], new: Sequence[str], strip: Callable[[str], str]) -> bool:
    """Whether both texts have the same lines, apart from empty lines and what `strip` removes."""
    return [strip(line) for line in old if line.strip()] == [strip(line) for line in new if line.strip()]


def _empty_line_pairs(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    """Pair the empty lines of both texts, if the new text differs only by omitted lines. Keys are indices in the new
    text."""
    old_texts, new_texts = [_stripped(line) for line in old], [_stripped(line) for line in new]
    if len(new) >= len(old) or any(
        region.new_end > region.new_start for region in find_differing_regions(old_texts, new_texts)
    ):
        return {}
    return {
        new_index: old_index for old_index, new_index in _equal_pairs(old_texts, new_texts) if not new_texts[new_index]
    }


def _has_reindented_line(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether the new text indents a line differently."""
    old_indents, new_indents = (
        {_stripped(line): list[str]() for line in lines if line.strip()} for lines in (old, new)
    )
    for line, indents_by_text in [*((line, old_indents) for line in old), *((line, new_indents) for line in new)]:
        if line.strip():
            indents_by_text[_stripped(line)].append(indent_of(line))
    return any(
        indents != old_indents[text]
        if len(indents) == len(old_indents[text])
        else not set(indents) <= set(old_indents[text])
        for text, indents in new_indents.items()
        if text in old_indents
    )


def _begins_with_moved_line(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether the new text begins with a later line of the old text, but without that line's indentation. The
    indentation might have been lost by mistake."""
    first_text = _stripped(new[0])
    later_indents = {indent_of(line) for line in old[1:] if _stripped(line) == _stripped(new[0])}
    return (
        bool(first_text)
        and not indent_of(new[0])
        and _stripped(old[0]) != first_text
        and bool(later_indents)
        and "" not in later_indents
    )


def has_lost_indent(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether the new text begins with a later line of the old text that has lost its indentation, while the line after
    it has kept its own. If the first line were meant to leave its block, no deeper line would follow it."""
    next_line = next((line for line in new[1:] if line.strip()), "")
    return _begins_with_moved_line(old, new) and bool(indent_of(next_line)) and next_line in old[1:]


def _stripped(line: str) -> str:
    return line.strip(" \t")


def _equal_pairs(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    old_index = new_index = 0
    for region in find_differing_regions(old, new):
        yield from zip(range(old_index, region.old_start), range(new_index, region.new_start), strict=True)
        old_index, new_index = region.old_end, region.new_end
    yield from zip(range(old_index, len(old)), range(new_index, len(new)), strict=True)


def _choose_best_pairs(
    weights: list[list[int]], row_count: int, column_count: int
) -> Iterator[tuple[int, int, list[int], bool]]:
    """Find the ascending pairing of rows and columns with the greatest total weight, and yield its pairs. Each comes
    with all rows that equally good pairings assign to the column, and with whether one of them leaves the column
    unpaired."""
    weights_after = _best_weights_from(weights, row_count, column_count)
    reversed_weights = _best_weights_from([row[::-1] for row in weights[::-1]], row_count, column_count)
    weights_before = [row[::-1] for row in reversed_weights[::-1]]
    best_total = weights_after[0][0]
    row_index = column_index = 0
    while row_index < row_count and column_index < column_count:
        weight = weights[row_index][column_index]
        if weight and weight + weights_after[row_index + 1][column_index + 1] == weights_after[row_index][column_index]:
            candidates = [row for row in range(row_count) if weights[row][column_index]]
            possible_rows = [
                row
                for row in candidates
                if weights_before[row][column_index]
                + weights[row][column_index]
                + weights_after[row + 1][column_index + 1]
                == best_total
            ]
            yield (
                row_index,
                column_index,
                possible_rows,
                any(
                    weights_before[row][column_index] + weights_after[row][column_index + 1] == best_total
                    for row in range(row_count + 1)
                ),
            )
            row_index, column_index = row_index + 1, column_index + 1
        elif weights_after[row_index + 1][column_index] == weights_after[row_index][column_index]:
            row_index += 1
        else:
            column_index += 1


def _best_weights_from(weights: list[list[int]], row_count: int, column_count: int) -> list[list[int]]:
    """Return, for each position, the greatest total weight of pairs from there on."""
    sums = [[0] * (column_count + 1) for _ in range(row_count + 1)]
    for row_index in range(row_count - 1, -1, -1):
        row_weights, sums_below, row_sums = weights[row_index], sums[row_index + 1], sums[row_index]
        for column_index in range(column_count - 1, -1, -1):
            best = max(sums_below[column_index], row_sums[column_index + 1])
            row_sums[column_index] = (
                max(best, row_weights[column_index] + sums_below[column_index + 1])
                if row_weights[column_index]
                else best
            )
    return sums
