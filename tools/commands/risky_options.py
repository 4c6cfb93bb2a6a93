"""What makes a program that only looks do more: run another program, write a file, show secrets. Data and a lookup.

People allow `find` or `git diff` because they look. These options and arguments turn looking into something else, so
that a permission for the program alone should not carry them. The list is for programs known to look; it says nothing
about those that change things anyway.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from tools.commands.commandline import Word
from tools.lazy import dataclass, regex


@dataclass(frozen=True, slots=True)
class Powers:
    """The options of one program, or of one of its commands."""

    letters: str = ""
    """Short options, which may stand together: `-xo`."""
    names: tuple[str, ...] = ()
    """Long options, which most programs take when only their beginning is written."""
    words: tuple[str, ...] = ()
    """Arguments that must stand exactly so."""
    starts: tuple[str, ...] = ()
    """Arguments that begin so."""
    most_operands: int | None = None
    """How many files it reads; the next one would be written."""
    ends_options: bool = True
    """Whether nothing after `--` is an option."""


_GIT = ("--output", "--ext-diff", "--textconv", "--upload-pack", "--exec", "--open-files-in-pager", "--receive-pack")

_POWERS: Mapping[str, Powers] = {
    "find": Powers(
        words=("-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprint0", "-fprintf", "-fls"),
        ends_options=False,
    ),
    "fd": Powers("xX", ("--exec", "--exec-batch")),
    "rg": Powers("z", ("--pre", "--search-zip", "--hostname-bin")),
    "sort": Powers("o", ("--output", "--compress-program")),
    "tree": Powers("oR"),
    "less": Powers("oOk", ("--log-file", "--LOG-FILE", "--lesskey-file", "--lesskey-src"), starts=("+",)),
    "man": Powers("PHCX", ("--pager", "--html", "--config-file", "--gxditview")),
    "date": Powers(names=("--set",), starts=("-s",)),
    "file": Powers("CzZ", ("--compile", "--uncompress", "--uncompress-noreport")),
    "tar": Powers(
        letters="IF",
        names=(
            "--to-command",
            "--checkpoint-action",
            "--use-compress-program",
            "--rsh-command",
            "--rmt-command",
            "--info-script",
            "--new-volume-script",
        ),
    ),
    "uniq": Powers(most_operands=1),
    "xxd": Powers(most_operands=1),
    "git": Powers(names=_GIT, starts=("ext::",)),
    "git branch": Powers(
        "dDmMcCfu",
        ("--delete", "--move", "--copy", "--force", "--edit-description", "--set-upstream-to", "--unset-upstream"),
    ),
    "git grep": Powers("O", (*_GIT, "--ext-grep")),
    "git archive": Powers("o", (*_GIT, "--remote")),
}
_OTHER_NAMES = {"fdfind": "fd", "gfind": "find", "gsort": "sort", "gtar": "tar", "bsdtar": "tar", "ripgrep": "rg"}

_GIT_LOOKS = {"diff", "log", "show", "grep", "ls-remote", "fetch", "archive", "branch"}
_GIT_BEFORE_COMMAND = regex(r"-c.*|-C|-p|--paginate|--(config-env|exec-path|git-dir|work-tree)(=.*)?", re.DOTALL)
_GIT_BRANCH_LISTS = ("--list", "-l", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at", "--sort")
_PS_LETTERS = set("acefghjlnSTuvwxX")
_AWK = regex(r"system|getline|close|[|>@]")
_SED_ADDRESS = r"(?:\d+|\$|/(?:[^\\/\n]|\\.)*/)"
_SED_SWAP = r"s(?P<m>[/|#,:])(?:(?!(?P=m))[^\\\n]|\\.)*(?P=m)(?:(?!(?P=m))[^\\\n]|\\.)*(?P=m)[gpiI0-9]*"
_SED_COMMAND = regex(rf" ?(?:{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|\+\d+))?)? ?!?(?:[pdq=]|{_SED_SWAP}) ?")
_SED_OPTION = regex(r"-[nErszu]+|--(quiet|silent|regexp-extended|null-data|separate|unbuffered|posix|sandbox|debug)")
_SED_SCRIPT_OPTION = regex(r"(?:-[nErszu]*e|--expression=)(?P<script>.*)", re.DOTALL)
_NAMES_VARIABLES = {
    "printf", "test", "[", "read", "mapfile", "readarray", "unset", "declare", "typeset", "local", "export",
    "readonly", "let", "getopts", "wait",
}  # fmt: skip
"""Built into the shell: they evaluate the index in `name[index]`, and a substitution in it, even when it was quoted."""


def reaches_beyond(words: Sequence[Word]) -> int | None:
    """The last of the words with which the command does more than look, or None when there is none."""
    start = 0
    while start < len(words) - 1 and re.match(r"[A-Za-z_]\w*=", words[start].text):
        start += 1
    name = words[start].text.rpartition("/")[2]
    name = _OTHER_NAMES.get(name, name)
    texts = [word.text for word in words]
    found = _special(name)(texts, start)
    command = _git_command(texts, start) if name == "git" else start
    powers = _POWERS.get(f"{name} {texts[command]}" if name == "git" else name, _POWERS.get(name))
    if powers is not None:
        found += _by_table(powers, texts, command + 1)
        if name != "git" or texts[command] in _GIT_LOOKS:
            found += _maybe_options(powers, words, command + 1)
    return max(found, default=None)


def _by_table(powers: Powers, texts: Sequence[str], start: int) -> list[int]:
    found = []
    operands = [at for at in range(start, len(texts)) if texts[at][:1] != "-" and not texts[at].isdecimal()]
    if powers.most_operands is not None:
        found += operands[powers.most_operands :]
    for at in range(start, len(texts)):
        text = texts[at]
        if text == "--" and powers.ends_options:
            break
        name = text.partition("=")[0]
        long = len(name) > 3 and name[:2] == "--" and any(each.startswith(name) for each in powers.names)
        short = re.match("-[A-Za-z0-9]", text) and any(letter in text.partition("=")[0] for letter in powers.letters)
        if long or short or text in powers.words or text.startswith(powers.starts or ("\0",)):
            found.append(at)
    return found


def _maybe_options(powers: Powers, words: Sequence[Word], start: int) -> list[int]:
    """Patterns for which the shell may put the name of a file that reads like an option."""
    end = len(words)
    if powers.ends_options:
        end = next((at for at in range(start, end) if words[at].text == "--"), end)
    return [at for at in range(start, end) if words[at].globs and words[at].text[:1] in "*?[-"]


def _git_command(texts: Sequence[str], start: int) -> int:
    at = start + 1
    while at < len(texts) and texts[at][:1] == "-":
        at += 2 if texts[at] in ("-c", "-C") else 1
    return min(at, len(texts) - 1)


def _special(name: str) -> Callable[[Sequence[str], int], list[int]]:
    if name in _NAMES_VARIABLES:
        return _evaluated
    return {
        "sed": _sed, "gsed": _sed, "awk": _awk, "gawk": _awk, "mawk": _awk, "nawk": _awk, "ps": _ps, "tar": _tar,
        "git": _git,
    }.get(name, _nothing)  # fmt: skip


def _nothing(texts: Sequence[str], start: int) -> list[int]:
    return []


def _git(texts: Sequence[str], start: int) -> list[int]:
    """What stands before its command can set any setting; a name after `git branch` makes a branch."""
    command = _git_command(texts, start)
    found = [at for at in range(start + 1, command) if _GIT_BEFORE_COMMAND.fullmatch(texts[at])]
    given = range(command + 1, len(texts))
    if texts[command] == "branch" and not any(texts[at].startswith(_GIT_BRANCH_LISTS) for at in given):
        found += [at for at in given if texts[at][:1] != "-"]
    return found


def _evaluated(texts: Sequence[str], start: int) -> list[int]:
    return [at for at in range(start + 1, len(texts)) if "[" in texts[at] and re.search(r"[$`]", texts[at])]


def _awk(texts: Sequence[str], start: int) -> list[int]:
    """Its programs can run commands and write files; files of programs cannot be seen at all."""
    options = re.compile(r"-[fEil].*|--(file|exec|include|load).*", re.DOTALL)
    return [at for at in range(start + 1, len(texts)) if _AWK.search(texts[at]) or options.fullmatch(texts[at])]


def _ps(texts: Sequence[str], start: int) -> list[int]:
    """An `e` without a dash shows every program's environment."""
    return [at for at in range(start + 1, len(texts)) if "e" in texts[at] and set(texts[at]) <= _PS_LETTERS]


def _tar(texts: Sequence[str], start: int) -> list[int]:
    """Its first word is options even without a dash."""
    first = texts[start + 1 : start + 2]
    return [start + 1] if first and first[0].isalpha() and ("I" in first[0] or "F" in first[0]) else []


def _sed(texts: Sequence[str], start: int) -> list[int]:
    """Everything but printing, deleting and replacing, which is all that people let it do unseen."""
    found, scripts, operands = [], [], []
    at = start + 1
    while at < len(texts):
        option = _SED_SCRIPT_OPTION.fullmatch(texts[at])
        if option is not None and not option["script"] and at + 1 < len(texts):
            at += 1
            scripts.append(at)
        elif option is not None:
            scripts.append(at)
        elif texts[at][:1] != "-" or texts[at] == "-":
            operands.append(at)
        elif not _SED_OPTION.fullmatch(texts[at]):
            found.append(at)
        at += 1
    for script in scripts or operands[:1]:
        text = texts[script].removeprefix("--expression=")
        if not _is_tame_sed(re.sub("^-[nErszu]*e", "", text)):
            found.append(script)
    return found


def _is_tame_sed(script: str) -> bool:
    return bool(_SED_COMMAND.fullmatch(script)) or all(map(_SED_COMMAND.fullmatch, script.split(";")))
