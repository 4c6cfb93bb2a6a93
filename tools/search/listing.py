"""A folder listing for `read`: the names that git does not ignore, page by page."""

import os
from itertools import islice
from pathlib import Path

from ebbtide.tools.base import Result, ToolError
from ebbtide.tools.files.paths import display
from ebbtide.tools.outputs.extent import Extent, pluralize
from ebbtide.tools.outputs.plain_text import printable
from ebbtide.tools.search.walk import entries_of

DEFAULT_LIMIT = 300
"""Default number of names shown."""
MAX_SORTED_NAMES = 50_000
"""Number of names in a folder beyond which it is not sorted and shown."""


def listing(folder: Path, root: Path, offset: int, limit: int | None) -> Result:
    """Return the names from the `offset`-th, one per line: folders end in `/`, and links show their target. Raises
    `ToolError`."""
    name = display(folder, root)
    count = _count(folder, name)
    entries = list(entries_of(str(folder)))
    if not entries:
        what = "contains only what git ignores" if count else "is an empty folder"
        return Result(f"`{name}` {what}", extent=Extent("entries", 0, 0))
    if offset > len(entries):
        raise ToolError(f"`{name}` has {pluralize(len(entries), 'entry')}: offset={offset} is beyond its end")
    shown = entries[offset - 1 : offset - 1 + (limit or DEFAULT_LIMIT)]
    last = offset + len(shown) - 1
    lines = [_line(folder, entry, is_folder) for entry, is_folder in shown]
    if len(shown) < len(entries):
        more = f"; go on with offset={last + 1}" if last < len(entries) else ""
        lines.append(f"(entries {offset}-{last} of {len(entries)}{more})")
    return Result("\n".join(lines), extent=Extent("entries", len(shown), len(entries), offset))


def _count(folder: Path, name: str) -> int:
    """Return the number of names, including ignored ones. Raises `ToolError` for a folder that cannot be shown."""
    try:
        with os.scandir(folder) as found:
            count = sum(1 for _ in islice(found, MAX_SORTED_NAMES + 1))
    except OSError as error:
        raise ToolError(f"cannot list `{name}`: {(error.strerror or str(error)).lower()}") from error
    if count > MAX_SORTED_NAMES:
        raise ToolError(f"`{name}` has more than {MAX_SORTED_NAMES:,} entries: find names in it with glob")
    return count


def _line(folder: Path, entry: str, is_folder: bool) -> str:
    if is_folder:
        return f"{printable(entry)}/"
    try:
        return f"{printable(entry)} -> {printable(os.readlink(folder / entry))}"
    except OSError:
        return printable(entry)
