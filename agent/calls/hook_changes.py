"""What hooks have changed in the files that a call has just written, as formatters do."""

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
"""Places in a file that are named; a file with more has to be read again."""


def hook_change_lines(call: ToolCall, written: Sequence[AppliedChange], workspace: Workspace) -> str:
    """The lines that are another since the call, for the model. Named so, they count as a look at the file, and what
    it edits next needs no new one. Their text is not shown: rules may keep the file from being read."""
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
    """Which lines are another now, in the numbers of the new text; empty where they are many, or it is no text."""
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
