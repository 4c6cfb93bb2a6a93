"""`… | ebb --plain`: what was piped in is said first, and answered also where nobody types."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.kit.commands import Run, command, ebb, environment
from tests.kit.pty_terminal import START, running


def plain(tmp_path: Path, stdin: bytes, *words: str, replies: object = ({"text": "An answer."},)) -> Run:
    project, script = tmp_path / "project", tmp_path / "script.json"
    project.mkdir(exist_ok=True)
    script.write_text(json.dumps({"reply": replies}))
    arguments = command("--plain", *words, "-m", f"scripted/{script}", "-C", str(project))
    done = subprocess.run(
        arguments, input=stdin, env=environment(tmp_path / "home"), capture_output=True, timeout=60, check=False,
        start_new_session=True,
    )  # fmt: skip
    return Run(done.returncode, done.stdout.decode(), done.stderr.decode())


def said(run: Run, tmp_path: Path) -> list[dict[str, Any]]:
    """The parts of what was said first."""
    id = run.out.rpartition("ebb -r ")[2].split()[0]
    parts: list[dict[str, Any]] = ebb("sessions", "show", id, "--json", home=tmp_path / "home").lines[0]["parts"]
    return parts


def test_what_is_piped_in_is_answered(tmp_path: Path) -> None:
    run = plain(tmp_path, b"hi there\n")
    assert (run.code, run.err) == (0, "")
    assert "An answer." in run.out
    assert said(run, tmp_path)[0]["text"] == "hi there\n"


@pytest.mark.parametrize(
    ("data", "encoding"),
    [(b"a line of a log\n" * 50_000, "utf-8"), (b"caf\xe9\n" * 5_000, "latin-1"), (bytes(range(256)) * 400, "utf-8")],
    ids=["log", "latin", "binary"],
)
def test_long_input_is_attached_to_the_words(tmp_path: Path, data: bytes, encoding: str) -> None:
    run = plain(tmp_path, data, "explain", "this")
    assert (run.code, run.err) == (0, "")
    assert "An answer." in run.out
    assert len(run.out) < 5_000
    words, note = said(run, tmp_path)[:2]
    assert words["text"].startswith("explain this\n\n[pasted ")
    assert note.get("whole", note["text"]).endswith(data.decode(encoding, "surrogateescape"))


def test_with_nobody_there_a_question_counts_as_a_no(tmp_path: Path) -> None:
    work = {"calls": [{"name": "bash", "arguments": {"command": "touch made"}}]}
    run = plain(tmp_path, b"go\n", replies=[work, {"text": "I may not."}])
    assert run.code == 0
    assert "I may not." in run.out
    assert not (tmp_path / "project" / "made").exists()


def test_a_failure_is_an_exit_code(tmp_path: Path) -> None:
    run = plain(tmp_path, b"go\n", replies=[{"error": "auth"}])
    assert run.code == 1


def test_nothing_to_say_is_a_sentence(tmp_path: Path) -> None:
    run = plain(tmp_path, b"")
    assert (run.code, run.out) == (2, "")
    assert "no terminal" in run.err


def test_on_a_terminal_one_goes_on_by_hand(tmp_path: Path) -> None:
    start = f"import os, sys; r, w = os.pipe(); os.write(w, b'hi there\\n'); os.close(w); os.dup2(r, 0); {START}"
    replies = '[[reply]]\ntext = "First."\n[[reply]]\ntext = "Second."\n'
    with running(tmp_path, replies, flags=("--plain",), start=start) as terminal:
        terminal.until("First.")
        terminal.send("and now?\r", until="Second.")
        while terminal.text.count("Turn: ") < 2:  # before that Ctrl-C would stop it
            terminal.read_more("the end of the turn")
        terminal.child.send("\x03\x03")
        terminal.until_it_ends()


def test_a_line_that_is_a_command_is_done_in_its_turn(tmp_path: Path) -> None:
    run = plain(tmp_path, b"/usage\n")
    assert (run.code, "model     scripted/" in run.out, "An answer." in run.out) == (0, True, False)
    run = plain(tmp_path, b"hi\n!touch made\n/usage\n", replies=[{"text": "An answer."}, {"text": "Another."}])
    assert run.code == 0
    assert run.out.index("An answer.") < run.out.index("requests  1 request")
    assert (said(run, tmp_path)[0]["text"], (tmp_path / "project" / "made").exists()) == ("hi\n!touch made", False)


def test_no_line_of_what_is_attached_is_a_command(tmp_path: Path) -> None:
    run = plain(tmp_path, b"/mode auto\n/quit\n", "explain", "this")
    assert (run.code, "An answer." in run.out) == (0, True)
    assert said(run, tmp_path)[0]["text"] == "explain this\n\n/mode auto\n/quit\n"
