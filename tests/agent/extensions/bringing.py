"""Projects and homes that bring things, for tests: real files in real folders."""

from pathlib import Path

from ebbtide.agent.config.load import load_config
from ebbtide.agent.config.values import Config


class Brought:
    """A user with a home, and a project."""

    def __init__(self, folder: Path) -> None:
        self.home, self.project = folder / "home", folder / "project"
        self.home.mkdir()
        (self.project / ".git").mkdir(parents=True)
        self.environment = {"HOME": str(self.home), "EBB_HOME": str(self.home / "ebb")}

    @property
    def config(self) -> Config:
        return load_config(self.project, self.environment, {})

    def write(self, name: str, text: str, *, of_user: bool = False) -> Path:
        """A file of the project, or of the user's home."""
        path = (self.home if of_user else self.project) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path
