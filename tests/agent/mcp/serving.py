"""Projects and users with servers, for tests: real files, real programs, a scripted model."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ebbtide.agent.config.load import load_config
from ebbtide.agent.config.values import Config
from ebbtide.agent.events.permissions import Decision, PermissionAsked, QuestionAsked
from ebbtide.agent.events.session import Event, Noticed
from ebbtide.agent.session import Session
from ebbtide.agent.sessions import Sessions

IN_TIME = "mcp.wait=20"
"""What waits long enough for every server before the first request."""
PROGRAM = Path(__file__).with_name("served_program.py")


class House:
    """A user with a home and a project."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.project = folder, folder / "home", folder / "project"
        (self.home / "config").mkdir(parents=True)
        (self.project / ".git").mkdir(parents=True)
        self.environment = {"EBB_HOME": str(self.home), "EBB_SANDBOX": "off", "PATH": os.environ["PATH"]}
        self.trusts = False
        """Whether its runs have what the project declares (`--trust`)."""
        self._made: list[Session | Sessions] = []
        """All that is closed with the test, the last first."""

    def server(self, name: str, **tools: str) -> list[str]:
        """The command of a server with these tools and their descriptions; its folder has its name."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        if tools:
            (folder / "tools.json").write_text(json.dumps(tools))
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
        (self.project / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def config(self, *settings: str, **flags: object) -> Config:
        told = {f"agent.{name}": value for name, value in flags.items()}
        return load_config(self.project, self.environment, told, settings)

    def sessions(
        self, *replies: Mapping[str, Any], interactive: bool = False, settings: tuple[str, ...] = (IN_TIME,)
    ) -> Sessions:
        """Those of a model that says this."""
        script = self.folder / "script.json"
        script.write_text(json.dumps({"reply": replies}))
        config = self.config(*settings, model=f"scripted/{script}", permission_mode="auto")
        config = replace(config, trusts_project=self.trusts)
        sessions = Sessions(config, self.project, self.environment, interactive=interactive)
        self._made.append(sessions)
        return sessions

    async def open(
        self,
        *replies: Mapping[str, Any],
        resume: str | None = None,
        interactive: bool = False,
        settings: tuple[str, ...] = (IN_TIME,),
    ) -> Session:
        session = await self.sessions(*replies, interactive=interactive, settings=settings).open(resume)
        self._made.append(session)
        return session

    async def close(self) -> None:
        for made in reversed(self._made):
            await made.close()


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
