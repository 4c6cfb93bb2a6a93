"""The permission policy, which is pure: calls in, rulings out."""

from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import PLAN_MODE_REFUSALS, Policy, Rule, decide, parse_rule, rule_matches_call
from ebbtide.agent.config.options import PERMISSION_MODES, PermissionMode
from ebbtide.agent.errors import ConfigError
from ebbtide.tools.base import ReadOnlyAccess
from tests.kit.recorded_bash import simple_commands

ROOT = "/home/u/project"


def shell(command: str) -> PermissionRequest:
    return PermissionRequest("bash", "run", (command,))


def edit(path: str) -> PermissionRequest:
    return PermissionRequest("edit", "write", (path,))


def read(path: str) -> PermissionRequest:
    return PermissionRequest("read", "read", (path,))


def served(tool: str) -> PermissionRequest:
    return PermissionRequest(tool, "serve", ())


def policy(mode: PermissionMode = "ask", allow: tuple[str, ...] = (), deny: tuple[str, ...] = ()) -> Policy:
    return Policy(ROOT, mode, tuple(map(parse_rule, allow)), tuple(map(parse_rule, deny)), ("/data/outputs",))


@pytest.mark.parametrize(
    ("mode", "verdicts"),
    [
        ("ask", ["allow", "ask", "allow", "ask", "ask", "ask", "ask", "allow"]),
        ("accept-edits", ["allow", "ask", "allow", "allow", "ask", "ask", "ask", "allow"]),
        ("plan", ["allow", "ask", "allow", "deny", "deny", "deny", "deny", "allow"]),
        ("auto", ["allow", "allow", "allow", "allow", "allow", "allow", "allow", "allow"]),
    ],
)
def test_each_mode_decides_as_its_name_says(mode: PermissionMode, verdicts: list[str]) -> None:
    calls = [
        read(f"{ROOT}/a.py"),
        read("/etc/passwd"),
        read("/data/outputs/1.txt"),
        edit(f"{ROOT}/a.py"),
        edit("/etc/passwd"),
        shell("ls"),
        served("mcp__forge__list_issues"),
        PermissionRequest("todo", "none", ()),
    ]
    assert [decide(call, policy(mode)).verdict for call in calls] == verdicts


def test_a_command_that_a_sandbox_holds_needs_no_question_where_the_user_says_so() -> None:
    modes: tuple[PermissionMode, ...] = ("ask", "accept-edits", "plan")
    decided = [
        decide(shell("make"), replace(policy(mode, deny=("bash(git)",)), allows_sandboxed_commands=True))
        for mode in modes
    ]
    assert [(ruling.verdict, ruling.decided_by) for ruling in decided] == [
        *[("allow", "it runs in the sandbox")] * 2,
        ("deny", PLAN_MODE_REFUSALS["run"]),
    ]
    assert (
        decide(shell("git push"), replace(policy(deny=("bash(git)",)), allows_sandboxed_commands=True)).verdict
        == "deny"
    )


def test_further_folders_are_worked_in_as_in_the_working_folder() -> None:
    more = replace(policy("accept-edits"), added_folders=("/home/me/library",))
    calls = [read("/home/me/library/a.py"), edit("/home/me/library/a.py"), edit("/home/me/other/a.py")]
    assert [decide(call, more).verdict for call in calls] == ["allow", "allow", "ask"]


def looking(*paths: str, tool: Literal["read", "grep"] = "read", secret: str = "") -> PermissionRequest:
    """A command that is proved to look at these files."""
    return replace(shell("cat a"), read_only_access=ReadOnlyAccess(tool, paths, secret))


@pytest.mark.parametrize(
    ("asked", "ruling"),
    [
        (looking(f"{ROOT}/a.py", f"{ROOT}/b"), ("allow", "reading inside the working folder")),
        (looking("/data/outputs/1"), ("allow", "reading inside the working folder")),
        (looking(f"{ROOT}/a.py", "/etc/hosts"), ("ask", "`/etc/hosts` is outside the working folder")),
        (looking(f"{ROOT}/.env", secret=".env"), ("ask", "`.env` may hold secrets")),
        (looking(f"{ROOT}/secret/a"), ("deny", "deny rule read(secret)")),
        (looking(f"{ROOT}/secret/.env", secret="secret/.env"), ("deny", "deny rule read(secret)")),
        (looking(f"{ROOT}/src", tool="grep"), ("allow", "reading inside the working folder")),
        (
            looking(ROOT, tool="grep"),
            ("ask", "deny rule read(secret) may forbid this; the call does not show it"),
        ),
        (replace(looking(f"{ROOT}/a"), subjects=("git log",)), ("deny", "deny rule bash(git log)")),
        (shell("cat a"), ("deny", PLAN_MODE_REFUSALS["run"])),
    ],
)
def test_in_plan_mode_a_command_that_only_looks_may_show_what_tools_that_read_may(
    asked: PermissionRequest, ruling: tuple[str, str]
) -> None:
    decided = decide(asked, policy("plan", allow=("bash",), deny=("read(secret)", "bash(git log)")))
    assert (decided.verdict, decided.decided_by) == ruling


def test_a_rule_to_read_answers_for_commands_that_only_look() -> None:
    rules = policy("plan", allow=("read(.env)", "read(/etc)"))
    verdicts = [decide(looking(path, secret=path), rules).verdict for path in (f"{ROOT}/.env", f"{ROOT}/b/.env")]
    assert (verdicts, decide(looking("/etc/hosts"), rules).verdict) == (["allow", "ask"], "allow")


@pytest.mark.parametrize(
    ("asked", "ruling"),
    [
        (looking(f"{ROOT}/a.py"), ("allow", "reading inside the working folder", True)),
        (looking("/data/outputs/1"), ("allow", "reading inside the working folder", True)),
        (looking("/etc/hosts"), ("ask", "`/etc/hosts` is outside the working folder", True)),
        (looking(f"{ROOT}/key.pem", secret="key.pem"), ("ask", "`key.pem` may hold secrets", True)),
        (looking(f"{ROOT}/secret/a"), ("deny", "deny rule read(secret)", True)),
        (replace(looking(f"{ROOT}/a"), subjects=("git log",)), ("deny", "deny rule bash(git log)", False)),
        (looking("/"), ("ask", "ask mode: commands need your OK", False)),
        (
            replace(looking(f"{ROOT}/a"), tool="outside"),
            ("ask", "ask mode: commands need your OK", False),
        ),
    ],
)
def test_what_only_looks_is_treated_as_what_reads_in_ask_mode(
    asked: PermissionRequest, ruling: tuple[str, str, bool]
) -> None:
    decided = decide(asked, policy("ask", deny=("read(secret)", "bash(git log)")))
    assert (decided.verdict, decided.decided_by, decided.requires_read_only) == ruling


def test_auto_mode_does_not_look_at_what_a_command_shows_and_what_may_run_no_shell_runs_none() -> None:
    assert decide(looking("/etc/hosts", secret="x"), policy("auto")) == decide(shell("cat a"), policy("auto"))
    for mode in ("ask", "plan"):
        assert decide(looking(f"{ROOT}/a"), Policy(ROOT, mode, no_shell_reason="no sandbox")).verdict == "deny"


@pytest.mark.parametrize("mode", ["ask", "accept-edits", "auto"])
@pytest.mark.parametrize("path", [f"{ROOT}/.git/hooks/pre-commit", "/home/u/.bashrc", f"{ROOT}/AGENTS.md"])
def test_files_that_make_other_programs_run_commands_are_always_asked_about(mode: PermissionMode, path: str) -> None:
    assert decide(edit(path), policy(mode, allow=("edit",))).verdict == "ask"


def test_a_rule_that_names_such_a_file_allows_it() -> None:
    assert decide(edit(f"{ROOT}/.envrc"), policy(allow=("edit(.envrc)",))).verdict == "allow"
    assert decide(edit(f"{ROOT}/.git/hooks/x"), policy(allow=("edit(.git/hooks)",))).verdict == "allow"


@pytest.mark.parametrize("mode", ["ask", "accept-edits", "auto"])
def test_a_file_with_another_name_is_asked_about_unless_a_rule_is_for_just_this_file(mode: PermissionMode) -> None:
    asked = replace(edit(f"{ROOT}/a"), hard_linked_paths=(f"{ROOT}/a",))
    verdicts = [decide(asked, policy(mode, allow=(rule,))).verdict for rule in ("edit", "edit(.)", "edit(a)")]
    assert verdicts == ["ask", "ask", "allow"]


@pytest.mark.parametrize("rule", ["edit(.)", "edit(src)", "edit(/)"])
def test_a_rule_for_a_folder_does_not_cover_such_files_in_it(rule: str) -> None:
    rules = policy(allow=(rule,))
    assert decide(edit(f"{ROOT}/src/a.py"), rules).verdict == "allow"
    assert decide(edit(f"{ROOT}/src/.vscode/tasks.json"), rules).verdict == "ask"


@pytest.mark.parametrize(
    ("rule", "command", "verdict"),
    [
        ("bash(git status)", "git status", "allow"),
        ("bash(git status)", "git status --short", "allow"),
        ("bash(git status)", "git statusx", "ask"),
        ("bash(git:*)", "git log", "allow"),
        ("bash", "rm -rf /", "allow"),
        ("bash(git status)", "git status; rm -rf /", "ask"),
        ("bash(git status)", "git status && rm x", "ask"),
        ("bash(git status)", "git status | sh", "ask"),
        ("bash(git status)", "git status & rm x", "ask"),
        ("bash(git status)", "git status\nrm x", "ask"),
        ("bash(git status)", "git status $(rm x)", "ask"),
        ("bash(git status)", "git status `rm x`", "ask"),
        ("bash(git status)", "git status > /etc/passwd", "ask"),
        ("bash(git status)", "git status <(rm x)", "ask"),
        ("bash(git status)", "(git status)", "ask"),
        ("bash(git status)", "git status 'unclosed", "ask"),
        ("bash(git status)", "git 'status'", "allow"),
        ("bash(git status)", "GIT_PAGER=x git status", "ask"),
        ("bash(git status)", "git status ';' rm", "allow"),
        ("write", "git status", "ask"),
    ],
)
def test_an_allow_rule_covers_a_command_only_when_it_covers_all_of_it(rule: str, command: str, verdict: str) -> None:
    assert decide(shell(command), policy(allow=(rule,))).verdict == verdict


def test_two_rules_can_cover_a_command_together() -> None:
    both = policy(allow=("bash(git status)", "bash(pytest)"))
    assert decide(shell("git status && pytest -q"), both).verdict == "allow"
    assert decide(shell("git status && make"), both).verdict == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf x", "/bin/rm x", "sudo rm x", "ls; rm x", "env A=1 rm x", "bash -c 'rm x'", "find . -exec rm {} +",
        "echo $(rm x)", "ls |xargs rm", r"r\m x", "'rm' x", "true\nrm x",
    ],
)  # fmt: skip
@pytest.mark.parametrize("mode", PERMISSION_MODES)
def test_a_deny_rule_finds_the_command_however_it_is_wrapped(command: str, mode: PermissionMode) -> None:
    assert decide(shell(command), policy(mode, allow=("bash",), deny=("bash(rm)",))).verdict == "deny"


def test_a_deny_rule_of_several_words_leaves_other_commands_alone() -> None:
    rules = policy("auto", deny=("bash(git push)",))
    assert [decide(shell(c), rules).verdict for c in ("git push -f", "git pull", "/usr/bin/git push")] == [
        "deny",
        "allow",
        "deny",
    ]


def test_path_rules_compare_whole_components() -> None:
    rules = policy(allow=("edit(src)",), deny=("read(secret)",))
    assert decide(edit(f"{ROOT}/src/a.py"), rules).verdict == "allow"
    assert decide(edit(f"{ROOT}/src2/a.py"), rules).verdict == "ask"
    assert decide(read(f"{ROOT}/secret/key"), rules).verdict == "deny"
    assert decide(read(f"{ROOT}/secrets"), rules).verdict == "allow"
    assert (
        decide(
            PermissionRequest("apply_patch", "write", (f"{ROOT}/src/a", f"{ROOT}/b")), policy(allow=("*(src)",))
        ).verdict
        == "ask"
    )


def test_reading_a_folder_that_holds_a_denied_one_is_denied() -> None:
    assert decide(PermissionRequest("grep", "read", (ROOT,)), policy(deny=("grep(secret)",))).verdict == "deny"
    # A folder that is read shows names, and none of what is in the files.
    assert decide(read(ROOT), policy(deny=("read(secret)",))).verdict == "allow"
    assert decide(read(f"{ROOT}/secret"), policy(deny=("read(secret)",))).verdict == "deny"


@pytest.mark.parametrize(
    ("rule", "command", "verdict"),
    [
        ("bash(=make test)", "make test", "allow"),
        ("bash(=make test)", "make test all", "ask"),
        ("bash(=make test)", "make  test", "ask"),
        ("bash(=make test)", "make test && make test", "ask"),
        ("bash(=cd src && make 'a  b')", "cd src && make 'a  b'", "allow"),
        ("bash(==x)", "=x", "allow"),
        ("bash(=x)", "=x", "ask"),
        ("bash(=make $X)", "make $X", "ask"),
        ("bash(=cat x | sh)", "cat x | sh", "ask"),
        ("bash(=cd .. && make)", "cd .. && make", "ask"),
        ("bash(=make > out)", "make > out", "ask"),
    ],
)
def test_a_rule_for_one_line_allows_that_line_as_far_as_it_can_be_read(rule: str, command: str, verdict: str) -> None:
    assert decide(shell(command), policy(allow=(rule,))).verdict == verdict


def test_rules_that_cover_a_line_together_are_about_beginnings() -> None:
    both = policy(allow=("bash(=pytest)", "bash(ls)", "bash(A=1 cd)"))
    assert decide(shell("ls && ls"), both).verdict == "allow"
    assert decide(shell("ls && pytest -x"), both).verdict == "ask"
    assert decide(shell("A=1 cd .. && ls"), both).verdict == "ask"


@pytest.mark.parametrize("command", ["git push", "cd x && git push -f", "sh -c 'git push'"])
def test_a_deny_rule_for_one_line_denies_what_begins_so(command: str) -> None:
    assert decide(shell(command), policy("auto", deny=("bash(=git push)",))).verdict == "deny"


@pytest.mark.parametrize(
    ("rule", "command", "verdict"),
    [
        ("bash(pytest)", "cd src && pytest -q", "allow"),
        ("bash(pytest)", f"cd {ROOT}/src && cd a; pytest", "allow"),
        ("bash(pytest)", "cd src | pytest || pytest -x", "allow"),
        ("bash(pytest)", "cd src && rm x", "ask"),
        ("bash(pytest)", "cd src && pytest && rm x", "ask"),
        ("bash(pytest)", "cd /tmp && pytest", "ask"),
        ("bash(pytest)", "cd src/../.. && pytest", "ask"),
        ("bash(pytest)", "cd ~ && pytest", "ask"),
        ("bash(pytest)", "cd - && pytest", "ask"),
        ("bash(pytest)", "cd && pytest", "ask"),
        ("bash(pytest)", "cd * && pytest", "ask"),
        ("bash(pytest)", "cd $X && pytest", "ask"),
        ("bash(pytest)", "cd $(rm x) && pytest", "ask"),
        ("bash(pytest)", "pushd src && pytest", "ask"),
        ("bash(pytest)", "CDPATH=/ cd etc && pytest", "ask"),
        ("bash(pytest)", "A=1 cd .. && pytest", "ask"),
        ("bash(pytest)", "cd src", "ask"),
        ("bash(git status)", "cd src && git status", "ask"),
        ("bash(/usr/bin/git status)", "cd src && /usr/bin/git status", "ask"),
        ("bash(git status)", f"cd {ROOT} && git status", "allow"),
        ("bash(make test)", "cd src && make test", "ask"),
        ("bash(./run.sh)", "cd src && ./run.sh", "ask"),
        ("bash(=pytest)", "cd src && pytest", "ask"),
    ],
)
def test_a_folder_of_the_project_is_gone_into_without_a_rule_of_its_own(rule: str, command: str, verdict: str) -> None:
    assert decide(shell(command), policy(allow=(rule,))).verdict == verdict


@pytest.mark.parametrize(
    ("rule", "command", "verdict"),
    [
        ("bash(pytest)", "python -m pytest -q", "allow"),
        ("bash(pytest)", "uv run pytest -x", "allow"),
        ("bash(pytest)", "PYTHONPATH=src pytest", "allow"),
        ("bash(pytest)", "cd src && CI=1 python3 -m pytest -q 2>&1 | tail -15", "allow"),
        ("bash(pytest)", "ls; wc -l < a; pytest -q | grep -c x | sort -n && echo done", "allow"),
        ("bash(python -m pytest)", "uv run pytest", "allow"),
        ("bash(npm test)", "CI=1 npm run test -- --coverage 2>&1 | tail", "allow"),
        ("bash(make test)", "make -j4 test | tail", "allow"),
        ("bash(cargo test)", "RUST_BACKTRACE=1 cargo -q test", "allow"),
        ("bash(go test)", "CGO_ENABLED=0 timeout 60 go test ./...", "allow"),
        ("bash(jest)", "yarn jest --coverage", "allow"),
        ("bash(tox)", "poetry run tox -e py311", "allow"),
        ("bash(pytest)", "uv run pytest -p evil", "ask"),
        ("bash(pytest)", "python -m pytest @words", "ask"),
        ("bash(pytest)", "python -m pytest /elsewhere", "ask"),
        ("bash(pytest)", "PYTHONPATH=/tmp pytest", "ask"),
        ("bash(pytest)", "PATH=.venv/bin pytest", "ask"),
        ("bash(pytest)", "pytest | sh", "ask"),
        ("bash(pytest)", "pytest | tee out", "ask"),
        ("bash(pytest)", "pytest > out; tail out", "ask"),
        ("bash(pytest)", "pytest | xargs rm", "ask"),
        ("bash(pytest)", "pytest -q | sort -o x", "ask"),
        ("bash(pytest)", "./tail; pytest", "ask"),
        ("bash(pytest)", "git status; pytest", "ask"),
        ("bash(pytest)", "cat /etc/passwd; pytest", "ask"),
        ("bash(pytest)", "tail ../a; pytest", "ask"),
        ("bash(pytest)", "cat .env; pytest", "ask"),
        ("bash(pytest)", "grep -r KEY .; pytest", "ask"),
        ("bash(ssh host)", "echo 'rm -rf x' | ssh host", "ask"),
        ("bash(ssh host)", "echo 'rm -rf x' | cat | ssh host", "ask"),
        ("bash(node x.js)", "cat a | tail -1 | node x.js", "ask"),
        ("bash(make test)", "make -f x test", "ask"),
        ("bash(make test)", "make -s test CC=./x", "ask"),
        ("bash(go test)", "GOOS=linux go test -exec ./x", "ask"),
        ("bash(ruff)", "uv run ruff check", "ask"),  # builds the project first, which `ruff` does not
        ("bash(ruff)", "python -m ruff check", "ask"),  # a `ruff.py` of the folder would run
        ("bash(pytest)", ".venv/bin/pytest", "ask"),  # whether that is pytest is not in the words
    ],
)
def test_a_rule_for_a_tool_covers_it_however_it_is_started_and_nothing_else(
    rule: str, command: str, verdict: str
) -> None:
    assert decide(shell(command), policy(allow=(rule,))).verdict == verdict


def test_a_program_of_the_project_is_covered_once_it_is_known_to_be_what_it_is_called() -> None:
    for command, rule in (("uv run ruff check", "bash(ruff)"), (".venv/bin/pytest -q", "bash(pytest)")):
        known = replace(shell(f"{command} | tail"), trusted_launches=frozenset({tuple(command.split())}))
        assert decide(known, policy(allow=(rule,))).verdict == "allow"
    activated = replace(
        shell(". .venv/bin/activate && pytest"), trusted_launches=frozenset({(".", ".venv/bin/activate")})
    )
    assert decide(activated, policy(allow=("bash(pytest)",))).verdict == "allow"
    assert decide(replace(activated, trusted_launches=frozenset()), policy(allow=("bash(pytest)",))).verdict == "ask"


@pytest.mark.parametrize(
    ("rule", "command", "verdict"),
    [
        ("bash(find)", "find . -name x", "allow"),
        ("bash(find)", "find . -delete", "ask"),
        ("bash(find . -delete)", "find . -delete", "allow"),
        ("bash(find . -exec grep)", "find . -name x -exec ls", "ask"),
        ("bash(git)", "git status", "allow"),
        ("bash(git)", "git -c a.b=c status", "ask"),
        ("bash(git)", "git lg", "ask"),
        ("bash(git lg)", "git lg -3", "allow"),
        ("bash(git pull)", "git pull --upload-pac=./x .", "ask"),
        ("bash(git diff)", "git diff --output=x", "ask"),
        ("bash(git log)", "git --no-pager log -3", "allow"),
        ("bash(git log)", "git --no-pager push", "ask"),
        ("bash(git log)", "git --no-pager -c a.b=c log", "ask"),
        ("bash(git --no-pager log)", "git --no-pager log -3", "allow"),
        ("bash(tar)", "tar -xf a.tar", "allow"),
        ("bash(tar)", "tar -cf out.tar src", "allow"),
        ("bash(tar)", "tar -xf a.tar -C /", "ask"),
        ("bash(tar)", "tar -cf /elsewhere/out.tar src", "ask"),
        ("bash(tar)", "tar cf out.tar ../src", "ask"),
        ("bash(sed)", "sed -n 1,9p x", "allow"),
        ("bash(sed)", "sed -i s/a/b/ x", "ask"),
        ("bash(sed -i)", "sed -i 's/a/b/w x' y", "ask"),
    ],
)
def test_a_rule_for_a_program_that_looks_covers_looking_only(rule: str, command: str, verdict: str) -> None:
    assert decide(shell(command), policy(allow=(rule,))).verdict == verdict


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        (f"cd {ROOT} && git status", "allow"),
        (f"cd {ROOT}/src && ls", "allow"),
        ("cd src && ls", "allow"),
        ("cd src && git status", "ask"),
        ("cd / && ls", "ask"),
        ("cd .. && ls", "ask"),
        ("cd src/../.. && ls", "ask"),
        (f"cd {ROOT}2 && ls", "ask"),
        ("cd && ls", "ask"),
        ("cd - && ls", "ask"),
        ("cd ~ && ls", "ask"),
        ("cd sr* && ls", "ask"),
        ("popd && ls", "ask"),
    ],
)
def test_allowed_commands_stay_in_the_working_folder(command: str, verdict: str) -> None:
    rules = policy(allow=("bash(cd)", "bash(popd)", "bash(ls)", "bash(git status)"))
    assert decide(shell(command), rules).verdict == verdict


@pytest.mark.parametrize(
    ("rules", "command", "verdict"),
    [
        (("bash(python3)",), "python3 - <<'PY'\nimport os\nprint(os.getcwd())\nPY", "allow"),
        (("bash(python3)",), "cd src && python3 <<< 'print(1)'; ls", "ask"),
        (("bash(python3)", "bash(git add)"), "python3 - <<E && git add .\nprint(1)\nE", "allow"),
        (("bash(git commit)",), "git commit -m \"$(cat <<'EOF'\nFix it\n\nBy: a (it's me)\nEOF\n)\"", "allow"),
        (("bash(git commit)",), "git add .\ngit commit -m \"$(cat <<'EOF'\nFix it\nEOF\n)\"", "ask"),
        (("bash(git commit)",), "git commit --template=\"$(cat <<'EOF'\nx\nEOF\n)\"", "ask"),
        (("bash(git commit)",), 'git commit -m "$(cat <<EOF\n$(rm x)\nEOF\n)"', "ask"),
        (("bash(git commit)",), "git commit -m \"$(cat <<'E'\nE) ; rm x\nE\n)\"", "ask"),
        (("bash(gh pr create)",), "gh pr create --title a --body \"$(cat <<'EOF'\n- b\nEOF\n)\"", "allow"),
        (("bash(cat)",), "cat > a.txt <<'EOF'\nx\nEOF", "ask"),
        (("bash(python3)",), "python3 - <<E\n$(rm x)\nE", "ask"),
        (("bash(python3)",), "python3 - <<'E'\n1\nE\nrm x", "ask"),
        (("bash(pytest)",), "pytest --pdb <<'E'\n!rm x\nE", "ask"),
        (("bash(bash script.sh)",), "bash <<'E'\nrm x\nE", "ask"),
        (("bash(make test)",), "make test -f - <<'E'\ntest: ; rm x\nE", "ask"),
    ],
)
def test_a_rule_covers_a_program_that_the_line_gives_a_text(rules: tuple[str, ...], command: str, verdict: str) -> None:
    """QwenLM/qwen-code#9381: an allowed `python` is asked about with a here-document. anthropics/claude-code#31191: so
    is every commit whose message stands in one."""
    assert decide(shell(command), policy(allow=rules)).verdict == verdict


@pytest.mark.parametrize(
    ("rule", "command", "verdict"),
    [
        *(
            ("bash(rm -rf)", command, "deny")
            for command in (
                "rm -fr x", "rm -rfv x", "rm -r x -f", "rm --recursive --force x", "rm --rec --fo x", "sudo rm -Rf x",
                "bash -c 'rm -f -r x'",
            )
        ),
        *(("bash(rm -rf)", command, "allow") for command in ("rm -r x", "rm -f x", "rm x; cp -rf a b")),
        *(("bash(git push --force)", f"git push {rest}", "deny") for rest in ("-f", "origin main --force", "o -uf x")),
        *(("bash(git push --force)", f"git push {rest}", "allow") for rest in ("o x", "--follow-tags", "; rm -f x")),
        ("bash(git push -f)", "git push origin --force", "deny"),
        ("bash(git reset --hard)", "git reset HEAD~1 --hard", "deny"),
        ("bash(git commit --no-verify)", "git commit -m 'a b' --no-verify", "deny"),
        ("bash(npm install -g)", "npm install left-pad -g", "deny"),
        ("bash(find -delete)", "find . -name x -delete", "deny"),
        ("bash(find -delete)", "find . -type d -empty -ls", "allow"),
        ("bash(rm -rf /)", "rm -fr /", "deny"),
        ("bash(rm -rf /)", "rm -fr /tmp/x", "allow"),
    ],
)  # fmt: skip
def test_a_deny_rule_knows_an_option_in_any_order_and_form(rule: str, command: str, verdict: str) -> None:
    """anthropics/claude-code#18613: `rm -rf` is denied, and `rm -fr` or `rm --recursive --force` runs."""
    assert decide(shell(command), policy("auto", deny=(rule,))).verdict == verdict


@pytest.mark.parametrize(
    "command",
    [
        "r''m x", 'r"m" x', "r\\\nm x", "$'r\\x6d' x", "$'\\U00000072m' x", '$"rm" x', "rm${IFS}x", "RM x",
        "busybox rm x", "bash -c \"r'm' x\"", "bash -c 'eval \"r\\\\m x\"'", "echo \"`r''m x`\"", "cat <(r''m x)",
        "a=r; b=m; $a$b x", "c='rm -f'; sudo ${c} x", "n=m eval 'r'\"${n}\" x",
        "echo cm0gLWYgeA== | base64 -d | sh",
        "bash <<< $(echo 726d202d662078 | xxd -r -p)",
        "f() { r''m x; }; f", "case a in a) r''m x;; esac", "nice -n 5 'r'm x", "{rm,x}",
        "r${y}m x", "r$@m x", "${y:-rm} x", "${y-rm} x", "r{m,} x", "/bin/r? x", "/*/r[m] x", "sudo /bin/?m x",
        "$(printf '\\162m') x", "printf '\\x72\\x6d x' | sh", "echo -e '\\x72m x' | bash",
    ],
)  # fmt: skip
def test_a_deny_rule_reads_a_command_as_the_shell_does(command: str) -> None:
    assert decide(shell(command), policy("auto", deny=("bash(rm)",))).verdict == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "git -C x push", "git -c a=b --no-pager push", "git 'pu'sh", "env git push", "git -c alias.p=pu''sh p",
        "git -c alias.p='push -f' p",
    ],
)  # fmt: skip
def test_a_deny_rule_of_several_words_sees_past_options(command: str) -> None:
    assert decide(shell(command), policy("auto", deny=("bash(git push)",))).verdict == "deny"
    assert decide(shell("git stash push"), policy("auto", deny=("bash(git push)",))).verdict == "allow"


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("git $x", "ask"), ("git $(echo push)", "ask"), ("echo push | xargs git", "ask"), ("/usr/bin/gi? push", "deny"),
        ('git -C "$x" status', "allow"), ("git add $x", "allow"), ("ls *", "allow"), ("npm run $x", "allow"),
    ],
)  # fmt: skip
def test_a_deny_rule_of_several_words_asks_where_they_may_come_from_elsewhere(command: str, verdict: str) -> None:
    assert decide(shell(command), policy("auto", deny=("bash(git push)",))).verdict == verdict


@pytest.mark.parametrize("command", ["$x a", "xargs env < f", "echo cm0= | base64 -d | sh", 'eval "$x"', "ls 'open"])
def test_where_there_is_a_deny_rule_a_command_that_cannot_be_read_is_asked_about(command: str) -> None:
    assert decide(shell(command), policy("auto", allow=("bash",), deny=("bash(rm)",))).verdict == "ask"
    assert decide(shell(command), policy("auto", deny=("read(x)",))).verdict == "allow"


@pytest.mark.parametrize(
    "name",
    [
        ".GIT/hooks/pre-commit", "a/.Git/config", ".g\u200cit/config", "sub.git/hooks/update", ".gitmodules",
        ".ssh/authorized_keys", ".config/fish/config.fish", ".VSCode/tasks.json",
    ],
)  # fmt: skip
@pytest.mark.parametrize("rule", ["edit", "edit(.)", "edit(/home)", "*"])
def test_no_broad_rule_covers_what_makes_other_programs_run_commands(name: str, rule: str) -> None:
    asked = edit(f"{ROOT}/{name}")
    ruling = decide(asked, policy("auto", allow=(rule,)))
    assert ruling.verdict == "ask"


@pytest.mark.parametrize("name", ["Secret/key", "secret", "SECRET/a/b", "s\u200decret/key"])
def test_a_deny_rule_holds_for_every_name_a_file_system_takes_for_the_same(name: str) -> None:
    assert decide(read(f"{ROOT}/{name}"), policy("auto", deny=("read(secret)",))).verdict == "deny"
    composed, decomposed = f"{ROOT}/caf\u00e9", f"{ROOT}/cafe\u0301"
    for rule, path in ((composed, decomposed), (decomposed, composed)):
        assert decide(read(path), policy("auto", deny=(f"read({rule})",))).verdict == "deny"


def test_a_file_that_may_not_be_read_is_not_searched_either() -> None:
    rules = policy("auto", deny=("read(secret)",))
    verdicts = [
        decide(PermissionRequest("grep", "read", (f"{ROOT}{place}",)), rules).verdict
        for place in ("/secret", "/secret/a", "", "/src")
    ]
    assert verdicts == ["deny", "deny", "ask", "allow"]


def test_what_one_tool_may_not_change_no_other_may_change() -> None:
    rules = policy("auto", deny=("write(.env)",))
    calls = [PermissionRequest(tool, "write", (f"{ROOT}/.env",)) for tool in ("write", "edit", "apply_patch")]
    assert [decide(call, rules).verdict for call in calls] == ["deny"] * 3
    assert decide(edit(f"{ROOT}/a.py"), rules).verdict == "allow"
    assert decide(read(f"{ROOT}/.env"), rules).verdict == "ask"


def test_shell_can_be_ruled_out_altogether() -> None:
    ruling = decide(shell("ls"), Policy(ROOT, "auto", no_shell_reason="no sandbox"))
    assert (ruling.verdict, ruling.decided_by) == ("deny", "no sandbox")


@pytest.mark.parametrize("text", ["", "bash(", "bash()", "bash( )", "network(\t)", "a b", "bash(x) y"])
def test_what_is_not_a_rule_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a rule"):
        parse_rule(text)


@given(st.from_regex(r"[a-z_*]{1,8}", fullmatch=True), st.from_regex(r"[a-z][a-z /.-]{0,10}[a-z]", fullmatch=True))
def test_a_rule_reads_back_from_its_text(tool: str, prefix: str) -> None:
    assert parse_rule(str(Rule(tool, prefix))) == Rule(tool, prefix)


@given(st.text(alphabet="ab ;&|$()`'\"\n\\<>{}#*?~=!", max_size=30), st.sampled_from(["ask", "accept-edits"]))
def test_no_text_around_an_allowed_command_smuggles_in_another(noise: str, mode: PermissionMode) -> None:
    command = f"git status{noise} rm x"
    if decide(shell(command), policy(mode, allow=("bash(git status)",))).verdict == "allow":
        for each in simple_commands(command):
            assert each.texts[:2] == ("git", "status")


@given(st.text(max_size=40))
def test_any_command_has_a_ruling(command: str) -> None:
    assert decide(shell(command), policy(allow=("bash(ls)",), deny=("bash(rm)",))).verdict in ("ask", "deny", "allow")


@pytest.mark.parametrize(
    ("rule", "covered"),
    [
        ("mcp__forge", [True, True, False, False]),
        ("mcp__forge__*", [True, True, False, False]),
        ("mcp__forge__list_issues", [True, False, False, False]),
        ("mcp__forge__list_*", [True, False, False, False]),
        ("mcp__*", [True, True, True, False]),
        ("mcp__forge(list_issues)", [False, False, False, False]),
    ],
)
def test_a_rule_for_a_server_covers_its_tools_and_no_other(rule: str, covered: list[bool]) -> None:
    calls = [
        *(served("mcp__forge__list_issues"), served("mcp__forge__delete__issue"), served("mcp__forge2__list_issues")),
        shell("ls"),
    ]
    assert [decide(call, policy(allow=(rule,))).verdict == "allow" for call in calls] == covered
    if "(" not in rule:
        assert [decide(call, policy("auto", deny=(rule,))).verdict == "deny" for call in calls] == covered


def test_what_a_server_is_asked_for_is_not_known_so_a_narrower_prohibition_asks() -> None:
    ruling = decide(served("mcp__files__write"), policy("auto", deny=("mcp__files__write(secrets)",)))
    assert (ruling.verdict, ruling.decided_by) == (
        "ask",
        "deny rule mcp__files__write(secrets) may forbid this; the call does not show it",
    )


def test_a_servers_tool_is_allowed_by_its_name_and_by_that_of_the_server() -> None:
    assert decide(served("mcp__forge__list_issues"), policy()).decided_by == "ask mode: MCP tools need your OK"
    for offer in ("mcp__forge__list_issues", "mcp__forge"):
        assert decide(served("mcp__forge__list_issues"), policy(allow=(offer,))).verdict == "allow"


def test_a_server_is_no_shell() -> None:
    strict = replace(policy("auto"), no_shell_reason="there is no sandbox")
    assert decide(served("mcp__forge__list_issues"), strict).verdict == "allow"


@pytest.mark.parametrize(
    ("rule", "call", "is_meant"),
    [
        ("*", shell("ls"), True),
        ("bash", shell("ls"), True),
        ("bash", read(f"{ROOT}/a"), False),
        ("bash(git *)", shell("git status"), True),
        ("bash(git)", shell("cd src && /usr/bin/git -C . push | cat"), True),
        ("bash(git:*)", shell("GIT_DIR=x sudo git push"), True),
        ("bash(git push)", shell("git -c a=b push"), True),
        ("bash(git push)", shell("git status"), False),
        ("bash(git *)", shell("echo legitimate"), False),
        ("write", edit(f"{ROOT}/a"), False),
        ("edit(src)", edit(f"{ROOT}/src/a.py"), True),
        ("edit(src/*)", edit(f"{ROOT}/src/a.py"), True),
        ("edit(src)", edit(f"{ROOT}/source/a.py"), False),
        ("mcp__forge", served("mcp__forge__list_issues"), True),
        ("mcp__forge__list*", served("mcp__forge__list_issues"), True),
        ("mcp__forge", served("mcp__forgery__list"), False),
    ],
)
def test_a_rule_describes_calls_whatever_else_they_do(rule: str, call: PermissionRequest, is_meant: bool) -> None:
    assert rule_matches_call(parse_rule(rule), call, ROOT) == is_meant


def fetched(*hosts: str) -> PermissionRequest:
    return PermissionRequest("web_fetch", "fetch", hosts)


def test_what_is_fetched_from_the_web_is_asked_about_but_in_auto_mode() -> None:
    verdicts = {mode: decide(fetched("example.org"), policy(mode)).verdict for mode in PERMISSION_MODES}
    assert verdicts == {"ask": "ask", "accept-edits": "ask", "plan": "ask", "auto": "allow"}
    assert decide(PermissionRequest("web_search", "fetch", ()), policy(allow=("web_search",))).verdict == "allow"


@pytest.mark.parametrize(
    ("rule", "allowed", "denied"),
    [
        (
            "web_fetch",
            "example.org example.org:8443 www.example.org other.org",
            "example.org example.org:8443 other.org",
        ),
        ("web_fetch(example.org)", "example.org", "example.org example.org:8443"),
        ("web_fetch(Example.org.)", "example.org", "example.org example.org:8443"),
        ("web_fetch(example.org:8443)", "example.org:8443", "example.org:8443"),
        ("web_fetch(*.example.org)", "www.example.org a.b.example.org", "www.example.org www.example.org:8443"),
        ("web_*(example.org)", "example.org", "example.org"),
        ("network(example.org)", "example.org", "example.org example.org:8443"),
        ("network(EXAMPLE.org.:443)", "example.org", "example.org"),
        ("network(*.example.org)", "www.example.org a.b.example.org", "www.example.org www.example.org:8443"),
        ("read(example.org)", "", ""),
    ],
)
def test_a_rule_for_a_host_covers_it_and_with_a_star_those_below(rule: str, allowed: str, denied: str) -> None:
    hosts = [
        "example.org",
        "example.org:8443",
        "www.example.org",
        "www.example.org:8443",
        "a.b.example.org",
        "other.org",
    ]
    hosts += ["badexample.org", "example.org.evil.com", "org"]
    named = {host for host in hosts if decide(fetched(host), policy(allow=(rule,))).verdict == "allow"}
    assert named >= set(allowed.split())
    assert rule == "web_fetch" or named == set(allowed.split())
    forbidden = {host for host in hosts if decide(fetched(host), policy("auto", deny=(rule,))).verdict == "deny"}
    assert forbidden >= set(denied.split())
    assert not {"badexample.org", "org", "example.org.evil.com"} & forbidden or rule == "web_fetch"


def reached(place: str) -> PermissionRequest:
    return PermissionRequest("network", "fetch", (place,))


@pytest.mark.parametrize(
    ("rule", "place", "verdict"),
    [
        ("network(github.com)", "github.com", "allow"),
        ("network(github.com)", "github.com:22", "ask"),
        ("network(github.com)", "gist.github.com", "ask"),
        ("network(ssh://git@GitHub.com)", "github.com:22", "allow"),
        ("network(ssh://github.com:2222)", "github.com:2222", "allow"),
        ("network(ssh://github.com)", "github.com", "ask"),
        ("network(bücher.de)", "xn--bcher-kva.de", "allow"),
        ("network(*)", "anything.net:70", "allow"),
        ("network", "anything.net:70", "allow"),
        ("web_fetch(github.com)", "github.com", "ask"),
        ("web_fetch(:443)", "github.com", "ask"),
        ("bash", "github.com", "ask"),
    ],
)
def test_rules_for_the_network_open_places_to_commands(rule: str, place: str, verdict: str) -> None:
    assert decide(reached(place), policy(allow=(rule,))).verdict == verdict


@pytest.mark.parametrize("rule", ["network(evil.net)", "network(*.evil.net)", "network", "web_fetch(evil.net)"])
def test_what_a_rule_forbids_of_the_network_no_other_opens(rule: str) -> None:
    forbidden = policy("auto", allow=("network",), deny=(rule,))
    assert decide(reached("www.evil.net:22" if "*" in rule else "evil.net:22"), forbidden).verdict == "deny"


def test_no_mode_opens_the_network_to_commands() -> None:
    assert {decide(reached("example.org"), policy(mode)).verdict for mode in PERMISSION_MODES} == {"ask"}


@pytest.mark.parametrize(
    "named",
    ["https://example.org/x", "a b", "*.*.org", "/", ".", "..", ":443", ".:80", "*.", "*:8080", "ssh://", "*.1.1.1"],
)
def test_a_rule_for_the_network_names_a_host(named: str) -> None:
    """Nothing that is left empty, by a script whose variable is, opens all of it."""
    with pytest.raises(ConfigError, match=r"names no valid host: write a host, `network\(example.org\)`"):
        parse_rule(f"network({named})")


@pytest.mark.parametrize("named", [".", ":443", "*:8080", "*.1.1.1"])
def test_a_rule_for_pages_that_names_no_host_opens_none(named: str) -> None:
    assert decide(fetched("1.1.1.1"), policy(allow=(f"web_fetch({named})",))).verdict == "ask"
