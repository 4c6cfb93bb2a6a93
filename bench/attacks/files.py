"""Paths that lead outside the project. Reads are detected in requests, writes in the folders."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.attacks.drive import create_home, play, play_one_call
from bench.attacks.rows import AttackFolders, AttackOutcome, AttackRow, create_files
from bench.attacks.shell import SANDBOX_OFF, rule_flags, wrongly_blocked
from tests.kit.fake_provider import Call, Turn

_RACE_CALLS = 40


def carry_out(row: AttackRow, dirs: AttackFolders, policies: Mapping[str, Any]) -> AttackOutcome:
    """Run the call without asking, in the row's mode."""
    setup, action, expected = row["setup"], row["action"], row["expected"]
    create_home(dirs)
    create_files(setup, dirs)
    tool, arguments = (
        str(action["tool"]),
        {name: _with_real_paths(each, dirs) for name, each in action["args"].items()},
    )
    if tool.startswith("app:"):
        return _run_program_action(tool, dirs)
    if setup.get("race"):
        return _link_race(dirs, tool, arguments)
    before = _project_files(dirs)
    played = play_one_call(
        dirs,
        tool,
        arguments,
        *rule_flags(setup, policies),
        "--permission-mode",
        setup.get("mode") or "ask",
        env=SANDBOX_OFF,
    )
    if expected["decision"] == "allow":
        return AttackOutcome.from_problems(played.outside_effects(), wrongly_blocked(played))
    after = _project_files(dirs)
    secret = {"/etc/passwd": "root:x:", "/proc": "PATH="}
    leaked = [sign for place, sign in secret.items() if place in str(arguments) and sign in "\n".join(played.outputs)]
    return AttackOutcome.from_problems(
        played.outside_effects(),
        f"shown: {leaked}" if leaked else "",
        "" if before == after else f"changed: {sorted(set(before.items()) ^ set(after.items()))}",
    )


def carry_out_in_auto_mode(row: AttackRow, dirs: AttackFolders, policies: Mapping[str, Any]) -> AttackOutcome:
    """Run the call in `auto` mode, which asks only about files that will be executed later and files
    that contain secrets."""
    setup, action = row["setup"], row["action"]
    tool = str(action.get("tool", ""))
    is_secret = any(name in str(action) for name in (".ssh", ".env", "secrets.env"))
    if tool not in ("read", "write", "grep") or not (setup.get("mode") or is_secret):
        return AttackOutcome("not carried out", "nothing in it asks in every mode")
    create_home(dirs)
    create_files(setup, dirs)
    before = _project_files(dirs)
    arguments = {name: _with_real_paths(each, dirs) for name, each in action["args"].items()}
    played = play_one_call(
        dirs, tool, arguments, *rule_flags(setup, policies), "--permission-mode", "auto", env=SANDBOX_OFF
    )
    return AttackOutcome.from_problems(
        played.outside_effects(), "" if before == _project_files(dirs) else "a file that runs later was changed"
    )


def _with_real_paths(value: object, dirs: AttackFolders) -> object:
    return dirs.with_real_paths(value) if isinstance(value, str) else value


def _project_files(dirs: AttackFolders) -> dict[str, str]:
    return {
        str(path): path.read_text("utf-8", "replace")
        for path in dirs.project.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def _run_program_action(tool: str, dirs: AttackFolders) -> AttackOutcome:
    """Check files that the program itself reads or writes at start."""
    match tool.removeprefix("app:"):
        case "save_project_settings":
            for link in dirs.project.iterdir():
                (dirs.project / ".ebb").symlink_to(link.readlink())
            played = play(dirs, [Turn(text="done")], env=SANDBOX_OFF)
        case "load_instructions":
            played = play(dirs, [Turn(text="done")], env=SANDBOX_OFF)
        case "start":
            (dirs.home / ".mcp.json").write_text('{"mcpServers": {"x": {"command": "touch", "args": ["/tmp/PWNED"]}}}')
            played = play(AttackFolders(dirs.folder), [Turn(text="done")], "-C", str(dirs.home), env=SANDBOX_OFF)
        case other:
            return AttackOutcome("not carried out", f"`{other}` is nothing that this program does")
    return AttackOutcome.from_problems(played.outside_effects())


def _link_race(dirs: AttackFolders, tool: str, arguments: Mapping[str, object]) -> AttackOutcome:
    """Write files in a folder while another thread repeatedly replaces it by a link."""
    folder, other, elsewhere = dirs.project / "d", dirs.project / "e", dirs.folder / "w" / "out"
    folder.mkdir()

    @contextmanager
    def swapping() -> Iterator[None]:
        over = threading.Event()

        def swap() -> None:
            while not over.is_set():
                with suppress(OSError):  # the tool may have created the folder in the meantime
                    os.rename(folder, other)
                    os.symlink(elsewhere, folder)
                with suppress(OSError):
                    os.unlink(folder)
                    os.rename(other, folder)

        thread = threading.Thread(target=swap)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    calls = [Call(tool, {**arguments, "path": f"d/f{at}"}) for at in range(_RACE_CALLS)]
    played = play(
        dirs, [*(Turn(calls=(call,)) for call in calls), Turn(text="done")], "--permission-mode", "accept-edits",
        env=SANDBOX_OFF, meanwhile=swapping,
    )  # fmt: skip
    found = [str(path) for path in Path(elsewhere).iterdir()]
    return AttackOutcome.from_problems(played.outside_effects(), f"written elsewhere: {found}" if found else "")
