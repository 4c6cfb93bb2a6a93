"""`bash(git)` and `outside(git)` together: git commands are covered, and each other call has a reason."""

from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.agent.calls.permission_request import build_permission_request
from ebbtide.agent.calls.policy import Policy, decide, parse_rule, runs_unsandboxed
from ebbtide.tools.base import Workspace
from ebbtide.tools.bash import Bash
from ebbtide.tools.commands.git_commands import find_uncovered_git_word
from ebbtide.tools.commands.grammar import parse_command_line
from tests.kit.git import git


@pytest.fixture
def repository(tmp_path: Path) -> Workspace:
    root = tmp_path.resolve()
    git(root, "init", "-q")
    return Workspace(root, root)


def policy(root: Path) -> Policy:
    return Policy(str(root), allow_rules=(parse_rule("bash(git)"), parse_rule("outside(git)")))


COVERED = """
git push
git push -u origin HEAD
git push origin HEAD:refs/for/main
git fetch
git fetch --all --prune
git fetch origin pull/12/head:pr-12
git fetch origin main:main
git fetch https://example.org/x.git main
git pull --rebase origin main
git add -A && git commit -m x && git push
git commit -F msg.txt
git commit -F -
git commit --fixup HEAD
git commit --amend -C HEAD
git rebase main
git rebase --onto main a b
git rebase --abort
git bisect start HEAD v1
git bisect good
git cherry-pick -x abc
git clean -fdx
git tag v1
git tag -a v1 -m x
git branch x
git branch -D x
git branch -u origin/x
git symbolic-ref HEAD refs/heads/x
git remote add up https://example.org/y.git
git remote add gh git@github.com:me/x.git
git remote set-url --push origin https://example.org/y.git
git config user.name 'A B'
git -c user.name=x -c commit.gpgsign=false commit -m y
git -C . push
git -C ROOT commit -m x
git stash push -m wip
git worktree add ../wt -b f
git archive HEAD
git status
git log | head -5
git push 2>&1 | tail -3
git push; echo rc=$?
timeout 60 git fetch
env GIT_TERMINAL_PROMPT=0 git push
GIT_EDITOR=true git commit --amend
cd . && git push
cd ROOT && git push
cd ROOT && git log -3
"""


@pytest.mark.parametrize("command", COVERED.strip().splitlines())
def test_a_rule_for_git_covers_its_commands_inside_and_outside_the_sandbox(repository: Workspace, command: str) -> None:
    line = command.replace("ROOT", str(repository.root))
    asked = build_permission_request(Bash(), {"command": line}, repository, "ask")
    assert decide(asked, policy(repository.root)).verdict == "allow"
    assert runs_unsandboxed(asked, policy(repository.root))


@pytest.mark.parametrize("place", ["up", "up.git", "./up", "ROOT/up", "file://ROOT/up", "--repo=up"])
def test_a_push_to_a_folder_is_asked_about_since_hooks_there_run(repository: Workspace, place: str) -> None:
    """A command in the sandbox can make such a repository, and `outside(git)` would run its hooks outside."""
    for name in ("up", "up.git"):
        git(repository.root, "init", "-q", "--bare", name)
    line = f"git push {place.replace('ROOT', str(repository.root))} main"
    asked = build_permission_request(Bash(), {"command": line}, repository, "ask")
    assert decide(asked, policy(repository.root)).verdict == "ask"
    assert not runs_unsandboxed(asked, policy(repository.root))


def test_the_form_in_which_agents_write_commits_is_covered_and_can_be_denied(repository: Workspace) -> None:
    line = (
        "git add a && git commit -m \"$(cat <<'EOF'\nfeat: x\n\nCo-Authored-By: C <c@example.org>\nEOF\n)\" && git push"
    )
    asked = build_permission_request(Bash(), {"command": line}, repository, "ask")
    rules = policy(repository.root)
    assert decide(asked, rules).verdict == "allow"
    for rule in ("bash(cat)", "bash(git push)", "bash(git commit)"):
        assert decide(asked, replace(rules, deny_rules=(parse_rule(rule),))).verdict == "deny"


ASKED = [
    ("git -C sub push", "may lead to another repository"),
    ("git -C sub/.. push", "may lead to another repository"),
    ("git --git-dir=x push", "may lead to another repository"),
    ("git -c core.sshCommand=x fetch", "can make git run other programs"),
    ("git -c user.name=x -c alias.a=!x a", "can make git run other programs"),
    ("git --exec-path=x push", "can make git run other programs"),
    ("git st", "alias or another program"),
    ("git lfs pull", "alias or another program"),
    ("git rebase -x make main", "can make git run other programs"),
    ("git rebase --exe=make main", "can make git run other programs"),
    ("git rebase -qi main", "can make git run other programs"),
    ("git rebase -i main", "runs an editor"),
    ("git rebase --continue", "to-do list"),
    ("git bisect run make", "can run other programs"),
    ("git submodule update --init", "runs git in submodules"),
    ("git config alias.x y", "can set programs"),
    ("git config --global user.name y", "can set programs"),
    ("git clone https://example.org/x", "can run other programs"),
    ("git commit -aS -m x", "signing program"),
    ("git tag -s v1 -m x", "signing program"),
    ("git branch --format '%(signature)'", "signing program"),
    ("git commit --no-verify -m x", "skips the repository's hooks"),
    ("git fetch ../other", "may be another repository"),
    ("git fetch ext::x", "may be another repository"),
    ("git push --receive-pac=x", "can run another program"),
    ("git push ext::x", "can run another program"),
    ("git remote add x ext::y", "can run another program"),
    ("git remote update", "use `git fetch`"),
    ("git remote add up ./up.git", "whose hooks would run"),
    ("git remote set-url origin up.git", "whose hooks would run"),
    ("git remote add up folder", "whose hooks would run"),
    ("git remote add up file:///srv/x", "whose hooks would run"),
    ("git remote add up helper::x", "can run another program"),
    ("git init --template=x", "installs hooks"),
    ("git add *.py", "write `--` before it"),
    ("git log --show-signature", "known to be read-only"),
    ("git diff --ext-diff", "known to be read-only"),
    ("GIT_PAGER=less git log", "known to be read-only"),
]


@pytest.mark.parametrize(("command", "why"), ASKED)
def test_other_calls_of_git_are_asked_about_for_a_reason(repository: Workspace, command: str, why: str) -> None:
    asked = build_permission_request(Bash(), {"command": command}, repository, "ask")
    assert decide(asked, policy(repository.root)).verdict == "ask"
    assert not runs_unsandboxed(asked, policy(repository.root))
    words = [word for word in parse_command_line(command).commands[0].words if not word.text.startswith("GIT_")]
    doubt = find_uncovered_git_word(words)
    assert doubt is not None
    assert why in doubt[1]


def test_a_rule_for_one_command_of_git_is_as_narrow_as_before(repository: Workspace) -> None:
    rules = Policy(str(repository.root), allow_rules=tuple(map(parse_rule, ("bash(git tag)", "bash(git fetch)"))))

    def verdict(command: str) -> str:
        return decide(build_permission_request(Bash(), {"command": command}, repository, "ask"), rules).verdict

    commands = ("git tag -l", "git tag v1", "git fetch origin", "git fetch origin a:b", "git push")
    assert [verdict(command) for command in commands] == ["allow", "ask", "allow", "ask", "ask"]


@pytest.mark.parametrize(
    "line", ["cd {} && git log -3", "git -C {} log -3", "cd {} && git  -C '{}' log", "git -C . log"]
)
def test_a_look_that_names_the_working_folder_is_run_as_a_look(repository: Workspace, line: str) -> None:
    command = line.replace("{}", str(repository.root))
    asked = build_permission_request(Bash(), {"command": command}, repository, "ask")
    ruling = decide(asked, Policy(str(repository.root)))
    assert (ruling.verdict, ruling.requires_read_only) == ("allow", True)
