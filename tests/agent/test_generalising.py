"""Rules that are offered: what they cover is what they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.events import Tried
from agent.generalising import offers_for, tried
from agent.permissions import Asked, Policy, Ruling, decide, parse_rule, says_itself
from tools.commandline import simple_commands

ROOT = "/home/u/project"
POLICY = Policy(ROOT)

WORDS = st.sampled_from(
    ["git", "log", "ls", "-la", "src/", "a.txt", "x:*", "'a  b'", "\u200bx", "pytest", "rm", "&&", ";", "*", "''", "cd"]
)
COMMANDS = st.lists(WORDS, min_size=1, max_size=5).map(" ".join)
NAMES = st.sampled_from(["a.py", "src", " src", "b )", "c:*", "d\u202e", ".envrc", "", "sub.git", "*"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: "/".join([ROOT, *filter(None, names)]))


def shell(command: str) -> Asked:
    return Asked("bash", "run", (command,))


def offers(asked: Asked) -> tuple[str, ...]:
    return offers_for(asked, decide(asked, POLICY), POLICY)


def with_rule(rule: str) -> Policy:
    return Policy(ROOT, allow=(parse_rule(rule),))


@given(COMMANDS, COMMANDS)
def test_a_rule_for_commands_covers_those_that_begin_with_its_words(command: str, other: str) -> None:
    for offer in offers(shell(command)):
        assert decide(shell(command), with_rule(offer)).verdict == "allow"
        assert says_itself(offer)
        words = parse_rule(offer).prefix.split()
        if decide(shell(other), with_rule(offer)).verdict == "allow":
            begins = [[word.text for word in one[: len(words)]] for one in simple_commands(other)]
            assert begins == [words] * len(begins)


@given(PATHS, PATHS)
def test_a_rule_for_files_covers_those_in_its_place(path: str, other: str) -> None:
    asked, elsewhere = Asked("edit", "write", (path,)), Asked("edit", "write", (other,))
    for offer in offers(asked):
        assert decide(asked, with_rule(offer)).verdict == "allow"
        place = parse_rule(offer).prefix
        assert offer == f"edit({place})"
        if decide(elsewhere, with_rule(offer)).verdict == "allow":
            assert place == "." or f"{other}/".startswith((f"{ROOT}/{place}/", f"{place}/"))


@given(st.lists(COMMANDS, max_size=8), COMMANDS)
def test_a_dry_run_counts_what_the_rule_then_allows(past: list[str], command: str) -> None:
    rules = offers(shell(command))
    found = tried(rules, shell(command), [shell(one) for one in past], POLICY)
    open_ones = [shell(one) for one in past if decide(shell(one), POLICY).verdict == "ask"]
    allowed = [[one for one in open_ones if decide(one, with_rule(rule)).verdict == "allow"] for rule in rules]
    assert [(one.rule, one.allowed, one.of) for one in found] == [
        (rule, len(some), len(open_ones)) for rule, some in zip(rules, allowed, strict=True)
    ]
    for one, some in zip(found, allowed, strict=True):
        assert {example for example in one.examples} <= {call.subjects[0] for call in some} - {command}


def test_a_question_offers_the_usual_rule_a_narrow_one_and_a_wide_one() -> None:
    assert offers(shell("git commit -m x")) == ("bash(git commit)", "bash(git commit -m x)")
    assert offers(shell("ls src/")) == ("bash(ls src/)", "bash(ls)")
    assert offers(shell("rm -rf build/")) == ("bash(rm -rf build/)",)
    assert offers(Asked("edit", "write", (f"{ROOT}/src/a.py",))) == ("edit(src)", "edit(src/a.py)", "edit(.)")
    assert offers(Asked("edit", "write", (f"{ROOT}/.envrc",))) == ("edit(.envrc)",)
    assert offers(Asked("read", "read", ("/etc/hosts",))) == ("read(/etc)", "read(/etc/hosts)")
    assert offers(Asked("read", "read", ("/hosts",))) == ()


def test_what_cannot_be_said_exactly_is_not_offered() -> None:
    for command in ("run task:*", "echo 'a  b'", "make \u200bx", "sh -c 'rm x'"):
        assert all(parse_rule(offer).prefix.split() == command.split() for offer in offers(shell(command)))
    assert offers_for(shell("ls"), Ruling("allow", "auto mode"), POLICY) == ()


def test_calls_of_other_tools_are_not_counted_and_those_of_the_same_server_are() -> None:
    past = [Asked("mcp__forge__a", "serve", ()), Asked("mcp__forge__b", "serve", ()), shell("ls")]
    asked = past[0]
    assert tried(offers(asked), asked, past, POLICY) == (
        Tried("mcp__forge__a", 1, 2),
        Tried("mcp__forge", 2, 2, ("mcp__forge__b",)),
    )


@pytest.mark.parametrize(
    "command",
    [
        "/usr/bin/python3 a.py", "./venv/bin/python a.py", "python3.12 -m this", "node18 a.js", "dash ./a.sh",
        "nice ./a", "setsid ./a", "flock ./lock ./a", ". ./a.sh", "strace ./a", "sqlite3 a.db", "cp ./a ./b",
        "tee a.txt", "uv run a.py", "npm exec a.js", "go run a.go", "git config a.b c", "X=1 ./a.sh b.c", "Rscript a.R",
    ],
)  # fmt: skip
def test_programs_that_do_whatever_they_are_told_are_offered_with_all_they_are_told(command: str) -> None:
    assert offers(shell(command)) == (f"bash({command})",)
