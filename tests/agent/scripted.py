"""The program in a project of its own, with a scripted model."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.config.load import load_config
from agent.config.values import Config
from agent.sessions import Sessions


def scripted_config(
    folder: Path, *replies: object, window: int = 0, home: str = "home", name: str = "script", **flags: object
) -> Config:
    """The configuration of `folder/project`, which is made where it is not there, with a model that gives these
    replies. `window`: its size where it matters; `flags`: of the table `agent`."""
    project, script = folder / "project", folder / f"{name}.json"
    project.mkdir(exist_ok=True)
    script.write_text(json.dumps({"reply": replies, **({"context_window": window} if window else {})}))
    told = {f"agent.{key}": value for key, value in flags.items()}
    return load_config(project, environment(folder, home), {"agent.model": f"scripted/{script}", **told})


def scripted_sessions(folder: Path, *replies: object, interactive: bool = True, **changes: Any) -> Sessions:
    """The sessions of such a project, as after a new start of the program."""
    config = scripted_config(folder, *replies, **changes)
    return Sessions(config, config.project, environment(folder, changes.get("home", "home")), interactive=interactive)


def environment(folder: Path, home: str = "home") -> Mapping[str, str]:
    return {"EBB_HOME": str(folder / home)}
