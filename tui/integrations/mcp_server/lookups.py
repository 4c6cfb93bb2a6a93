"""Looks up sessions for other agents, within the user's `recall.scope`."""

import time
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mcp_types as types

from ebbtide.agent.archive.recall import SessionRecall, create_fetch_function, create_search_function
from ebbtide.agent.archive.tags import normalise_tags
from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.tools.base import Result, Tool, ToolError, Workspace
from ebbtide.tools.outputs.stored_content import StoredContent
from ebbtide.tools.read_result import ReadResult
from ebbtide.tools.recall import Recall

DEFAULT_LISTED_SESSIONS = 20
"""Default number of sessions listed."""
NO_SCOPE_ERROR = "the user limits `recall` to the current session (`recall.scope` is `session`), and there is none here"


class SessionLookups:
    """Looks up sessions in the server's project. Any method may raise `ToolError` or `AgentError`."""

    def __init__(self, sessions: ProjectSessions) -> None:
        self._sessions = sessions

    async def recall(self, arguments: Mapping[str, Any]) -> types.CallToolResult:
        return await self._run_tool(Recall(), arguments)

    async def read_result(self, arguments: Mapping[str, Any]) -> types.CallToolResult:
        return await self._run_tool(ReadResult(), arguments)

    async def search_sessions(self, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Find sessions whose messages contain the query. Without a query, return the most recent ones."""
        scope = self._scope()
        in_all_projects = arguments.get("scope") == "all"
        if in_all_projects and scope != "all":
            raise ToolError(f"`scope` cannot be `all`: the user limits lookups to this {scope} (`recall.scope`)")
        library = await self._sessions.open_library()
        limit = arguments.get("limit", DEFAULT_LISTED_SESSIONS)
        query = arguments.get("query", "").strip()
        tags = normalise_tags(arguments.get("tags", ()))
        excerpts, note = dict[str, str](), ""
        if query:
            matches, note = await library.search(query, in_all_projects=in_all_projects)
            excerpts = {match.info.id: match.excerpt for match in matches}
            infos = [match.info for match in matches if {*tags} <= {*match.info.tags}][:limit]
        else:
            infos = [*await library.page(in_all_projects=in_all_projects, limit=limit, tags=tags)]
        session_rows = [_session_fields(info, excerpts.get(info.id, "")) for info in infos]
        lines = [_session_line(info, excerpts.get(info.id, "")) for info in infos]
        lines = [*([f"({note})"] if note else []), *(lines or ["no session found; try other words or fewer filters"])]
        return types.CallToolResult(
            content=[types.TextContent(text="\n".join(lines))],
            structured_content={"sessions": session_rows, **({"note": note} if note else {})},
        )

    def _scope(self) -> str:
        scope = self._sessions.config.recall_scope
        if scope == "session":
            raise ToolError(NO_SCOPE_ERROR)
        return scope

    async def _run_tool(self, tool: Tool, arguments: Mapping[str, Any]) -> types.CallToolResult:
        ref = arguments.get("ref_id", "")
        if ref and "://" not in ref:
            raise ToolError(
                f"`{ref[:100]}` names no session; use a reference from `recall`, which begins with `ebb://`"
            )
        recall: SessionRecall = await self._sessions.open_recall(in_all_projects=self._scope() == "all")
        fetch = create_fetch_function(recall)

        async def fetch_content(ref: str) -> StoredContent:
            return await fetch(ref, None)

        workspace = Workspace(
            self._sessions.root,
            Path(),
            get_stored_content=fetch_content,
            fetch_stored_content=fetch,
            search_history=create_search_function(recall),
        )
        return _tool_result(await tool.run(arguments, workspace))


def _tool_result(result: Result) -> types.CallToolResult:
    images = [
        types.ImageContent(data=b64encode(image.data).decode("ascii"), mime_type=image.media_type)
        for image in result.images
    ]
    return types.CallToolResult(content=[types.TextContent(text=result.text), *images])


def _session_fields(info: SessionInfo, excerpt: str) -> dict[str, object]:
    names = ("id", "title", "updated_at", "messages", "project", "model")
    fields: dict[str, object] = {name: getattr(info, name) for name in names}
    return {**fields, "tags": list(info.tags), "excerpt": excerpt}


def _session_line(info: SessionInfo, excerpt: str) -> str:
    time_text = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.updated_at))
    tags = "".join(f" #{tag}" for tag in info.tags)
    excerpt_text = f"\n  {' '.join(excerpt.split())}" if excerpt else ""
    return f"{info.id}  {time_text}  {info.messages} messages  {' '.join(info.title.split())}{tags}{excerpt_text}"
