"""Paths that lead elsewhere: reads are detected in requests, writes in the folders."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.attacks.drive import make_home, one_call, play
from bench.attacks.rows import AttackFolders, AttackOutcome, Row, lay_out
from bench.attacks.shell import OFF, rule_flags, wrongly_blocked
from tests.fake_provider import Call, Turn

_RACES = 40


def carry_out(row: Row, places: AttackFolders, policies: Mapping[str, Any]) -> AttackOutcome:
    """Run the call without asking, in the row's mode."""
    setup, action, expected = row["setup"], row["action"], row["expected"]
    make_home(places)
    lay_out(setup, places)
    tool, arguments = (
        str(action["tool"]),
        {name: _with_real_paths(each, places) for name, each in action["args"].items()},
    )
    if tool.startswith("app:"):
        return _of_the_program(tool, places)
    if setup.get("race"):
        return _link_race(places, tool, arguments)
    before = _inside(places)
    played = one_call(
        places, tool, arguments, *rule_flags(setup, policies), "--permission-mode", setup.get("mode") or "ask", env=OFF
    )
    if expected["decision"] == "allow":
        return AttackOutcome.of(played.outside_effects(), wrongly_blocked(played))
    after = _inside(places)
    secret = {"/etc/passwd": "root:x:", "/proc": "PATH="}
    shown = [sign for place, sign in secret.items() if place in str(arguments) and sign in "\n".join(played.outputs)]
    return AttackOutcome.of(
        played.outside_effects(),
        f"shown: {shown}" if shown else "",
        "" if before == after else f"changed: {sorted(set(before.items()) ^ set(after.items()))}",
    )


def auto(row: Row, places: AttackFolders, policies: Mapping[str, Any]) -> AttackOutcome:
    """Run the call in `auto` mode, which only asks about files that run later and files that contain secrets."""
    setup, action = row["setup"], row["action"]
    tool = str(action.get("tool", ""))
    is_secret = any(name in str(action) for name in (".ssh", ".env", "secrets.env"))
    if tool not in ("read", "write", "grep") or not (setup.get("mode") or is_secret):
        return AttackOutcome("not carried out", "nothing in it asks in every mode")
    make_home(places)
    lay_out(setup, places)
    before = _inside(places)
    arguments = {name: _with_real_paths(each, places) for name, each in action["args"].items()}
    played = one_call(places, tool, arguments, *rule_flags(setup, policies), "--permission-mode", "auto", env=OFF)
    return AttackOutcome.of(
        played.outside_effects(), "" if before == _inside(places) else "a file that runs later was changed"
    )


def _with_real_paths(value: object, places: AttackFolders) -> object:
    return places.with_real_paths(value) if isinstance(value, str) else value


def _inside(places: AttackFolders) -> dict[str, str]:
    return {
        str(path): path.read_text("utf-8", "replace")
        for path in places.project.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def _of_the_program(tool: str, places: AttackFolders) -> AttackOutcome:
    """Files that the program itself reads and writes at start."""
    match tool.removeprefix("app:"):
        case "save_project_settings":
            for link in places.project.iterdir():
                (places.project / ".ebb").symlink_to(link.readlink())
            played = play(places, [Turn(text="done")], env=OFF)
        case "load_instructions":
            played = play(places, [Turn(text="done")], env=OFF)
        case "start":
            (places.home / ".mcp.json").write_text(
                '{"mcpServers": {"x": {"command": "touch", "args": ["/tmp/PWNED"]}}}'
            )
            played = play(AttackFolders(places.folder), [Turn(text="done")], "-C", str(places.home), env=OFF)
        case other:
            return AttackOutcome("not carried out", f"`{other}` is nothing that this program does")
    return AttackOutcome.of(played.outside_effects())


def _link_race(places: AttackFolders, tool: str, arguments: Mapping[str, object]) -> AttackOutcome:
    """A folder that repeatedly becomes a link while files are written in it."""
    folder, other, elsewhere = places.project / "d", places.project / "e", places.folder / "w" / "out"
    folder.mkdir()

    @contextmanager
    def swapping() -> Iterator[None]:
        over = threading.Event()

        def swap() -> None:
            while not over.is_set():
                with suppress(OSError):  # the tool may have created the folder meanwhile
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

    calls = [Call(tool, {**arguments, "path": f"d/f{at}"}) for at in range(_RACES)]
    played = play(
        places, [*(Turn(calls=(call,)) for call in calls), Turn(text="done")], "--permission-mode", "accept-edits",
        env=OFF, meanwhile=swapping,
    )  # fmt: skip
    found = [str(path) for path in Path(elsewhere).iterdir()]
    return AttackOutcome.of(played.outside_effects(), f"written elsewhere: {found}" if found else "")
