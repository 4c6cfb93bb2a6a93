"""Reports what hooks, such as formatters, changed in files that a call has just written."""

from collections.abc import Sequence

from ebbtide.agent.context.mask import HOOK_NOTE_PREFIX
from ebbtide.agent.messages import ToolCall
from ebbtide.tools.base import AppliedChange, Workspace
from ebbtide.tools.files.change import look_content
from ebbtide.tools.files.line_diff import Region, differing
from ebbtide.tools.files.paths import display
from ebbtide.tools.files.text import binary_kind, decode
from ebbtide.tools.outputs.extent import join_limited

MAX_REGIONS = 10
"""Changed regions in a file that are listed; a file with more must be read again."""


def hook_change_lines(call: ToolCall, written: Sequence[AppliedChange], workspace: Workspace) -> str:
    """List the lines that changed after the call, for the model. The file then counts as seen, so the next edit
    needs no new read. Their text is not shown: rules may forbid reading the file."""
    found = []
    for made in written:
        after = look_content(made.path) if made.after is not None else None
        if made.after is None or after is None or workspace.seen.last_look(made.path, after) == "current":
            continue
        where = _places(made.after, after)
        if where:
            workspace.seen.look(made.path, after)
            found.append(f"`{display(made.path, workspace.root)}`, {where}")
    return f"{HOOK_NOTE_PREFIX}`{call.name}` has changed what it wrote:]\n" + "\n".join(found) if found else ""


def _places(before: bytes, after: bytes) -> str:
    """The changed lines, by their new numbers; empty if there are too many, or the file is binary."""
    if binary_kind(before) or binary_kind(after):
        return ""
    old, new = (decode(content).normalised_text.splitlines() for content in (before, after))
    regions = differing(old, new)
    return join_limited(list(map(_place, regions)), MAX_REGIONS) if len(regions) <= MAX_REGIONS else ""


def _place(region: Region) -> str:
    first, last = region.new_start + 1, region.new_end
    if last < first:
        return f"lines gone before line {first}"
    return f"line {first}" if first == last else f"lines {first}-{last}"
