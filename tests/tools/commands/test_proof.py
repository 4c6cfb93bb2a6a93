"""Options and arguments with which a program that looks does more."""

import pytest

from ebbtide.tools.commands.proof import check_read_only
from tests.kit.recorded_bash import simple_commands


def beyond(text: str) -> int | None:
    (command,) = simple_commands(text)
    proof = check_read_only(command.words, has_input=True)
    return proof.last_unproved_index if proof is not None else None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("find src -delete", 2), ("find src '-ex'ec ls \\;", 2), ("find -- -fls x", 2), ("find ?", 1),
        ("/usr/bin/find src -ok ls", 2), ("fdfind -Hx ls", 1), ("fd a --exec=ls", 2),
        ("rg --pre=./x a", 1), ("rg -nz a", 1), ("rg --hostname-bin ./x a", 1), ("rg a *", 2), ("sort -uo f f", 1),
        ("sort --outp=f f", 1), ("sort f --compress-program=./x", 2), ("uniq a b", 2), ("xxd -l 16 a b", 4),
        ("tree -o f", 1), ("date -s 0", 2),
        ("file -C -m f", 2), ("tar xIf ./x a.tar", 1), ("tar -xf a.tar --to-command=./x", 3),
        ("tar --use-compress=./x -xf a", 1), ("ps auxe", 1), ("git diff --output=f", 2), ("git log --outp f", 2),
        ("git show --ext-diff", 2), ("git diff --textconv", 2), ("git grep -Ols x", 2), ("git grep -nO x", 2),
        ("git grep --open-files-in-pager=./x a", 2), ("git fetch --upload-pack=./x .", 2),
        ("git ls-remote ext::./x", 2),
        ("git archive --remote=. HEAD", 2), ("git archive --format=x HEAD", 2), ("git archive --format x", 2),
        ("ps -eo environ", 2), ("git branch -vD x", 3), ("git branch new", 2), ("git -c a.b=c status", 1),
        ("git --git-dir=x status", 1), ("git --exec-path=. x", 2), ("git --exec-path=. add", 1), ("git -p log", 1),
        ("git diff *", 2),
        ("awk 'BEGIN { system(\"ls\") }'", 1), ("awk '{ print > \"f\" }' g", 1), ("gawk -f x g", 2),
        ("awk 1 /inet/tcp/0/h/80", 2),
        ("awk '{ \"ls\" | getline }' g", 1), ("sed -i s/a/b/ f", 1), ("sed -ni 1p f", 1), ("sed --in-place=.o p f", 1),
        ("sed 's/a/b/w f' g", 1), ("sed 's/a/b/e' g", 1), ("sed -n '1e ls' g", 2), ("sed 'w f' g", 1),
        ("sed -f x g", 2),
        ("sed -n -e 1p -e 'w f' g", 5), ("sed -e1p -e'1w f' g", 2), ("sed '1r /etc/hosts' g", 1),
        ("printf -v 'a[$(ls)]' x", 1), ("printf '%n' 'a[$(ls)]'", 2),
        ("wc *", 1), ("sort *.c -", 1), ("head -*", 1), ("rg --pre-glob x a", 1), ("test -v 'a[`ls`]'", 2),
        ("awk '{ print 1,\n2 > \"f\" }' g", 1), ("awk 'BEGIN { print 1 ||\n2 > \"f\" }'", 1),
        ("gawk 'BEGIN { print 1 ? 2 :\n3 > \"f\" }'", 1), ("awk -v f=x '{ print /;/ > f }' g", 3),
        ("awk -v x=* '{ print }' g", 2), ("awk -F * '{ print }' g", 2),
        ("printf x*", 1), ("printf -- *", 2), ("uniq f*", 1), ("uniq -- *", 2), ("xxd a/*", 1), ("jq -n e*", 2),
        ("git symbolic-ref x*", 2), ("git branch -- new --list", 4), ("find . -newer x*", 3), ("find . -name *", 3),
        ("find . -name [.]*", 3),
        ("sed 's/[/]/;s/e;/x/p' g", 1), ("sed '/[/]/{;s/w f;/p}' g", 1), ("sed 's|[^]*|.]|;y|e;=]|/]|' g", 1),
        ("sed 's/[[.].]/]/;s/e;/x/p' g", 1), ("sed 's:[[:x:]:]:;s:e;/x/p' g", 1), ("sed 's/\\c[[]/]/p' g", 1),
        ("awk 'BEGIN { print \"\"system(\"ls\") }'", 1), ("awk '{ $system(\"ls\") }' g", 1),
        ("awk -v c=ls '{ print 1system(c) }' g", 3), ("awk -v c=f '{ print 1e5getline < c }' g", 3),
        ("awk '{ print $ENVIRON[\"A\"] }' g", 1), ("awk -v c=ls '/[/],/{system(c)} /a/' g", 3),
        ("awk -v c=ls 'x=/a,/ {system(c)} /b/' g", 3), ("awk -v c=ls '{ if (1) /a,/; system(c); /b/ }' g", 3),
        ("awk -v c=ls '{ x++ /a,/; system(c); /b/ }' g", 3), ("awk -v c=ls '{ print /a,/; system(c); /b/ }' g", 3),
        ("awk -v c=f '{ print $1/2 > c }' g", 3), ("awk '{ system\t(\"ls\") }' g", 1),
        ("jq --arg x", 1), ("jq --arg x *", 1), ("git log --output-x", 2), ("git diff --relative=..", 2),
        ("git log -L *", 3), ("sed -n 'a\\\ne ls' f", 2), ("sed '1i x\ne' f", 1),
        ("tree -Po '*' f", 1), ("tree -Io x f", 1), ("tree -LP 2 f", 1),
        ("ps -axe", 1), ("ps -e -x", 1), ("ps -eux", 1), ("ps -auxe", 1),
        ("tar -xPf a.tar", 1), ("tar -cf - .", 2), ("tar cf a*", 2),
        ("git fetch origin main:main", 3), ("git fetch https://h/x", 2), ("git fetch h:x", 2), ("git fetch e*", 2),
        ("git ls-remote -- *", 3), ("jq -n '$__prog_args'", 2),
        ("sed 's/a/b/;1{w f\n}' g", 1), ("sed 's/a;p;/x/w f' g", 1), ("sed '{p;e ls\n}' g", 1),
        ("sed 'y/a/b/w f' g", 1),
        ("sed 's/a/b/ w f' g", 1), ("sed 'pw f' g", 1), ("sed '1{p}w f' g", 1), ("sed -n -- 'w f' g", 3),
        ("sed '' g", 1),
        ("sed 'lw f' g", 1), ("sed 's{p{w f{' g", 1), ("sed '/a\\\\/w f' g", 1), ("sed 's/a/b/\ne' g", 1),
        ("jq -n env", 2), ("jq '.a|env' f", 1), ("jq '\"\\(env)\"' f", 1), ("jq '[env]' f", 1), ("jq '$ENV.x' f", 1),
        ("git lg", 1), ("git p4 clone x", 1), ("git merge-index ./x -a", 1), ("git pull --upload-pa=./x .", 2),
        ("git push --rec ./x", 2), ("git pull --upload-pack ./x", 2), ("git -C x lg", 3),
    ],
)  # fmt: skip
def test_it_is_found_where_it_stands(text: str, place: int) -> None:
    assert beyond(text) == place


@pytest.mark.parametrize(
    "text",
    [
        "find . -name '*.c' -type f", "fd -e c x", "rg -n 'a|b' src", "rg -- --pre src", "sort -k 1 f", "sort -- -o",
        "uniq -c f", "xxd -l 16 f", "tree -L 2", "date +%s", "file f", "tar tf a.tar", "ps aux", "ps -ef",
        "ps -o pid,etime", "git archive --format=zip HEAD", "git diff HEAD~1 -- '*.c'", "git diff -- *.c",
        "git log --oneline -5", "git log --pretty=%s", "git grep -n x", "git branch", "git branch -a",
        "git branch --contains x", "git status -sb", "git --no-pager log", "git push -f", "awk '{print $1}' f",
        "sed -n 1,5p f", "sed -n '/a/,$p' f", "sed -e 5q f", "sed '/^$/d' f", "printf '%s[0]' x", "echo -exec",
        "./find.sh -delete", "awk -F, '{ print $1 }' src/*.csv", "printf '%s\\n' a*", "find . -name *.py",
        "find . -iname read*", "find . -name '*' -o -path ./a.*", "grep -e -x f", "rg -e --pre src",
        "git grep -e --output src", "head -n -5 f", "ps -eo pid,comm", "ps -aux", "tar -xzf a.tgz -C out",
        "tar -czf out.tgz src a*", "tar xf a.tar", "git fetch --all", "git fetch origin main",
        "git pull --rebase --autostash", "git push -u origin main", "git commit --amend --no-edit", "git add --all",
        "sed -n 1,5p -- f", "tree -L2 -I a", "jq .env f", "jq '.a.env.b' f", "jq '.[\"env\"]' f", "jq '.include' f",
        "ls *", "cat *.c", "head -n 3 *.md", "ls -I '*.pyc' -Z", "rg -uu x", "rg --hidden -j2 x", "rg -. x",
        "git log -L1,2:a", "git diff -M90% -C", "git diff --relative", "git log -m -c", "git log HEAD@{1}..",
        "git diff @{u}..", "git grep -e a --and --not -e b", "jq --arg x -y '.a == $x' f", "fd -e py",
        "sort --parallel=2 f", "tree --filesfirst --charset ascii", "git switch -c x", "git cherry-pick x",
    ],
)  # fmt: skip
def test_looking_is_left_alone(text: str) -> None:
    assert beyond(text) is None
