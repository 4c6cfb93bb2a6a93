"""Two tools that some models know from other programs. They are not offered but they work: they do what `read_result`
does, with their own arguments. A line `offset` counts from 0."""

from contextlib import closing

from ebbtide.tools.base import Arguments, Effect, Result, Tool, Workspace
from ebbtide.tools.read_result import Onward, byte_range, lines_around, lines_of, matches, numbered_lines, run_shielded
from ebbtide.tools.schema import number, object_of, text

DEFAULT_LIMIT_LINES = 200


class ToolOutputCache:
    name = "tool_output_cache"
    description = "Lines of a stored output."
    effect: Effect = "none"
    schema = object_of(
        {
            "ref_id": {"type": "string"},
            "offset": {"type": "integer", "minimum": 0},
            "limit": {"type": "integer", "minimum": 1},
        },
        required=("ref_id",),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        found = await workspace.stored_content(text(arguments, "ref_id"))
        with closing(found.content):
            onward = Onward(by_reference="all")
            if found.span is not None and arguments.keys().isdisjoint(("offset", "limit")):
                start, end = found.span
                return await run_shielded(lambda: byte_range(found, start, end - start, onward=onward))
            if found.lines is not None and arguments.keys().isdisjoint(("offset", "limit")):
                first, last = found.lines
            else:
                first = number(arguments, "offset", (found.lines or (1, 1))[0] - 1) + 1
                last = first + number(arguments, "limit", DEFAULT_LIMIT_LINES) - 1
            return await run_shielded(lambda: numbered_lines(found, first, last, onward=onward))


class ToolOutputCacheGrep:
    name = "tool_output_cache_grep"
    description = "Lines of a stored output that match."
    effect: Effect = "none"
    schema = object_of(
        {
            "ref_id": {"type": "string"},
            "pattern": {"type": "string"},
            "lines": {"type": "string"},
            "before": {"type": "integer"},
            "after": {"type": "integer"},
        },
        required=("ref_id", "pattern"),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        around, wanted = lines_around(arguments), lines_of(text(arguments, "lines", ""))
        found = await workspace.stored_content(text(arguments, "ref_id"))
        with closing(found.content):
            return await matches(found, text(arguments, "pattern"), around, wanted, onward=Onward(by_reference="bytes"))


def unlisted_tools() -> tuple[Tool, ...]:
    """Return the tools that models may call although they are not offered."""
    return (ToolOutputCache(), ToolOutputCacheGrep())
