"""Whether a command line is one call of a program that only looks, in which nothing is left to the shell. Data and a
lookup: what is not listed here is not proved. It runs nothing and decides nothing."""

from collections.abc import Iterator, Mapping, Sequence

from tools.commands.commandline import UnreadableError, Word, scan
from tools.lazy import dataclass, regex

_NUMBER, _ANY = regex(r"[+-]?\d{1,9}[kKMG]?"), regex(r".*")
_COUNT = regex(r"-\d{1,9}")
_PATTERN = regex(r"-[cFHIilnNopPqsSUvwx]*e.*")
"""The option of ripgrep that is followed by what is looked for."""
_NO_SIGNATURE = regex(r"(?!.*%[+ -]?G).*")
"""What asks for a signature runs the program that checks it."""


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of a program that leave it looking."""

    letters: str = ""
    """Those without a value, which may stand together."""
    numbers: str = ""
    """Letters before a number."""
    texts: str = ""
    """Letters before any text."""
    words: frozenset[str] = frozenset()
    """What must stand exactly so."""
    values: tuple[str, ...] = ()
    """Long options with a value behind `=`."""
    counts: bool = False
    """Whether `-5` is a number of lines or commits."""


@dataclass(frozen=True, slots=True)
class ReadOnlyCommand:
    """A proved command."""

    program: str
    arguments: tuple[str, ...]
    """As they were written."""
    operands: tuple[str, ...]
    """Those that may name files or folders; none: the working folder."""

    @property
    def searches(self) -> bool:
        """Whether it shows lines of files that it does not name."""
        return self.program in ("rg", "git")


def _words(*names: str) -> frozenset[str]:
    return frozenset(f"--{name}" for text in names for name in text.split())


_DIFF = (
    "patch no-patch stat shortstat numstat name-only name-status summary compact-summary raw cached staged minimal "
    "patience histogram word-diff no-color no-renames find-renames full-index check merge-base function-context "
    "ignore-all-space ignore-space-change ignore-space-at-eol ignore-blank-lines no-ext-diff no-textconv abbrev-commit"
)
_LOG = (
    "oneline graph decorate no-decorate all branches tags remotes merges no-merges first-parent reverse follow "
    "topo-order date-order author-date-order simplify-by-decoration full-history cherry-pick left-right boundary "
    "pickaxe-regex pickaxe-all regexp-ignore-case extended-regexp fixed-strings perl-regexp relative-date"
)
_DIFF_VALUES = ("unified", "stat", "diff-filter", "find-renames", "word-diff", "color", "abbrev")
_LOG_VALUES = (
    "max-count", "skip", "since", "until", "after", "before", "author", "committer", "grep", "format", "pretty", "date",
    "decorate",
)  # fmt: skip
_LOGS = _Options("puswbWiERPg", "nU", "SG", _words(_DIFF, _LOG), (*_DIFF_VALUES, *_LOG_VALUES), counts=True)

_PROGRAMS: Mapping[str, _Options] = {
    "ls": _Options(
        "1aACdFfGghiklnopqrRsStuUvXx",
        words=_words("all almost-all human-readable recursive reverse size directory full-time inode",
                     "group-directories-first"),
        values=("color", "sort", "time", "time-style", "format"),
    ),
    "pwd": _Options("LP", words=_words("logical physical")),
    "cat": _Options(
        "AbeEnstTuv",
        words=_words("number number-nonblank show-all show-ends show-tabs show-nonprinting squeeze-blank"),
    ),
    "head": _Options(
        "qvz", "nc", words=_words("quiet silent verbose zero-terminated"), values=("lines", "bytes"), counts=True
    ),
    "wc": _Options("clmLw", words=_words("bytes chars lines words max-line-length")),
    "rg": _Options(
        "cFHIilnNopPqsSUvwx",
        "ABCmdM",
        "etTgr",
        _words(
            "count count-matches fixed-strings with-filename no-filename ignore-case smart-case case-sensitive",
            "files-with-matches files-without-match line-number no-line-number only-matching pcre2 quiet multiline",
            "multiline-dotall invert-match word-regexp line-regexp files heading no-heading column stats json vimgrep",
            "trim type-list no-config passthru pretty",
        ),
        (
            "after-context", "before-context", "context", "max-count", "max-depth", "type", "type-not", "glob",
            "iglob", "regexp", "replace", "max-columns", "sort", "sortr", "color",
        ),
    ),
    "git status": _Options(
        "sb",
        words=_words("short branch porcelain long show-stash no-renames ahead-behind no-ahead-behind")
        | {"-uno", "-uall", "-unormal"},
        values=("porcelain", "untracked-files", "ignored"),
    ),
    "git diff": _Options("puswbWR", "U", "SG", _words(_DIFF), _DIFF_VALUES),
    "git log": _LOGS,
    "git show": _LOGS,
}  # fmt: skip

_SECRET_NAMES = {".netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", ".dockercfg"}
_SECRET_FOLDERS = {".ssh", ".gnupg", ".aws", ".kube", ".docker"}
_SECRET_ENDS = (".pem", ".key", ".p12", ".pfx", ".kdbx", ".jks", ".keystore")
_SECRET_STARTS = (".env", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519")
_PUBLIC_ENDS = (".example", ".sample", ".template", ".dist", ".pub")
SECRET_GLOBS = (
    "**/.git/config",
    *(f"**/{name}" for name in sorted(_SECRET_NAMES)),
    *(f"**/{name}/**" for name in sorted(_SECRET_FOLDERS)),
    *(f"**/*{end}" for end in _SECRET_ENDS),
    *(f"**/{start}*" for start in _SECRET_STARTS),
)
"""The files that `holds_secrets` means, and few others."""


def holds_secrets(path: str) -> bool:
    """Whether a file is one that by its name holds passwords or keys: a `.env`, a private key."""
    *folders, name = path.casefold().split("/")
    if not _SECRET_FOLDERS.isdisjoint((*folders, name)) or [*folders[-1:], name] == [".git", "config"]:
        return True
    if name.endswith(_PUBLIC_ENDS):
        return False
    return name in _SECRET_NAMES or name.startswith(_SECRET_STARTS) or name.endswith(_SECRET_ENDS)


def read_only_command(text: str) -> ReadOnlyCommand | None:
    """The one plain call that the line is, or None when it is anything else, or that is not proved."""
    text = text.rstrip("\n")
    if not text.isprintable():
        return None
    try:
        line = scan(text)
    except UnreadableError:
        return None
    words = line.words
    if line.inner or len(words) != len(line.tokens) or not words or not all(map(_is_literal, words)):
        return None
    name, *given = [word.text for word in words]
    if not words[0].is_bare:
        return None
    start = 0
    if name == "git":
        start = 1 if given[:1] == ["--no-pager"] else 0
        name = f"git {given[start]}" if given[start:] else name
        start += 1
    options = _PROGRAMS.get(name)
    if options is None:
        return None
    try:
        operands = tuple(_operands(given[start:], options))
        return ReadOnlyCommand(words[0].text, tuple(given), _files(name, operands, given[start:]))
    except _NotProvedError:
        return None


class _NotProvedError(Exception):
    """There is an option that is not listed, or an operand that may mean something else."""


def _is_literal(word: Word) -> bool:
    """Whether the program gets the word as it stands there."""
    return word.is_plain and word.text[:1] != "~" and word.text.isprintable()


def _operands(given: Sequence[str], options: _Options) -> Iterator[str]:
    """What is no option, `--` among it. Raises `_NotProvedError` at the first option that is not listed."""
    rest = iter(given)
    for word in rest:
        if word == "--":
            yield from (word, *rest)
        elif word[:1] != "-":
            yield word
        elif word[:2] == "--":
            _check_long(word, options)
        elif not (word in options.words or (options.counts and _COUNT.fullmatch(word))):
            _check_letters(word[1:], rest, options)


def _check_long(word: str, options: _Options) -> None:
    name, has_value, value = word.partition("=")
    known = name[2:] in options.values if has_value else word in options.words
    if not known or not _NO_SIGNATURE.fullmatch(value):
        raise _NotProvedError


def _check_letters(letters: str, rest: Iterator[str], options: _Options) -> None:
    """Letters that may stand together; the last one may have its value behind it, in the same word or in the next."""
    if not letters:
        raise _NotProvedError  # it would read what is typed
    for at, letter in enumerate(letters, 1):
        if letter in options.letters:
            continue
        shape = _NUMBER if letter in options.numbers else _ANY if letter in options.texts else None
        value = letters[at:] or next(rest, "-")
        if shape is None or not shape.fullmatch(value) or (not letters[at:] and value[:1] == "-"):
            raise _NotProvedError
        return


def _files(name: str, operands: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    """The operands that may name files. A revision may be followed by one: `HEAD~1:src/a.py`."""
    files = list(operands)
    if "--" in files:
        files.remove("--")
    if any(not each for each in files) or (name in ("cat", "head", "wc") and not files) or (name == "pwd" and files):
        raise _NotProvedError
    if name == "rg" and not _names_its_pattern(given):
        if not files:
            raise _NotProvedError
        files = files[1:]
    if name.startswith("git "):
        if any(each[0] in ":@" or "\\" in each for each in files):
            raise _NotProvedError  # what git itself makes of it is not known here
        files += [path for each in files for _, colon, path in (each.partition(":"),) if colon and path]
    if any(each in ("-", "@") for each in files):
        raise _NotProvedError
    return tuple(dict.fromkeys(files))


def _names_its_pattern(given: Sequence[str]) -> bool:
    """Whether ripgrep takes all its operands for files."""
    options = given[: given.index("--")] if "--" in given else given
    return any(
        word in ("--files", "--type-list") or word.startswith("--regexp=") or _PATTERN.fullmatch(word)
        for word in options
    )
