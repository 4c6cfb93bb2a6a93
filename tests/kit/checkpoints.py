"""Folders as values: what is in one, compared as a whole."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from ebbtide.agent.checkpoints.project import ProjectCheckpoints
from ebbtide.agent.checkpoints.undo_points import TurnKey
from ebbtide.agent.checkpoints.unread_files import ScanLimits

LIMITS = ScanLimits(max_files=1000, max_file_bytes=10_000, max_total_bytes=1_000_000)


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


def project_in(folder: Path, limits: ScanLimits = LIMITS) -> ProjectCheckpoints:
    """The checkpoints of the folder `work` in a folder, which is made, kept in `data` beside it."""
    (folder / "work").mkdir(exist_ok=True)
    return ProjectCheckpoints(folder / "data", folder / "work", limits, 100_000_000)


def turn_place(number: int, session: str = "s") -> TurnKey:
    return TurnKey(session, number, f"turn {number}")


def never() -> bool:
    return False


class Agent:
    """Turns in which commands run."""

    def __init__(self, project: ProjectCheckpoints) -> None:
        self.project = project
        self.number = 0
        self._changed: tuple[str, ...] = ()

    @contextmanager
    def turn(self) -> Iterator[Self]:
        """A turn, which ends with the block."""
        place = self.begin()
        yield self
        self._changed = self.end(place)

    def changed_files(self) -> tuple[str, ...]:
        """Those that the last turn has changed."""
        return self._changed

    def begin(self) -> TurnKey:
        self.number += 1
        place = turn_place(self.number)
        assert self.project.begin_command(place, in_job=False, is_cancelled=never) == ""
        return place

    def end(self, place: TurnKey) -> tuple[str, ...]:
        assert self.project.end_command(place) == ""
        return self.project.finish_turn(place).files
