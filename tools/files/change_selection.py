"""Single changes of planned file changes: their number, and the plan without those that the user refused. A change is a
run of changed lines, or all of a new or deleted file."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

from ebbtide.tools.base import ChangeSelection, ToolError
from ebbtide.tools.files.change import (
    Change,
    PlannedChanges,
    comparable_text_files,
    diff_changes,
    translate_encoding_errors,
)
from ebbtide.tools.files.diff import split_lines
from ebbtide.tools.files.line_diff import Region, find_differing_regions
from ebbtide.tools.files.paths import display_path
from ebbtide.tools.files.text import Replacement, binary_kind
from ebbtide.tools.outputs.extent import pluralize


def count_selectable_changes(changes: Sequence[Change]) -> int:
    """Count the changes that can be refused one by one; 0 if there is only one or if they cannot be told apart: in
    moved and binary files, and where line endings or encodings differ."""
    regions = [_divide(change) for change in changes]
    count = sum(map(len, regions))
    return count if count > 1 and all(regions) and not _has_moved_files(changes) else 0


def select_changes(planned: PlannedChanges, selection: ChangeSelection, root: Path) -> PlannedChanges:
    """Return the plan without the refused changes. Its message names them. Raises `ToolError` if the plan is no longer
    the one that the user saw."""
    count = count_selectable_changes(planned.changes)
    if planned.preview(root) != selection.preview or not all(0 <= index < count for index in selection.refused):
        raise ToolError("a file changed while the user was choosing, so nothing was changed: read it again")
    accepted_changes, refused_changes, first_index = list[Change](), list[Change](), 0
    for change in planned.changes:
        regions = _divide(change)
        accepted = [region for index, region in enumerate(regions, first_index) if index not in selection.refused]
        first_index += len(regions)
        if len(accepted) == len(regions):
            accepted_changes.append(change)
        else:
            content = (
                _content_with(change, accepted, display_path(change.path, root)) if accepted else change.old_content
            )
            refused_changes.append(replace(change, old_content=content))
            accepted_changes += [replace(change, new_content=content)] if accepted else []
    names = ", ".join(f"`{display_path(change.path, root)}`" for change in accepted_changes) or "nothing"
    accepted_count = count - len(selection.refused)
    message = (
        f"changed {names}. The user accepted {accepted_count} of {pluralize(count, 'change')}. The refused ones were "
        f"not made; do not make them again unless the user asks:\n{diff_changes(refused_changes, root)}"
    )
    return PlannedChanges(tuple(accepted_changes), message)


def single_changes(change: Change, name: str) -> tuple[Change, ...]:
    """Return the changes that a file consists of, each as the change that makes it on top of all others. Empty if they
    cannot be told apart. Raises `ToolError`."""
    regions = _divide(change)
    others = ([other for other in regions if other is not region] for region in regions)
    return tuple(
        replace(change, old_content=_content_with(change, other_regions, name) if other_regions else change.old_content)
        for other_regions in others
    )


def _divide(change: Change) -> list[Region]:
    """Return the regions that can be refused one by one. A new or deleted file is one region. Empty if the file cannot
    be divided."""
    contents = [content for content in (change.old_content, change.new_content) if content is not None]
    if any(binary_kind(content) is not None for content in contents):
        return []
    if len(contents) == 1:
        return [Region(0, 0, 0, 0)] if contents[0] else []
    files = comparable_text_files(change.old_content, change.new_content, change.encoding)
    if files is None:
        return []
    old, new = files
    return find_differing_regions(split_lines(old.normalised_text), split_lines(new.normalised_text))


def _content_with(change: Change, regions: Sequence[Region], name: str) -> bytes | None:
    """Return the old content with the changes of some regions. Raises `ToolError`."""
    files = comparable_text_files(change.old_content, change.new_content, change.encoding)
    if files is None:
        return change.new_content
    old, new = files
    old_lines, new_lines = split_lines(old.normalised_text), split_lines(new.normalised_text)
    offsets = list(accumulate(map(len, old_lines), initial=0))
    with translate_encoding_errors(name, old):
        return old.with_changes(
            [
                Replacement(
                    offsets[region.old_start],
                    offsets[region.old_end],
                    "".join(new_lines[region.new_start : region.new_end]),
                )
                for region in regions
            ]
        ).encode()


def _has_moved_files(changes: Sequence[Change]) -> bool:
    """Whether a file is created and another one deleted, which previews show as a move."""
    return any(change.old_content is None for change in changes) and any(
        change.new_content is None for change in changes
    )
