"""Here-documents put in another form, and what bash makes of the lines that hold them."""

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ebbtide.tools.commands import here_documents
from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.here_documents import inline_here_documents
from ebbtide.tools.process.shell import shell_path
from tests.kit.recorded_bash import RecordedBash


def commands_of(line: str) -> list[tuple[str, ...]]:
    """The words of all commands of a line that is plain without its texts; none of another one."""
    found = parse_command_line(inline_here_documents(line))
    return [] if found.problem else [command.texts for command in found.commands]


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("python3 - <<'PY'\nimport os\nprint(os.getcwd())\nPY", [("python3", "-")]),
        ("python3 - <<EOF\nprint(1)\nEOF\n", [("python3", "-")]),
        ("cat <<-\"E\" | sort\n\t$x `y`\n\tE\nls", [("cat",), ("sort",), ("ls",)]),
        ("psql -c 'a b' <<A && ls\n1\nA\npsql <<B\n2\nB", [("psql", "-c", "a b"), ("ls",), ("psql",)]),
        ("python3 <<< 'print(1)' | sort", [("python3",), ("sort",)]),
        ("git commit -m \"$(cat <<'EOF'\nFix it (it's x)\n\nBy: a\nEOF\n)\" && git push",
         [("git", "commit", "-m", "Fix it (it's x)\n\nBy: a"), ("git", "push")]),
        ("gh pr create --title a --body \"$(cat <<'EOF'\n- `x` costs $1\nEOF\n  )\"",
         [("gh", "pr", "create", "--title", "a", "--body", "- `x` costs $1")]),
    ],
)  # fmt: skip
def test_a_text_that_a_line_gives_a_program_leaves_its_commands_plain(
    line: str, commands: list[tuple[str, ...]]
) -> None:
    assert commands_of(line) == commands


@pytest.mark.parametrize(
    "line",
    [
        "ls", "echo '<<E'", "python3 - <<E\n$(rm x)\nE", "python3 - <<E\n`rm x`\nE", "python3 - <<E\n\\\nE",
        "python3 - <<E\nx", "python3 - <<E\nx\n E", "cat <<E F <<G\n1\nE\n2\nG", "cat <<'E F'\nx\nE F",
        "cat <<$x\na\n$x",
        "cat <<E \"a\nE\nb\"\nE", "echo 3<<E\nx\nE", "(cat <<E\nx\nE\n)", "if a; then cat <<E\nx\nE\nfi",
        "cat <<E # a\nx\nE",
        "echo $((1<<E))\nrm\nE", "cat <<< $x", "cat <<< \"$x\"", "cat <<< $(ls)", "cat <<E $x\na\nE",
        "cat <<'E'x\na\nEx",
        "git commit -m \"$(cat <<'E'\nE) ; rm -rf x\nE\n)\"", "echo \"$(cat <<E\n$x\nE\n)\"",
        "echo \"a $(cat <<'E'\nx\nE\n)\"",
        "echo $(cat <<'E'\nx\nE\n)", "echo \"$(cat <<'E' | sh\nx\nE\n)\"", "echo \"$(cat <<'E'\nx\nE\nrm x\n)\"",
        "echo \"$(tac <<'E'\nx\nE\n)\"",
    ],
)  # fmt: skip
def test_any_other_line_stays_as_it_is(line: str) -> None:
    assert inline_here_documents(line) == line


def test_a_bash_that_looks_for_brackets_in_a_text_is_told_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here_documents, "_MAY_HAVE_OLD_BASH", True)
    line = "git commit -m \"$(cat <<'E'\nx\nE\n)\""
    assert inline_here_documents(line) == line


@settings(max_examples=100)
@given(
    st.text(alphabet="ab E)('\"`$\\\n\t;#<é", max_size=40),
    st.sampled_from(("'E'", "E", '"E"')),
    st.sampled_from(("", "-")),
)
@example("E) ; echo b", "'E'", "")
@example("it's\n\n", "'E'", "")
def test_bash_gives_a_program_the_word_that_was_read(body: str, end: str, dash: str) -> None:
    line = f"printf '%s|' a \"$(cat <<{dash}{end}\n{body}\nE\n)\" b"
    found = inline_here_documents(line)
    assert "$(" in found or found.count("<<") == body.count("<<")
    both = [
        subprocess.run((shell_path(), "-c", text), capture_output=True, check=False).stdout.decode()
        for text in (line, found)
    ]
    assert [text.replace("\t", "") for text in both[:1]] == [text.replace("\t", "") for text in both[1:]]


PIECES = (
    "p", "q", "a", "x1", "-", " ", " ", " ", "\n", "\n", "\n", "<<E", "<<'E'", '<<"E"', "<<-E", "<< E", "<<E\n",
    "<<'E'\n",
    "E\n", "\nE\n", "\nE\n", "\tE\n", "E ", " E\n", "\n\nE\n", "'", '"', "\\", "\\\n", "#", ";", "&&", "|", "&", "$x",
    "`q`",
    "$(q)", "<<<", "<", ">", "E2", "<<F", "\nF\n", "(", ")", "{", "}", "$((1<<E))", "=", "é", "\r", "3", "if", "[[",
    "let ",
)  # fmt: skip


def lines_with_texts(seed: int, count: int) -> Iterator[str]:
    chance = random.Random(seed)
    for _ in range(count):
        pieces = "".join(chance.choices(PIECES, k=chance.randint(2, 12)))
        yield chance.choice(("p ", "p - ", "p a | q ", "")) + pieces + chance.choice(("", "\nE\n", "\nE\nq", "\nq b"))


@pytest.mark.timeout(600)
def test_bash_runs_no_command_that_was_taken_for_a_text(tmp_path: Path) -> None:
    """QwenLM/qwen-code#9381: each line of a here-document is taken for a command. The other way would be worse: a line
    that bash runs, and that is taken for text."""
    bash = RecordedBash(tmp_path)
    lines = [line for line in lines_with_texts(7, 6_000) if "\0" not in line]
    hidden = [(line, commands_of(line)) for line in lines if inline_here_documents(line) != line]
    hidden = [(line, commands) for line, commands in hidden if commands]
    assert len(hidden) > 60
    for status in (0, 1):
        for (line, commands), ran in zip(hidden, bash.ran([line for line, _ in hidden], status), strict=True):
            assert all(tuple(argv) in commands for argv in ran), line
