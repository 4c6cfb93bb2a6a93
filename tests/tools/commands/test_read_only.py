"""Which command lines are proved to be one call that only looks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.commands.read_only import ReadOnlyCommand, holds_secrets, read_only_command


@pytest.mark.parametrize(
    ("line", "operands"),
    [
        ("ls", ()),
        ("ls -la src 'a b'", ("src", "a b")),
        ("ls -- -x", ("-x",)),
        ("pwd", ()),
        ("cat a.py", ("a.py",)),
        ("cat -n a.py ../b", ("a.py", "../b")),
        ("head -20 a", ("a",)),
        ("head -n 20 --quiet a", ("a",)),
        ("head -c1k a", ("a",)),
        ("wc -lw a b\n", ("a", "b")),
        ("rg total", ()),
        ("rg -n 'def .*' src tests", ("src", "tests")),
        ("rg -inA3 -e total -e '\\bsum' src", ("src",)),
        ("rg --files src", ("src",)),
        ("rg -g '*.py' -tmake --max-count=3 total src", ("src",)),
        ("rg -- --pre src", ("src",)),
        ("git status", ()),
        ("git status -sb --porcelain=v2 src", ("src",)),
        ("git --no-pager log --oneline -5", ()),
        ("git log -n 3 --since=2.weeks --format='%h %s' -- src", ("src",)),
        ("git log -S total main..dev", ("main..dev",)),
        ("git diff --cached --stat HEAD~1 -- a", ("HEAD~1", "a")),
        ("git diff -U10 'stash@{0}'", ("stash@{0}",)),
        ("git show HEAD:src/a.py", ("HEAD:src/a.py", "src/a.py")),
    ],
)
def test_what_only_looks_is_proved_with_the_files_that_it_names(line: str, operands: tuple[str, ...]) -> None:
    look = read_only_command(line)
    assert look is not None
    assert look.operands == operands


def test_the_program_gets_the_words_as_they_were_written() -> None:
    assert read_only_command("rg -n 'a  b' $'x' \"y\"") == ReadOnlyCommand("rg", ("-n", "a  b", "x", "y"), ("x", "y"))


REFUSED = {
    "nothing": ["", " ", "\n", "#", "ls\nls", "'ls'", "l\\s", "if", "git", "git --no-pager", "frobnicate a"],
    "what the shell makes of it": [
        "cat *", "cat a?", "cat [ab]", "cat {a,b}", "cat {1..3}", "cat $HOME/x", 'cat "$x"', "cat $(ls)", "cat `ls`",
        "cat <(ls)", "cat ~/x", "cat ~root/x", "cat ${x}", 'cat "$(ls)"', "cat $((1))", "cat $'a\\nb'", "cat $'\\0'",
    ],
    "more than one command": [
        "ls; ls", "ls && ls", "ls || ls", "ls | sh", "ls |& sh", "ls &", "(ls)", "{ ls; }", "! ls", "time ls",
        "cat a | head", "cd src && ls", "for x in a; do ls; done", "ls\nrm a", "coproc ls",
    ],
    "redirections": [
        "ls > a", "ls >> a", "ls 2>&1", "ls 2>/dev/null", "cat < a", "cat <<< a", "cat <<E\nx\nE", "ls >| a", "ls &> a",
        "ls <> a",
    ],
    "assignments": ["X=1 ls", "PATH=. ls", "LD_PRELOAD=./x ls", "GIT_EXTERNAL_DIFF=x git diff", "ls=1"],
    "another program": [
        "./ls", "/bin/ls", "../ls", "bin/cat a", "env ls", "sudo ls", "command ls", "exec ls", "busybox ls", "LS",
        "find", "sed -n 1p a", "tail a", "grep x a", "bash -c ls", "xargs ls", "less a",
    ],
    "what is typed": ["cat", "cat -", "cat a -", "head", "head -n 5", "wc", "wc -l", "rg x -", "rg", "rg -n"],
    "options that are not listed": [
        "ls --colour", "ls -I x", "ls --dired", "ls -Z", "cat --help", "cat --version", "cat -x a",
        "head --presume-input", "wc --files0-from=a", "wc --files0-from a", "wc --files0-f=a", "head -f a",
        "pwd a", "pwd -x", "head -n x a", "head -n -- a", "cat -n- a", "cat '' a",
    ],
    "options of rg that run, follow or open more": [
        "rg --pre ./x y", "rg --pre=./x y", "rg --pr=./x y", "rg --pre-glob a y", "rg -z y", "rg -nz y",
        "rg --search-zip y", "rg --hostname-bin ./x y", "rg --hostname-bin=./x y", "rg -f a", "rg -fa", "rg --file=a y",
        "rg --hidden y", "rg -. y", "rg -u y", "rg -uu y", "rg --no-ignore y", "rg -L y", "rg --follow y",
        "rg --ignore-file a y", "rg --ignore-file=a y", "rg --hyperlink-format=x y", "rg -e --pre=./x", "rg -e",
        "rg -A x y", "rg --debug y", "rg --type-add 'x:*' y", "rg --glob y x --pre=z", "rg --generate man",
    ],
    "git that is told what it is": [
        "git -c core.fsmonitor=x status", "git -C .. status", "git -C /etc log", "git --git-dir=x status", "git -p log",
        "git --work-tree=/ diff", "git --exec-path=. status", "git --config-env=a=b log", "git --bare log",
        "git --no-pager -c a=b log", "git --no-pager --no-pager log", "git --paginate log",
    ],
    "other commands of git": [
        "git push", "git commit -m x", "git config a b", "git branch x", "git checkout a", "git grep -O x", "git stash",
        "git st", "git blame a", "git fetch", "git archive HEAD", "git difftool", "git Status", "git rev-parse HEAD",
    ],
    "options of git that run, write or read more": [
        "git diff --ext-diff", "git log -p --ext-diff", "git diff --ext-d", "git diff --textconv",
        "git show --textconv", "git log --text", "git diff --output=a", "git diff --output a", "git log --output=a",
        "git diff --outp=a", "git diff --no-index a b", "git diff -O a", "git diff -Oa", "git diff --submodule",
        "git diff --submodule=diff", "git diff --ignore-submodules=none", "git log --show-signature",
        "git log --format=%G?", "git log --format=%GG",
        "git log --pretty='%h %+GS'", "git log --remerge-diff", "git show --remerge-diff", "git log -m -p",
        "git log --diff-merges=remerge", "git log --stdin", "git log --help", "git status --help", "git status -v",
        "git status --ignore-submodules=none", "git log -L1,2:a", "git diff --relative=..", "git log --author x -o a",
        "git diff --word-diff-regex=x", "git log --glob=x", "git diff --no-relative", "git log -S -o",
    ],
    "names that git reads in its own way": [
        "git diff :/", "git show :a", "git log -- ':(top)'", "git log -- ':!a'", "git show @:a",
        "git show ':(exclude)a'",
    ],
    "what nobody sees": ["ls \u200b", "cat a\u202eb", "ls \x1b", "cat a\rb", "cat a\0b", "cat \ud800", "ls\u00a0a"],
    "what is not closed": ["cat 'a", 'cat "a', "cat $(a", "cat `a"],
}  # fmt: skip


@pytest.mark.parametrize(
    "line", [pytest.param(line, id=f"{why}: {line!r}") for why in REFUSED for line in REFUSED[why]]
)
def test_anything_else_is_not_proved(line: str) -> None:
    assert read_only_command(line) is None


@given(
    st.sampled_from(["ls", "cat a", "rg x src", "git log", "git diff"]),
    st.sampled_from([" ", "\n", "\t"]),
    st.sampled_from([";", "&", "|", ">", "<", "(", ")", "$x", "`x`", "*", "?", "[a]", "{a,b}", "~", "\n", "\0"]),
    st.text("abx/ .-", max_size=5),
)
def test_no_sign_of_the_shell_is_proved_wherever_it_stands(start: str, gap: str, sign: str, end: str) -> None:
    assert read_only_command(f"{start}{gap}{sign}{end}x") is None


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "a/.env",
        "/p/.ENV",
        ".env.local",
        ".netrc",
        "id_rsa",
        "x/server.pem",
        ".ssh/config",
        ".aws",
        ".git/config",
    ],
)
def test_files_with_secrets_are_known_by_their_names(path: str) -> None:
    assert holds_secrets(path)


@pytest.mark.parametrize("path", ["a.py", ".env.example", "id_rsa.pub", "env", "src/keys.py", "config", ".git/HEAD"])
def test_other_files_are_not_taken_for_them(path: str) -> None:
    assert not holds_secrets(path)
