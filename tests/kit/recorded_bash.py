"""What bash makes of command lines: real bash, in which every program is a function that writes down its arguments,
with nothing on its PATH, in a folder of files whose names were chosen to do harm."""

import random
import re
import subprocess
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from shutil import rmtree, which

from ebbtide.tools.commands.command_line import SimpleCommand, Word
from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.line_proof import prove_line, render_line
from ebbtide.tools.commands.programs import READ_ONLY_ROWS
from ebbtide.tools.commands.proof import GLOB_SAFE_PROGRAMS
from ebbtide.tools.process.shell import shell_path

HOSTILE_NAMES = (
    "a", "b.py", "-delete", "-e1etouch PWNED", "--pre=x", "-rf", "--", "-exec", "a b", "a\nb", "$(touch PWNED)",
    "`touch PWNED`", "*", "?", "[ab]", "{a,b}", "~", "#x", ".env", "é", "\u3000", "x;touch PWNED", "'", '"', "-",
    "sub/c.py", "sub/-i", "sub/.env", "sub/d e",
)  # fmt: skip
_PIECES = (
    "a", "b.py", "sub", "sub/", "x1", "-n", "-l", "-e", "--", "-1", "PWNED", "touch", "p", "1,5p", "s/a/b/", "HEAD~1",
    "stash@{0}", "'", "'", '"', '"', "\\", "\\\n", "\n", " ", " ", " ", "\t", ";", ";", "&&", "||", "|", "|&", "&", "(",
    ")", "{", "}", "{a,b}", "{1..3}", "$", "$'", "\\x65", "\\0", "$x", "${a@P}", "$((x))", "$(touch PWNED)", "`",
    "<", ">", ">>", "2>&1", "2>", ">/dev/null", "/dev/null", "<<<", "<<E\n", "\nE\n", "<(", "*", "*.py", "?", "[ab]",
    "sub/*", "~", "~/", "=", "a=b", "IFS=x", "x+=", "#", " #", "# ", "!", "-v", "%s", "a[$(touch PWNED)]",
    "if", "then", "fi", "time",
"for", "do", "done", "function", "f()", "coproc", "[[", "]]", "[", "]", "\u00a0", "\u3000", "\u200b", "é",
    "日本", "\r",
    "\x01", "\0", "\x7f", ",", "..", ":", "@", "^", "+", "%", "-exec", "2", "10", "\\'", '\\"', "''", '""',
    "\\;", "\\ ",
)  # fmt: skip
_MORE_PIECES = (
    *_PIECES,
    "$'\\x20'",
    "\\\n\\\n",
    "{}",
    "[!a]",
    "[^a]",
    "[[:alpha:]]",
    "@(a|b)",
    "!!",
    '$"a"',
    "$[1]",
    "<>",
    "&>",
    "|&",
    "<<-E\n",
    "\nE",
    "-- ",
    "'\\''",
    '"\'"',
    "\t\n",
    "\x0b",
    "\x0c",
    " \\",
    "\\\\",
    "$_",
    "$*",
    "$@",
    "$#",
    "$?",
    "${#x}",
    "~+",
    "~root",
    "a=~",
    "PATH=.:",
    "--x=~/",
    "0<a",
    "1>&2 ",
    "3<&0",
    "{fd}>x",
    "((",
    "))",
    "[[ a ]]",
    " ]",
    " -a ",
    " -o ",
    "%n",
    "-v x",
    "select",
    "until ",
    "esac",
    "case",
    "in",
    " then ",
    "&&\n",
    "||\n",
    "#\n",
    "\u2028",
    "\ufeff",
)
_BUILD_LINES = Path(__file__).parents[1] / "tools" / "commands" / "build_lines.txt"
_STARTS = (
    "ls ", "cat ", "grep x ", "rg x ", "echo ", "printf %s ", "git log ", "git status ", "find . ", "sed -n 1p ",
    "head -n 5 ", "wc -l ", "sort ", "test -f ", "cut -f1 ", "awk '{print $1}' ", "cat a | ", "ls && ", "ls; ",
    "true || ", "[ -f a ] && ", "[ -n ", "[ ", "python3 -V ",
)  # fmt: skip
_ENDS = ("", "", "", " a", "\nls", "; ls -l", " | wc -l", " ]", " ] && ls")
_NAMES = sorted({row.split()[0] for row in READ_ONLY_ROWS} - {"command"} | {"sed", "awk", "find"})
# What stands in a pipe writes at the same time as its neighbours, and bash writes line by line: so a call is one line.
_PRELUDE = """
record() { builtin printf '%s\\0' "${@//$'\\n'/$'\\3'}" $'\\1' >> "$LOG"; say; }
say() {
builtin printf '%s\\n' 'a' '-e1etouch PWNED' 'a b' '$(touch PWNED)' '*' '-v a[$(touch PWNED)]' 'a[$(touch PWNED)]'
}
command_not_found_handle() { record "$@"; }
function [ { builtin [ "${@: -1}" = ']' ] && record test "${@:1:$#-1}" || record '[' "$@"; return $status; }
"""


def simple_commands(text: str) -> tuple[SimpleCommand, ...]:
    """The commands of a line that is proved to be nothing but those; none of another one."""
    line = parse_command_line(text)
    return () if line.problem else line.commands


def lines(seed: int, count: int) -> Iterator[str]:
    """Lines made of what shells treat in a special way, most of them behind a harmless beginning."""
    chance = random.Random(seed)
    for _ in range(count):
        pieces = chance.choices(_PIECES, k=chance.randint(0, 7))
        glue = chance.choice(("", "", " "))
        yield (chance.choice(_STARTS) + glue.join(pieces) + chance.choice(_ENDS))


def changed_build_lines(seed: int, count: int) -> Iterator[str]:
    """Lines of real build scripts with one to three changes each: something left out, or something put in that shells
    treat in a special way."""
    chance = random.Random(seed)
    # `command` and `[[` cannot be replaced by functions that write down what they are given
    real = [line for line in _BUILD_LINES.read_text().splitlines() if "command" not in line and "[[" not in line]
    made = 0
    while made < count:
        line = chance.choice(real)
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            at = chance.randint(0, len(line))
            if chance.random() < 0.15 and len(line) > 2:
                line = line[:at] + line[at + chance.randint(1, 3) :]
            else:
                line = line[:at] + chance.choice(_MORE_PIECES) + line[at:]
        if "command" not in line and "[[" not in line:
            made += 1
            yield line


class RecordedBash:
    """One folder of hostile names, and what bash runs there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.prelude = folder / "files", folder / "log", folder / "prelude"
        self.folder.mkdir()
        for name in HOSTILE_NAMES:
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("")
        functions = "".join(
            f'{name}() {{ record {name} "$@"; return $status; }}\n' for name in _NAMES if name not in ("[",)
        )
        self.prelude.write_text(_PRELUDE + functions)

    def ran(self, texts: Sequence[str], status: int) -> list[list[list[str]]]:
        """For each line the arguments of all that it runs, in no order. `status`: what each of them says."""
        rmtree(self.log, ignore_errors=True)
        self.log.mkdir()
        # What a line leaves running writes to the file of that line, and is waited for: it has the end of a pipe open.
        script = (
            f". '{self.prelude}'; status={status}; n=0; LOGS=$LOG; "
            "while IFS= read -r -d '' line; do LOG=$LOGS/$((n++)); > \"$LOG\"; "
            '(eval "$line") 9>&1 </dev/null >/dev/null 2>&1; done; exit 0'
        )
        given = "\0".join((*texts, "")).encode()
        environment = {
            "PATH": str(self.folder / "nothing"),
            "LOG": str(self.log),
            "LC_ALL": "C.UTF-8",
            "HOME": "/nowhere",
        }
        subprocess.run(
            [*_walls(self.folder.parent), shell_path(), "-c", script],
            cwd=self.folder,
            env=environment,
            input=given,
            capture_output=True,
            timeout=600,
            check=True,
        )
        written = (
            (self.log / str(at)).read_bytes().decode("utf-8", "surrogateescape").replace("\3", "\n")
            for at in range(len(texts))
        )
        return [[one.split("\0")[:-1] for one in line.split("\1\0")[:-1]] for line in written]

    def names(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}


def _walls(folder: Path) -> Sequence[str]:
    """Nothing but the folder can be written where bubblewrap is there."""
    program = which("bwrap", path="/usr/bin:/bin:/usr/local/bin")
    if (
        program is None
        or subprocess.run([program, "--ro-bind", "/", "/", "true"], capture_output=True, check=False).returncode
    ):
        return ()
    return (program, "--ro-bind", "/", "/", "--dev", "/dev", "--unshare-net", "--bind", str(folder), str(folder), "--")


def escapes(texts: Sequence[str], bash: RecordedBash) -> tuple[int, list[str]]:
    """How many of the lines are proved, and those of them of which bash runs something else than was proved: as they
    stand, where they are just commands, and as they are run."""
    proofs = {text: steps for text in texts if (steps := prove_line(text))}
    before, found = bash.names(), set[str]()
    as_run = {text: render_line(steps, lambda step: ("", step.command.words)) for text, steps in proofs.items()}
    plain = list(proofs)
    for status in (0, 1):
        for text, ran in zip(proofs, bash.ran(list(as_run.values()), status), strict=True):
            meant = [step.command for step in proofs[text] if step.proof.name != "cd"]
            if not all(any(_is_meant(argv, command) for command in meant) for argv in ran):
                found.add(text)
        for text, ran in zip(plain, bash.ran(plain, status), strict=True):
            meant = [command for command in parse_command_line(text).commands if command.texts[0] != "cd"]
            if not all(any(_is_meant(argv, command) for command in meant) for argv in ran) or len(ran) > len(meant):
                found.add(text)
            is_certain = meant and not any(one.operator == "<" for one in meant[0].redirections)
            if is_certain and not any(_is_meant(argv, meant[0]) for argv in ran):
                found.add(text)
    assert bash.names() == before, "something was written"
    return len(proofs), sorted(found)


def _is_meant(argv: Sequence[str], command: SimpleCommand) -> bool:
    takes_any_name = bool(argv) and argv[0].rpartition("/")[2] in GLOB_SAFE_PROGRAMS
    return _matches(list(argv), list(command.words), is_over=takes_any_name)


def _is_word(given: str, word: Word) -> bool:
    """Whether it is what the word says, with a number for each `$?` where the shell puts one there."""
    pattern = re.escape(word.text)
    return (
        re.fullmatch(pattern.replace(re.escape("$?"), "[0-9]+") if word.has_exit_status else pattern, given) is not None
    )


def _matches(argv: list[str], words: list[Word], *, is_over: bool) -> bool:
    """Whether the arguments are those words, patterns replaced by names that are no options."""
    while words and not words[0].is_glob:
        if not argv or not _is_word(argv[0], words[0]):
            return False
        is_over = is_over or argv[0] == "--"
        argv, words = argv[1:], words[1:]
    if not words:
        return not argv
    at = 0
    while at < len(argv) and (fnmatchcase(argv[at], words[0].text.replace("[^", "[!")) or argv[at] == words[0].text):
        if argv[at][:1] == "-" and not (is_over or words[0].text[:1] == "-"):
            return False
        at += 1
        if _matches(argv[at:], words[1:], is_over=is_over):
            return True
    return False
