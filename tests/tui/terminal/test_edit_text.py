"""The user's own editor, run on a text."""

import subprocess
import sys

from tests.running import ROOT

EDITS = r"""
from tools.process.own_memory import close_own_memory
from tui.terminal.edit_text import changed_by
close_own_memory()
print(changed_by(["sh", "-c", 'printf %s "$OPENAI_API_KEY" > "$1"', "editor"], "", "text.md"))
"""


def test_an_editor_has_the_keys_of_its_user_that_other_programs_do_not_get() -> None:
    environment = {"OPENAI_API_KEY": "sk-CANARY1", "PATH": "/usr/bin:/bin"}
    ran = subprocess.run([sys.executable, "-c", EDITS], env=environment, cwd=ROOT, capture_output=True, check=True)
    assert ran.stdout.decode().strip() == "sk-CANARY1"
