"""Projects and homes with extensions: real files in real folders, and a model whose replies the test has written."""

import json
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from ebbtide.agent.config.values import Config
from ebbtide.agent.events.session import Event, Noticed, ToolFinished, TurnFailed, TurnFinished
from ebbtide.agent.session import Session
from tests.kit.files import write_file
from tests.kit.project import Project

HOOKS = ".claude/hooks"


class ExtensionProject(Project):
    """A user with a home, and a project with extensions, which may be those of another program."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, home="home/ebb")
        self.user_home = folder / "home"
        self.user_home.mkdir()
        (self.root / ".git").mkdir()
        self.environment["HOME"] = str(self.user_home)

    def write(self, name: str, text: str, *, of_user: bool = False) -> Path:
        """A file of the project, or of the user's home; a script can be run."""
        path = write_file((self.user_home if of_user else self.root) / name, text)
        path.chmod(0o755 if text.startswith("#!") else 0o644)
        return path


class HookProject(ExtensionProject):
    """One whose hooks are written as for Claude Code."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.model = folder / "script.json"
        self.flags: dict[str, object] = {"agent.permission_mode": "auto"}
        self.trusts = True

    def config(self, *replies: object, **flags: Any) -> Config:
        return super().config(*replies, **{"model": f"scripted/{self.model}", **self.flags, **flags})

    def settings(self, *, of_user: bool = False, **events: list[tuple[str, str]]) -> Path:
        """Declares hooks: for each event matchers with commands."""
        tables = {
            event: [
                {"matcher": matcher, "hooks": [{"type": "command", "command": command}]} for matcher, command in each
            ]
            for event, each in events.items()
        }
        return self.write(".claude/settings.json", json.dumps({"hooks": tables}), of_user=of_user)

    async def run(
        self, *said: str, interactive: bool = False, meanwhile: Callable[[Session, Event], object] | None = None
    ) -> "Outcome":
        """A session in which this is said, and what came of it."""
        sessions = self.sessions(interactive=interactive)
        events: list[Event] = []
        try:
            session = await sessions.open()
            for text in said or ("go",):
                async with aclosing(session.send(text)) as turn:
                    async for event in turn:
                        events.append(event)
                        if meanwhile is not None:
                            meanwhile(session, event)
            outcome = Outcome(session, events)
            await session.close()
            return outcome
        finally:
            await sessions.close()


class Outcome:
    def __init__(self, session: Session, events: list[Event]) -> None:
        self.events, self.history = events, session.history
        self.id = session.id

    @property
    def told(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Noticed)]

    @property
    def outputs(self) -> list[tuple[str, str]]:
        """Of each call its status and what it gave back."""
        return [(event.status, event.text) for event in self.events if isinstance(event, ToolFinished)]

    @property
    def end(self) -> TurnFinished | TurnFailed:
        last = self.events[-1]
        assert isinstance(last, TurnFinished | TurnFailed)
        return last

    @property
    def said(self) -> str:
        """All that the model was shown, as one text."""
        return "\n".join(getattr(part, "text", "") for message in self.history.messages for part in message.parts)
