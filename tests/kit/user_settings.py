"""A real configuration in a folder of its own, for screens that show and change settings."""

from pathlib import Path

from ebbtide.agent.config.load import load_config
from ebbtide.agent.config.settings import Settings
from ebbtide.agent.config.values import Config
from tests.kit.files import write_file


class Setup:
    """A home, a project, and the settings that hold there. Without an environment there is a key: nobody starts for the
    first time."""

    def __init__(self, folder: Path, written: str = "", environment: dict[str, str] | None = None) -> None:
        self.project = folder / "project"
        self.project.mkdir(parents=True)
        self.file = folder / "home" / "config" / "config.toml"
        self.environment = {
            "EBB_HOME": str(folder / "home"),
            "EBB_SANDBOX": "off",
            **({"OPENAI_API_KEY": "x"} if environment is None else environment),
        }
        if written:
            write_file(self.file, written)
        self.settings = Settings(self.load(), self.load, lambda config: None, self.environment)

    def load(self) -> Config:
        return load_config(self.project, self.environment, {})

    @property
    def written(self) -> str:
        return self.file.read_text() if self.file.exists() else ""
