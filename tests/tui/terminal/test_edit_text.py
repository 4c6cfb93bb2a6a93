"""The user's own editor, run on a text."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ebbtide.agent.errors import UsageError
from ebbtide.tui.terminal.edit_text import run_editor
from tests.kit.commands import ROOT

EDITS = r"""
from ebbtide.tools.process.own_memory import protect_own_memory
from ebbtide.tui.terminal.edit_text import run_editor
protect_own_memory()
print(run_editor(["sh", "-c", 'printf %s "$OPENAI_API_KEY" > "$1"', "editor"], "", "text.md"))
"""


def test_an_editor_has_the_keys_of_its_user_that_other_programs_do_not_get() -> None:
    environment = {"OPENAI_API_KEY": "sk-CANARY1", "PATH": "/usr/bin:/bin"}
    ran = subprocess.run([sys.executable, "-c", EDITS], env=environment, cwd=ROOT, capture_output=True, check=True)
    assert ran.stdout.decode().strip() == "sk-CANARY1"


@pytest.mark.parametrize(
    ("before", "written", "after"),
    [
        ("", r"\357\273\277one\r\ntwo\r\n", "one\ntwo"),
        ("a\n", r"one\r\ntwo\r\n", "one\ntwo\n"),
        ("a\r\nb", r"one\r\ntwo", "one\r\ntwo"),
        ("a\r\nb", r"one\r\ntwo\r\n", "one\r\ntwo"),
        ("\ufeffa", r"\357\273\277one\n", "\ufeffone"),
    ],
)
def test_line_ends_and_the_mark_of_windows_come_only_from_the_text_itself(
    before: str, written: str, after: str
) -> None:
    assert run_editor(["sh", "-c", f"printf '{written}' > \"$1\"", "editor"], before, "text.md") == after


def test_an_error_says_whether_the_editor_or_the_file_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="`sh` deleted the file, so nothing was changed"):
        run_editor(["sh", "-c", 'rm "$1"', "editor"], "text", "text.md")
    with pytest.raises(UsageError, match=r"`/no/editor` could not be started: .*; set `VISUAL` or `EDITOR`"):
        run_editor(["/no/editor"], "text", "text.md")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(UsageError, match=r"the temporary file for the editor could not be used: .*No such file"):
        run_editor(["true"], "text", "text.md")
