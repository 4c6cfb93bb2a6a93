"""The terminal in lines on a real pseudo-terminal, with the real session and a scripted model."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kit.commands import ebb
from tests.kit.pty_terminal import SAYS, Screen, running

TASK = """
[[reply]]
text = "I look at the file first, to see what there is to see in it."
calls = [{ name = "read", arguments = { path = "calc.py" } }]
[[reply]]
calls = [{ name = "edit", arguments = { path = "calc.py", old = "a - b", new = "a + b" } }]
[[reply]]
text = "Now `add` adds."
"""
TWICE = """
[[reply]]
calls = [{ name = "bash", arguments = { command = "echo 1 >>one" } }]
[[reply]]
text = "One more."
calls = [{ name = "bash", arguments = { command = "echo 2 >>two" } }]
[[reply]]
text = "Both are there."
"""
WAITS = """
[[reply]]
calls = [{ name = "bash", arguments = { command = "touch started; sleep 600" } }]
[[reply]]
text = "After it."
"""
KINDS = ["dumb", "xterm-256color"]
EDITING = re.compile(rb"\x1b(?:\[[0-9;]*[ABCDGHJKm]|\[\?(?:1|7|12|25|2004)[hl])")
"""Sequences that move within what is typed, erase it, and say how keys and long lines are to be taken."""


def in_lines(tmp_path: Path, replies: str, term: str = "dumb", *flags: str) -> AbstractContextManager[Screen]:
    return running(tmp_path, replies, 100, 60, ["--plain", *flags], env={"TERM": term})


@contextmanager
def at_prompt(tmp_path: Path, replies: str, term: str = "dumb") -> Iterator[Screen]:
    with in_lines(tmp_path, replies, term) as terminal:
        terminal.until("\n> ")
        yield terminal


def answer(terminal: Screen, line: str, then: str) -> None:
    """Answers a question. An answer that was typed too soon is given again."""
    terminal.until("Answer:")
    too_soon = terminal.text.count("was typed too soon")
    terminal.child.send(f"{line}\r")
    while then not in terminal.text:
        if terminal.text.count("was typed too soon") > too_soon:
            too_soon += 1
            terminal.child.send(f"{line}\r")
        terminal.read_some()


def until_empty_prompt(terminal: Screen) -> None:
    """Reads until nothing runs: until then keys that leave have to be pressed once more, or stop the turn."""
    while terminal.text.split("\n")[terminal.cursor[1]].strip() != ">":
        terminal.read_more("> ")


def leave(terminal: Screen) -> str:
    """Leaves with Ctrl-D. What is on the screen then."""
    until_empty_prompt(terminal)
    terminal.child.send("\x04")
    terminal.until_it_ends()
    assert terminal.child.exitstatus == 0
    assert b"Traceback" not in terminal.sent
    return terminal.text


@pytest.mark.parametrize("term", KINDS)
def test_a_file_is_changed_once_the_user_has_said_yes(tmp_path: Path, term: str) -> None:
    with at_prompt(tmp_path, TASK, term) as terminal:
        terminal.child.send("fix it\r")
        answer(terminal, "y", "Now `add` adds.")
        printed = leave(terminal)
    assert (tmp_path / "project" / "calc.py").read_text() == "def add(a, b):\n    return a + b\n"
    for line in (
        "I look at the file first, to see what there is to see in it.",
        "Tool read  calc.py: done, 2 lines.",
        "Question: Change calc.py?  +1 −1",
        "Tool edit  calc.py: done, +1 −1, changed calc.py.",
        "Resume: ebb -r",
    ):
        assert line in printed


@pytest.mark.parametrize("term", KINDS)
def test_what_is_denied_does_not_happen(tmp_path: Path, term: str) -> None:
    with at_prompt(tmp_path, TASK, term) as terminal:
        terminal.child.send("fix it\r")
        answer(terminal, "n", "Now `add` adds.")
        assert "Tool edit  calc.py: denied." in leave(terminal)
    assert (tmp_path / "project" / "calc.py").read_text() == "def add(a, b):\n    return a - b\n"


@pytest.mark.parametrize("term", KINDS)
def test_an_answer_is_not_there_already_when_the_next_question_comes(tmp_path: Path, term: str) -> None:
    with at_prompt(tmp_path, TWICE, term) as terminal:
        terminal.child.send("go\r")
        answer(terminal, "y", "One more.")
        while terminal.text.count("Answer:") < 2:
            terminal.read_some()
        answer(terminal, "y", "Both are there.")
        printed = leave(terminal)
    assert {line.strip() for line in printed.split("\n") if line.startswith("Answer:")} == {"Answer: y"}


@pytest.mark.parametrize("term", KINDS)
def test_ctrl_c_ends_a_turn_and_what_waits_is_sent_when_it_is_wanted(tmp_path: Path, term: str) -> None:
    with at_prompt(tmp_path, WAITS, term) as terminal:
        terminal.send("go\r", until="Answer:")
        answer(terminal, "y", "Allowed.")
        terminal.send("and then?\r", until="Queued:")
        while not (tmp_path / "project" / "started").exists():
            terminal.read_some(0.05)
        terminal.send("\x03", until="sleep 600: interrupted.")
        terminal.until("1 message not sent yet." if term == "dumb" else "are back in the prompt.")
        terminal.send("\r", until="After it.")
        leave(terminal)


@pytest.mark.parametrize("term", KINDS)
def test_ctrl_c_twice_leaves_with_the_session_kept(tmp_path: Path, term: str) -> None:
    with at_prompt(tmp_path, '[[reply]]\ntext = "Kept in mind."', term) as terminal:
        terminal.send("remember me\r", until="Kept in mind.")
        until_empty_prompt(terminal)
        terminal.send("\x03", until="Press Ctrl-C again to quit.")
        terminal.child.send("\x03")
        terminal.until_it_ends()
        assert terminal.child.exitstatus == 0
        id = terminal.text.split("ebb -r ")[1].split()[0]
    with in_lines(tmp_path, '[[reply]]\ntext = "The second."', term, "-r", id) as terminal:
        terminal.until("You: remember me")
        terminal.until("Kept in mind.")
        terminal.send("and now?\r", until="The second.")
        leave(terminal)


def test_a_terminal_that_only_prints_is_sent_no_escape(tmp_path: Path) -> None:
    with at_prompt(tmp_path, TASK) as terminal:
        use_everything(terminal)
        assert b"\x1b" not in terminal.sent


def test_another_terminal_is_sent_what_edits_a_line_and_no_more(tmp_path: Path) -> None:
    with at_prompt(tmp_path, TASK, "xterm-256color") as terminal:
        use_everything(terminal)
        assert b"\x1b" not in EDITING.sub(b"", terminal.sent)
        assert b"\x1b[?2004" in terminal.sent
        assert b"\x1b[?1049h" not in terminal.sent


def use_everything(terminal: Screen) -> None:
    terminal.child.send("fix it\r")
    answer(terminal, "y", "Now `add` adds.")
    for command, words in (
        ("/help", "/quit, quit Ebbtide"),
        ("/context", "= usable"),
        ("/nothing", "unknown command `/nothing`"),
    ):
        terminal.send(f"{command}\r", until=words)
    terminal.send("\\\x1b[C \x1b]0;x\x07 \u202e\r", until="no reply left")
    leave(terminal)


@pytest.mark.parametrize(
    "how",
    [{"env": {"TERM": ""}}, {"env": {"TERM": "dumb"}}, {"env": {"TERM": "unknown"}}, {"sized": False}],
    ids=["has no name", "is dumb", "is unknown", "has no size"],
)
def test_a_terminal_that_says_too_little_of_itself_gets_lines(tmp_path: Path, how: dict[str, Any]) -> None:
    with running(tmp_path, TASK, **how) as terminal:
        terminal.until("\n> ")
        leave(terminal)
        assert b"\x1b" not in terminal.sent


def test_a_first_message_a_model_that_is_none_and_a_session_that_is_none(tmp_path: Path) -> None:
    for message in (["say hello"], ["hello"], ["--", "sesions"]):
        with in_lines(tmp_path, '[[reply]]\ntext = "Hello."', "dumb", *message) as terminal:
            terminal.until("Hello.")
            leave(terminal)
    with in_lines(tmp_path, "", "dumb", "-m", "nobody/nothing") as terminal:
        terminal.until_it_ends()
        assert (terminal.child.exitstatus, terminal.text.split()[0]) == (2, "ebb:")
    for word in ("0123456789ab", "zzz"):
        with in_lines(tmp_path, "", "dumb", "-r", word) as terminal:
            terminal.until_it_ends()
            assert terminal.child.exitstatus == 2
            assert f"ebb: there is no session `{word}`" in terminal.text


@pytest.mark.parametrize("term", KINDS)
def test_a_line_that_ends_with_a_backslash_goes_on(tmp_path: Path, term: str) -> None:
    with at_prompt(tmp_path, '[[reply]]\ntext = "Two lines."', term) as terminal:
        terminal.send("first\\\r", until="> first")
        terminal.send("second\r", until="Two lines.")
        leave(terminal)
    history = (tmp_path / "home").rglob("history")
    assert '"first\\nsecond"' in next(history).read_text()


@pytest.mark.parametrize(("term", "pasted"), [("dumb", "one\rtwo\r"), ("xterm-256color", "one\rtwo")])
def test_lines_that_are_pasted_without_marks_are_one_message(tmp_path: Path, term: str, pasted: str) -> None:
    with at_prompt(tmp_path, '[[reply]]\ntext = "Both."', term) as terminal:
        terminal.child.send(pasted)
        terminal.until("not sent yet" if term == "dumb" else "two")
        assert "Both." not in terminal.text
        terminal.send("\r", until="Both.")
        leave(terminal)
    assert '"one\\ntwo"' in next((tmp_path / "home").rglob("history")).read_text()


def test_what_hides_is_seen_and_counted_and_one_key_deletes_what_is_seen_as_one(tmp_path: Path) -> None:
    with at_prompt(tmp_path, SAYS, "xterm-256color") as terminal:
        terminal.send("\x1b[200~a\u202e\u200b\x1b[201~", until="2 invisible characters")
        assert "> a��" in terminal.text
        assert "\u202e".encode() not in terminal.sent
        terminal.send("\x7f\x7f\x1b]11;rgb:1e1e/", until="> a")
        terminal.child.send("1e1e/2e2e\x07")
        terminal.send("🇩🇪é\x7f\x7fb\x1b[D\x1b[D\x1b[3~!", until="> !b")


def test_completion_and_history_of_a_terminal_that_can_edit(tmp_path: Path) -> None:
    with at_prompt(tmp_path, '[[reply]]\ntext = "Once."\n[[reply]]\ntext = "Twice."', "xterm") as terminal:
        terminal.send("say something\x1b\rmore\r", until="Once.")
        terminal.send("/contex\t\r", until="= usable")
        terminal.send("\x12thing\r\r", until="Twice.")
        leave(terminal)


def test_names_of_files_are_completed_where_a_line_can_be_edited(tmp_path: Path) -> None:
    with at_prompt(tmp_path, '[[reply]]\ntext = "I see."', "xterm") as terminal:
        for name in ("lexer_one.txt", "lexer_two.txt"):
            (tmp_path / "project" / name).write_text("x")
        terminal.child.send("look at @lex\t")
        for words in ("lexer_one.txt", "lexer_two.txt", "> look at @lexer_"):
            terminal.until(words)
        terminal.send("t\t", until="> look at @lexer_two.txt ")
        terminal.send("\r", until="I see.")
        assert "Note: attached" in leave(terminal)


@pytest.mark.parametrize("term", KINDS)
def test_a_command_is_changed_before_it_runs(tmp_path: Path, term: str) -> None:
    with at_prompt(tmp_path, TWICE, term) as terminal:
        terminal.child.send("go\r")
        answer(terminal, "e", "Command to run: ")
        terminal.send("echo 3 >>three\r" if term == "dumb" else "\x7f\x7f\x7fthree\r", until="One more.")
        terminal.child.send("\x03")
        leave(terminal)
    made = {path.name: path.read_text() for path in (tmp_path / "project").iterdir() if path.name != "calc.py"}
    assert made == ({"three": "3\n"} if term == "dumb" else {"three": "1\n"})


@pytest.mark.parametrize("term", KINDS)
@pytest.mark.parametrize("end", ["closed", "hung up", "terminated"])
def test_the_session_is_kept_however_the_terminal_ends(tmp_path: Path, term: str, end: str) -> None:
    with at_prompt(tmp_path, WAITS, term) as terminal:
        terminal.child.send("remember me\r")
        answer(terminal, "y", "Allowed.")
        while not (tmp_path / "project" / "started").exists():
            terminal.read_some(0.05)
        if end == "closed":
            terminal.close()
        else:
            os.kill(terminal.child.pid, signal.SIGHUP if end == "hung up" else signal.SIGTERM)
        terminal.until_it_ends()
        assert b"Traceback" not in terminal.sent
    listed = ebb("sessions", "--json", "-C", str(tmp_path / "project"), home=tmp_path / "home")
    assert "remember me" in listed.out


IMPORTED = """
import sys
from ebbtide.tui.cli.main import main
code = main(sys.argv[1:])
screens = ("textual", "ebbtide.tui.app", "rich.console", "markdown_it")
print("loaded:", [name for name in screens if name in sys.modules])
print("editing:", "prompt_toolkit" in sys.modules)
"""


@pytest.mark.parametrize(("term", "edits"), [("dumb", "False"), ("xterm-256color", "True")])
def test_lines_need_no_screen(tmp_path: Path, term: str, edits: str) -> None:
    with running(tmp_path, TASK, 100, 60, ["--plain"], IMPORTED, {"TERM": term}) as terminal:
        terminal.until("\n> ")
        terminal.child.send("fix it\r")
        answer(terminal, "y", "Now `add` adds.")
        terminal.send("/context\r", until="= usable")
        terminal.send("/help\r", until="/quit, quit Ebbtide")
        printed = leave(terminal)
    assert "loaded: []" in printed
    assert f"editing: {edits}" in printed
