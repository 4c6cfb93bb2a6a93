"""The `web_search` tool: a search of the web by a command that the user has configured."""

from collections.abc import Sequence

from tools.base import Arguments, Effect, Result, ToolError, Workspace, description_beside
from tools.plain_text import plain
from tools.schema import object_of, text

SECONDS = 30.0
MOST = 200_000
"""Bytes of an answer."""


class WebSearch:
    name = "web_search"
    description = description_beside(__file__)
    effect: Effect = "fetch"
    schema = object_of({"query": {"type": "string"}}, required=("query",))

    def __init__(self, command: Sequence[str] = ()) -> None:
        """`command`: a program and its words; the query takes the place of a word `{query}`, or else comes last."""
        self._command = tuple(command)

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        from tools.web.search import printed_by  # noqa: PLC0415  # deferred: few runs search the web

        if not self._command:
            raise ToolError("nothing is configured to search with: the user names a program in `web.search`")
        query = text(arguments, "query").strip()
        if not query or "\0" in query:
            raise ToolError("`query` is empty or holds a NUL character: say what to search for")
        words = [query if word == "{query}" else word for word in self._command]
        found = await printed_by(words if "{query}" in self._command else [*words, query], workspace.root)
        return Result(plain(found).strip() or "nothing was found: try other words")
