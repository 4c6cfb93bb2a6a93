"""What others wrote steers no terminal, whichever command prints it."""

import json
import os
import subprocess
import threading
from pathlib import Path

import pytest

from tests.kit.commands import ROOT, Run, command, ebb, environment
from tests.kit.files import write_file

STEERS = {"\x1b", "\x07", "\x9b", "\x9d", "\u202e"}
HOSTILE = "\x1b]0;owned\x07\x9b31m\u202e"


def is_harmless(run: Run) -> bool:
    return not (set(run.out) | set(run.err)) & STEERS


def test_what_a_model_has_called_is_printed_as_text(tmp_path: Path) -> None:
    project = tmp_path / "app"
    project.mkdir()
    script = tmp_path / "script.json"
    calls = [{"calls": [{"name": f"bash{HOSTILE}", "arguments": {"command": HOSTILE}}]}, {"text": "done"}]
    script.write_text(json.dumps({"reply": calls}))
    at = ("-C", str(project), "-m", f"scripted/{script}")
    assert ebb("-p", f"go {HOSTILE}", *at, home=tmp_path).code == 0
    listed = ebb("sessions", *at, home=tmp_path)
    printed = ebb("sessions", "show", listed.out.split()[0], *at, home=tmp_path)
    assert "bash␛]0;owned␇" in printed.out
    assert is_harmless(listed)
    assert is_harmless(printed)


def test_what_a_project_declares_is_printed_as_text(tmp_path: Path) -> None:
    project = tmp_path / "app"
    write_file(project / ".ebb" / "config.toml", '[agent]\n"mo\\u009b31mdel" = "\\u009d0;x\\u0007"\n')
    run = ebb("config", "-C", str(project), home=tmp_path)
    assert "31mdel" in run.out + run.err
    assert is_harmless(run)


def test_an_error_says_what_was_wrong_as_text(tmp_path: Path) -> None:
    run = ebb("-p", "hello", "-m", f"scripted/{HOSTILE}", "-C", str(tmp_path), home=tmp_path)
    assert run.code != 0
    assert "owned" in run.err
    assert is_harmless(run)


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_a_terminal_is_not_steered_by_an_answer_that_needs_no_screen(tmp_path: Path, form: str) -> None:
    script = tmp_path / "script.json"
    calls = [{"calls": [{"name": f"bash{HOSTILE}", "arguments": {"command": HOSTILE}}]}, {"text": f"ünd {HOSTILE}\n2"}]
    script.write_text(json.dumps({"reply": calls}))
    ours, theirs = os.openpty()
    flags = ("-p", "go", "-C", str(tmp_path), "-m", f"scripted/{script}", "--output-format", form)
    read = bytearray()

    def listen() -> None:
        try:
            while data := os.read(ours, 65536):
                read.extend(data)
        except OSError:  # Linux says so when nobody holds the other end any more
            return

    hearing = threading.Thread(target=listen)
    with subprocess.Popen(
        command(*flags),
        env=environment(tmp_path / "home"),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    ) as run:
        os.close(theirs)
        hearing.start()
        assert run.wait(60) == 0
    hearing.join()
    os.close(ours)
    printed = read.decode()
    assert not set(printed) & STEERS
    assert ("ünd" if form == "text" else "\\u202e") in printed
