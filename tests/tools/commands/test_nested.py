import pytest

from ebbtide.tools.commands.nested import (
    MAX_STRINGS,
    brace_expansions,
    command_variants,
    has_hidden_arguments,
    has_hidden_program,
    has_unparsed_strings,
)


@pytest.mark.parametrize(
    "text",
    [
        "$x", '"$x" a', "a=1 $x", "ls; $x", "ls | $x", "(ls; $x)", "{ $x; }", "! $x", "if $x; then ls; fi",
        "if ls; then $x; fi", "for i in a; do $x; done", "sudo $x", "env -i A=1 $x", "timeout 5 $x", "sudo -u me $x",
        "/bin/l? a", "l* a", "{ls,-l}", "$(echo ls)", "`echo ls`", "echo $($x)", 'echo "$(ls | $x)"', "cat <($x)",
        'eval "$x"', "eval 'ls; $x'", "trap '$x' EXIT", "bash -c '$x'", "sh -xc \"$x\"", "source <(ls)", ". $x",
        "echo bHM= | base64 -d | sh", "ls | /bin/bash", "bash <<< ls", "sh <<E\nls\nE", "xargs -I{} {} a", "ls 'open",
        "$(" * 50, "xargs env < f", "ls | parallel", "xargs -0 sudo", "ls | xargs sh", "xargs bash -c < f",
        "find . -exec $x ;", "find . -exec {} a ;", "find . -ok sh -c '$x' ;", "flock /tmp/l -c \"$x\"", "su -c '$x'",
        "script -qc \"$x\" f", "setpriv --no-new-privs $x", "systemd-run --user $x", "prlimit $x",
    ],
)  # fmt: skip
def test_a_command_whose_name_is_not_in_the_text_is_hidden(text: str) -> None:
    assert has_hidden_program(text)


@pytest.mark.parametrize(
    "text",
    [
        "ls *.c $x", "x=$(pwd); echo $x", "x=1 make", "for f in *.c; do echo \"$f\"; done", "[ -f $x ] && ls",
        "[[ $x == y ]] && ls", "if [ -n \"$x\" ]; then ls; fi", "while read -r x; do echo $x; done < f",
        "cat > f <<'E'\nit's $x\nE\nls", "git commit -m \"it's $x\"", "bash -c 'ls $x'", "source venv/bin/activate",
        "make 2>&1 | tail -3", "trap 'echo $x' EXIT", "sh build.sh $x", "timeout 5 pytest $x", "echo $((1 + 2))",
        "cd $(git rev-parse --show-toplevel) && ls", "awk '{print $1}' f | sort", "echo 'a; $x'",
        "ls | xargs", "ls | xargs wc -l", "ls | xargs -n1 bash -c 'echo $0'", "parallel make ::: a b",
        "find . -name $x -exec wc -l {} +", "find . -exec sh -c 'wc -l \"$0\"' {} ;", "flock /tmp/l make",
        "su -c 'make'",
    ],
)  # fmt: skip
def test_ordinary_scripts_hide_nothing(text: str) -> None:
    assert not has_hidden_program(text)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("git $x", True), ("git $(cat f) origin", True), ("git p*", True), ('git -c a=b "$x"', True),
        ("git -C $d", True), ("git -C d $x", True), ("ls | xargs git", True), ("xargs -n1 git < f", True),
        ("find . -exec git {} ;", True), ("cd a && git `b`", True), ("sh -c 'git $0' push", True),
        ("git push $x", False), ('git -C "$d" status', False), ("git --no-pager log $x", False), ("git", False),
        ("ls $x", False), ("ls | xargs git add", False), ('git commit -m "$x"', False),
    ],
)  # fmt: skip
def test_what_a_program_is_told_is_hidden_where_it_is_not_in_the_text(text: str, hidden: bool) -> None:
    assert has_hidden_arguments(text, "git") is hidden


def test_readings_are_with_what_braces_escapes_and_variables_stand_for() -> None:
    assert ("a1", "a2", "x") in command_variants("a{1,2} x")
    assert ("rm", "x") in command_variants("r${y}m$@ x")
    assert ("rm", "x") in command_variants("${y:-rm} x")
    assert ("rm", "x") in command_variants(r"printf '\162\x6d x' | sh")
    assert brace_expansions("{a,b}{c,d}") == ["ac", "ad", "bc", "bd"]
    assert len(brace_expansions("{a,b}" * 20)) == 8


def test_readings_go_into_whatever_may_be_a_command() -> None:
    found = set(command_variants("""a "$(b 'c d')" `e` 'f "g" h'"""))
    assert found >= {("b", "c d"), ("c", "d"), ("e",), ("f", "g", "h")}


def test_a_long_text_for_a_shell_is_not_read_and_hides_what_it_runs() -> None:
    text = f"bash -c 'echo {'a' * 2_000}; ls'"
    assert has_hidden_program(text)
    assert not has_hidden_program(text.replace("bash -c", "echo"))
    assert len(list(command_variants(text))) == 1


def test_beyond_some_texts_a_line_is_known_to_hold_more_than_was_read() -> None:
    texts = [f"'ls {number}; rm x'" for number in range(MAX_STRINGS)]
    whole, more = f"a {' '.join(texts)}", f"a {' '.join(texts)} 'rm y'"
    assert ("rm", "x") in command_variants(whole)
    assert [has_unparsed_strings(line) for line in (whole, more, "a " * 400)] == [False, True, False]
    assert has_unparsed_strings(f'bash -c "{more}"')


def test_of_many_texts_that_a_shell_runs_nobody_tells_what_they_run() -> None:
    texts = [f"'ls {number};'" for number in range(MAX_STRINGS)]
    assert [has_hidden_program(f"eval {' '.join(each)}") for each in (texts, [*texts, "'ls;'"])] == [False, True]
