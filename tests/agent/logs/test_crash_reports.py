"""Reports of faults: where they are, who may read them, how many there are, and what nobody sees on a screen."""

import asyncio
import logging
import stat
import threading
from pathlib import Path

import pytest

from ebbtide.agent.logs.crash_reports import MAX_REPORTS, crash_error, install_crash_handlers, write_report
from tests.kit.polling import until


def test_a_report_is_the_owners_and_holds_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "planted-0123456789")
    path = write_report("seen: planted-0123456789 and of-a-server-77", tmp_path / "logs", ["of-a-server-77"])
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().endswith("seen: *** and ***")


def test_where_the_folder_takes_none_another_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "logs").write_text("a file")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = write_report("x", tmp_path / "logs")
    assert path is not None
    assert path.parent == tmp_path
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "logs"))
    assert write_report("x", tmp_path / "logs") is None
    assert "No report could be written." in str(crash_error(ValueError("x"), tmp_path / "logs"))


def test_only_the_newest_reports_are_kept(tmp_path: Path) -> None:
    for number in range(MAX_REPORTS + 5):
        (tmp_path / f"crash-2020{number:04}.txt").touch()
    newest = write_report("x", tmp_path)
    assert newest is not None
    assert len(list(tmp_path.glob("crash-*.txt"))) == MAX_REPORTS
    assert newest.exists()


def reports_in(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.glob("crash-*.txt"))


async def test_forgotten_tasks_and_threads_print_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before, handlers = threading.excepthook, list(logging.getLogger().handlers)
    install_crash_handlers(tmp_path)
    try:

        async def fail() -> None:
            raise KeyError("forgotten")

        def fail_too() -> None:
            raise KeyError("in a thread")

        task = asyncio.ensure_future(fail())
        await until(task.done)
        del task
        thread = threading.Thread(target=fail_too)
        thread.start()
        thread.join()
    finally:
        threading.excepthook = before
        logging.getLogger().handlers[:] = handlers
    assert capfd.readouterr().err == ""
    reports = reports_in(tmp_path)
    assert "KeyError: 'forgotten'" in reports
    assert "KeyError: 'in a thread'" in reports
