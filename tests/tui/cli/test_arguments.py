"""Arguments before they are parsed."""

from pathlib import Path

import pytest

from ebbtide.tui.cli.arguments import join_resume_id, make_parser
from tests.kit.user import User


@pytest.mark.parametrize(
    ("arguments", "pick", "words"),
    [
        (["-r"], "", []),
        (["-r", "beef12", "go", "on"], "beef12", ["go", "on"]),
        (["-r", "fix", "it"], "", ["fix", "it"]),
        (["--resume", "fix"], "fix", []),
        (["-r", "zzz", "-m", "scripted/x"], "zzz", []),
        (["-m", "scripted/x", "-r", "zzz"], "zzz", []),
        (["-r", "go on with the parser"], "", ["go on with the parser"]),
        (["-p", "go", "-r", "my-session"], "my-session", []),
        (["-r", "fix", "-pgo"], "fix", []),
        (["-r", "-p", "go"], "", []),
        (["--prompt=go", "-r", "--", "fix"], "", ["fix"]),
        (["--", "-r", "beef12"], None, ["-r", "beef12"]),
    ],
)
def test_the_word_after_resume_is_an_id_or_a_prompt(arguments: list[str], pick: str | None, words: list[str]) -> None:
    options = make_parser().parse_args(join_resume_id(arguments))
    assert (options.pick, options.words) == (pick, words)


def test_flags_and_words_of_a_subcommand_stand_in_any_order(tmp_path: Path) -> None:
    user = User(tmp_path)
    session = str(user.ask({"text": "ok"}).result["session"])
    orders = (("show", session, "--json"), ("show", "--json", session), ("--json", "show", session))
    first, *others = (user.ebb("sessions", *words) for words in orders)
    assert (first.code, first.lines[0]["role"]) == (0, "user")
    assert [each.out for each in others] == [first.out] * 2
    refused = user.ebb("sessions", "show", "--json", session, "r1", "more")
    help = "see `ebb sessions --help`"
    assert (refused.code, refused.err) == (2, f"ebb: unrecognized arguments: more; {help}\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("-p hi --max-turns x", "argument --max-turns: expected a whole number, got `x`; see `ebb --help`"),
        ("-p hi --max-cost much", "argument --max-cost: expected a number, got `much`; see `ebb --help`"),
        ("-p hi --max-tuns 3", "unrecognized arguments: --max-tuns; see `ebb --help`"),
        ("batch t.jsonl -j 1.5", "argument -j/--jobs: expected a whole number, got `1.5`; see `ebb batch --help`"),
        ("batch t.jsonl -j 0", "argument -j/--jobs: expected a number from 1 to 256, got 0; see `ebb batch --help`"),
        ("undo last", "argument id: expected a whole number, got `last`; see `ebb undo --help`"),
    ],
)
def test_a_wrong_argument_is_told_in_a_line(arguments: str, says: str, tmp_path: Path) -> None:
    refused = User(tmp_path).ebb(*arguments.split())
    assert (refused.code, refused.out, refused.err) == (2, "", f"ebb: {says}\n")
