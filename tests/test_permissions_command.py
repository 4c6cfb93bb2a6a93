"""`ebb permissions test` as a user runs it: what it says and with which code it ends."""

import json
from pathlib import Path

import pytest

from ebbtide.tools.sandbox.system import NoSandbox
from ebbtide.tui.cli.main import main
from tests.kit.files import write_file

RULES = '[permissions]\nallow = ["bash(git status)", "bash(grep)"]\ndeny = ["bash(rm)"]\n'


OFF = "it would run without a sandbox: `agent.sandbox` is off\n"


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    monkeypatch.chdir(project)
    monkeypatch.setenv("EBB_HOME", str(tmp_path / "home"))
    file = tmp_path / "rules.toml"
    file.write_text(RULES)
    return file


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("git status -s", 0, f"allow: allow rule bash(git status)\n{OFF}known to be read-only\n"),
        (
            "grep -az KEY /proc/1/environ",
            1,
            f"ask: `/proc/1/environ` is outside the working folder\n{OFF}not known to be read-only: "
            "`/proc/1/environ` belongs to a running process, secrets included: leave it alone\n",
        ),
        ("env -S 'rm x'", 5, "deny: deny rule bash(rm)\n"),
        (
            "git status --x=y && touch a",
            1,
            f"ask: ask mode: commands need your OK\n{OFF}"
            "no rule covers `git status --x=y`, because of `--x=y`: `status` is covered only in forms known to be"
            " read-only\nno rule covers `touch a`\n",
        ),
        (
            "for a in b; do ls; done > /etc/x",
            1,
            f"ask: ask mode: commands need your OK\n{OFF}"
            "prefix rules do not apply: it contains a for statement\n"
            "dangerous: `> /etc/x` writes outside the working folder, to `/etc/x`\n",
        ),
    ],
)
def test_it_says_what_would_be_decided_and_why(
    rules: Path, capsys: pytest.CaptureFixture[str], command: str, code: int, message: str
) -> None:
    assert main(["permissions", "test", command, "--rules", str(rules)]) == code
    assert capsys.readouterr().out == message


@pytest.mark.parametrize(
    ("host", "code", "message"),
    [
        ("Example.org.", 0, "allow: allow rule network(example.org)\n"),
        ("example.org:22", 1, "ask: no rule allows network access to `example.org:22`\n"),
        ("evil.net", 5, "deny: deny rule network(evil.net)\n"),
        (
            "[::1]",
            5,
            "deny: `[::1]` is not on the public network; the user can name it in the setting `web.private`, "
            "and start with `--allow 'network([::1])'`\n",
        ),
    ],
)
def test_it_says_what_would_be_decided_about_a_host(
    rules: Path, capsys: pytest.CaptureFixture[str], host: str, code: int, message: str
) -> None:
    rules.write_text('allow = ["network(example.org)"]\ndeny = ["network(evil.net)"]\n')
    assert main(["permissions", "test", "--host", host, "--rules", str(rules)]) == code
    assert capsys.readouterr().out == message


def test_a_script_reads_one_object(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["permissions", "test", "--json", "--mode", "plan", "cat a | head -1"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "decision": "allow",
        "why": "reading inside the working folder",
        "mode": "plan",
        "sandbox": "off",
        "only_looks": True,
        "not_plain": "",
        "uncovered": [],
        "commands": [["cat", "a"], ["head", "-1"]],
        "files": [str(Path.cwd() / "a"), str(Path.cwd())],
        "dangers": [],
        "doubts": [],
    }


def test_it_says_where_a_command_would_run_and_that_nothing_holds_it(
    rules: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EBB_SANDBOX", "auto")
    monkeypatch.setattr("ebbtide.tools.sandbox.system.detect_sandbox", lambda: NoSandbox("it is not installed"))
    rules.write_text('allow = ["outside(docker)", "bash(docker)"]')
    asked = ["permissions", "test", "--mode", "auto", "--rules", str(rules)]
    assert [main([*asked, command]) for command in ("docker ps", "make", "ls")] == [0, 1, 0]
    assert capsys.readouterr().out.splitlines() == [
        "allow: allow rule bash(docker)",
        "it would run outside the sandbox: one of your rules says so",
        "ask: commands are not sandboxed: it is not installed; `--no-sandbox` runs them anyway",
        "it would run without a sandbox: none is available",
        "no rule covers `make`",
        "allow: auto mode",
        "it would run without a sandbox: none is available",
        "known to be read-only",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "ebb: cannot read the rules `{}`: No such file or directory"),
        ("allow = 3", 'ebb: `allow` in `{}` must be a list of rules, such as ["bash(git status)"]'),
        ('deny = ["("]', "ebb: `(` is not a rule; write `TOOL` or `TOOL(PREFIX)`, such as `bash(git status)`"),
        ("allow", "ebb: the rules `{}` are not TOML: "),
    ],
)
def test_rules_that_cannot_be_read_are_named(
    rules: Path, capsys: pytest.CaptureFixture[str], text: str | None, message: str
) -> None:
    file = rules.with_name("other.toml")
    if text is not None:
        file.write_text(text)
    assert main(["permissions", "test", "ls", "--rules", str(file)]) == 2
    assert capsys.readouterr().err.startswith(message.format(file))


def test_rules_in_files_for_claude_code_count(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_file(
        Path.cwd() / ".claude" / "settings.json",
        '{"permissions": {"deny": ["Read(*.pem)"], "ask": ["Bash(git push:*)"]}}',
    )
    verdicts = {}
    for command in ("cat a.pem", "git push", "ls"):
        code = main(["permissions", "test", command, "--mode", "auto"])
        verdicts[command] = (code, capsys.readouterr().out.splitlines()[0])
    assert verdicts == {
        "cat a.pem": (5, "deny: the rule `Read(*.pem)` of `.claude/settings.json` denied it"),
        "git push": (1, "ask: the rule `Bash(git push:*)` of `.claude/settings.json` asks for your approval"),
        "ls": (0, "allow: auto mode"),
    }


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("git st", "no rule covers `git st`: `st` is not a git command, but an alias or another program"),
        (
            "git -C sub push",
            "no rule covers `git -C sub push`: `-C` may lead to another repository, whose settings can run programs",
        ),
        (
            "git log --show-signature",
            "no rule covers `git log --show-signature`, because of `--show-signature`: `log` is covered only in forms"
            " known to be read-only",
        ),
        (
            "cd sub && git status",
            "no rule covers `cd` here: its target may be outside the project or in another repository",
        ),
    ],
)
def test_a_rule_for_git_that_does_not_cover_a_call_of_git_says_why(
    rules: Path, capsys: pytest.CaptureFixture[str], command: str, message: str
) -> None:
    rules.write_text('[permissions]\nallow = ["bash(git)", "outside(git)"]\n')
    assert main(["permissions", "test", command, "--rules", str(rules)]) == 1
    assert message in capsys.readouterr().out.splitlines()


def test_a_line_that_is_not_moved_outside_the_sandbox_as_a_whole_says_which_part_keeps_it_inside(
    rules: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebbtide.tui.cli.permissions.sandbox_kind", lambda: "bubblewrap")
    monkeypatch.setenv("EBB_SANDBOX", "auto")
    rules.write_text('[permissions]\nallow = ["bash(git)", "bash(make)", "outside(git)"]\n')
    assert main(["permissions", "test", "git push && make", "--rules", str(rules)]) == 0
    message = "it stays in the sandbox: no `outside` rule covers `make`"
    assert message in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "make -n test | head",
            "`make -n test` still runs parts of the Makefile: `$(shell …)`, ",
        ),
        ("npm view ms version", "`npm view ms version` contacts a registry, or follows the project's settings"),
        ("env", "`env` can print secrets from the environment"),
        ("python3 -m json.tool a", "`python3 -m json.tool a` can run a module of that name in the working folder"),
    ],
)
def test_it_says_why_what_seems_to_look_is_asked_about(
    rules: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str, message: str
) -> None:
    monkeypatch.chdir(rules.parent)
    assert main(["permissions", "test", "--mode", "ask", command]) == 1
    assert message in capsys.readouterr().out
