"""The user's own editor, run on a text."""

import subprocess
import sys

import pytest

from ebbtide.tui.terminal.edit_text import edit_with
from tests.running import ROOT

EDITS = r"""
from ebbtide.tools.process.own_memory import close_own_memory
from ebbtide.tui.terminal.edit_text import edit_with
close_own_memory()
print(edit_with(["sh", "-c", 'printf %s "$OPENAI_API_KEY" > "$1"', "editor"], "", "text.md"))
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
        ("\ufeffa", r"\357\273\277one\n", "\ufeffone"),
    ],
)
def test_line_ends_and_the_mark_of_windows_come_only_from_the_text_itself(
    before: str, written: str, after: str
) -> None:
    assert edit_with(["sh", "-c", f"printf '{written}' > \"$1\"", "editor"], before, "text.md") == after
