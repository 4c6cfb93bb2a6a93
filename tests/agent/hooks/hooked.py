"""Sessions with hooks, for tests: real scripts in real folders, and a model whose replies the test has written."""

import json
import subprocess
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

from ebbtide.agent.config.load import load_config
from ebbtide.agent.config.values import Config
from ebbtide.agent.events.session import Event, Noticed, ToolFinished, TurnFailed, TurnFinished
from ebbtide.agent.session import Session
from ebbtide.agent.sessions import Sessions

HOOKS = ".claude/hooks"


class Hooked:
    """A user with a home, and a project whose hooks are written as for Claude Code."""

    def __init__(self, folder: Path) -> None:
        self.home, self.project = folder / "home", folder / "project"
        self.home.mkdir()
        (self.project / ".git").mkdir(parents=True)
        self.environment = {"HOME": str(self.home), "EBB_HOME": str(self.home / "ebb"), "EBB_SANDBOX": "off"}
        self.model = folder / "model.json"
        self.flags: dict[str, object] = {"agent.permission_mode": "auto"}
        self.trusts = True
        self.events: list[Event] = []

    def config(self) -> Config:
        config = load_config(self.project, self.environment, {"agent.model": f"scripted/{self.model}", **self.flags})
        return replace(config, trusts_project=self.trusts)

    def write(self, name: str, text: str, *, of_user: bool = False) -> Path:
        """A file of the project, or of the user's home; a script can be run."""
        path = (self.home if of_user else self.project) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if text.startswith("#!") else 0o644)
        return path

    def git(self, *words: str) -> str:
        """What git prints in the project."""
        return subprocess.run(["git", "-C", self.project, *words], capture_output=True, text=True, check=True).stdout

    def settings(self, *, of_user: bool = False, **events: list[tuple[str, str]]) -> Path:
        """Declares hooks: for each event matchers with commands."""
        tables = {
            event: [
                {"matcher": matcher, "hooks": [{"type": "command", "command": command}]} for matcher, command in each
            ]
            for event, each in events.items()
        }
        return self.write(".claude/settings.json", json.dumps({"hooks": tables}), of_user=of_user)

    def replies(self, *replies: dict[str, Any]) -> None:
        self.model.write_text(json.dumps({"reply": list(replies)}))

    async def run(
        self, *said: str, interactive: bool = False, meanwhile: Callable[[Session, Event], object] | None = None
    ) -> "Outcome":
        """A session in which this is said, and what came of it."""
        sessions = Sessions(self.config(), self.project, self.environment, interactive=interactive)
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
