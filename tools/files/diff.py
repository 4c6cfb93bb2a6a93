"""Unified diffs, in nearly linear time."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from ebbtide.tools.files.line_diff import Region, find_differing_regions
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.extent import pluralize

MAX_DIFF_LINES = 200_000
"""Maximum number of lines of a diff."""
CONTEXT_LINES = 3
"""Number of unchanged lines shown before and after a change."""
NO_FINAL_NEWLINE = "\\ No newline at end of file"

HunkGroup: TypeAlias = list[Region]

_CONTROL_CHARACTER = regex(r"[\x00-\x1f\x7f]")


def unified_diff(name: str, old_text: str | None, new_text: str | None, new_name: str | None = None) -> list[str]:
    r"""Format a unified diff, as lines. None means a missing file. Only `\n` ends a line, so other line endings are
    visible."""
    old, new = split_lines(old_text), split_lines(new_text)
    lines = [line for group in _hunk_groups(find_differing_regions(old, new)) for line in _hunk(group, old, new)]
    is_new, is_deleted = old_text is None, new_text is None
    if not (lines or is_new or is_deleted or new_name):
        return []
    return [*diff_header(name, new_name, is_new=is_new, is_deleted=is_deleted), *lines]


def count_changed_lines(old_text: str, new_text: str) -> tuple[int, int]:
    """Count the added and removed lines."""
    regions = find_differing_regions(split_lines(old_text), split_lines(new_text))
    return sum(region.new_end - region.new_start for region in regions), sum(
        region.old_end - region.old_start for region in regions
    )


def binary_diff(
    name: str, old_content: bytes | None, new_content: bytes | None, kind: str, new_name: str | None = None
) -> list[str]:
    """Format the diff of a binary change, as lines."""
    sizes = " -> ".join(
        "none" if content is None else pluralize(len(content), "byte") for content in (old_content, new_content)
    )
    lines = diff_header(name, new_name, is_new=old_content is None, is_deleted=new_content is None)
    return [*lines, f"{kind}, not shown: {sizes}"]


def diff_header(name: str, new_name: str | None = None, *, is_new: bool = False, is_deleted: bool = False) -> list[str]:
    name, target = single_line_name(name), single_line_name(new_name or name)
    lines = [f"rename from {name}", f"rename to {target}"] if target != name else []
    lines.append("--- /dev/null" if is_new else f"--- a/{name}")
    return [*lines, "+++ /dev/null" if is_deleted else f"+++ b/{target}"]


def single_line_name(name: str) -> str:
    """Escape control characters, any of which may occur in a file name."""
    return _CONTROL_CHARACTER.sub(lambda match: f"\\x{ord(match[0]):02x}", name)


def join_diff_lines(lines: list[str]) -> str:
    omitted_count = len(lines) - MAX_DIFF_LINES
    visible = lines[:MAX_DIFF_LINES] + (
        [f"… {pluralize(omitted_count, 'more line')} of this diff {'is' if omitted_count == 1 else 'are'} not shown"]
        if omitted_count > 0
        else []
    )
    return "\n".join(visible)


def split_lines(text: str | None) -> list[str]:
    """Split into lines that keep their endings, so that a missing final newline counts as a difference."""
    if not text:
        return []
    *complete_lines, last_line = text.split("\n")
    return [f"{line}\n" for line in complete_lines] + ([last_line] if last_line else [])


def _hunk_groups(regions: Sequence[Region]) -> Iterator[HunkGroup]:
    """Group regions that are close enough to share context lines."""
    group: HunkGroup = []
    for region in regions:
        if group and region.old_start - group[-1].old_end > 2 * CONTEXT_LINES:
            yield group
            group = []
        group.append(region)
    if group:
        yield group


def _hunk(group: HunkGroup, old: Sequence[str], new: Sequence[str]) -> list[str]:
    first, last = group[0], group[-1]
    lines_above = min(CONTEXT_LINES, first.old_start)
    lines_below = min(CONTEXT_LINES, len(old) - last.old_end)
    start, end = first.old_start - lines_above, last.old_end + lines_below
    new_start, new_end = first.new_start - lines_above, last.new_end + lines_below
    lines = [f"@@ -{_hunk_range(start, end)} +{_hunk_range(new_start, new_end)} @@"]
    position = start
    for region in group:
        lines += _prefixed_lines(" ", old[position : region.old_start])
        lines += _prefixed_lines("-", old[region.old_start : region.old_end])
        lines += _prefixed_lines("+", new[region.new_start : region.new_end])
        position = region.old_end
    return [*lines, *_prefixed_lines(" ", old[position:end])]


def _prefixed_lines(prefix: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield prefix + line.removesuffix("\n")
        if not line.endswith("\n"):
            yield NO_FINAL_NEWLINE


def _hunk_range(start: int, end: int) -> str:
    """Format a range for a hunk header. If the range is empty, the header names the line before it."""
    count = end - start
    first = start + 1 if count else start
    return f"{first}" if count == 1 else f"{first},{count}"
