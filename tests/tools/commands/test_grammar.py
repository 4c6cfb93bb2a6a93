"""Command lines as text, compared with what bash makes of them."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tools.commands.grammar import Word, read, simple_commands
from tools.commands.nested import hides_a_command
from tools.process.shell import argv_of


def words_of(text: str) -> list[list[str]]:
    return [list(command.texts) for command in simple_commands(text)]


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("ls -l", [["ls", "-l"]]),
        ("ls 'a b' \"c d\" e\\ f", [["ls", "a b", "c d", "e f"]]),
        ("ls ''", [["ls", ""]]),
        ("l''s a\"b\"'c'd", [["ls", "abcd"]]),
        ('echo "a\\"b\\\\c\\d" \'a\\b$c`\'', [["echo", 'a"b\\c\\d', "a\\b$c`"]]),
        ("a; b && c || d | e |& f\ng\n", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
        ("# first look\nls # the folder\npwd", [["ls"], ["pwd"]]),
        ("echo a#b", [["echo", "a#b"]]),
        ("make 2>&1 >/dev/null | tail &> /dev/null", [["make"], ["tail"]]),
        ("wc -l < notes/a.txt", [["wc", "-l"]]),
        ("echo 2 >/dev/null", [["echo", "2"]]),
        ("find . \\( -name a -o -name b \\)", [["find", ".", "(", "-name", "a", "-o", "-name", "b", ")"]]),
        ("git show HEAD@{1} stash@{0}", [["git", "show", "HEAD@{1}", "stash@{0}"]]),
        ("ls \\\n  -l", [["ls", "-l"]]),
    ],
)
def test_plain_commands_are_read_as_bash_reads_them(text: str, commands: list[list[str]]) -> None:
    assert words_of(text) == commands


@pytest.mark.parametrize(
    "text",
    [
        "echo $x", 'echo "$x"', "echo $(ls)", 'echo "`ls`"', "echo `ls`", "cat <(ls)", "ls >(cat)", "echo $((1))",
        "ls > f", "ls >> f", "ls >| f", "ls &> f", "cat <> f", "ls 2> f", "ls >&2 > f", "cat <<E\nE", "cat <<< x",
        "cat < /etc/hosts", "cat < ../x", "cat < ~/x", "cat < *", "cat <&3", "ls 3>&-", "ls > /dev/tcp/a/1", "ls >",
        "ls &", "(ls)", "{ ls; }", "f() { ls; }", "f () ls", "if ls; then ls; fi", "while ls; do ls; done",
        "for x in a; do ls; done", "case a in a) ls;; esac", "! ls", "coproc ls", "[[ a ]]", "function f { ls; }",
        "ls {a,b}", "ls {1..3}", "/bin/l? x", "* x", "ls ;; ls", "ls 'open", 'ls "open', "ls $'open", "ls `open",
        "ls $(open", "ls \x0b", "ls \r", "ls \xa0x", "ls \u200b", "ls '\u202e'", "ls \x1b", "", "\n", "# nothing",
    ],
)  # fmt: skip
def test_what_is_more_than_plain_commands_gives_none(text: str) -> None:
    assert words_of(text) == []


def test_a_word_tells_what_the_shell_may_make_of_it() -> None:
    (command,) = read("a 'b' *.c \"$d\" \\e").commands
    assert command.words == (
        Word("a"),
        Word("b", is_bare=False),
        Word("*.c", globs=True),
        Word("$d", expands=True, is_bare=False),
        Word("e", is_bare=False),
    )


PIECES = [
    "show ", "a", "b ", " ", "\t", "'", '"', "\\", "\n", ";", "&&", "|", "||", "&", "#", "$", "`", "(", ")", "{", "}",
    ",", "..", "<", ">", "2>", "/dev/null", "*", "?", "[", "]", "!", "~+", "=", "$'", "x41", "é", "\\\n", "-", "if",
    "time ", "0",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=12).map(lambda pieces: "show " + "".join(pieces)))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bash_runs_the_commands_that_were_read_and_no_others(tmp_path: Path, text: str) -> None:
    commands = simple_commands(text)
    words = [word for command in commands for word in command.words]
    names_files = any(word.globs and "/dev/null" in word.text for word in words)
    if text.endswith("\\\n\\"):  # bash forgets a backslash that ends the text where a line was to go on before it
        return
    if not commands or "<" in text or names_files or any(word.text.startswith("~") for word in words):
        return
    folder = tmp_path / "empty"
    folder.mkdir(exist_ok=True)
    show = tmp_path / "show"
    show.write_text('#!/bin/bash\nprintf "%s\\0" "$@" >> "$LOG"; printf "\\1\\0" >> "$LOG"\n')
    show.chmod(0o755)
    log = tmp_path / "log"
    log.write_bytes(b"")
    environment = {"PATH": str(tmp_path), "LOG": str(log), "LC_ALL": "C.UTF-8"}
    subprocess.run(argv_of(text), cwd=folder, env=environment, capture_output=True, timeout=20, check=False)
    ran = [tuple(each.split("\0"))[:-1] for each in log.read_text().split("\x01\0")[:-1]]
    meant = [command.texts[1:] or ("",) for command in commands if command.texts[0] == "show"]
    assert set(ran) <= set(meant)


@given(st.text(alphabet="ab ;&|$()`'\"\n\\<>{}#*?~=!", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    line = read(text)
    assert bool(simple_commands(text)) == (not line.problem)
    assert hides_a_command(text) in (True, False)
