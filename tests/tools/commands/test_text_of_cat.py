"""`git commit -m "$(cat <<'EOF' … EOF)"`, as Claude Code and Codex write commits, is read as a command with a text
in it where bash takes it for that, and nothing else is."""

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.commands.grammar import read
from tools.process.shell import shell


def commit(text: str, end: str = "EOF", behind: str = "") -> str:
    return f"git commit -m \"$(cat <<'{end}'\n{text}\n{end}\n)\"{behind}"


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        (
            commit("fix(x): a; rm -rf b\n\nCo-Authored-By: C <c@example.org>", behind=" && git push"),
            [("git", "commit", "-m", "fix(x): a; rm -rf b\n\nCo-Authored-By: C <c@example.org>"), ("git", "push")],
        ),
        (commit("Fixes #12", "MSG"), [("git", "commit", "-m", "Fixes #12")]),
        (commit("a\n\n"), [("git", "commit", "-m", "a")]),
    ],
)
def test_the_text_is_a_word(line: str, commands: list[tuple[str, ...]]) -> None:
    found = read(line)
    assert (found.problem, [command.texts for command in found.commands]) == ("", commands)


@pytest.mark.parametrize(
    "line",
    [
        commit("a\nEOF\ntouch b"),
        commit("a $(touch b)").replace("'", ""),
        commit("a $(touch b)"),
        commit("it's"),
        commit("a `b`"),
        commit('a "b"'),
        commit("a (b"),
        commit("a ) b ("),
        commit("a ( # ) b"),
        commit("a").replace("cat", "tac"),
        commit("a").replace("\n)", "\ntouch b)"),
        commit("a").replace("EOF\n)", "EOF)"),
        commit("a").replace("<<", "<<-"),
        commit("a").replace("cat", "cat b"),
    ],
)
def test_another_word_is_not(line: str) -> None:
    assert read(line).problem


PIECES = (
    "a", "EOF", "E", "\n", "\n\n", " ", "(", ")", "#", "<<", "'EOF'", "$(cat ", '"', "'", "\\", "`", "$", ";", "&&",
    "|", "git push", "x1", "\nEOF\n", "\nEOF\n)", ')"', "<a@b>", "{", "}", "!", "*", "case a in a) ", " #", "\t", "-m ",
)  # fmt: skip


def lines(seed: int, count: int) -> Iterator[str]:
    chance = random.Random(seed)
    for _ in range(count):
        text, behind = ("".join(chance.choices(PIECES, k=chance.randint(0, most))) for most in (6, 3))
        yield commit(text, chance.choice(("EOF", "EOF", "E")), chance.choice(("", "", " && git push", behind)))


RECORD = """
PATH=$1; export PATH
git() { for word in git "$@"; do printf '%s\\1' "$word"; done >> "$LOG"; printf '\\2' >> "$LOG"; }
command_not_found_handle() { for word; do printf '%s\\1' "$word"; done >> "$LOG"; printf '\\2' >> "$LOG"; }
while IFS= read -r -d '' line; do (eval "$line") < /dev/null > /dev/null 2>&1; printf '\\3' >> "$LOG"; done
"""


def test_bash_runs_the_commands_that_were_read_and_no_other(tmp_path: Path) -> None:
    """No program can be found but `cat`, and no piece writes a file."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cat").symlink_to(shutil.which("cat") or "/bin/cat")
    count = 20_000 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 3_000
    safe = [line for line in lines(1, count) if not read(line).problem and ">" not in line.replace("<a@b>", "")]
    (tmp_path / "empty").mkdir()
    log = tmp_path / "log"
    log.touch()
    subprocess.run(
        [shell(), "-c", RECORD, "sh", str(tmp_path / "bin")],
        cwd=tmp_path / "empty",
        env={"LOG": str(log), "LC_ALL": "C.UTF-8"},
        input="\0".join((*safe, "")).encode(),
        check=True,
    )
    ran = [part.split("\2")[:-1] for part in log.read_text().split("\3")[:-1]]
    read_of = [["".join(f"{word}\1" for word in each.texts) for each in read(line).commands] for line in safe]
    wrong = [line for line, was, meant in zip(safe, ran, read_of, strict=True) if sorted(was) != sorted(meant)]
    assert wrong == []  # in an empty folder patterns stay as they are
    assert len(safe) > count // 50
