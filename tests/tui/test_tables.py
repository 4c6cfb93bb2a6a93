import re
from pathlib import Path

import pytest

from ebbtide.tui.cli.arguments import SUBCOMMANDS
from ebbtide.tui.command_names import ALIASES, COMMAND_BY_SYNONYM, MISSING_COMMAND_ADVICE, commands_for_word
from ebbtide.tui.commands.registry import _BUILT_IN_ACTIONS, ACTIONS
from ebbtide.tui.integration_registry import SLASH_COMMANDS
from ebbtide.tui.keys import KEYS
from ebbtide.tui.prompt.history import History
from ebbtide.tui.slash_commands import (
    COMMANDS,
    Invocation,
    UnknownCommand,
    alias_completions,
    command_awaiting_argument,
    command_by_name,
    command_completions,
    commands_containing,
    parse_command,
)
from ebbtide.tui.text.numbers import format_age, format_dollars, format_duration, format_tokens


def test_a_command_is_found_with_its_argument() -> None:
    assert parse_command("/compact the parser\nand more") == Invocation(
        command_by_name("compact"), "the parser\nand more"
    )
    assert parse_command("/HELP ") == Invocation(command_by_name("help"), "")


@pytest.mark.parametrize("word", ["exit", "quit", ":q", ":q!", ":wq", " exit "])
def test_a_word_that_leaves_other_programs_leaves(word: str) -> None:
    assert parse_command(word) == Invocation(command_by_name("quit"), "")
    assert parse_command(f"{word.strip()} now") is None


def test_messages_and_paths_are_no_commands() -> None:
    assert parse_command("please /help me") is None
    assert parse_command("/usr/bin/env fails") is None
    assert parse_command("/") is None


def test_an_unknown_command_names_the_closest() -> None:
    assert parse_command("/modle x") == UnknownCommand("modle", ("mode", "model"))
    assert parse_command("/res") == UnknownCommand("res", ("resume",))
    assert parse_command("/xyzzy") == UnknownCommand("xyzzy", ())


def test_names_of_other_programs_do_the_same_here() -> None:
    assert [parse_command(f"/{name}") for name in ("exit", "new", "cost", "usage", "stats", "config")] == [
        Invocation(command_by_name(name), "") for name in ("quit", "clear", "status", "status", "status", "settings")
    ]
    assert parse_command("/permissions bash") == Invocation(command_by_name("settings"), "permissions bash")
    assert all(
        isinstance(parse_command(f"/{name}"), Invocation) and name not in MISSING_COMMAND_ADVICE for name in ALIASES
    )
    assert [(name, command.name) for name, command in alias_completions("/ex")] == [("exit", "quit")]
    assert alias_completions("/") == alias_completions("/e") == alias_completions("/exit now") == ()


@pytest.mark.parametrize("name", ["logout", "import", "worktree", "plugin"])
def test_what_no_command_does_is_told_and_not_offered(name: str) -> None:
    unknown = parse_command(f"/{name} x")
    assert isinstance(unknown, UnknownCommand)
    assert unknown.message == f"no command `/{name}`: {MISSING_COMMAND_ADVICE[name]}"
    assert (command_completions(f"/{name}"), alias_completions(f"/{name}")) == ((), ())


def test_sentences_name_only_what_there_is() -> None:
    named_there = re.findall(r"`/([a-z-]+)", " ".join(MISSING_COMMAND_ADVICE.values()))
    assert all(isinstance(parse_command(f"/{name}"), Invocation) for name in named_there)
    assert {name for names in map(commands_for_word, COMMAND_BY_SYNONYM) for name in names} <= {
        command.name for command in COMMANDS
    }


@pytest.mark.parametrize(
    ("name", "meant"), [("money", "status"), ("background-tasks", "tasks"), ("dark-theme", "theme")]
)
def test_an_unknown_command_is_understood_by_what_it_means(name: str, meant: str) -> None:
    unknown = parse_command(f"/{name}")
    assert isinstance(unknown, UnknownCommand)
    assert meant in unknown.suggestions


def test_completions_follow_what_is_typed() -> None:
    offered = [command.name for command in command_completions("/co")]
    assert offered == ["context", "compact", "commands", "copy"]
    assert [command.name for command in command_completions("/mem")] == ["memory"]
    assert [command.name for command in commands_containing("/mem")] == ["remember"]
    assert commands_containing("/m") == commands_containing("/memory x") == ()
    assert [command.name for command in command_completions("/zz")] == []
    assert len(command_completions("/")) == len(COMMANDS)
    assert command_completions("/compact now") == command_completions("text") == command_completions("") == ()


def test_a_command_says_what_may_follow_it() -> None:
    assert (
        command_awaiting_argument("/compact the"),
        command_awaiting_argument("/compact"),
        command_awaiting_argument("/help "),
        command_awaiting_argument("text "),
    ) == (
        command_by_name("compact"),
        None,
        None,
        None,
    )


def test_every_command_does_something_on_the_screen() -> None:
    assert {*ACTIONS} == {*_BUILT_IN_ACTIONS, *SLASH_COMMANDS}
    assert len(ACTIONS) == len(_BUILT_IN_ACTIONS) + len(SLASH_COMMANDS) == len(COMMANDS)


def test_every_key_says_what_it_does() -> None:
    assert all(key.help and key.label and (not key.keys or key.action) for key in KEYS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format_tokens(950), "950"), (format_tokens(12_340), "12.3k"), (format_tokens(200_000), "200k"),
        (format_tokens(999_999), "1.0M"),
        (format_dollars(None), "unknown"), (format_dollars(0.0), "$0.00"), (format_dollars(0.01234), "$0.0123"),
        (format_dollars(12.345), "$12.35"),
        (format_duration(59), "59s"), (format_duration(185), "3m 05s"), (format_age(5), "now"),
        (format_age(125), "2 min ago"), (format_age(90_000), "1 d ago"), (format_age(-5), "now"),
    ],
)  # fmt: skip
def test_numbers_as_people_read_them(text: str, expected: str) -> None:
    assert text == expected


def test_a_damaged_history_keeps_what_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "history"
    file.write_bytes(b'"one"\n{broken\n17\n\xff\xfe\n"two"\n')
    history = History(file)
    assert [history.step_older("draft"), history.step_older(""), history.step_older("")] == ["two", "one", None]


def test_a_history_that_cannot_be_written_still_works(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = History(tmp_path / "file" / "history")
    history.add("one")
    assert history.step_older("") == "one"


def test_the_history_is_private_and_keeps_no_repeats(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "history"
    history = History(file)
    history.add("same")
    history.add("same")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ('"same"\n', 0o600)


def test_every_subcommand_that_no_command_is_called_like_is_named() -> None:
    unknown = [parsed for name in SUBCOMMANDS if isinstance(parsed := parse_command(f"/{name}"), UnknownCommand)]
    untold = {each.name for each in unknown if f"`ebb {each.name}" not in each.alternative}
    assert untold <= {"key", "claude-code"}  # `/key` is one that a session should have; nobody types the other
