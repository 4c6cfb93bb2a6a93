"""Commands that only look, run in repositories that want to run something: real programs, real git."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.tools.base import ReadOnlyAccess, Result, ToolError, Workspace
from ebbtide.tools.bash import Bash
from ebbtide.tools.command_runs.read_only import read_only_launch
from tests.kit.files import write_file, write_files, write_program
from tests.kit.git import git
from tests.kit.hostile_repository import forget_the_blob, hostile_repository, ran
from tests.kit.programs import needs_ripgrep

MORE = """
[log]
    showSignature = true
[format]
    pretty = "%h %G? %s"
[gpg]
    program = ROOT/signs-gpg
[gpg "ssh"]
    program = ROOT/signs-ssh
    allowedSignersFile = ROOT/a
[diff]
    submodule = diff
[status]
    submoduleSummary = true
[core]
    worktree = ELSEWHERE
"""
SIGNED = """tree {tree}
parent {parent}
author a <a@b> 1700000000 +0000
committer a <a@b> 1700000000 +0000
gpgsig -----BEGIN {kind} SIGNATURE-----
 x
 -----END {kind} SIGNATURE-----

signed
"""


async def looked(workspace: Workspace, command: str) -> Result:
    """What the call gives when it was allowed in plan mode."""
    seen = Bash().read_only_access({"command": command}, workspace)
    assert seen is not None
    allowed = replace(workspace, is_read_only=True, granted_paths=frozenset((command, *seen.paths)))
    return await Bash().run({"command": command}, allowed)


@pytest.fixture
def evil(workspace: Workspace) -> Path:
    """As other tests have it, with signatures to check, a folder elsewhere, and a submodule that is no better."""
    root = workspace.root
    inner, elsewhere = root / "inner", root.parent / "elsewhere"
    for folder in (inner, elsewhere):
        folder.mkdir()
    (elsewhere / "a").write_text("of somebody else\n")
    git(inner, "init")
    (inner / "x").write_text("1\n")
    git(inner, "add", ".")
    git(inner, "commit", "-m", "inside")
    hostile_repository(root)
    (root / ".gitmodules").write_text('[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n\tignore = none\n')
    parent = git(root, "-c", "core.fsmonitor=false", "rev-parse", "HEAD")
    for kind in ("PGP", "SSH"):
        tree = git(root, "rev-parse", f"{parent}^{{tree}}")
        text = SIGNED.format(tree=tree, parent=parent, kind=kind)
        parent = git(root, "hash-object", "-t", "commit", "-w", "--stdin", stdin=text)
    (root / ".git" / "refs" / "heads" / "main").write_text(f"{parent}\n")
    with (inner / ".git" / "config").open("a") as config:
        config.write(
            '[core]\n\tfsmonitor = "touch ../RAN-inside; false"\n[diff]\n\texternal = "touch ../RAN-inside; true"\n'
        )
    (inner / "x").write_text("2\n")
    for path in root.parent.rglob("RAN-*"):
        path.unlink()
    with (root / ".git" / "config").open("a") as config:
        config.write(MORE.replace("ROOT", str(root)).replace("ELSEWHERE", str(elsewhere)))
    for name in ("gpg", "ssh"):
        write_program(root / f"signs-{name}", f"touch {root}/RAN-{name}\n")
    return root


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("git status", "modified:   a"),
        ("git status -s --untracked-files=all", " M a"),
        ("git diff", "-one\n+two"),
        ("git diff --stat HEAD", "a | 2 +-"),
        ("git diff HEAD -- a b c", "+two"),
        ("git log", "signed"),
        ("git --no-pager log -p --all", "+one"),
        ("git log -G one --oneline", "first"),
        ("git show HEAD~2", "+one"),
        ("git show HEAD~2:a", "one"),
    ],
)
async def test_a_repository_has_nothing_run_when_git_looks(
    workspace: Workspace, evil: Path, command: str, message: str
) -> None:
    os.utime(evil / "same", (1_000_000_000, 1_000_000_000))  # git would note the new time in the index
    index = (evil / ".git" / "index").read_bytes()
    result = await looked(workspace, command)
    assert (result.has_failed, message in result.text, ran(evil.parent)) == (False, True, set())
    assert "somebody else" not in result.text
    assert (evil / ".git" / "index").read_bytes() == index


@pytest.fixture
def moved(workspace: Workspace) -> Path:
    """A repository with a submodule that has programs to run, is at another commit than recorded, and changed."""
    root, library = workspace.root, workspace.root.parent / "library"
    for folder in (root, library):
        folder.mkdir(exist_ok=True)
        git(folder, "init")
    (library / "x").write_text("1\n")
    git(library, "add", ".")
    git(library, "commit", "-m", "first")
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", str(library), "inner")
    git(root, "commit", "-m", "with a submodule")
    git(root / "inner", "commit", "--allow-empty", "-m", "second")
    module = root / ".git" / "modules" / "inner"
    with (module / "config").open("a") as config:
        config.write(f'[core]\n\tfsmonitor = "touch {root}/RAN-inside; false"\n')
        config.write(f'[filter "f"]\n\tclean = touch {root}/RAN-filter; cat\n')
    write_file(module / "info" / "attributes", "x filter=f\n")
    (root / "inner" / "x").write_text("2\n")
    return root


@pytest.mark.parametrize(
    ("command", "line_printed"),
    [
        ("git status", "modified:   inner (new commits)"),
        ("git status --porcelain", " M inner"),
        ("git diff", "+Subproject commit"),
        ("git diff --stat HEAD", "inner | 2 +-"),
    ],
)
async def test_a_submodule_at_another_commit_is_shown_and_nothing_of_it_is_run(
    workspace: Workspace, moved: Path, command: str, line_printed: str
) -> None:
    result = await looked(workspace, command)
    assert (line_printed in result.text, ran(moved.parent)) == (True, set())
    assert result.text.endswith("exit code 0\nnot shown: uncommitted changes inside submodules (inner)")


def test_a_look_at_what_is_uncommitted_in_a_submodule_would_have_run_its_programs(moved: Path) -> None:
    git(moved, "status", "--ignore-submodules=untracked")
    assert ran(moved.parent) == {"inside", "filter"}


@pytest.mark.parametrize("command", ["git diff --cached", "git log", "git branch", "ls"])
async def test_what_does_not_look_at_files_says_nothing_of_submodules(
    workspace: Workspace, moved: Path, command: str
) -> None:
    assert "not shown" not in (await looked(workspace, command)).text


def test_the_same_questions_have_it_run_in_a_shell_of_the_user(evil: Path) -> None:
    config = evil / ".git" / "config"
    config.write_text(config.read_text().replace("worktree = ", "other = ").replace("process =", "other ="))
    for command in ("git status", "git diff a", "git log -1", "git log -1 HEAD~1", "git diff HEAD~2 -- b"):
        subprocess.run(["bash", "-c", command], cwd=evil, capture_output=True, check=False)
    assert ran(evil.parent) >= {"monitor", "hook", "clean", "external", "gpg", "ssh", "inside"}


@pytest.mark.parametrize("has_broken_one", [False, True])
async def test_git_compares_no_folders_that_it_does_not_keep(workspace: Workspace, has_broken_one: bool) -> None:
    for name in ("one", "two"):
        write_file(workspace.root / name / ".env", f"KEY={name}")
    if has_broken_one:
        git(workspace.root.parent, "init")
        (workspace.root / ".git").mkdir()
    with pytest.raises(ToolError, match="git was not run: this folder is not in a git repository"):
        await looked(workspace, "git diff one two")


async def test_what_is_not_there_any_more_is_not_fetched(workspace: Workspace, evil: Path) -> None:
    forget_the_blob(evil)
    assert (await looked(workspace, "git show HEAD~2:a")).has_failed
    assert ran(evil.parent) == set()


async def test_programs_that_lie_in_the_folder_are_passed_over(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = workspace.root
    git(root, "init")
    for name in ("ls", "cat", "git"):
        write_program(root / name, "touch RAN-own\n")
    (root.parent / "link").symlink_to(root)
    monkeypatch.setenv("PATH", f"{root}:.::{root.parent / 'link'}:{os.environ['PATH']}")
    assert not read_only_launch("git status", workspace).argv[0].startswith(str(root.parent))
    assert (await looked(workspace, "ls cat")).text == "cat\nexit code 0"
    assert ran(root) == set()
    monkeypatch.setenv("PATH", str(root))
    with pytest.raises(ToolError, match="no program `ls` outside the working folder"):
        await looked(workspace, "ls")


async def test_nothing_is_left_to_a_shell(workspace: Workspace) -> None:
    (workspace.root / "$(touch RAN-shell);*").write_text("text")
    assert (await looked(workspace, "cat '$(touch RAN-shell);*'")).text == "text\nexit code 0"
    assert ran(workspace.root) == set()


async def test_a_link_that_is_put_there_after_the_permission_is_not_followed(workspace: Workspace) -> None:
    (workspace.root / "a").write_text("mine")
    seen = Bash().read_only_access({"command": "cat a"}, workspace)
    assert seen == ReadOnlyAccess("read", (str(workspace.root / "a"),))
    (workspace.root / "a").unlink()
    (workspace.root / "a").symlink_to("/etc/passwd")
    allowed = replace(workspace, is_read_only=True, granted_paths=frozenset(seen.paths))
    with pytest.raises(ToolError, match="not where the path led when it was approved"):
        await Bash().run({"command": "cat a"}, allowed)


@needs_ripgrep
def test_what_a_command_shows_is_where_its_names_lead(workspace: Workspace) -> None:
    root = workspace.root
    (root / "out").symlink_to("/etc")
    (root / "key").symlink_to(".env")
    (root / "@a").write_text("")

    def seen(command: str, **more: object) -> ReadOnlyAccess | None:
        return Bash().read_only_access({"command": command, **more}, workspace)

    assert seen("ls") == ReadOnlyAccess("read", (str(root),))
    assert seen("cat out/passwd") == ReadOnlyAccess("read", ("/etc/passwd",))
    assert seen("cat ../x @a file:b") == ReadOnlyAccess(
        "read", (str(root.parent / "x"), str(root / "@a"), str(root / "file:b"))
    )
    assert seen("cat a key") == ReadOnlyAccess("read", (str(root / "a"), str(root / ".env")), ".env")
    assert seen("rg x") == ReadOnlyAccess("grep", (str(root),))
    with pytest.raises(ToolError, match="not in a git repository"):
        seen("git status")
    (root / ".git").mkdir()
    assert seen("git show HEAD:.env") == ReadOnlyAccess(
        "grep", (str(root / "HEAD:.env"), str(root / ".env"), str(root)), "HEAD:.env"
    )
    assert seen("ls", workdir=str(root)) == seen("ls")
    for more in ({"background": True}, {"terminal": True}, {"job": "job-1"}, {"workdir": "/"}):
        assert seen("ls", **more) is None


@pytest.mark.parametrize(
    ("line", "is_outside"),
    [
        ("cd sub && cat ../a", False),
        ("cd sub && ls | wc -l && cat ../a", False),
        ("cd sub; cat ../a", True),  # where `cd` fails it is read from the working folder
        ("cd sub\ncat ../a", True),
        ("cd sub || cat ../a", True),
        ("cd sub | cat ../a", True),  # each part of a pipe has a folder of its own
        ("cd sub && ls; cat ../a", True),
    ],
)
def test_what_is_read_behind_cd_is_also_sought_from_where_a_failed_cd_leaves_it(
    workspace: Workspace, line: str, is_outside: bool
) -> None:
    seen = Bash().read_only_access({"command": line}, workspace)
    assert seen is not None
    assert (str(workspace.root.parent / "a") in seen.paths, str(workspace.root / "a") in seen.paths) == (
        is_outside,
        True,
    )


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ('cat none 2>/dev/null; echo "rc=$?" $?', "rc=1 1\n"),
        ("echo *.txt; ls -d */", "-l.txt a.txt\nsub/\n"),
    ],
)
async def test_what_a_shell_makes_of_a_line_holds_where_it_only_looks(
    workspace: Workspace, line: str, printed: str
) -> None:
    write_files(workspace.root, {"a.txt": "1\n", "-l.txt": ""})
    (workspace.root / "sub").mkdir()
    result = await looked(workspace, line)
    assert printed in result.text


def test_a_drive_is_not_a_name_in_the_folder(workspace: Workspace) -> None:
    with pytest.raises(ToolError, match="drive"):
        Bash().read_only_access({"command": "cat C:\\\\Windows\\\\win.ini"}, workspace)


async def test_a_command_that_begins_in_a_folder_looks_there(workspace: Workspace) -> None:
    root = workspace.root
    write_files(root, {"sub/a": "inside\n", "sub/.env": "KEY=1\n"})
    arguments = {"command": "cat a", "workdir": "sub"}
    seen = Bash().read_only_access(arguments, workspace)
    assert seen == ReadOnlyAccess("read", (str(root / "sub"), str(root / "sub" / "a")))
    assert Bash().read_only_access({"command": "git status", "workdir": "sub"}, workspace) is None
    allowed = replace(workspace, is_read_only=True, granted_paths=frozenset(seen.paths))
    assert (await Bash().run(arguments, allowed)).text == "inside\nexit code 0"
    arguments = {"command": "grep -r i . | sort", "workdir": "sub"}
    seen = Bash().read_only_access(arguments, workspace)
    assert seen == ReadOnlyAccess("grep", (str(root / "sub"), str(root)))
    allowed = replace(workspace, is_read_only=True, granted_paths=frozenset(seen.paths))
    assert (await Bash().run(arguments, allowed)).text == "./a:inside\nexit code 0"


LINES_OF = ("shallow", "packed-refs", "info/grafts", "objects/info/alternates", "BISECT_START", "rebase-merge/done")


@pytest.mark.parametrize("name", LINES_OF)
def test_a_link_among_the_metadata_is_shown_where_it_leads(workspace: Workspace, name: str) -> None:
    """Git tells lines of such a file where they are not what it expects."""
    root, secret = workspace.root, workspace.root.parent / "secret"
    git(root, "init")
    secret.write_text("of somebody else\n")
    for command in ("git status", "git log", "cat a && git diff"):
        access = Bash().read_only_access({"command": command}, workspace)
        assert access is not None
        assert str(secret) not in access.paths
    link = root / ".git" / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(secret)
    for command in ("git status", "git log", "cat a && git diff"):
        access = Bash().read_only_access({"command": command}, workspace)
        assert access is not None
        assert str(secret) in access.paths


INCLUDES = (
    "[include]\n\tpath = ../../secret\n",
    '[includeIf "gitdir:/"] path = "../../secret" ; of all\n',
    '[core][Include]PATH=..\\\n/../se"cr"et # a remark\n',
    "# a remark \\\n[include]\npath=../../secret",
)


@pytest.mark.parametrize("written", INCLUDES)
def test_settings_that_a_repository_includes_are_shown(workspace: Workspace, written: str) -> None:
    """Git tells a line of such a file that is no setting."""
    root, secret = workspace.root, workspace.root.parent / "secret"
    git(root, "init")
    secret.write_text("of-somebody-else\n")
    (root / ".git" / "config").write_text(written)
    errors = subprocess.run(["git", "status"], cwd=root, capture_output=True, text=True, check=False).stderr
    access = Bash().read_only_access({"command": "git status"}, workspace)
    assert ("of-somebody-else" in errors, access is not None and str(secret) in access.paths) == (True, True)


def test_settings_too_long_to_be_looked_at_may_show_everything(workspace: Workspace) -> None:
    git(workspace.root, "init")
    (workspace.root / ".git" / "config").write_text(f"#{'x' * (1 << 20)}\n[include]\npath = /etc/passwd\n")
    access = Bash().read_only_access({"command": "git status"}, workspace)
    assert access is not None
    assert "/" in access.paths


async def test_commits_that_are_to_be_left_out_of_a_blame_are_read_from_no_file(workspace: Workspace) -> None:
    root, secret = workspace.root, workspace.root.parent / "secret"
    secret.write_text("of somebody else\n")
    git(root, "init")
    (root / "a").write_text("1\n")
    git(root, "add", "a")
    git(root, "commit", "-m", "one")
    git(root, "config", "blame.ignoreRevsFile", str(secret))
    assert "of somebody else" not in (await looked(workspace, "git blame a")).text


def test_a_repository_around_the_folder_is_shown_by_git_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "part").mkdir()
    inside = Workspace((tmp_path / "part").resolve(), tmp_path / "outputs")
    assert Bash().read_only_access({"command": "git log"}, inside) == ReadOnlyAccess("grep", (str(tmp_path.resolve()),))


async def test_a_search_leaves_out_what_holds_secrets_whatever_it_is_told(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    write_program(programs / "rg", 'printf "%s\\n" "$RIPGREP_CONFIG_PATH" "$@"\n')
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", "/x")
    monkeypatch.setenv("EBB_PASS_ENV", "RIPGREP_CONFIG_PATH")
    given = (await looked(workspace, "rg -g '*' KEY -- src")).text.split("\n")
    assert given[:5] == ["", "-g", "*", "KEY", "--no-config"]
    assert (given[5][:9], "--iglob=!**/.env*" in given, given[-3:]) == (
        "--iglob=!", True, ["--", "src", "exit code 0"]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("cat .[e]nv", None),
        ("grep -r -- *", None),
        ("cat */id", ""),
        ("cat .*/id", ".ssh/id"),
    ],
)  # fmt: skip
def test_files_with_secrets_are_named_wherever_they_stand_in_a_line(
    workspace: Workspace, line: str, secret: str | None
) -> None:
    root = workspace.root
    write_files(root, ("a", ".env", ".ssh/id", ".git/config", "sub/id"))
    try:
        seen = Bash().read_only_access({"command": line}, workspace)
    except ToolError:
        seen = None
    assert (seen.secret_path if seen is not None else None) == secret


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("cat sub/*/d.txt", "deep\n"),
        ("cd {root} && ls", "a.txt\n"),
    ],
)  # fmt: skip
async def test_patterns_and_folders_give_what_they_give_in_a_shell(
    workspace: Workspace, line: str, printed: str
) -> None:
    root = workspace.root
    (root / "sub" / "deeper").mkdir(parents=True)
    for name, text in (("a.txt", "one\n"), ("a b", "1\n"), ("-l", "2\n"), ("sub/deeper/d.txt", "deep\n")):
        (root / name).write_text(text)
    result = await looked(workspace, line.replace("{root}", str(root)))
    assert printed.replace("{root}", str(root)) in result.text
