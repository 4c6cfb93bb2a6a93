"""The `web_search` tool: searches the web with the provider's own search, or a command that the user has configured."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ebbtide.tools import process
from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.call_arguments.schema import get_text, object_schema
from ebbtide.tools.outputs.plain_text import terminal_text
from ebbtide.tools.tool_traits import ToolTraits, text_argument
from ebbtide.tools.web_fetch import INVISIBLE

SEARCH_PROGRAM_TIMEOUT_S = 30.0
NOTHING_FOUND = "nothing was found: try other words"
MAX_ANSWER_BYTES = 200_000
"""Maximum size of an answer, in bytes."""


class WebSearch:
    name = "web_search"
    description = read_description(__file__)
    effect: Effect = "fetch"
    traits = ToolTraits(
        acp_kind="search",
        get_subject=partial(text_argument, name="query"),
        rule_noun="web searches",
        aliases="google_web_search search_web",
        argument_aliases={"query": "q search_term search"},
        claude_names=("WebSearch",),
        small_window_policy="optional",
        is_useful=lambda project: project.can_search_web,
    )
    schema = object_schema({"query": {"type": "string"}}, required=("query",))

    def __init__(self, command: Sequence[str] = ()) -> None:
        """`command`: a program with its arguments. The query replaces the argument `{query}`, or is appended. Without a
        program, the provider searches."""
        self._command = tuple(command)

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        query = get_text(arguments, "query").strip()
        if not query or "\0" in query:
            raise ToolError("`query` is empty or contains a NUL character: say what to search for")
        if not self._command:
            found = await workspace.search_web(query)
            return Result(INVISIBLE.sub("", terminal_text(found)).strip() or NOTHING_FOUND)
        words = [query if word == "{query}" else word for word in self._command]
        output = await _search_output(words if "{query}" in self._command else [*words, query], workspace.root)
        return Result(terminal_text(output).strip() or NOTHING_FOUND)


async def _search_output(command: Sequence[str], folder: Path) -> str:
    """Run the program without a shell and return what it prints. Raises `ToolError`."""
    program_label = f"the program of `web.search`, `{command[0]}`,"
    try:
        result = await process.child.run_with_input(
            process.shell.Launch(tuple(_expand_program(command)), process.shell.child_environment()),
            b"",
            folder,
            SEARCH_PROGRAM_TIMEOUT_S,
            MAX_ANSWER_BYTES,
        )
    except (OSError, ValueError) as error:
        raise ToolError(f"{program_label} cannot be started: {error}. Tell the user") from error
    if result.code is None:
        raise ToolError(
            f"{program_label} did not finish within {SEARCH_PROGRAM_TIMEOUT_S:.0f} s: try again, or tell the user"
        )
    if result.code != 0:
        errors = terminal_text(result.error_output.decode("utf-8", "replace")).strip()[-500:]
        raise ToolError(f"{program_label} ended with exit code {result.code}: {errors or 'it printed no error'}")
    return result.output.decode("utf-8", "replace")


def _expand_program(command: Sequence[str]) -> Sequence[str]:
    return (os.path.expanduser(command[0]), *command[1:])
