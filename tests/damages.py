"""A home with sessions in it, damaged in ways that a seed chooses, and what `ebb` says of it then."""

import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.running import Run, ebb

TARGETS = ("database", "database", "database", "log", "output", "output", "configuration", "project")
CODES = range(9)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a command did in a damaged home."""

    arguments: tuple[str, ...]
    run: Run

    @property
    def fault(self) -> str:
        """What it should not have done; empty when all is as it should be."""
        told = self.run.out + self.run.err
        if "Traceback (most recent call last)" in told:
            return "a traceback"
        if self.run.code not in CODES:
            return f"exit code {self.run.code}"
        return "not a word" if self.run.code and not told.strip() else ""


def made(folder: Path) -> Path:
    """A home with two sessions, stored outputs and a configuration, as a killed program leaves it: with a log."""
    project = folder / "app"
    (project / ".ebb").mkdir(parents=True)
    (folder / "config").mkdir()
    (folder / "config" / "config.toml").write_text("[archive]\nmax_age = 900\n\n[agent]\nprotect_tokens = 9000\n")
    calls = [{"calls": [{"name": "bash", "arguments": {"command": f"seq {number}"}}]} for number in (9000, 7000, 3)]
    script = folder / "script.json"
    script.write_text(json.dumps({"reply": [*calls, {"text": "Done."}]}))
    (project / ".ebb" / "config.toml").write_text("[agent]\ncontext_note_at = 0.7\n")
    for words in ("first words", "second words"):
        run = ebb(*told(folder, "-p", words, "--permission-mode", "auto"), home=folder)
        assert run.code == 0, run.err
    return folder


def told(folder: Path, *arguments: str) -> tuple[str, ...]:
    """The arguments of a command in that home."""
    is_run = "-p" in arguments or "doctor" in arguments or "context" in arguments
    model = ("-m", f"scripted/{folder / 'script.json'}") if is_run and "context" not in arguments else ()
    return (*arguments, *model, "-C", str(folder / "app"))


def damage(home: Path, seed: int) -> str:
    """Damages one file of the home; what was done."""
    chance = random.Random(seed)
    target = chance.choice(TARGETS)
    path = _file(home, target, chance)
    data = bytearray(path.read_bytes() if path.exists() else b"\0" * 5000)
    kind = chance.choice(("cut", "flip", "overwrite", "zeros", "empty", "garbage", "insert"))
    at = chance.randrange(len(data)) if data else 0
    match kind:
        case "cut":
            del data[at:]
        case "flip":
            for _ in range(chance.randrange(1, 20)):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        case "overwrite":
            data[at : at + 4096] = chance.randbytes(len(data[at : at + 4096]))
        case "zeros":
            data[at : at + 4096] = bytes(len(data[at : at + 4096]))
        case "empty":
            data.clear()
        case "garbage":
            data[:] = chance.randbytes(len(data))
        case _:
            data[at:at] = chance.randbytes(100)
    path.write_bytes(data)
    return f"{target}: {kind}"


def _file(home: Path, target: str, chance: random.Random) -> Path:
    match target:
        case "database":
            return home / "data" / "sessions.db"
        case "log":
            return home / "data" / "sessions.db-wal"
        case "output":
            return chance.choice(sorted((home / "data" / "blobs").glob("??/*")))
        case "configuration":
            return home / "config" / "config.toml"
        case _:
            return home / "app" / ".ebb" / "config.toml"


def commands(home: Path, session: str) -> Sequence[tuple[str, ...]]:
    """Every command that reads what is stored, the one that repairs last but one."""
    return (
        ("sessions", "list"),
        ("sessions", "show", session),
        ("sessions", "show", session, "r1"),
        ("sessions", "search", "4321"),
        ("sessions", "export", session, str(home / "out.zip"), "--force"),
        ("context",),
        ("config",),
        ("doctor",),
        ("doctor", "--deep"),
        ("-p", "new", "--permission-mode", "auto"),
        ("-r", session, "-p", "more", "--permission-mode", "auto"),
        ("sessions", "fork", session),
        ("sessions", "delete", session),
        ("doctor", "--repair"),
        ("-r", session, "-p", "after", "--permission-mode", "auto"),
    )


def tried(whole: Path, place: Path, seed: int, session: str, share: int = 1) -> tuple[str, list[Seen]]:
    """What was damaged in a copy of a home, and what commands did there: one of `share` of those that read, and all
    that repair."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(whole, place)
    what = damage(place, seed)
    every = commands(place, session)
    chosen = [one for number, one in enumerate(every[:-2]) if (number + seed) % share == 0]
    return what, [Seen(one, ebb(*told(place, *one), home=place)) for one in (*chosen, *every[-2:])]
