"""Folders as values: what is in one, compared as a whole."""

import os
import stat
from pathlib import Path

from ebbtide.agent.checkpoints.project import ProjectCheckpoints
from ebbtide.agent.checkpoints.undo_points import TurnPlace
from ebbtide.agent.checkpoints.work_tree import Limits

LIMITS = Limits(files=1000, file_bytes=10_000, all_bytes=1_000_000)


def tree(root: Path) -> dict[str, tuple[object, ...]]:
    """Every path below a folder with its kind, its mode and what it holds."""
    found: dict[str, tuple[object, ...]] = {}
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            key = os.path.relpath(path, root)
            if stat.S_ISLNK(status.st_mode):
                found[key] = ("link", os.readlink(path))
            elif stat.S_ISDIR(status.st_mode):
                found[key] = ("folder", stat.S_IMODE(status.st_mode))
            elif stat.S_ISREG(status.st_mode):
                found[key] = ("file", stat.S_IMODE(status.st_mode), Path(path).read_bytes())
            else:
                found[key] = ("special",)
    return found


def project_in(folder: Path, limits: Limits = LIMITS) -> ProjectCheckpoints:
    """The checkpoints of the folder `work` in a folder, which is made, kept in `data` beside it."""
    (folder / "work").mkdir(exist_ok=True)
    return ProjectCheckpoints(folder / "data", folder / "work", limits, 100_000_000)


def turn(number: int, session: str = "s") -> TurnPlace:
    return TurnPlace(session, number, f"turn {number}")


def never() -> bool:
    return False


class Agent:
    """Turns in which commands run."""

    def __init__(self, project: ProjectCheckpoints) -> None:
        self.project = project
        self.number = 0

    def begin(self) -> TurnPlace:
        self.number += 1
        place = turn(self.number)
        assert self.project.begin(place, in_job=False, stopped=never) == ""
        return place

    def end(self, place: TurnPlace) -> tuple[str, ...]:
        assert self.project.end(place) == ""
        return self.project.finish(place).files
