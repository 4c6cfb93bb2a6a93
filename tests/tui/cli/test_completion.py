"""What a shell is offered at a Tab: by command, by flag, and in a real bash."""

import os
import shutil
import sys
from pathlib import Path

import pexpect
import pytest

from ebbtide.tui.cli.arguments import SUBCOMMANDS
from ebbtide.tui.cli.command_tree import all_parsers, command_parser
from ebbtide.tui.cli.completion import SHELLS, split_line
from ebbtide.tui.cli.shell_completion import CompletionSources, ShellCompletion, complete
from tests.kit.commands import ROOT, ebb, environment
from tests.kit.files import write_program

SOURCES = CompletionSources(
    list_sessions=lambda: [("4f2a91c0", "fix the parser"), ("77aa01b2", "")],
    list_models=lambda: [("ollama/qwen3:8b", ""), ("anthropic/claude-opus-5", "")],
    list_settings=lambda: [("agent.model", "the model"), ("tui.theme", "colours")],
    list_servers=lambda: [("docs", "")],
    list_tags=lambda: [("parser", "2 sessions"), ("release", "1 session")],
)


def offered(line: str) -> list[str]:
    *before, word = split_line(f"ebb {line}")
    return [name for name, _ in complete(before, word, command_parser, SOURCES).candidates]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("sess", ["sessions"]),
        ("sessions ex", ["export"]),
        ("sessions export ", ["4f2a91c0", "77aa01b2"]),
        ("sessions show 7", ["77aa01b2"]),
        ("-C /tmp sessions show 7", ["77aa01b2"]),
        ("-r ", ["4f2a91c0", "77aa01b2"]),
        ("--resume=4", ["--resume=4f2a91c0"]),
        ("-m oll", ["ollama/qwen3:8b"]),
        ("--config tui", ["tui.theme="]),
        ("--permission-mode p", ["plan"]),
        ("--output-format=j", ["--output-format=json"]),
        ("mcp test ", ["docs"]),
        ("sessions tag 4f2a91c0 ", ["parser", "release"]),
        ("sessions list --tag p", ["parser"]),
        ("key set ol", ["ollama"]),
        ("undo ", []),
        ("fix the tes", []),
        ("doctor --rep", ["--repair"]),
        ("--max-tu", ["--max-turns"]),
    ],
)
def test_what_the_word_may_become(line: str, names: list[str]) -> None:
    assert offered(line) == names


def test_without_a_word_every_command_is_offered_with_what_it_does() -> None:
    assert complete([], "", command_parser, SOURCES) == ShellCompletion(tuple(SUBCOMMANDS.items()))


def test_where_a_path_is_wanted_the_shell_adds_it() -> None:
    assert complete(["-C"], "", command_parser, SOURCES) == ShellCompletion(paths="folders")
    assert complete(["--output-schema"], "", command_parser, SOURCES) == ShellCompletion(paths="files")
    assert complete(["mcp", "add", "x", "--"], "", command_parser, SOURCES) == ShellCompletion(paths="files")


@pytest.mark.parametrize(
    ("line", "words"),
    [("ebb ", [""]), ("ebb a", ["a"]), ("ebb 'a b", ["a b"]), ('ebb "a b" c', ["a b", "c"]), ("ebb a ", ["a", ""])],
)
def test_a_line_is_cut_as_the_shell_cuts_it(line: str, words: list[str]) -> None:
    assert list(split_line(line)) == words


def test_every_command_tells_its_arguments_and_does_nothing() -> None:
    found = {words[0] for words, _ in all_parsers() if words}
    assert found == set(SUBCOMMANDS)
    assert [words for words, parser in all_parsers() if words and not parser.description] == []


def test_stored_sessions_are_offered_with_their_titles(tmp_path: Path) -> None:
    (tmp_path / "script.toml").write_text('[[reply]]\ntext = "Said."')
    there = ("-C", str(tmp_path))
    ebb(*there, "-m", f"scripted/{tmp_path / 'script.toml'}", "-p", "what is it?", home=tmp_path)
    listed = ebb(*there, "sessions", "list", "--json", home=tmp_path).result
    done = ebb("completion", "zsh", "--", *there, "-r", "", home=tmp_path)
    assert done.out == f"{listed['id']}\t{listed['title']}\n"
    assert (
        ebb("completion", "bash", f"--line=ebb -C {tmp_path} -r ", "--last=", home=tmp_path).out == f"{listed['id']}\n"
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_one_that_the_shell_can_read(shell: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(ebb("completion", shell, home=tmp_path).out)
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")  # bash is everywhere; the other two are where users have them
    _, status = pexpect.run(f"{shell} -n {script}", withexitstatus=True)
    assert status == 0


def test_a_real_bash_completes_with_it(tmp_path: Path) -> None:
    write_program(tmp_path / "ebb", f'exec {sys.executable} -m ebbtide.tui.cli.main "$@"\n')
    env = {**environment(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}", "TERM": "xterm", "PS1": "> "}
    child = pexpect.spawn("bash", ["--norc", "--noprofile", "-i"], env=env, cwd=ROOT, encoding="utf-8", timeout=60)
    try:
        child.sendline("source <(ebb completion bash) && echo loaded=$?")
        child.expect_exact("loaded=0")
        child.send("ebb sess\tex\t")
        child.expect_exact("ebb sessions export ")
        child.sendcontrol("u")
        child.send("ebb --config agent.mod\t")
        child.expect_exact("ebb --config agent.model=")
    finally:
        child.close(force=True)
