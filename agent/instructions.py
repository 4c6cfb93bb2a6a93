"""The system text: what every session is told, what the project says, where the session runs. Files are read once, at
the start of a session; nothing in the text changes until the next."""

import platform
from datetime import date
from pathlib import Path

from agent.context.prompt import Instructions

PROJECT_FILES = ("AGENT.md", "AGENTS.md")
MAX_BYTES = 32_768
"""Of each instruction file; the rest is left out with a note, so that no file can fill the window."""


def load_instructions(root: Path, project: Path, user_folder: Path, today: date) -> Instructions:
    """The sections of the system text for a session in `root`. A file that cannot be read is left out and named."""
    base = Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip()
    sections = [_section(path) for path in instruction_files(root, project, user_folder)]
    return Instructions(base, _environment(root, project, today), "\n\n".join(sections))


def instruction_files(root: Path, project: Path, user_folder: Path) -> tuple[Path, ...]:
    """The user's file, then the project's from its top folder down to the working folder. One file a folder."""
    inner = [folder for folder in (root, *root.parents) if folder == project or project in folder.parents]
    found = []
    for folder in (user_folder, *reversed(inner or [root])):
        present = next((folder / name for name in PROJECT_FILES if (folder / name).is_file()), None)
        if present is not None:
            found.append(present)
    return tuple(found)


def _section(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        return f"# Instructions from {path}\n\n[cannot be read: {error.strerror or error}]"
    text = raw[:MAX_BYTES].decode("utf-8", "replace").strip()
    rest = f"\n\n[only the first {MAX_BYTES} bytes of this file are shown]" if len(raw) > MAX_BYTES else ""
    return f"# Instructions from {path}\n\n{text}{rest}"


def _environment(root: Path, project: Path, today: date) -> str:
    git = "in a git work tree" if (project / ".git").exists() else "not in a git work tree"
    return (
        f"Working folder: {root} ({git})\nSystem: {platform.system()} {platform.machine()}\nDate: {today.isoformat()}"
    )
