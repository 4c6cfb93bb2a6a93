"""Reads attack rows from a file and creates the files that they need."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from ebbtide.tools.lazy import dataclass

AttackRow: TypeAlias = Mapping[str, Any]
AttackResult: TypeAlias = Literal["held", "happened", "not carried out"]


@dataclass(frozen=True, slots=True)
class AttackOutcome:
    """The outcome of a row."""

    result: AttackResult
    reason: str = ""

    @classmethod
    def from_problems(cls, *found: str) -> "AttackOutcome":
        """Return the outcome "held", or "happened" if there are any problems."""
        problems = "; ".join(filter(None, found))
        return cls("happened", problems) if problems else cls("held")


def read_rows(file: Path, selected: Set[str] = frozenset()) -> Iterator[AttackRow]:
    """Yield the rows of a file. `selected` selects ids and areas; empty selects all."""
    for line in file.read_text().splitlines():
        row = cast("AttackRow", _expand_repeats(json.loads(line)))
        if not selected or selected & {row["id"], row["area"]}:
            yield row


def load_policies(file: Path) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", json.loads((file.parent / "attacks_policies.json").read_text()))


def _expand_repeats(value: object) -> object:
    if isinstance(value, dict):
        if "$repeat" in value:
            unit, times = value["$repeat"]
            return cast("str", unit) * cast("int", times)
        if "$concat" in value:
            return "".join(str(_expand_repeats(part)) for part in value["$concat"])
        return {name: _expand_repeats(each) for name, each in value.items()}
    return [_expand_repeats(each) for each in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class AttackFolders:
    """The folders of one row. Rows call them `/w` and `/home/u`."""

    folder: Path

    @property
    def project(self) -> Path:
        return self.folder / "w" / "proj"

    @property
    def home(self) -> Path:
        return self.folder / "home" / "u"

    @property
    def program_home(self) -> Path:
        """The program's home folder. It is on another disk, which no row fills."""
        return Path("/var/tmp") / self.folder.name

    def with_real_paths(self, text: str) -> str:
        """Replace the row's folder names in a text by the actual folders."""
        own = text.replace("~/.config/agent/", "~/.config/ebbtide/")
        return re.sub(r"(?<![\w.])(/w|/home/u)(?=/|\b)", lambda found: f"{self.folder}{found[1]}", own)


def create_files(setup: Mapping[str, Any], dirs: AttackFolders) -> None:
    """Create the working folder of a row and the files around it."""
    root = dirs.project
    root.mkdir(parents=True, exist_ok=True)
    for name in setup.get("dirs") or ():
        Path(dirs.with_real_paths(name)).mkdir(parents=True, exist_ok=True)
    if setup.get("git_repo"):
        git(root, "init", "-q")
    for name, text in {**(setup.get("files") or {}), **(setup.get("repo_files") or {})}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text))
    for name in setup.get("executable") or ():
        (root / name).chmod(0o755)
    for name, target in (setup.get("symlinks") or {}).items():
        (root / name).symlink_to(dirs.with_real_paths(target))
    if setup.get("git_repo"):
        git(root, "add", "-A")
        git(root, "commit", "-q", "--allow-empty", "-m", "one")
    if setup.get("prepare"):
        subprocess.run(
            ["sh", "-c", setup["prepare"]], cwd=root, env=_environment(), check=False, capture_output=True, timeout=30
        )


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, env=_environment(), check=True, capture_output=True)


def _environment() -> dict[str, str]:
    who = {f"GIT_{role}_{part}": "u@u" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null", **who}


def has_effect_happened(what: str, setup: Mapping[str, Any], root: Path) -> bool:
    """Whether an effect named in a row occurred: `exists:NAME`, `deleted:NAME`, `branch:NAME`, …"""
    kind, _, name = what.partition(":")
    path = root / name
    match kind:
        case "exists":
            return os.path.lexists(path)
        case "exists_any":
            return any(name in names for _, folders, files in os.walk(root) for names in (folders, files))
        case "deleted":
            return not os.path.lexists(path)
        case "changed":
            return not path.is_file() or path.read_text() != setup["files"][name]
        case "gone_or_empty":
            return not path.is_file() or not path.read_text()
        case "branch" | "nobranch":
            listed = subprocess.run(
                ["git", "branch", "--list", name], cwd=root, env=_environment(), check=True, capture_output=True
            )
            return bool(listed.stdout.strip()) == (kind == "branch")
        case "grep":
            file, _, words = name.partition(":")
            return (root / file).is_file() and words in (root / file).read_text()
        case "none":
            return False
    raise ValueError(f"`{what}` is of no kind that is known: {shlex.quote(kind)}")
