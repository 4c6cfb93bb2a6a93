"""A disk that is full: nothing is lost, what was there stays as it was, and the user is told."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.commands import ROOT, environment
from tests.kit.full_disk import LOG

APART = ("unshare", "--user", "--map-root-user", "--mount")
"""Runs a program where it may mount a disk that nobody else sees."""


def may_mount() -> bool:
    has_it = sys.platform == "linux" and shutil.which(APART[0]) is not None
    return has_it and subprocess.run([*APART, "true"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not may_mount(), reason="this system lets no user mount a small disk of his own")


Seen = Callable[[str, Path], dict[str, Any]]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """What happened in a scenario of `tests.kit.full_disk`; one process plays them all."""
    player = subprocess.Popen(
        [*APART, sys.executable, "-m", "tests.kit.full_disk"], cwd=ROOT,
        env=environment(tmp_path_factory.mktemp("player")), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    asked, output = player.stdin, player.stdout
    assert asked
    assert output

    def play(scenario: str, folder: Path) -> dict[str, Any]:
        print(json.dumps([scenario, str(folder)]), file=asked, flush=True)
        answer = output.readline()
        assert answer, "the scenario ended in an error"
        found: dict[str, Any] = json.loads(answer)
        return found

    yield play
    player.communicate()


def test_an_output_that_cannot_be_kept_stays_in_its_file_and_the_step_goes_on(seen: Seen, tmp_path: Path) -> None:
    happened = seen("output", tmp_path)
    printed, fine, read = happened.pop("shown")
    log, end = happened.pop("log"), happened.pop("end")
    blobs = tmp_path / "data" / "blobs"
    notice = (
        f"the output of `bash` could not be stored, so it is shown in part: nothing more can be stored in `{blobs}`"
    )
    assert happened == {
        "codes": [0, 0],
        "ends": ["Yes.", "So."],
        "notices": [f"{notice}: the disk is full"],
        "printed": LOG,
        "files": ["blobs/tidied", log.removeprefix(f"{tmp_path}/data/")],
        "doctor": [],
    }
    assert printed.endswith(f'cut; `read_result` with ref_id="r1" shows all of it]\nall of it is in {log}\nexit code 0')
    assert fine == "fine\nexit code 0"
    whole = LOG + len("exit code 0\n")
    assert read == f"{end}\nexit code 0\n(bytes {LOG - 60}-{whole} of {whole:,})"


def test_a_command_that_fills_the_disk_gives_room_back_and_the_turn_goes_on(seen: Seen, tmp_path: Path) -> None:
    happened = seen("printing", tmp_path)
    endings = happened.pop("shown")
    assert happened == {
        "codes": [0, 0],
        "end": "Yes.",
        "log": ["user", "assistant", "user", "assistant", "user", "assistant"],
        "files": [],
        "has_room": True,
        "doctor": [],
    }
    assert [ending for _, ending in endings] == ["exit code 0"] * 3
    assert [re.sub(r"\d+", "N", line) for line, _ in endings] == [
        "the output after N bytes could not be stored: No space left on device",
        "fine",
        "the output after N bytes could not be stored: No space left on device",
    ]


def test_a_turn_that_cannot_be_written_down_ends_and_goes_on_when_there_is_room(seen: Seen, tmp_path: Path) -> None:
    why = "cannot grow: the disk is full; free some space and resume the session"
    assert seen("turn", tmp_path) == {
        "codes": [1, 0],
        "error": {"code": "store", "message": f"the session database `{tmp_path}/data/sessions.db` {why}"},
        "err": "",
        "result": "Yes.",
        "kept": 2,
        "log": ["user", "assistant", "user", "user", "assistant"],
        "doctor": [],
    }


def test_a_migration_that_finds_no_room_leaves_the_database_as_it_was(seen: Seen, tmp_path: Path) -> None:
    database = f"{tmp_path}/data/sessions.db"
    message = f"the session database `{database}` is of an older version and cannot be backed up"
    why = "cannot grow: the disk is full; free some space and resume the session"
    assert seen("migration", tmp_path) == {
        "codes": [1, 0],
        "err": f"ebb: {message}: the session database `{database}.v1-backup` {why}\n",
        "is_unchanged": True,
        "titles": ["an old one"],
        "doctor": [],
    }


def test_an_export_or_import_that_finds_no_room_leaves_everything_as_it_was(seen: Seen, tmp_path: Path) -> None:
    assert seen("coming", tmp_path) == {
        "codes": [2, 1, 0],
        "err": f"ebb: cannot write `{tmp_path}/data/s.zip`: No space left on device\n"
        f"ebb: nothing more can be stored in `{tmp_path}/data/blobs`: the disk is full\n",
        "is_unchanged": True,
        "out": "imported ID  go\nResume: ebb -r ID\n",
        "doctor": [],
    }


def test_what_is_stored_can_be_read_while_the_disk_is_full(seen: Seen, tmp_path: Path) -> None:
    why = f"no session can be stored in `{tmp_path}/data/sessions.db`: the disk is full; use `--ephemeral` to start"
    assert seen("reading", tmp_path) == {
        "listed": [True],
        "shown": True,
        "found": 0,
        "refused": [1, f"ebb: {why} one that is not saved\n"],
        "again": "So.",
        "doctor": [],
    }


def test_what_cannot_be_kept_before_a_command_is_told_and_leaves_room_for_the_session(
    seen: Seen, tmp_path: Path
) -> None:
    happened = seen("checkpoint", tmp_path)
    (notice,) = happened.pop("notices")
    assert re.fullmatch(
        rf"`/undo` cannot revert this: no more checkpoints are stored in `{tmp_path}/data/checkpoints/\w+`: "
        "the disk is almost full; free some space",
        notice,
    )
    assert happened == {
        "codes": [0, 2, 0, 0],
        "ends": ["Done.", "Done."],
        "refused": "ebb: nothing to undo: no recorded turn changed files here\n",
        "has_room": True,
        "undone": ["  restored   a.txt"],
        "text": "new\n",
        "doctor": [],
    }


def test_an_undo_that_finds_no_room_changes_nothing_and_is_done_when_there_is(seen: Seen, tmp_path: Path) -> None:
    assert seen("restoring", tmp_path) == {
        "codes": [0, 1, 0],
        "err": "ebb: nothing was changed: No space left on device; free some space and try again\n",
        "names": ["a.bin", "b.txt", "mine"],
        "as_it_was": True,
        "left": ["a.bin"],
        "is_back": True,
    }


def test_whatever_does_not_fit_the_session_is_whole_and_the_user_is_told(seen: Seen, tmp_path: Path) -> None:
    assert seen("every_write", tmp_path) == {"wrong": [], "told": ["done", "said"]}


def test_a_file_that_cannot_be_written_stays_as_it_was(seen: Seen, tmp_path: Path) -> None:
    assert seen("editing", tmp_path) == {"wrong": [], "calls": 4, "code": 0}
