"""A plan on a real terminal: read, changed, rejected, accepted and carried out, and asked about again after a kill."""

import signal
from contextlib import AbstractContextManager
from pathlib import Path

from tests.kit.commands import ebb
from tests.kit.files import write_program
from tests.kit.pty_terminal import Screen, left_behind, ready, running

SUBMITS = """
[[reply]]
text = "I have looked."
calls = [
    { name = "submit_plan", arguments = { plan = "# Mend the sum\\n\\n1. Change **calc.py**.\\n" } },
    { name = "write", arguments = { path = "early.txt", content = "too early" } },
]
"""
WRITES = """
[[reply]]
calls = [{ name = "write", arguments = { path = "done.txt", content = "done" } }]
[[reply]]
text = "All done."
"""
BETTER = """
[[reply]]
calls = [{ name = "submit_plan", arguments = { plan = "# A better plan" } }]
"""
ASKS, PLANNING = "Carry out this plan?", ("--permission-mode", "plan")


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "project").iterdir())


def killed_at_the_question(folder: Path) -> None:
    """A terminal that is changed to plan mode while it is open, and killed at the plan."""
    with ready(folder, SUBMITS + WRITES) as terminal:
        terminal.send("/mode plan\r", until="plan: read, think")
        terminal.send("plan it\r", until=ASKS)
        terminal.child.kill(signal.SIGKILL)
        terminal.until_it_ends()


def test_a_plan_is_rejected_with_words_and_a_better_one_changed_and_carried_out(tmp_path: Path) -> None:
    editor = write_program(tmp_path / "editor", 'echo "# The best plan" > "$1"\n')
    env = {"VISUAL": "", "EDITOR": str(editor)}
    with ready(tmp_path, SUBMITS + BETTER + WRITES, flags=PLANNING, env=env) as terminal:
        terminal.send("plan it\r", until=ASKS)
        assert "Mend the sum" in terminal.text
        assert "**calc.py**" not in terminal.text
        terminal.press_until("n", "nothing for a plain no")
        terminal.send("no new file", until="no new file")
        terminal.press_until("\r", "A better plan")
        assert files(tmp_path) == ["calc.py"]
        terminal.press_until("e", "edited by you")
        assert "The best plan" in terminal.text
        terminal.press_until("2", "All done.")
        assert "no new file" in terminal.text
        terminal.until("accept-edits")
        left_behind(terminal)
    assert files(tmp_path) == ["calc.py", "done.txt"]


def plain(folder: Path, replies: str, *flags: str) -> AbstractContextManager[Screen]:
    return running(folder, replies, columns=100, lines=60, flags=("--plain", *flags))


def ended(terminal: Screen) -> None:
    terminal.child.send("\x03\x03")
    terminal.until_it_ends()
    assert b"Traceback" not in terminal.sent


def test_killed_at_a_plan_it_is_asked_about_again_in_lines_where_a_command_decides_nothing(tmp_path: Path) -> None:
    killed_at_the_question(tmp_path)
    with plain(tmp_path, BETTER + WRITES, "-c") as terminal:
        terminal.until("Answer: ")
        for line in (f"Question: {ASKS}", "# Mend the sum", "2 or a: Yes, edit files without asking"):
            assert line in terminal.text
        terminal.press_until("/status\r", "Answer: /status")
        terminal.press_until("no new file\r", "# A better plan")
        assert "Rejected." in terminal.text
        terminal.press_until("2\r", "All done.")
        assert "Accepted. The mode is now accept-edits." in terminal.text
        ended(terminal)
    assert files(tmp_path) == ["calc.py", "done.txt"]


def test_for_a_script_the_plan_is_the_answer(tmp_path: Path) -> None:
    project, script = tmp_path / "project", tmp_path / "script.toml"
    project.mkdir()
    script.write_text(SUBMITS)
    flags = ("-m", f"scripted/{script}", "-C", str(project), *PLANNING)
    run = ebb("-p", "plan it", *flags, "--output-format", "json", home=tmp_path / "home")
    assert (run.code, run.result["result"], run.result["stop_reason"], run.result["denied"]) == (
        0,
        "# Mend the sum\n\n1. Change **calc.py**.\n",
        "answered",
        [],
    )
    assert files(tmp_path) == []
