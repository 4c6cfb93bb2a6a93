"""A folder listing for `read`: the names that git does not ignore, page by page."""

import os
from itertools import islice
from pathlib import Path

from ebbtide.tools.base import Result, ToolError
from ebbtide.tools.files.paths import display_path
from ebbtide.tools.outputs.extent import Extent, pluralize
from ebbtide.tools.outputs.plain_text import printable_name
from ebbtide.tools.search.walk import visible_entries

DEFAULT_LIMIT_NAMES = 300
"""Default number of names shown."""
MAX_SORTED_NAMES = 50_000
"""A folder with more names than this is neither sorted nor shown."""


def list_folder(folder: Path, root: Path, offset: int, limit: int | None) -> Result:
    """List the names from number `offset` on, one per line. Folders end in `/`, and links show their target. Raises
    `ToolError`."""
    name = display_path(folder, root)
    name_count = _count_names(folder, name)
    entries = list(visible_entries(str(folder)))
    if not entries:
        description = "contains only what git ignores" if name_count else "is an empty folder"
        return Result(f"`{name}` {description}", extent=Extent("entries", 0, 0))
    if offset > len(entries):
        raise ToolError(f"`{name}` has {pluralize(len(entries), 'entry')}: offset={offset} is beyond its end")
    page = entries[offset - 1 : offset - 1 + (limit or DEFAULT_LIMIT_NAMES)]
    last_number = offset + len(page) - 1
    lines = [_entry_line(folder, entry, is_folder) for entry, is_folder in page]
    if len(page) < len(entries):
        continuation = f"; go on with offset={last_number + 1}" if last_number < len(entries) else ""
        lines.append(f"(entries {offset}-{last_number} of {len(entries)}{continuation})")
    return Result("\n".join(lines), extent=Extent("entries", len(page), len(entries), offset))


def _count_names(folder: Path, name: str) -> int:
    """Count the names, including ignored ones. Raises `ToolError` for a folder that cannot be listed or has too many
    names."""
    try:
        with os.scandir(folder) as entries:
            count = sum(1 for _ in islice(entries, MAX_SORTED_NAMES + 1))
    except OSError as error:
        raise ToolError(f"cannot list `{name}`: {(error.strerror or str(error)).lower()}") from error
    if count > MAX_SORTED_NAMES:
        raise ToolError(f"`{name}` has more than {MAX_SORTED_NAMES:,} entries: find names in it with glob")
    return count


def _entry_line(folder: Path, entry: str, is_folder: bool) -> str:
    if is_folder:
        return f"{printable_name(entry)}/"
    try:
        return f"{printable_name(entry)} -> {printable_name(os.readlink(folder / entry))}"
    except OSError:
        return printable_name(entry)
