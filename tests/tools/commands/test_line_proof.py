"""Lines with loops, groups and substitutions in them, and with names that one program passes on to another, that could
do more than look: none is proved."""

import pytest

from ebbtide.tools.commands.line_proof import prove_line

REFUSED = {
    "process substitution": r"""
diff <(rm a) b
diff <(sort -o b a) b
diff <(sort a > b) c
diff <(sort a >> b) c
diff <(curl x) b
diff <(PATH=. sort a) b
diff <(./sort a) b
diff <(sort $IFS a) b
diff <(sort $(rm x)) b
diff <(sort `rm x`) b
diff <(sort a; rm b) c
diff <(sort a | sh) b
diff <(sort a & rm b) c
diff <(sort a) > b
diff <(sort a) >(cat)
diff >(sort a) b
diff <(eval x) b
diff <(. a) b
diff <(exec ls) b
diff <(f() { rm a; }; f) b
diff <(alias ls=rm; ls a) b
diff <(trap ls EXIT) b
diff <(cat <(rm a)) b
diff <(cat <(cat <(cat <(cat <(cat <(cat <(ls))))))) b
diff <() b
diff <(# x) b
diff <(<a) b
<(ls)
<(ls) a
bash <(echo rm a)
bash -n <(ls)
sh <(ls)
. <(ls)
source <(ls)
python3 <(ls)
awk -f <(ls) a
awk 1 <(rm a)
sed -f <(ls) a
grep -f <(ls) a
sort -T <(ls) a
sort -o<(ls) a
uniq a <(ls)
xxd a <(ls)
cd <(ls)
find <(ls) -delete
find <(ls)
git diff --no-index <(ls) a
git log <(ls)
rg x <(ls)
cat a<(ls)
cat <(ls)a
cat "<(ls)" <(rm x)
cat < <(rm a)
cat < <(ls) > b
wc --files0-from=<(ls)
xargs rm < <(ls)
xargs cat < <(ls)
tee <(ls)
exec 3< <(ls)
jq -n -f <(ls)
cut -f1 <(ls) --output-delimiter <(rm a)
tar -tf <(ls)
echo <(ls)
printf %s <(ls)
test -f <(ls)
""",
    "find -exec": r"""
find . -exec rm {} +
find . -exec sh -c 'cat "$1"' _ {} \;
find . -exec sort -o {} {} \;
find . -exec cat {} + -delete
find . -exec cat {} \; -exec rm {} \;
find . -delete -exec cat {} +
find . -fprintf a x -exec cat {} +
find . -fls a -exec cat {} +
find . -execdir cat {} +
find . -ok cat {} \;
find . -exec {} +
find . -exec {} \;
find . -exec cat /etc/{} +
find . -exec cat x{} +
find . -exec cat {} {} +
find . -exec grep x {}.bak {} +
find . -exec grep -e {} +
find . -exec grep -f {} a \;
find . -exec grep -r x {} +
find . -exec head -n {} +
find . -exec sed -i s/a/b/ {} +
find . -exec sed -n 'w x' {} +
find . -exec sed {} a +
find . -exec awk {} +
find . -exec awk '{ system($0) }' {} +
find . -exec xargs cat {} +
find . -exec env cat {} +
find . -exec ./cat {} +
find . -exec /bin/cat {} +
find . -exec bin/cat {} +
find . -exec $x {} +
find . -exec 'cat {}' +
find . -exec wc --files0-from={} +
find . -exec wc --files0-from {} +
find . -exec ls {} + > a
find . -exec cat {} + | sh
find . -exec tee {} +
find . -exec cp {} x \;
find . -exec git log {} +
find . -exec git diff {} +
find . -exec find {} -delete \;
find . -exec rg --pre x {} +
find . -exec du --files0-from={} +
find . -exec file -C -m {} +
find . -exec stat {} + -fprint x
find . -exec cat *.c {} +
find . -exec cat $IFS {} +
find -L . -exec cat {} +
find -files0-from a -exec cat {} +
find . -exec bash {} \;
find . -exec source {} \;
find . -exec test -f {} \;
find . -exec printf {} \;
find . -exec cat {} ';' -print -delete
find . -exec cat -- {} +
find . -exec nl - {} +
find . -exec sort -T {} +
find . -exec sort --compress-program=./x {} +
find . -exec sort --files0-from={} +
cd .git && find . -exec cat {} +
cd sub && find . -exec ls {} +
PATH=. find . -exec cat {} +
find . -exec cat {} +; rm a
""",
    "xargs": r"""
ls | xargs cat
ls -a | xargs grep x
cat list | xargs cat
echo /etc/passwd | xargs cat
printf '/etc/passwd\0' | xargs -0 cat
find . -printf '/etc/passwd\n' | xargs cat
find . -printf '%l\n' | xargs cat
find . -ls | xargs cat
git ls-files -s | xargs cat
git ls-files -t | xargs cat
git ls-files --format=%(path) | xargs cat
git diff | xargs cat
git diff --name-status | xargs cat
git diff --name-only --output=x | xargs cat
git log --name-only | xargs cat
git status -s | xargs cat
fd x | xargs cat
find . | sed s/a/b/ | xargs cat
find . | awk '{print $1}' | xargs cat
find . | cut -c2- | xargs cat
find . | tr . / | xargs cat
find . | head -c 20 | xargs cat
find . | tail -c 9 | xargs cat
find . | grep -o '[^.]*' | xargs cat
find . | grep -n x | xargs cat
find . | grep -c x | xargs cat
find . | grep -H x | xargs cat
find . | grep -A1 x | xargs cat
find . | grep x list | xargs cat
find . | sort list - | xargs cat
find . | sort -k2 | xargs cat
find . | uniq -c | xargs cat
find . | rev | xargs cat
find . | xargs -d '\n' cat
find . | xargs -L1 cat
find . | xargs -I{} cat {}x
find . | xargs -I{} cat /etc/{}
find . | xargs -I{} grep {} a
find . | xargs -I{} grep x {} a
find . | xargs -I{} sh -c 'cat {}'
find . | xargs -I{} {} a
find . | xargs -I e cat e
find . | xargs grep -e
find . | xargs grep -r x
find . | xargs grep --include
find . | xargs head -n
find . | xargs sort -o
find . | xargs sort --files0-from=-
find . | xargs sed -i s/a/b/
find . | xargs sed -n
find . | xargs sed -n -e
find . | xargs cut -f
find . | xargs awk 1
find . | xargs env cat
find . | xargs ./cat
find . | xargs /bin/cat
find . | xargs cat -- a
find . | xargs cat -
find . | xargs -a list cat
find . | xargs --arg-file=list cat
find . | xargs -P2 rm
find . | xargs cat > a
find . | xargs cat < a
find . < a | xargs cat
rg -l --pre ./x y | xargs cat
rg -lo x | xargs cat
rg -n x | xargs cat
rg x | xargs cat
rg -l x -r /etc/passwd | xargs cat
rg -L --files | xargs cat
grep -l x a b | xargs cat
grep -rlo x | xargs cat
grep -Rl x | xargs cat
cat list | grep -rl x - | xargs cat
find . -name a -o -name b | xargs cat
find . -path ./x -prune -o -name '*.py' | xargs cat
find . -print -quit | xargs cat
find . -exec echo {} \; | xargs cat
find . -exec echo {} + | while read x; do cat "$x"; done
find . -print -o -delete | xargs cat
find . -exec echo /etc/passwd \; | xargs cat
find . |& xargs cat
cd .git && find . | xargs cat
find . | while read x; do echo $x; done | xargs cat
(find .) | xargs cat
{ find . ; echo /etc/passwd; } | xargs cat
""",
    "while read": r"""
while read x; do rm "$x"; done < a
while read x; do $x; done < a
while read x; do "$x" a; done < a
while read x; do eval "$x"; done < a
while read x; do cat "$x"; done < a
while read x; do cat < "$x"; done < a
while read x; do wc -l "$x"; done < a
while read x; do ls "$x"; done < a
cat a | while read x; do wc -l "$x"; done
cat a | while read x; do head "$x"; done
ls | while read x; do cat "$x"; done
find . | while read x; do rm "$x"; done
find . | while read x; do cat "$x" > b; done
find . | while read x; do cat "/etc/$x"; done
find . | while read x; do cat "$x.bak"; done
find . | while read x; do cat ../$x; done
find . | while read x; do grep -f "$x" a; done
find . | while read x; do grep -e "$x"; done
find . | while read x; do sed "$x" a; done
find . | while read x; do sed -n "/$x/p" a; done
find . | while read x; do awk "$x" a; done
find . | while read x; do awk "/$x/" a; done
find . | while read x; do jq "$x" a; done
find . | while read x; do sort -o "$x" a; done
find . | while read x; do sort "-o$x" a; done
find . | while read x; do find "$x" -delete; done
find . | while read x; do find "$x"; done
find . | while read x; do cd "$x"; ls; done
find . | while read x; do git -C "$x" log; done
find . | while read x; do git diff "$x"; done
find . | while read x; do git log "$x"; done
find . | while read x; do test "$x"; done
find . | while read x; do test "$x" a; done
find . | while read x; do test "$x" "$x"; done
find . | while read x; do test "$x" a b; done
find . | while read x; do test -v "$x"; done
find . | while read x; do [ "$x" a ]; done
find . | while read x; do [[ $x -eq 1 ]]; done
find . | while read x; do [[ a =~ $x ]]; done
find . | while read x; do printf "$x"; done
find . | while read x; do printf -v "$x" a; done
find . | while read x; do printf -- "$x"; done
find . | while read x; do x=a; cat "$x"; done
find . | while read x; do export x; done
find . | while read x; do cat ${x%y}; done
find . | while read x; do cat ${!x}; done
find . | while read x; do cat ${x@P}; done
find . | while read x; do echo ${x:-$(rm a)}; done
find . | while read x; do echo $((x)); done
find . | while read x; do cat "$x"*; done
find . | while read x; do ls "$x"/*; done
find . | while read x; do cat a "$x" -o b; done
find . | while read PATH; do ls; done
find . | while read IFS; do ls; done
find . | while read -a x; do ls; done
find . | while read -d '' -r x; do cat $x$y; done
find . | while read -p "$(rm a)" x; do ls; done
find . | while read -u 3 x; do ls; done
find . | while read 'x[$(rm a)]'; do ls; done
find . | while read x[0]; do ls; done
find . | while read HOME; do ls $HOME; done
find . | while IFS=$(rm a) read x; do ls; done
find . | while PATH=. read x; do ls; done
find . | while read x && rm a; do ls; done
find . | while rm a; read x; do ls; done
find . | until read x; do ls; done
while true; do ls; done
while read x; do ls; done
find . | while read x; do ls; done > a
find . | while read x; do ls; done &
find . | while read x; do break; done
find . | while read x; do read y; cat "$y"; done
find . | while read x; do xargs cat; done
find . | while read x; do echo "$x" | xargs cat; done
find . | while read x; do echo "$x" | sh; done
find . | while read x y; do cat "$y"; done
find . -printf '/etc/passwd\n' | while read x; do cat "$x"; done
find . | sed s/^/x/ | while read x; do cat "$x"; done
cd .git && find . | while read x; do cat "$x"; done
find . | while read x; do diff "$x" <(rm a); done
find . | while read x; do cat <(cat "$x" > b); done
find . | while read ls; do "$ls"; done
find . | while read x; do while read x; do cat "$x"; done < list; done
find . | while read x; do cat list | while read x; do wc -l "$x"; done; done
find . | while read x; do for n in x; do while read $n; do cat "$x"; done < list; done; done
find . | while read x; do for x in $(cat list); do cat "$x"; done; done
find . | while read x; do for x in a; do cat "$x"; done; done
cat list | while read y; do find . | while read x; do cat "$y"; done; done
cat list | while read y; do for x in $(ls); do wc -l "$y"; done; done
cat list | while read y; do find . | while read x; do cat "$x" "$y"; done; done
find . | while read x; do echo "$x"; done < list | xargs cat
for x in $(find .); do while read x; do wc -l "$x"; done < list; done
find . < <(ls) | xargs cat
find . -exec wc -l {} + < <(ls)
find . 2>&1 | xargs cat
find . |& xargs cat
find . 2>&1 | while read x; do cat "$x"; done
find . | while read x; do cat "$x"; done < list
""",
    "for, groups, if": r"""
for x in $(cat a); do cat $x; done
for x in $(ls); do cat $x; done
for x in $(find .); do cat $x; done
for x in $(rm a); do ls; done
for x in $(ls); do rm $x; done
for x in $(ls); do $x; done
for x in `ls`; do wc $x; done
for x in $(cat a); do wc -l $x; done
for x in $y; do ls; done
for x in "$y"; do ls; done
for x in $@; do ls; done
for x; do ls; done
for x in a; do rm $x; done
for x in rm; do $x a; done
for x in -delete; do find . $x; done
for x in --pre=./x; do rg $x y; done
for x in -exec; do find . $x ls; done
for x in '$(rm a)'; do echo $x; done
for x in '"$(rm a)"'; do echo "$x"; done
for x in 'a; rm b'; do ls $x; done
for x in '`rm a`'; do echo "$x"; done
for x in a\;rm; do ls $x; done
for x in {a,b}; do ls; done
for x in {1..99999}; do rm $x; done
for x in a; do ls; done; rm b
for x in a; do ls & done
for x in a; do cat $x > b; done
for x in a; do ls; done > b
for x in a; do for y in b; do rm $y; done; done
for x in a; do eval $x; done
for ((;;)); do ls; done
for x in a; { ls; }
select x in a; do ls; done
case a in a) ls;; esac
f() { rm a; }; f
f() { ls; }
function f { ls; }
ls() { rm a; }; ls
{ cd sub; }; cat a
{ cd sub; git log; }
(cd sub; git log)
(cd sub && git status)
(cd ..; cat a)
{ ls; } > a
(ls) > a
{ ls; } & rm a
( rm a )
((rm a))
{ PATH=.; ls; }
{ ls; }; PATH=.; ls
(exec rm a)
{ exec 3>a; }
coproc { ls; }
! { ls; }
time { rm a; }
if rm a; then ls; fi
if ls; then rm a; fi
if ls; then ls; else rm a; fi
if ls; then ls; elif rm a; then ls; fi
if ls; then cd sub; fi; cat a
if ls; then ls; fi > a
if [[ -v a[$(rm b)] ]]; then ls; fi
while [ 1 ]; do ls; done
{ ls; }a
{ls;}
c'd' .git && cat config*
for x in c; do (${x}d .git; find . -exec cat {} +); done
""",
    "variables and output": r"""
PATH=.; ls
IFS=x; ls $IFS
HOME=/etc; cat $HOME/passwd
BASH_ENV=x; ls
LD_PRELOAD=./x ls
LD_PRELOAD=./x; ls
x=rm; $x a
x='ls; rm a'; $x
x='rm a'; $x
x=-delete; find . $x
x=$(rm a); ls
x=`rm a`; ls
x=a y=b; ls
x=a & rm b
x=a || rm b
x=a | rm b
x=a;; rm b
x=ls y $x
x=a; x=b; rm $x
x+=a; ls
x[$(rm a)]=1; ls
x[0]=1; ls
export x=a; ls
declare x=a; ls
readonly x=a; ls
x=a; echo ${x@P}
x=a; echo ${x:=$(rm a)}
x=a; echo ${!x}
x=a; cat ${x/a/\/etc}
x=../../etc; cat $x/passwd > b
cat $HOME > a
echo ${HOME:=$(rm a)}
echo ${HOME/x/$(rm a)}
cat $PWD/../x > b
cat $x
cat $RANDOM
$SHELL -c ls
$SHELL a
$HOME/x
find . -name $RANDOM -delete
echo $((x))
echo $((a[$(rm b)]))
echo $(( $(rm a) ))
echo ${#x[$(rm a)]}
echo $[1]
echo "$(rm a)"
echo "$(ls; rm a)"
echo "`rm a`"
echo $(ls > a)
echo $(<a)
cat $(ls)
cat "$(ls)"
rm "$(ls)"
"$(ls)"
$(ls)
$(echo rm) a
ls "$(ls)"
wc -l $(cat a)
cat $(find .)
head $(ls)
sort $(ls)
wc $(find . -printf '%l')
wc -l a$(ls)
wc -l $(ls) -c
wc $(ls)/x
stat $(ls; rm a)
wc -l $(cat list; ls)
wc -l $(cat list && ls)
for x in $(cat list; ls); do wc -l "$x"; done
rg --files | while read x; do grep -e -- "$x"; done
rg --files | while read x; do head -n -- "$x"; done
rg --files | while read x; do sort -k -- "$x"; done
rg --files | while read x; do cat -n "$x" -- a; done
rg --files | while read x; do sed -e -- "$x"; done
rg --files | while read x; do wc -l "$x" -c; done
rg --files | while read x; do echo a > "$x"; done
rg --files | while read x; do cat <> "$x"; done
rg --files | while read x; do cat 3< "$x" > "$x"; done
find $(ls)
sed "$(cat a)" b
awk "$(cat a)" b
printf "$(cat a)"
grep $(cat a) b
grep "$(cat a)" b -f x
rg $(cat a)
git log $(cat a)
for f in $(ls); do git log "$f"; done
for f in $(ls); do git log --grep -- "$f"; done
for f in $(ls); do git log -n -- "$f"; done
for f in $(ls); do git log -- x"$f"; done
for f in $(ls); do git show -- "$f"; done
for f in $(cat list); do git log -- "$f"; done
test "$(cat a)"
[ "$(cat a)" b ]
test "$(cat a)" "$(cat b)"
[[ $(cat a) -eq 1 ]]
LC_ALL=/tmp/x ls
LC_ALL=$(rm a) ls
TZ=:/etc/passwd date
TZ=../x date
TZ=/etc/passwd date
PAGER=./x git log
GIT_PAGER='cat; rm a' git log
GIT_EXTERNAL_DIFF=x git diff
LC_ALL=C PATH=. ls
LC_ALL=C rm a
LC_ALL=C cd sub && git log
LC_ALL=C; rm a
COLUMNS=1 x=1 ls
ls | tee a
ls | tee -a a
ls | tee /dev/null a
ls | tee >(sh)
tee /dev/null
exit $x
exit 1; rm a
exit $(rm a)
ebb0part
ebb0000000000000000n0e
cat ebb0000000000000000n0e > a
""",
    "npm": r"""
npm ls --prefix x
npm ls --prefix=x
npm --prefix x ls
npm ls -g
npm ls --global
npm ls --location=global
npm ls --script-shell=./x
npm ls --node-options=--require=./x.js
npm ls --userconfig x
npm ls --logs-dir=x
npm ls --cache=x
npm ls --onload-script=./x
npm ls --workspace x
npm ls --depth=x
npm ls --depth
npm ls --depth -g
npm ls *
npm ls $x
npm ls $(rm a)
npm ls 'a --prefix x'
npm ls > a
npm ls; npm test
npm ls && npm run x
npm_config_prefix=x npm ls
NODE_OPTIONS=--require=./x npm ls
PATH=. npm ls
./npm ls
node_modules/.bin/npm ls
cd sub && npm ls
(cd sub && npm ls)
npm ll
npm la
npm exec ls
npm x ls
npm view ms
npm outdated
npm root --prefix x
npx npm ls
npm -c ls
while read x; do npm ls "$x"; done < a
npm ls <(rm a)
make -n
make -n test
make --dry-run
make -np
make -q
gmake -n
""",
}
"""A line each."""


@pytest.mark.parametrize(
    "line",
    [pytest.param(line, id=f"{form}: {line}") for form, lines in REFUSED.items() for line in lines.split("\n") if line],
)
def test_what_could_do_more_is_not_proved(line: str) -> None:
    assert prove_line(line) == ()
