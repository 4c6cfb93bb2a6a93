"""The program in a project of its own, with a scripted model, configured as users do.

`project`, a fixture, is one that is closed with the test.
"""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from ebbtide.agent.compose.sessions import OpeningKind, ProjectSessions
from ebbtide.agent.config.load import load_config
from ebbtide.agent.config.values import Config
from ebbtide.agent.messages import Conversation
from ebbtide.agent.session import Session
from ebbtide.tools.outputs.recall_results import no_progress
from tests.kit.files import write_file
from tests.kit.git import git


class Project:
    """A project and the program's own folder, in a folder of the test. Sessions are opened as after a new start."""

    def __init__(self, folder: Path, home: str = "home") -> None:
        self.folder, self.root, self.home = folder, folder / "project", folder / home
        self.root.mkdir(exist_ok=True)
        self.environment = {"EBB_HOME": str(self.home), "EBB_SANDBOX": "off"}
        self.trusts = False
        """Whether its runs have what the project declares (`--trust`)."""
        self.opened: list[ProjectSessions] = []

    def write(self, name: str, text: str) -> Path:
        """A file of the project."""
        return write_file(self.root / name, text)

    def git(self, *words: str) -> str:
        """What git prints in the project."""
        return git(self.root, *words)

    def script(self, *replies: object, window: int = 0, name: str = "script") -> Path:
        """What a scripted model replies, as a file. `window`: its size where it matters."""
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps({"reply": replies, **({"context_window": window} if window else {})}))
        return path

    def config(
        self, *replies: object, window: int = 0, name: str = "script", settings: tuple[str, ...] = (), **flags: Any
    ) -> Config:
        """With a model that gives these replies, where there are any. `flags`: of the table `agent`, or another's.
        `settings`: as after `--config`."""
        if replies:
            flags["model"] = f"scripted/{self.script(*replies, window=window, name=name)}"
        values = {name if "." in name else f"agent.{name}": value for name, value in flags.items()}
        config = load_config(self.root, self.environment, values, settings)
        return replace(config, is_project_trusted=self.trusts)

    def sessions(self, *replies: object, interactive: bool = False, **flags: Any) -> ProjectSessions:
        """The program as after a new start, with such a configuration. `interactive`: somebody looks on."""
        config = self.config(*replies, **flags)
        self.opened.append(_ClosedTogether(config, self.root, self.environment, is_interactive=interactive))
        return self.opened[-1]

    async def session(
        self, *replies: object, resume: str | None = None, mode: str | None = None, **flags: Any
    ) -> Session:
        """A new session, or one that goes on with the model it had."""
        flags |= {"permission_mode": mode} if mode else {}
        if resume is None:
            return await self.sessions(*replies, **flags).open()
        self.script(*replies)
        return await self.sessions(**flags).open(resume)

    def sql(self, statement: str) -> None:
        with sqlite3.connect(self.home / "data" / "sessions.db") as db:
            db.execute(statement)
        db.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        for sessions in reversed(self.opened):
            await sessions.close()


class _ClosedTogether(ProjectSessions):
    """Sessions that are closed before their store."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._handed_out: list[Session] = []

    async def open(
        self,
        id_prefix: str | None = None,
        model: str | None = None,
        on_preview: Callable[[Conversation], None] | None = None,
        *,
        opening_kind: OpeningKind = "first",
        new_id: str = "",
        on_progress: Callable[[int, int], None] = no_progress,
    ) -> Session:
        opened = await super().open(
            id_prefix, model, on_preview, opening_kind=opening_kind, new_id=new_id, on_progress=on_progress
        )
        self._handed_out.append(opened)
        return self._handed_out[-1]

    async def close(self) -> None:
        for session in self._handed_out:
            await session.close()
        await super().close()
