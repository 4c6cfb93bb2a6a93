"""A project and a user with MCP servers: real files, real programs, a scripted model."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.events.permissions import Decision, PermissionAsked, QuestionAsked
from ebbtide.agent.events.session import Event, Noticed
from ebbtide.agent.session import Session
from tests.kit.files import write_file
from tests.kit.project import Project

IN_TIME = "mcp.wait=20"
"""What waits long enough for every server before the first request."""
PROGRAM = Path(__file__).with_name("mcp_program.py")


class McpProject(Project):
    """A user's configuration and a project, both of which may declare servers."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (self.home / "config").mkdir(parents=True)
        (self.root / ".git").mkdir()
        self.environment["PATH"] = os.environ["PATH"]

    def server(self, name: str, **tools: str) -> list[str]:
        """The command of a server with these tools and their descriptions; its folder has its name."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        if tools:
            write_file(folder / "tools.json", tools)
        return [sys.executable, "-I", "-S", str(PROGRAM), str(folder)]

    def approval(self, name: str) -> Path:
        """Keeps a server from being ready until somebody opens this for writing."""
        path = self.folder / name / "gate"
        os.mkfifo(path)
        return path

    def has_started(self, name: str) -> bool:
        return (self.folder / name / "started").exists()

    def user(self, **servers: dict[str, Any]) -> None:
        """What the user's configuration says."""
        tables = "".join(
            f"[mcp.servers.{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
            for name, table in servers.items()
        )
        (self.home / "config" / "config.toml").write_text(tables)

    def declares(self, **servers: dict[str, Any]) -> None:
        """What the project's file says."""
        self.write(".mcp.json", json.dumps({"mcpServers": servers}))

    def sessions(
        self, *replies: object, interactive: bool = False, settings: tuple[str, ...] = (IN_TIME,), **flags: Any
    ) -> ProjectSessions:
        return super().sessions(
            *replies, interactive=interactive, settings=settings, **{"permission_mode": "auto", **flags}
        )

    async def open(self, *replies: Mapping[str, Any], resume: str | None = None, **flags: Any) -> Session:
        """A new session, or one that goes on with a model of these replies."""
        return await self.sessions(*replies, **flags).open(resume)


def command(words: list[str]) -> dict[str, Any]:
    """An entry for a server with that command."""
    return {"command": words[0], "args": words[1:]}


async def say(session: Session, text: str = "go", answer: Callable[[QuestionAsked], str] = lambda _: "") -> list[Event]:
    """The events of a turn in which questions are answered so; permissions are given."""
    events: list[Event] = []
    async for event in session.send(text):
        events.append(event)
        if isinstance(event, QuestionAsked):
            session.answer(event.id, answer(event))
        elif isinstance(event, PermissionAsked):
            session.answer(event.id, Decision("allow"))
    return events


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Noticed)]


def questions(events: list[Event]) -> list[str]:
    return [event.question for event in events if isinstance(event, QuestionAsked)]
