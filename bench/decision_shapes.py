"""Random command lines of any length, to find inputs for which the permission policy is slow."""

import random
from collections.abc import Callable, Sequence
from functools import partial

_LINE_PIECES: Sequence[str] = (
    "src/module_{}.py ", "-x{} ", "--name={} ", "{} ",
    "file{}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ",
    "'some text {}' ", '"some $text {}" ', "\"a\"'{}'b ", "$HOME/{} ", "${{x{}:-$(ls)}} ", "$(echo {}) ",
    "`echo {}` ", "$(( {} + 1 )) ",
    "<(cat {}) ", "name{}=value ", "a[{}]=b ", "arr=({} b c) ", ">/dev/null{} ", "2>&1 ", "<in{} ", ">>out{} ",
    "&>log{} ", "<<<word{} ",
    "*{}.py ", "{{a,b{}}} ", "[a-z]{}? ", "a\\ {}\\;b ", "\\\n", "$'\\x41{}' ", "größe_日本{} ", "\u200b{} ",
    "é\u0301{} ",
    "# comment {} it's\n", "; ls {}; ", "| grep {} ", "&& cat {} ", "|| echo {} ", "& ", "\necho line {}\n",
    "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo{}= ", "6563686f20{} ", "if [ -f {} ]; then ls; fi; ",
    "for x in {}; do ls; done; ",
    "while read l{}; do echo $l; done; ", "case {} in a|b) ls;; *) cat;; esac; ", "f{}() {{ ls; }}; ",
    "[[ {} == a* ]] && ",
    "{{ ls {}; }}; ", "(ls {}); ", "sudo ls {}; ", "env A={} ls; ", "xargs -n1 echo {}; ", "bash -c 'ls {}'; ",
    "sh -c \"rm {}\"; ", "eval ls {}; ",
    "git log -n{}; ", "find . -name {} -exec ls {{}} \\; ", "awk '{{print ${}}}' f; ", "sed -n {}p f; ",
    "timeout {} ls; ", "cat .env{}; ", "rm -rf a{}; ",
)  # fmt: skip
_UNCLOSED_OPENINGS: Sequence[str] = (
    "(", "((", "$(", "$((", "`", "'", '"', "{", "[", "[[", "<(", "<<", "<<E\n", "if ", "case x in ", "${",
    "for ((", "\\", "|", "&", ";", ")", "}",
)  # fmt: skip
_LINE_FRAMES: Sequence[tuple[str, str]] = (
    ("ls ", ""), ("echo '", "'"), ('echo "', '"'), ("bash -c '", "'"), ('bash -c "', '"'),
    ("cat <<'E' > a.py\n", "\nE\n"), ("cat <<E\n", "\nE\n"),
    ("$(", ")"), ("(", ")"), ("{ ", "; }"), ("if ls; then ", "; fi"), ("python3 -c '", "'"), ("eval '", "'"),
    ("x=", ""), ("cat <<-E | sh\n", "\nE\n"),
    ("for x in ", "; do ls; done"), ("", ""), ("true && ", " && ls"), ("echo ", " | base64 -d | sh"),
)  # fmt: skip


def random_line_generator(seed: int, length: int) -> Callable[[int], str]:
    """Return a function that generates lines of a random shape, a different one for each number, with at most `length`
    characters."""
    dice = random.Random(seed)
    before, after = dice.choice(_LINE_FRAMES)
    pieces = dice.sample(_LINE_PIECES, dice.choice((1, 1, 2, 3, 5, 9, len(_LINE_PIECES))))
    openings = dice.sample(_UNCLOSED_OPENINGS, dice.choice((1, 2, 4))) if dice.random() < 0.3 else ()
    width = dice.choice((1, 1, 1, 3, 10, 40))
    return partial(_random_line, seed, length, before, after, (*pieces, *openings), width)


def _random_line(
    seed: int, length: int, before: str, after: str, pieces: Sequence[str], width: int, number: int
) -> str:
    dice, found, left = random.Random(seed), [before], length - len(before) - len(after)
    at = number * 10_000
    while True:
        piece = dice.choice(pieces)
        text = piece.format(str(at) + "z" * (width - 1)) if "{}" in piece else piece
        if len(text) > left:
            break
        found.append(text)
        left -= len(text)
        at += 1
    return "".join((*found, after))
