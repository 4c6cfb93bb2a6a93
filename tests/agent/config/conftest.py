"""A home and a project with configuration files in them."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ebbtide.agent.config.load import load_config
from ebbtide.agent.config.settings import Settings
from ebbtide.agent.config.values import Config
from tests.kit.files import write_file


class Place:
    """`environment` and `flags`: of every start there."""

    def __init__(
        self, folder: Path, environment: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
    ) -> None:
        self.home, self.project = folder / "home", folder / "project"
        self.file = self.home / "config" / "config.toml"
        for made in (self.project / ".git", self.project / ".ebb"):
            made.mkdir(parents=True)
        self.environment, self.flags = {"EBB_HOME": str(self.home), **(environment or {})}, flags or {}
        self.notices: list[Config] = []

    def user(self, text: str) -> None:
        """What the user's own file says."""
        write_file(self.file, text)

    def repository(self, text: str) -> None:
        """What the project's file says."""
        (self.project / ".ebb" / "config.toml").write_text(text)

    def load(
        self,
        environment: Mapping[str, str] | None = None,
        flags: Mapping[str, object] | None = None,
        settings: tuple[str, ...] = (),
    ) -> Config:
        variables = {**self.environment, **(environment or {})}
        return load_config(self.project, variables, {**self.flags, **(flags or {})}, settings)

    def settings(self) -> Settings:
        """Those of a program that runs; what they become is heard."""
        return Settings(self.load(), self.load, self.notices.append, self.environment)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
