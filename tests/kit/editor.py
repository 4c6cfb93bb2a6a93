"""An editor that has `ebb acp` as its agent, over real pipes, by the client of the protocol's library."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

from acp import RequestError, connect_to_agent, text_block
from acp.client.connection import ClientSideConnection
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    PermissionOption,
    ReadTextFileResponse,
    RequestPermissionResponse,
    ToolCallUpdate,
    WriteTextFileResponse,
)

from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.config.load import load_config
from ebbtide.agent.config.values import Config
from ebbtide.tui.integrations.acp.server import AcpServer, serve
from ebbtide.tui.integrations.line_transport import LineTransport, open_line_transport
from tests.kit.project import Project

Pick: TypeAlias = Callable[[Sequence[PermissionOption]], str | None]
"""The id of the option that is picked; None dismisses the question."""


def first(options: Sequence[PermissionOption]) -> str | None:
    return options[0].option_id


class Editor:
    """What it was told and asked, in order."""

    def __init__(self, pick: Pick = first) -> None:
        self.pick = pick
        self.updates: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.shown: list[str] = []
        """The texts beside each question about a call, in one."""
        self._news = asyncio.Event()
        self.filled: dict[str, Any] | None = None
        """What is written into forms; None where it has none."""
        self.unsaved: dict[str, str] | None = None
        """What it holds of files and has not saved; None where it has none open."""
        self.has_terminals = False

    def on_connect(self, conn: object) -> None:
        """The connection is given to the test."""

    async def session_update(self, session_id: str, update: Any, **_: object) -> None:
        self.updates.append(update.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True))
        self._news.set()

    async def until_told(self, kind: str, words: str) -> None:
        """Returns when it was told of something with these words."""
        while not any(words in json.dumps(update) for update in self.told(kind)):
            self._news.clear()
            await self._news.wait()

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: object
    ) -> RequestPermissionResponse:
        self.asked.append(tool_call.title or "")
        texts = (one.content.text for one in tool_call.content or () if one.type == "content")
        self.shown.append("\n".join(texts))
        picked = self.pick(options)
        if picked is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=picked))

    async def read_text_file(self, session_id: str, path: str, **_: object) -> ReadTextFileResponse:
        return ReadTextFileResponse(content=self._held(path))

    async def write_text_file(self, session_id: str, path: str, content: str, **_: object) -> WriteTextFileResponse:
        self._save(path, content)
        return WriteTextFileResponse()

    def _held(self, path: str) -> str:
        text = (self.unsaved or {}).get(path)
        return Path(path).read_text() if text is None else text

    def _save(self, path: str, content: str) -> None:
        assert self.unsaved is not None
        del self.unsaved[path]
        Path(path).write_text(content)

    async def create_elicitation(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(asked["message"])
        return {"action": "accept", "content": self.filled} if self.filled is not None else {"action": "decline"}

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """It knows none."""

    def told(self, *kinds: str) -> list[dict[str, Any]]:
        return [update for update in self.updates if update["sessionUpdate"] in kinds]

    @property
    def said(self) -> str:
        """All that the model has answered."""
        return "".join(update["content"]["text"] for update in self.told("agent_message_chunk"))


@asynccontextmanager
async def served(project: Project, **flags: Any) -> AsyncIterator[LineTransport]:
    """`ebb acp` with these settings of the table `agent`, and the pipes to it. It ends with them."""

    def opened(cwd: str, change: Callable[[Config], Config]) -> tuple[ProjectSessions, Sequence[str]]:
        values = {name if "." in name else f"agent.{name}": value for name, value in flags.items()}
        config = load_config(Path(cwd), project.environment, values)
        return ProjectSessions(change(config), Path(cwd), project.environment, is_interactive=True), ()

    (to_server, from_editor), (to_editor, from_server) = os.pipe(), os.pipe()
    server = AcpServer(opened, project.home / "logs")
    theirs = await open_line_transport(os.fdopen(to_server, "rb"), os.fdopen(from_server, "wb"))
    running = asyncio.create_task(serve(server, theirs))
    ours = await open_line_transport(os.fdopen(to_editor, "rb"), os.fdopen(from_editor, "wb"))
    try:
        yield ours
    finally:
        await ours.close()
        assert await running == 0


@asynccontextmanager
async def connected(
    project: Project, editor: Editor, *replies: object, **flags: Any
) -> AsyncIterator[ClientSideConnection]:
    """An editor that has said hello to an agent whose model gives these replies, unless `flags` name another model."""
    model = {} if "agent.model" in flags else {"model": f"scripted/{project.script(*replies)}"}
    async with served(project, **model, **flags) as transport:
        agent = connect_to_agent(editor, transport, use_unstable_protocol=True)  # type: ignore[arg-type]  # it has no terminals
        files = {"readTextFile": editor.unsaved is not None, "writeTextFile": editor.unsaved is not None}
        forms: dict[str, Any] = {"elicitation": {"form": {}}} if editor.filled is not None else {}
        can = {"fs": files, "_meta": {"terminal_output": editor.has_terminals}, **forms}
        await agent.initialize(1, ClientCapabilities.model_validate(can))
        try:
            yield agent
        finally:
            await agent.close()


async def said(agent: ClientSideConnection, session: str, text: str = "go") -> str:
    """How a prompt ended."""
    return (await agent.prompt(session_id=session, prompt=[text_block(text)])).stop_reason
