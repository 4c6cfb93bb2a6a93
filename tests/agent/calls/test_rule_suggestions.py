"""Rules that are offered: what they cover is what they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import Policy, decide, is_canonical_rule, parse_rule
from ebbtide.agent.calls.rule_suggestions import exact_rule, suggest_rules, try_rules
from ebbtide.agent.events.permissions import RuleTrial
from tests.kit.recorded_bash import simple_commands

ROOT = "/home/u/project"
POLICY = Policy(ROOT)

WORDS = st.sampled_from(
    ["git", "log", "ls", "-la", "src/", "a.txt", "x:*", "'a  b'", "\u200bx", "pytest", "rm", "&&", ";", "*", "''", "cd"]
)
COMMANDS = st.lists(WORDS, min_size=1, max_size=5).map(" ".join)
NAMES = st.sampled_from(["a.py", "src", " src", "b )", "c:*", "d\u202e", ".envrc", "", "sub.git", "*"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: "/".join([ROOT, *filter(None, names)]))


def shell(command: str) -> PermissionRequest:
    return PermissionRequest("bash", "run", (command,))


def offers(asked: PermissionRequest) -> tuple[str, ...]:
    return suggest_rules(asked, POLICY)


def with_rule(rule: str) -> Policy:
    return Policy(ROOT, allow_rules=(parse_rule(rule),))


@given(COMMANDS, COMMANDS)
def test_a_rule_for_commands_covers_those_that_begin_with_its_words(command: str, other: str) -> None:
    for offer in offers(shell(command)):
        assert decide(shell(command), with_rule(offer)).verdict == "allow"
        assert is_canonical_rule(offer)
        rule = parse_rule(offer)
        if decide(shell(other), with_rule(offer)).verdict == "allow":
            begins = [
                list(one.texts[: len(rule.words)])
                for one in simple_commands(other)
                if one.texts[0] != "cd" or rule.words[0] == "cd"
            ]
            assert other == rule.exact_line or (rule.exact_line is None and begins == [rule.words] * len(begins))


@given(PATHS, PATHS)
def test_a_rule_for_files_covers_those_in_its_place(path: str, other: str) -> None:
    asked, elsewhere = PermissionRequest("edit", "write", (path,)), PermissionRequest("edit", "write", (other,))
    for offer in offers(asked):
        assert decide(asked, with_rule(offer)).verdict == "allow"
        place = parse_rule(offer).prefix
        assert offer == f"edit({place})"
        if decide(elsewhere, with_rule(offer)).verdict == "allow":
            assert place == "." or f"{other}/".startswith((f"{ROOT}/{place}/", f"{place}/"))


@given(st.lists(COMMANDS, max_size=8), COMMANDS)
def test_a_dry_run_counts_what_the_rule_then_allows(past: list[str], command: str) -> None:
    rules = offers(shell(command))
    found = try_rules(rules, shell(command), [shell(one) for one in past], POLICY)
    open_ones = [shell(one) for one in past if decide(shell(one), POLICY).verdict == "ask"]
    allowed = [[one for one in open_ones if decide(one, with_rule(rule)).verdict == "allow"] for rule in rules]
    assert [(one.rule, one.allowed, one.of) for one in found] == [
        (rule, len(some), len(open_ones)) for rule, some in zip(rules, allowed, strict=True)
    ]
    for one, some in zip(found, allowed, strict=True):
        assert {example for example in one.examples} <= {call.subjects[0] for call in some} - {command}


def test_a_question_offers_a_narrow_rule_the_usual_one_and_a_wide_one() -> None:
    assert offers(shell("git commit -m 'x  y'")) == ("bash(=git commit -m 'x  y')", "bash(git commit)")
    assert offers(shell("ls src/")) == ("bash(=ls src/)", "bash(ls src/)", "bash(ls)")
    assert offers(shell("rm -rf build/")) == ("bash(=rm -rf build/)",)
    assert offers(PermissionRequest("edit", "write", (f"{ROOT}/src/a.py",))) == (
        "edit(src/a.py)",
        "edit(src)",
        "edit(.)",
    )
    assert offers(PermissionRequest("edit", "write", (f"{ROOT}/.envrc",))) == ("edit(.envrc)",)
    assert offers(PermissionRequest("read", "read", ("/etc/hosts",))) == ("read(/etc/hosts)", "read(/etc)")
    assert offers(PermissionRequest("read", "read", ("/hosts",))) == ("read(/hosts)",)
    patched = PermissionRequest("apply_patch", "write", (f"{ROOT}/src/a.py", f"{ROOT}/src/b.py"))
    assert (exact_rule(patched, ROOT), offers(patched)) == ("", ("apply_patch(src)", "apply_patch(.)"))


def test_a_line_of_several_commands_is_offered_a_rule_for_the_one_that_is_new() -> None:
    assert offers(shell("cd src && pytest -q")) == ("bash(=cd src && pytest -q)", "bash(pytest)")
    assert offers(shell("cd src && make test")) == ("bash(=cd src && make test)",)
    assert offers(shell("cd src && ./run.sh")) == ("bash(=cd src && ./run.sh)",)
    assert offers(shell("cd src && git log")) == ()
    assert offers(shell("cd .. && pytest")) == ()
    assert offers(shell("pytest && ruff check")) == ("bash(=pytest && ruff check)",)
    assert offers(shell("pytest -q | tee out")) == ("bash(=pytest -q | tee out)",)
    knows = with_rule("bash(pytest)")
    asked = shell("cd src && pytest -q 2>&1 | tail -3 && ruff check")
    assert suggest_rules(asked, knows) == (f"bash(={asked.subjects[0]})", "bash(ruff check)")


def test_a_commit_with_its_message_in_a_here_document_is_offered_the_usual_rule() -> None:
    """anthropics/claude-code#31191"""
    commit = "git commit -m \"$(cat <<'EOF'\nFix it\n\nBy: a\nEOF\n)\""
    assert offers(shell(commit)) == ("bash(git commit)",)
    assert offers(shell(f"git add -A && {commit}")) == ()
    assert offers(shell(commit.replace("Fix it", "x) ; rm b"))) == ("bash(git commit)",)
    assert offers(shell(commit.replace("'EOF'\nFix it", "EOF\n$(rm b)"))) == ()


@pytest.mark.parametrize(
    ("command", "offered"),
    [
        ("uv run pytest -q", ("bash(=uv run pytest -q)", "bash(pytest)")),
        ("uv run ruff check", ("bash(=uv run ruff check)", "bash(uv run ruff check)")),
        ("uv run python x.py", ("bash(=uv run python x.py)",)),
        ("uv run --with x pytest", ("bash(=uv run --with x pytest)",)),
        ("A=1 ls src/", ("bash(=A=1 ls src/)",)),
        ("A=1 rm x", ("bash(=A=1 rm x)",)),
        ("A=./x ./y z", ("bash(=A=./x ./y z)",)),
        ("/bin/sh -c ls", ("bash(=/bin/sh -c ls)",)),
        ("python3.12 -m x", ("bash(=python3.12 -m x)",)),
        ("nice -n 5 ls", ("bash(=nice -n 5 ls)",)),
        ("git --no-pager log", ("bash(=git --no-pager log)",)),
        ("git ./x", ("bash(=git ./x)",)),
        ("git remote -v", ("bash(=git remote -v)", "bash(git remote)")),
        ("source ./x", ("bash(=source ./x)",)),
        ("find . -delete", ("bash(=find . -delete)",)),
        ("ps e", ("bash(=ps e)",)),
        ("git submodule update", ("bash(=git submodule update)",)),
        ("A=1", ("bash(=A=1)",)),
    ],
)
def test_a_program_that_runs_what_it_is_told_is_offered_exactly_this(command: str, offered: tuple[str, ...]) -> None:
    assert offers(shell(command)) == offered


RUN_BY_OTHERS = (
    "{}", "./{}", "/bin/{}", "A=1 {}", "A=./x {}", "env {}", "env -i A=1 {}", "nice {}", "nice -n 5 {}", "command {}",
    "timeout 5 {}", "nohup {}", "setsid {}", "stdbuf -oL {}", "sudo {}", "xargs {}", "xargs -n1 {}", "time {}",
    "sh -c {}", "sh -c '{} x'", "/bin/sh -c {}", "bash ./{}", ". ./{}", "source ./{}", "eval {}", "busybox {}",
    "python3 -m {}", "python3.12 ./{}", "uv run {}", "uv run --x {}", "npm exec {}", "npx {}", "go run {}",
    "git -c a={} log", "git --no-pager {}", "git submodule foreach {}", "git {} x", "find . -exec {} ;",
    "ls $({})", "ls `{}`", "ls <({})",
    "ls > {}", "cd src && {}", "cd src && nice {}", "cd src/../.. && {}", "cd $({}) && ls",
)  # fmt: skip
LINKS = st.sampled_from([" && ", "; ", " | ", " || ", "\n", " & "])
SEEN, UNSEEN = ("ls", "ls -la", "pytest", "pytest ./a.py", "git log -3", "cat ./b c"), ("evil", "evil.sh -x")


@st.composite
def lines(draw: st.DrawFn) -> tuple[str, str]:
    """A line of programs that are run in all the ways in which programs are run, and another that runs more."""
    shapes = draw(st.lists(st.sampled_from(RUN_BY_OTHERS), min_size=1, max_size=3))
    others = draw(st.lists(st.sampled_from([*shapes * 9, *RUN_BY_OTHERS]), min_size=1, max_size=3))
    return draw(line_of(shapes, SEEN)), draw(line_of(others, (*SEEN, *UNSEEN * 3)))


@st.composite
def line_of(draw: st.DrawFn, shapes: list[str], programs: tuple[str, ...]) -> str:
    line = ""
    for shape in shapes:
        line += (line and draw(LINKS)) + shape.replace("{}", draw(st.sampled_from(programs)))
    return line


@given(lines(), st.sampled_from([(), ("bash(ls)",), ("bash(cd)", "bash(git log)")]))
def test_no_rule_that_is_offered_allows_a_program_that_was_not_seen(
    pair: tuple[str, str], rules: tuple[str, ...]
) -> None:
    asked, other = pair
    before = Policy(ROOT, allow_rules=tuple(map(parse_rule, rules)))
    for offer in suggest_rules(shell(asked), before):
        after = Policy(ROOT, allow_rules=(*before.allow_rules, parse_rule(offer)))
        assert decide(shell(asked), after).verdict == "allow"
        assert decide(shell(other), after).verdict == "ask" or "evil" not in other


@given(st.lists(st.sampled_from(SEEN), min_size=1, max_size=3), LINKS)
def test_what_is_offered_first_is_for_exactly_this(commands: list[str], link: str) -> None:
    line = link.join(commands)
    offered, exact = offers(shell(line)), exact_rule(shell(line), ROOT)
    assert exact not in offered[1:]
    for offer in offered[1:]:  # what is allowed by the narrow one, every other one allows, too
        narrow = [
            other
            for other in (line, *SEEN, *commands)
            if decide(shell(other), with_rule(offered[0])).verdict == "allow"
        ]
        assert all(decide(shell(other), with_rule(offer)).verdict == "allow" for other in narrow)


def test_what_cannot_be_said_exactly_is_not_offered() -> None:
    for command in ("run task:*", "make \u200bx", "ls\nls", "ls ", f"ls -{'x' * 1_000}"):
        assert exact_rule(shell(command), ROOT) not in offers(shell(command))
    assert offers(shell("echo 'a  b'")) == ("bash(=echo 'a  b')",)
    assert suggest_rules(shell("ls"), Policy(ROOT, "auto")) == ()
    assert suggest_rules(shell("ls"), Policy(ROOT, deny_rules=(parse_rule("bash(ls)"),))) == ()


def test_calls_of_other_tools_are_not_counted_and_those_of_the_same_server_are() -> None:
    past = [
        PermissionRequest("mcp__forge__a", "serve", ()),
        PermissionRequest("mcp__forge__b", "serve", ()),
        shell("ls"),
    ]
    asked = past[0]
    assert try_rules(offers(asked), asked, past, POLICY) == (
        RuleTrial("mcp__forge__a", 1, 2),
        RuleTrial("mcp__forge", 2, 2, ("mcp__forge__b",)),
    )


@pytest.mark.parametrize(
    "command",
    [
        "/usr/bin/python3 a.py", "./venv/bin/python a.py", "python3.12 -m this", "node18 a.js", "dash ./a.sh",
        "nice ./a", "setsid ./a", "flock ./lock ./a", ". ./a.sh", "strace ./a", "sqlite3 a.db", "cp ./a ./b",
        "tee a.txt", "uv run a.py", "npm exec a.js", "go run a.go", "git config a.b c", "X=1 ./a.sh b.c", "Rscript a.R",
        "mapfile -t a", "compgen -A file", "enable -n test", "export -p", "hash -r", "alias a=./b",
    ],
)  # fmt: skip
def test_programs_that_do_whatever_they_are_told_are_offered_with_all_they_are_told(command: str) -> None:
    assert offers(shell(command)) == (f"bash(={command})",)


def test_what_is_fetched_is_offered_by_its_host() -> None:
    asked = PermissionRequest("web_fetch", "fetch", ("example.org:8443",))
    assert suggest_rules(asked, Policy(ROOT)) == ("network(example.org:8443)",)
    assert exact_rule(asked, ROOT) == ""
    assert suggest_rules(PermissionRequest("web_search", "fetch", ()), Policy(ROOT)) == ("web_search",)
