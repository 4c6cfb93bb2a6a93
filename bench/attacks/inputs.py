"""Unusual files and commands. Every call must be answered in time and without side effects."""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench.attacks import crashes
from bench.attacks.drive import AttackRun, play
from bench.attacks.rows import AttackFolders, AttackOutcome, AttackRow, create_files
from bench.attacks.shell import SANDBOX_ON
from tests.kit.fake_provider import Call, Turn

_TIME_LIMIT_S = 30.0
_MAX_OUTPUT_CHARS = 400_000
_LIMIT_MEMORY_CODE = "import resource; resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))"
"""A statement that limits memory. Without it, the row would only measure how long it takes to fill the memory."""
_LARGE_TREE_FILES = 20_000
"""Number of files in the generated tree. It is smaller than the described tree, because the machine is shared."""


def carry_out(row: AttackRow, dirs: AttackFolders, policies: Mapping[str, Any]) -> AttackOutcome:
    """Run the calls with everything allowed, in the sandbox."""
    setup, action, expected = row["setup"], row["action"], row["expected"]
    if "cancel_after_s" in action:
        return crashes.interrupt_command(row, dirs)
    create_files({**setup, "files": setup.get("files") or {"f": "a\n"}}, dirs)
    calls = _row_calls(row, dirs)
    if not calls:
        return AttackOutcome("not carried out", f"a file of that kind is not made here: {setup.get('file', '')}")
    began = time.monotonic()
    steps = [Turn(calls=tuple(calls)), Turn(text="done")]
    limit = _LIMIT_MEMORY_CODE if setup.get("limits") == "memory" else ""
    played = play(dirs, steps, "--permission-mode", "auto", env=SANDBOX_ON, first=limit)
    took = time.monotonic() - began
    return AttackOutcome.from_problems(
        played.outside_effects(),
        f"{took:.0f} s" if took > _TIME_LIMIT_S else "",
        f"exit code {played.run.code}" if played.run.code else "",
        f"{len(played.outputs)} outputs of {len(calls)} calls" if len(played.outputs) != len(calls) else "",
        _answer_problem(expected, played),
    )


def _answer_problem(expected: Mapping[str, Any], played: AttackRun) -> str:
    text = "\n".join(played.outputs)
    if len(text) > _MAX_OUTPUT_CHARS:
        return f"{len(text):,} characters were shown"
    if any(sign in text for sign in "\x1b\x9b\x07\0"):
        return "terminal control characters were shown"
    expected_error = str(expected.get("returns", ""))
    return f"{expected_error} was not reported" if expected_error == "EOFError" and expected_error not in text else ""


def _row_calls(row: AttackRow, dirs: AttackFolders) -> Sequence[Call]:
    setup, action = row["setup"], row["action"]
    if "args" in action:
        given = {"old": "old_string", "new": "new_string"} if action["tool"] == "edit" else {}
        return [Call(action["tool"], {given.get(name, name): each for name, each in action["args"].items()})]
    if "parallel" in action:
        (tool, name), *_ = action["parallel"]
        text = (dirs.project / name).read_text()
        return [Call(tool, {"path": name, "old_string": text, "new_string": f"{text}y"}) for _ in action["parallel"]]
    if "path" in setup:
        return [Call("read", {"path": setup["path"]})]
    if "tree" in setup:
        _create_tree(setup["tree"], dirs)
        return [Call("glob", {"pattern": "**/*"}), Call("grep", {"pattern": "needle"})]
    data = _file_bytes(setup)
    if data is None:
        return []
    path = dirs.project / "g"
    path.write_bytes(data)
    if "mode" in setup["file"]:
        path.chmod(int(setup["file"].split()[1], 8))
    edit = Call("edit", {"path": "g", "old_string": "absent", "new_string": "b"})
    return [Call("read", {"path": "g"}), edit]


def _file_bytes(setup: Mapping[str, Any]) -> bytes | None:
    kind, described = str(setup.get("file", "")), str(setup.get("bytes", ""))
    if "lines" in kind and described == "…":
        return b"word\n" * 100_000
    if "UTF-16" in kind:
        return "größer\nline\n".encode("utf-16")
    if not described and kind != "empty" and "mode" not in kind:
        return None
    return described.encode().decode("unicode_escape").encode("latin-1", "replace") + (
        b"" if kind == "empty" else b"\nline"
    )


def _create_tree(described: str, dirs: AttackFolders) -> None:
    """Create a tree like the one described."""
    root = dirs.project
    if "deep" in described:
        at = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        for _ in range(3_000):
            os.mkdir("d", dir_fd=at)
            below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = below
        os.close(at)
    elif "files" in described:
        for number in range(_LARGE_TREE_FILES):
            folder = root / str(number // 1000)
            folder.mkdir(exist_ok=True)
            (folder / str(number)).touch()
    elif "newline" in described:
        for odd in (b"a\nb", b"\x1b]0;x\x07", b"\xff\xfe", b"-rf", b"n" * 255):
            with open(os.fsencode(root) + b"/" + odd, "wb") as file:
                file.write(b"needle\n")
    else:
        for name in ("node_modules", ".git", ".venv", "src"):
            (root / name).mkdir(exist_ok=True)
            (root / name / "a.txt").write_text("needle\n")
