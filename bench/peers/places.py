"""The folders of a comparison: a home per program, a small project, and a repository of 50,000 files."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.peers.programs import Installed, Place, environment
from bench.peers.server import ScriptedServer

ProjectName = Literal["project", "tree", "long"]
TREE_FILES = 50_000
FILES_PER_FOLDER = 100


@dataclass(frozen=True, slots=True)
class Folders:
    """All of them below one folder. Codex refuses to work with a home below /tmp."""

    base: Path

    def project(self, name: ProjectName) -> Path:
        """Return a project folder, created when it is first needed."""
        folder = self.base / name
        if not folder.exists():
            _create_project(folder, TREE_FILES if name == "tree" else 3)
        return folder

    def home(self, installed: Installed, name: ProjectName) -> Path:
        return self.base / "homes" / f"{installed.name}-{name}"


@dataclass(frozen=True, slots=True)
class Setting:
    """All that is needed to start a program."""

    installed: Installed
    home: Path
    project: Path
    env: dict[str, str]

    @property
    def terminal(self) -> list[str]:
        return [str(self.installed.path), *self.installed.program.terminal]

    @property
    def resume(self) -> list[str]:
        return [str(self.installed.path), *self.installed.program.resume(self.home)]

    def headless(self, prompt: str) -> list[str]:
        return [str(self.installed.path), *self.installed.program.headless(prompt)]


def setting(folders: Folders, installed: Installed, name: ProjectName, server: ScriptedServer) -> Setting:
    """Configure a program for a project and a server."""
    project = folders.project(name)
    place = Place(folders.home(installed, name), project, server.url)
    return Setting(installed, place.home, project, environment(installed, place))


def _create_project(folder: Path, files: int) -> None:
    for number in range(files):
        file = folder / f"area_{number // FILES_PER_FOLDER:03}" / f"alpha_{number:05}.py"
        if number % FILES_PER_FOLDER == 0:
            file.parent.mkdir(parents=True)
        file.write_text(f"VALUE = {number}\n")
    git = ["git", "-C", str(folder), "-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Add files"]):
        subprocess.run([*git, *arguments], check=True)
