"""Unusual files and commands: every call must be answered in time, without side effects."""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench.attacks import crashes
from bench.attacks.drive import AttackRun, play
from bench.attacks.rows import AttackFolders, AttackOutcome, Row, lay_out
from bench.attacks.shell import ON
from tests.fake_provider import Call, Turn

_TIME_LIMIT_S = 30.0
_MAX_SHOWN_CHARS = 400_000
_LITTLE_MEMORY = "import resource; resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))"
"""Limits memory: on a larger machine, the row would only show how long it takes to fill it."""
_LARGE_TREE_FILES = 20_000
"""Number of files that stand for a larger tree, since the machine is shared."""


def carry_out(row: Row, places: AttackFolders, policies: Mapping[str, Any]) -> AttackOutcome:
    """Run the calls with everything allowed, in the sandbox."""
    setup, action, expected = row["setup"], row["action"], row["expected"]
    if "cancel_after_s" in action:
        return crashes.interrupt_command(row, places)
    lay_out({**setup, "files": setup.get("files") or {"f": "a\n"}}, places)
    calls = _calls(row, places)
    if not calls:
        return AttackOutcome("not carried out", f"a file of that kind is not made here: {setup.get('file', '')}")
    began = time.monotonic()
    steps = [Turn(calls=tuple(calls)), Turn(text="done")]
    limit = _LITTLE_MEMORY if setup.get("limits") == "memory" else ""
    played = play(places, steps, "--permission-mode", "auto", env=ON, first=limit)
    took = time.monotonic() - began
    return AttackOutcome.of(
        played.outside_effects(),
        f"{took:.0f} s" if took > _TIME_LIMIT_S else "",
        f"exit code {played.run.code}" if played.run.code else "",
        f"{len(played.outputs)} outputs of {len(calls)} calls" if len(played.outputs) != len(calls) else "",
        _ill_answered(expected, played),
    )


def _ill_answered(expected: Mapping[str, Any], played: AttackRun) -> str:
    text = "\n".join(played.outputs)
    if len(text) > _MAX_SHOWN_CHARS:
        return f"{len(text):,} characters were shown"
    if any(sign in text for sign in "\x1b\x9b\x07\0"):
        return "terminal control characters were shown"
    told = str(expected.get("returns", ""))
    return f"{told} was not reported" if told == "EOFError" and told not in text else ""


def _calls(row: Row, places: AttackFolders) -> Sequence[Call]:
    setup, action = row["setup"], row["action"]
    if "args" in action:
        given = {"old": "old_string", "new": "new_string"} if action["tool"] == "edit" else {}
        return [Call(action["tool"], {given.get(name, name): each for name, each in action["args"].items()})]
    if "parallel" in action:
        (tool, name), *_ = action["parallel"]
        text = (places.project / name).read_text()
        return [Call(tool, {"path": name, "old_string": text, "new_string": f"{text}y"}) for _ in action["parallel"]]
    if "path" in setup:
        return [Call("read", {"path": setup["path"]})]
    if "tree" in setup:
        _grow(setup["tree"], places)
        return [Call("glob", {"pattern": "**/*"}), Call("grep", {"pattern": "needle"})]
    data = _bytes(setup)
    if data is None:
        return []
    path = places.project / "g"
    path.write_bytes(data)
    if "mode" in setup["file"]:
        path.chmod(int(setup["file"].split()[1], 8))
    edit = Call("edit", {"path": "g", "old_string": "absent", "new_string": "b"})
    return [Call("read", {"path": "g"}), edit]


def _bytes(setup: Mapping[str, Any]) -> bytes | None:
    kind, told = str(setup.get("file", "")), str(setup.get("bytes", ""))
    if "lines" in kind and told == "…":
        return b"word\n" * 100_000
    if "UTF-16" in kind:
        return "größer\nline\n".encode("utf-16")
    if not told and kind != "empty" and "mode" not in kind:
        return None
    return told.encode().decode("unicode_escape").encode("latin-1", "replace") + (b"" if kind == "empty" else b"\nline")


def _grow(told: str, places: AttackFolders) -> None:
    """Create a tree like the one described."""
    root = places.project
    if "deep" in told:
        at = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        for _ in range(3_000):
            os.mkdir("d", dir_fd=at)
            below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = below
        os.close(at)
    elif "files" in told:
        for number in range(_LARGE_TREE_FILES):
            folder = root / str(number // 1000)
            folder.mkdir(exist_ok=True)
            (folder / str(number)).touch()
    elif "newline" in told:
        for odd in (b"a\nb", b"\x1b]0;x\x07", b"\xff\xfe", b"-rf", b"n" * 255):
            with open(os.fsencode(root) + b"/" + odd, "wb") as file:
                file.write(b"needle\n")
    else:
        for name in ("node_modules", ".git", ".venv", "src"):
            (root / name).mkdir(exist_ok=True)
            (root / name / "a.txt").write_text("needle\n")
