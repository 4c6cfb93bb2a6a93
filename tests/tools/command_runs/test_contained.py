"""Commands that are not proved run where they can only look, as in bash, and show no secret. It needs bubblewrap."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.tools.base import Result, Workspace
from ebbtide.tools.bash import Bash
from ebbtide.tools.command_runs.contained import contained_access
from ebbtide.tools.sandbox.sandbox import Sandbox
from ebbtide.tools.sandbox.system import sandbox_kind
from tests.kit.git import git
from tests.kit.programs import needs_ripgrep

pytestmark = pytest.mark.skipif(sandbox_kind() != "bubblewrap", reason="bubblewrap does not work here")


@pytest.fixture
def boxed(workspace: Workspace) -> Workspace:
    return replace(workspace, sandbox=Sandbox(workspace.root, workspace.outputs_folder / "tmp", has_network=False))


async def tried(boxed: Workspace, command: str) -> Result:
    """What the command gives when it is tried without approval."""
    seen = contained_access(command, boxed.root, boxed)
    assert seen is not None
    contained = replace(
        boxed, is_read_only=True, runs_in_read_only_sandbox=True, granted_paths=frozenset((command, *seen.paths))
    )
    return await Bash().run({"command": command}, contained)


def in_bash(line: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ("bash", "-c", line), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


@pytest.mark.parametrize(
    "line",
    [
        "diff <(sort a.py) b.py; echo $?",
        "comm -12 <(sort a.py) <(sort b.py | head -n 1)",
        "cat <(cat <(head -n 1 a.py)) b.py",
        "wc -l < <(cat a.py b.py)",
        "find . -name '*.py' -exec wc -l {} + | sort",
        "find . -name '*.py' -exec grep -n two {} \\; | sort",
        "find . -name '*.py' | sort | xargs grep -n two",
        "find . -type f -print0 | sort -z | xargs -0 head -n 1",
        "find . -name '*.py' | sort | xargs -I{} grep -c two {}",
        "grep -rl two . | sort | xargs cat",
        "find . \\( -name 'a.py' -o -name 'c.py' \\) -type f | sort | xargs grep -n two",
        "find . -path ./sub -prune -o -name '*.py' -print | sort | xargs head -n 1",
        "find . -name '*.py' | sort | while read -r f; do echo \"== $f\"; head -n 1 \"$f\"; done",
        "find . -name '*.py' | sort | while IFS= read -r f; do wc -l < $f; done",
        "ls | while read f; do wc -l $f; basename $f .py; done",
        "cat a.py | while IFS= read -r line; do echo \"<$line>\"; done",
        "while read -r first rest; do printf '%s|%s\\n' \"$first\" \"$rest\"; done < a.py",
        "while read -r x; do echo got $x; done < a.py",
        "while read -r x; do [ -n \"$x\" ] && echo yes || echo no; done < a.py",
        "for x in a.py b.py none; do cat $x; echo $?; done; echo \"end $?\"",
        "for x in *.py; do echo \"== $x\"; wc -c < $x; done | tail -n 2",
        "for i in {1..3} $(seq 2) 'a b' \"c  d\"; do echo \"$i\"; done",
        "for x in $(ls); do echo \"$x\"; wc -l \"$x\"; done",
        "for x in a b; do for y in 1 2; do echo $x$y; done; done",
        "for x in 1 2; do awk '{print $x}' a.py; done",
        "for x in a.py b.py\ndo\n  test -f $x || echo none\n  echo '$x' \"${x}\"\ndone",
        "set -e; for x in a.py none b.py; do cat $x; done; echo no",
        "{ echo a; echo b; } | cat",
        "(cd sub && ls); ls",
        "(exit 3); echo $?",
        "if [ -f a.py ]; then echo yes; else echo no; fi",
        "if grep -q nothing a.py; then echo yes; elif [ -f b.py ]; then echo b; else echo no; fi",
        "if ls none; then echo yes; fi; echo $?",
        "echo \"lines: $(wc -l < a.py)\" $(cat a.py)",
        "echo $((2 ** 10)) ${#HOME} $#; false | true; echo ${PIPESTATUS[0]}",
        "[ \"$(wc -l < a.py)\" -gt 1 ] && echo many",
        "LC_ALL=C sort a.py | head -n 1; TZ=UTC date -d @0 +%H",
        "wc -l *.py; grep -c two *.py; cat a.py | tee /dev/null",
        "echo \"$HOME\"; ls none || exit 3",
        "wc -l $(find . -name '*.py' | sort)",
        "for x in a b; do echo \"$x $x  $x\"; done",
        "cat a.py | while IFS=' ' read -r a b; do echo \"$b $a\"; done",
        "! grep -q nothing a.py && echo none; ! ls > /dev/null | wc -l; echo $?",
        "printf '%s,' $(ls); printf '%s\\n' *.py; for d in */; do echo \"$d $(ls \"$d\")\"; done",
        "ls | xargs -I{} echo 'file {}'; ls | xargs echo",
    ],
)  # fmt: skip
async def test_it_gives_what_bash_gives(boxed: Workspace, line: str) -> None:
    (boxed.root / "sub").mkdir()
    for name in ("a.py", "b.py", "sub/c.py"):
        (boxed.root / name).write_text(f"one {name}\ntwo  more words\n\n")
    result = await tried(boxed, line)
    ran = in_bash(line, boxed.root)
    assert result.program is not None
    assert (result.program.code, result.program.printed_text(result.text)) == (
        ran.returncode, ran.stdout.replace("bash: line 1", "/bin/bash: line 1").removesuffix("\n"),
    )  # fmt: skip
    assert not result.denied_access


@pytest.mark.parametrize(
    "line",
    [
        "find . -type f -exec cat {} +",
        "find . -exec grep -r '' {} +",
        "find . -exec grep '' {} \\;",
        "find . | xargs cat",
        "find . -name '*' -print0 | sort -z | xargs -0 head -n 3",
        "find . | grep -v nothing | xargs -I{} grep '' {}",
        "find . | while read -r x; do cat \"$x\"; done",
        "find . | while IFS= read -r x; do head -n 2 < \"$x\"; done",
        pytest.param("rg --files | xargs cat", marks=needs_ripgrep),
        pytest.param("rg -l '' | xargs cat", marks=needs_ripgrep),
        pytest.param("rg --files --hidden | while read x; do cat $x; done", marks=needs_ripgrep),
        "grep -rl '' . | xargs cat",
        "grep -rl '' | xargs sed -n 1,9p",
        "git ls-files -co | xargs cat",
        "git ls-files -z --others --cached | grep -z . | xargs -0 grep ''",
        "git ls-files -o | while read x; do cat \"$x\"; done",
    ],
)  # fmt: skip
async def test_names_that_are_passed_on_lead_to_no_link_and_to_no_secret(boxed: Workspace, line: str) -> None:
    root = boxed.root
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "key").write_text("SECRET of another folder\n")
    (root / "link").symlink_to(outside / "key")
    (root / "folder").symlink_to(outside)
    for name in (
        "plain",
        "a b",
        "-e",
        "--pre=x",
        f"x {outside / 'key'}",
        "x\nlink",
        "$(touch ran)",
        "`touch ran`",
        "*",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("shown\n")
    for name in (".env", ".ENV", "server.pem", ".ssh/id", ".git/config", "sub/.env.local", "sub/x .env"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("SECRET of this folder\n")
    if line.startswith("git"):
        (root / ".git" / "config").unlink()
        git(root, "init")
        git(root, "config", "url.SECRET.insteadOf", "x")
    text = (await tried(boxed, line)).text
    assert "SECRET" not in text
    assert not (root / "ran").exists()


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("find .git/config -type f | xargs cat", ".git/config"),
        ("for f in .env a; do cat $f; done", ".env"),
        ("diff <(sort .env) a", ".env"),
        ("echo \"$(cat .env)\"", ".env"),
        ("if [ -f a ]; then cat .env; fi", ".env"),
        ("while read x; do echo $x; done < .env", ".env"),
        ("f=.env; cat $f", ".env"),
        ("(cd .ssh && cat id)", ".ssh"),
        ("cat .en* | tac", ".env"),
        ("sed -n '1,5p;w/dev/stdout' keys", ".env"),
        ("find . -exec wc -l {} +", ""),
        ("ls -l .env | tac", ""),
    ],
)  # fmt: skip
def test_files_with_secrets_are_named_wherever_they_stand_in_a_line(boxed: Workspace, line: str, secret: str) -> None:
    for name in ("a", ".env", ".ssh/id", ".git/config"):
        (boxed.root / name).parent.mkdir(exist_ok=True)
        (boxed.root / name).write_text("")
    (boxed.root / "keys").symlink_to(".env")
    seen = contained_access(line, boxed.root, boxed)
    assert seen is None or seen.secret_path == secret
    assert seen is not None or "w/dev" in line


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("ls ../beside | tac", "../beside"), ("{ cat ../beside; }", "../beside"), ("cd .. && ls | tac", ".."),
        ("cd; ls | tac", "~"), ("ls ~ | tac", "~"), ("ls $HOME | tac", "~"), ("wc -l < ../beside | tac", "../beside"),
        ("for x in ../beside; do cat $x; done", "../beside"), ("x=..; ls $x/beside | tac", "../beside"),
        ("awk '{ n++ } END { print n }' ../beside", "../beside"), ("cat link | tac", "../beside"),
        ("cat ../b* | tac", ".."),
        ("grep -f ../beside a | tac", "../beside"), ("find -L .. -newer a | tac", ".."), ("ls / | tac", "/"),
        ("cd sub; cat ../a | tac", ""), ("cat a | tr / _ | tac", ""), ("sed 's#/usr/#x#' a", ""),
        ("cut -d/ -f1 a | tac", ""),
        ("awk '/etc/ { print }' a | tac", ""), ("grep -rn '../beside' . | tac", ""), ("echo a/../b ... | tac", ""),
    ],
)  # fmt: skip
def test_files_elsewhere_are_named_wherever_they_stand_in_a_line(
    boxed: Workspace, monkeypatch: pytest.MonkeyPatch, line: str, named: str
) -> None:
    root, home = boxed.root, boxed.root.parent / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (root / "sub").mkdir()
    (root / "a").write_text("")
    (root.parent / "beside").write_text("")
    (root / "link").symlink_to("../beside")
    seen = contained_access(line, root, boxed)
    assert seen is not None
    path = home if named == "~" else (root / named).resolve()
    assert set(seen.paths) - {str(root), str(root.parent)} <= ({str(path)} if named else set())
    assert not named or str(path) in seen.paths


def test_what_needs_more_than_the_system_or_other_variables_is_not_tried(
    boxed: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = tmp_path / "bin"
    own.mkdir()
    (own / "tokei").write_text("#!/bin/sh\n")
    (own / "tokei").chmod(0o755)
    monkeypatch.setenv("PATH", f"{own}:/usr/bin:/bin")
    monkeypatch.setenv("EBB_PASS_ENV", "TOKEN")
    monkeypatch.setenv("TOKEN", "x")
    lines = ("tokei | tac", "echo $TOKEN | tac", "nothing-there | tac")
    assert [contained_access(line, boxed.root, boxed) for line in lines] == [None, None, None]
    assert contained_access("echo $HOME | tac", boxed.root, boxed) is not None


async def test_variables_that_the_user_passes_on_are_not_there(
    boxed: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EBB_PASS_ENV", "TOKEN")
    monkeypatch.setenv("TOKEN", "kept")
    text = (await tried(boxed, "awk 'BEGIN { for (n in ENVIRON) print n, ENVIRON[n] }'")).text
    assert "PATH" in text
    assert "kept" not in text


@pytest.mark.parametrize("kind", ["none", "landlock"])
def test_without_bubblewrap_nothing_is_tried(boxed: Workspace, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr("ebbtide.tools.sandbox.system.sandbox_kind", lambda: kind)
    assert contained_access("ls | tac", boxed.root, boxed) is None
    assert contained_access("ls | tac", boxed.root, replace(boxed, sandbox=None)) is None


async def test_git_runs_nothing_of_the_repository_and_says_where_it_could_not_compare(boxed: Workspace) -> None:
    root = boxed.root
    git(root, "init")
    (root / "hook").write_text("#!/bin/sh\ntouch ran\n")
    (root / "hook").chmod(0o755)
    (root / "a").write_text("1\n")
    git(root, "add", "a")
    git(root, "config", "core.fsmonitor", "./hook")
    assert (await tried(boxed, "{ git status --short; } | tac")).text.startswith("?? hook\nA  a")
    (root / ".env").write_text("K=1\n")
    again = await tried(boxed, "{ git status --short; } | tac")
    assert "git would report hidden files with secrets as changed" in again.denied_access
    assert not (root / "ran").exists()
