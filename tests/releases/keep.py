"""Keeps what the present version leaves: a session of two turns, and the configuration that it was made with."""

import json
import tarfile
import tempfile
from pathlib import Path

from ebbtide.version import VERSION
from tests.kit.commands import ebb
from tests.kit.files import write_file

FOLDER = Path(__file__).parent
CONFIG = """
[agent]
model = "scripted/s.json"
permission_mode = "auto"
sandbox = "off"
reasoning_effort = "low"
max_turns = 20
max_cost = 1.5

[permissions]
allow = ["bash(git status)", "read"]
deny = ["write(.env)"]
"""
REPLIES = (
    {"text": "I look.", "calls": [{"name": "read", "arguments": {"path": "prices.py"}}]},
    {
        "calls": [
            {"name": "edit", "arguments": {"path": "prices.py", "old": "1.0", "new": "1.2"}},
            {"name": "bash", "arguments": {"command": "seq 400"}},
        ]
    },
    {"calls": [{"name": "todo", "arguments": {"items": [{"text": "raise prices", "status": "done"}]}}]},
    {"text": "The price is 1.2 now."},
)


def keep() -> Path:
    """The archive that it has made."""
    with tempfile.TemporaryDirectory() as name:
        home, project = Path(name, "home"), Path(name, "prices")
        write_file(home / "config" / "config.toml", CONFIG)
        write_file(project / "prices.py", "price = 1.0\n")
        for prompt, replies in (
            ("raise the price", REPLIES),
            ("is anything left?", [{"text": "Nothing is left to do."}]),
        ):
            (project / "s.json").write_text(json.dumps({"context_window": 20000, "reply": replies}))
            going_on = ["-c"] if replies is not REPLIES else []
            run = ebb(*going_on, "-C", str(project), "-p", prompt, "-m", f"scripted/{project}/s.json", home=home)
            assert run.code == 0, run.err
        archive = FOLDER / f"{VERSION}.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            for part in ("config", "data"):
                tar.add(home / part, part)
        return archive


if __name__ == "__main__":
    print(keep())
