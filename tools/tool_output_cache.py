"""Two tools that some models know from other agents. They are not offered to models, but calls to them are accepted.
They work like `read_result`, except that `offset` counts lines from 0."""

from contextlib import closing

from ebbtide.tools.base import Arguments, Effect, Result, Tool, Workspace
from ebbtide.tools.call_arguments.schema import get_number, get_text, object_schema
from ebbtide.tools.read_result import (
    ContinuationHint,
    build_byte_range_result,
    build_matching_lines_result,
    build_numbered_lines_result,
    context_line_counts,
    parse_line_range,
    run_shielded,
)
from ebbtide.tools.tool_traits import ToolTraits

DEFAULT_LIMIT_LINES = 200


class ToolOutputCache:
    name = "tool_output_cache"
    description = "Lines of a stored output."
    effect: Effect = "none"
    traits = ToolTraits(
        role="recall_output",
        output_limit="whole",
        clamped_arguments=("offset", "limit"),
    )
    schema = object_schema(
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
        stored = await workspace.get_stored_content(get_text(arguments, "ref_id"))
        with closing(stored.content):
            hint = ContinuationHint(parts_in_reference="all")
            if stored.byte_range is not None and arguments.keys().isdisjoint(("offset", "limit")):
                start, end = stored.byte_range
                return await run_shielded(lambda: build_byte_range_result(stored, start, end - start, hint=hint))
            if stored.line_range is not None and arguments.keys().isdisjoint(("offset", "limit")):
                first, last = stored.line_range
            else:
                first = get_number(arguments, "offset", (stored.line_range or (1, 1))[0] - 1) + 1
                last = first + get_number(arguments, "limit", DEFAULT_LIMIT_LINES) - 1
            return await run_shielded(lambda: build_numbered_lines_result(stored, first, last, hint=hint))


class ToolOutputCacheGrep:
    name = "tool_output_cache_grep"
    description = "Lines of a stored output that match."
    effect: Effect = "none"
    traits = ToolTraits(
        role="recall_output",
        output_limit="whole",
    )
    schema = object_schema(
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
        context, line_range = context_line_counts(arguments), parse_line_range(get_text(arguments, "lines", ""))
        stored = await workspace.get_stored_content(get_text(arguments, "ref_id"))
        with closing(stored.content):
            return await build_matching_lines_result(
                stored,
                get_text(arguments, "pattern"),
                context,
                line_range,
                hint=ContinuationHint(parts_in_reference="bytes"),
            )


def create_unlisted_tools() -> tuple[Tool, ...]:
    """Tools that are not offered to models but may be called."""
    return (ToolOutputCache(), ToolOutputCacheGrep())
