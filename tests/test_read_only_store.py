"""A home that can only be read, as on a read-only medium: all that reads works, all that writes says no."""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.commands import Run, command, environment
from tests.kit.user import Worker

PR_CAPBSET_DROP, OVERRIDES = 24, (1, 2)
"""Of Linux: the capabilities that let the superuser write and read in spite of permissions."""


@pytest.fixture(autouse=True)
def may_be_written_again(tmp_path: Path) -> Iterator[None]:
    tmp_path.chmod(0o755)
    yield
    for path in (tmp_path, *tmp_path.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)


def close(folder: Path) -> None:
    """Takes the permission to write away."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)


def without_override() -> None:
    """Lets what is executed next respect permissions, also when the superuser runs it."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        for capability in OVERRIDES:
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def as_reader(worker: Worker, *arguments: str) -> Run:
    """Runs `ebb` as somebody who may not write there."""
    done = subprocess.run(
        command(*arguments, "-C", str(worker.project)), env=environment(worker.home), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=120, check=False,
        preexec_fn=without_override,  # it only gives permissions up
    )  # fmt: skip
    return Run(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def session(worker: Worker) -> str:
    return worker.session("seq 5001")


@pytest.mark.parametrize("has_log", [False, True], ids=["alone", "with its log"])
def test_what_is_stored_can_be_read_where_nothing_can_be_written(has_log: bool, worker: Worker, session: str) -> None:
    data = worker.data
    if has_log:
        worker.leave_log("update sessions set title = 'in the log'")
    close(data)
    before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    listed = as_reader(worker, "sessions", "list")
    assert (listed.code, listed.err, listed.out.split()[0]) == (0, "", session)
    assert listed.out.rstrip().endswith("in the log" if has_log else "go")
    assert as_reader(worker, "sessions", "show", session).out.startswith("> go\n")
    assert as_reader(worker, "sessions", "show", session, "r1").out.startswith("1\n2\n")
    assert as_reader(worker, "sessions", "search", "4999").out.startswith("ebb://app/")
    assert as_reader(worker, "context", session).code == 0
    out = worker.home / "out"
    out.mkdir()
    out.chmod(0o777)
    exported = as_reader(worker, "sessions", "export", session, str(out / "s.zip"))
    assert (exported.code, (out / "s.zip").exists()) == (0, True), exported.err
    doctor = as_reader(worker, "doctor", "--deep", "-m", worker.working())
    assert "all 1 in 1 session resolve" in doctor.out
    assert "Traceback" not in doctor.err
    for arguments in (("-p", "go on"), ("-c", "-p", "go on")):
        asked = as_reader(worker, *arguments, "-m", worker.working())
        assert asked.code == 1
        assert "it is read-only; use `--ephemeral` to start one that is not saved" in asked.err
    assert as_reader(worker, "-p", "go on", "-m", worker.working(), "--ephemeral").out == "Done.\n"
    for arguments in (("delete", session), ("fork", session), ("rename", session, "New")):
        changed = as_reader(worker, "sessions", *arguments)
        assert (changed.code, changed.err.count("\n")) == (1, 1), changed.err
    assert {path: path.stat().st_mtime_ns for path in data.rglob("*")} == before
