"""Looks up sessions for other agents, within the user's `recall.scope`."""

import time
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mcp_types as types

from ebbtide.agent.archive.recall import SessionRecall, fetch_for_tools, search_for_tools
from ebbtide.agent.archive.tags import tags_named
from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.agent.sessions import Sessions
from ebbtide.tools.base import Result, Tool, ToolError, Workspace
from ebbtide.tools.outputs.stored import StoredContent
from ebbtide.tools.read_result import ReadResult
from ebbtide.tools.recall import Recall

DEFAULT_SESSIONS = 20
"""Default number of sessions listed."""
NO_SCOPE = "the user lets a session recall only what it said itself (`recall.scope` is `session`), and this is none"


class SessionLookups:
    """Lookups in the server's project. Methods raise `ToolError` and `AgentError`."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def recall(self, arguments: Mapping[str, Any]) -> types.CallToolResult:
        return await self._run(Recall(), arguments)

    async def read_result(self, arguments: Mapping[str, Any]) -> types.CallToolResult:
        return await self._run(ReadResult(), arguments)

    async def search(self, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """The sessions whose messages match."""
        scope = self._scope()
        everywhere = arguments.get("scope") == "all"
        if everywhere and scope != "all":
            raise ToolError(f"`scope` cannot be `all`: the user lets you look at this {scope} only (`recall.scope`)")
        library = await self._sessions.library()
        limit, words = arguments.get("limit", DEFAULT_SESSIONS), arguments.get("query", "").strip()
        tags = tags_named(arguments.get("tags", ()))
        excerpts = dict[str, str]()
        if words:
            found = await library.search(words, everywhere=everywhere)
            excerpts = {one.info.id: one.excerpt for one in found}
            infos = [one.info for one in found if {*tags} <= {*one.info.tags}][:limit]
        else:
            infos = [*await library.page(everywhere=everywhere, limit=limit, tags=tags)]
        listed = [_fields(info, excerpts.get(info.id, "")) for info in infos]
        told = "\n".join(_line(info, excerpts.get(info.id, "")) for info in infos)
        return types.CallToolResult(
            content=[types.TextContent(text=told or "no session was found: try other words, or fewer filters")],
            structured_content={"sessions": listed},
        )

    def _scope(self) -> str:
        scope = self._sessions.config.recall_scope
        if scope == "session":
            raise ToolError(NO_SCOPE)
        return scope

    async def _run(self, tool: Tool, arguments: Mapping[str, Any]) -> types.CallToolResult:
        ref = arguments.get("ref_id", "")
        if ref and "://" not in ref:
            raise ToolError(
                f"`{ref[:100]}` names no session: here references begin with `ebb://`, as `recall` finds them"
            )
        recall: SessionRecall = await self._sessions.recall(everywhere=self._scope() == "all")
        fetch = fetch_for_tools(recall)

        async def kept(ref: str) -> StoredContent:
            return await fetch(ref, None)

        workspace = Workspace(
            self._sessions.root, Path(), stored_content=kept, fetch=fetch, look_up=search_for_tools(recall)
        )
        return _answer(await tool.run(arguments, workspace))


def _answer(result: Result) -> types.CallToolResult:
    images = [
        types.ImageContent(data=b64encode(picture.data).decode("ascii"), mime_type=picture.media_type)
        for picture in result.pictures
    ]
    return types.CallToolResult(content=[types.TextContent(text=result.text), *images])


def _fields(info: SessionInfo, excerpt: str) -> dict[str, object]:
    names = ("id", "title", "updated_at", "messages", "project", "model")
    fields: dict[str, object] = {name: getattr(info, name) for name in names}
    return {**fields, "tags": list(info.tags), "excerpt": excerpt}


def _line(info: SessionInfo, excerpt: str) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.updated_at))
    tags = "".join(f" #{tag}" for tag in info.tags)
    about = f"\n  {' '.join(excerpt.split())}" if excerpt else ""
    return f"{info.id}  {when}  {info.messages} messages  {' '.join(info.title.split())}{tags}{about}"
