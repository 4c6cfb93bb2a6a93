"""Rate how strongly an output line reports an error: a table of patterns and weights. Pure; used by previews, stubs and
the ledger."""

import re
from collections.abc import Iterator, Sequence

from ebbtide.tools.lazy import dataclass, regex

MAX_LINE_CHARS = 600
"""Characters of a line that are examined."""

CAUSE, VERDICT, WORDS, PASSING_MENTION = 4, 3, 2, 1
"""States what is wrong; names what failed; has words of failure; mentions them in passing."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A pattern in which tools report errors."""

    signs: tuple[str, ...]
    """A line of this shape contains one of these in lower case. Substring search is faster than the pattern."""
    pattern: "re.Pattern[str]"
    weight: int


def _shapes(weight: int, *rows: tuple[str, str]) -> Iterator[Shape]:
    for signs, pattern in rows:
        yield Shape(tuple(signs.split("|")), regex(pattern), weight)


_AT = r"[:(]\d{1,7}(?:[:,.]\d{1,7}){0,3}\)?"
"""A position in a file, after the file's name."""

SHAPES: tuple[Shape, ...] = (
    *_shapes(
        CAUSE,
        ("error", rf"{_AT}\s?:\s(?:\w+\s)?[Ee]rror\b"),  # compilers, type checkers
        ("error", r"^(?:\w+: )?(?:fatal |internal |syntax |parse )?[Ee]rror(?:\[\w+\]|\s[A-Z]{1,4}\d+)?: \S"),
        ("error", r"\berror [A-Z]{2,8}\d{2,5}\b"),  # .NET, TypeScript
        ("error", r"^\[ERROR\] \S+:\[\d"),  # Maven
        ("error", r"^\d+:\d+\s+error\s"),  # JavaScript linters
        ("error", r"^CMake Error\b|^Error: \S|^ERROR: (?!test|.*\bfailed with exit\b)\S|^Error in "),
        ("error", r"^(?:[\w$]+\.)*\w*(?:Error|ERROR)(?: \[\w+\])?: \S"),  # exceptions by name
        ("exception|exit|fault", r"^(?:[\w$]+\.)+\w*(?:Exception|Fault|Exit)(?:: \S|$)"),
        ("exception|uncaught|unhandled", r"^\w*Exception: \S|^Exception in thread|^\(?Uncaught |^Unhandled "),
        ("caused by", r"^Caused by: \S"),
        ("panic", r"^panic: |^thread '.*' .*panicked at|\bkernel panic\b"),
        # Rust prints the reason of a panic on the next line
        ("called `", r"^called `\w+::\w+\(\)` on an? `\w+` value"),
        (
            "out of bounds|attempt to",
            r"^index out of bounds: |^attempt to (?:add|subtract|multiply|divide|negate|shift)\b",
        ),
        ("traceback", r"^Traceback \("),
        ("fatal", r"(?:^|: )(?:fatal|FATAL)(?: error)?: \S|^FATAL\b"),
        ("e   ", r"^E {3,}\S"),  # pytest
        ("e: ", r"^E: \S|^e: \S"),  # apt, Kotlin
        (
            ".go:|.py:|.rb:|.sh:|.php:|.lua:",
            rf"^(?:lua: )?[^\s:()]+\.\w{{1,6}}{_AT}: (?!warning|note|info|remark|style)\S",
        ),
        ("line ", r"^[^\s:]+: line \d+: \S|\bParse error: |\bon line \d+$"),  # shells, PHP
        ("undefined", r"\bundefined reference to\b|\b[Uu]ndefined symbols?\b"),
        ("multiple def|cannot", r"\bmultiple definition of\b|\bcannot find -l"),
        ("no rule", r"\*\*\* No rule to make target"),
        ("assert", r"\b[Aa]ssertion\b.*\bfailed\b|\bAssertionError\b"),
        ("segmentation|core dumped|sanitizer", r"\bSegmentation fault\b|\bcore dumped\b|Sanitizer: "),
        ("out of memory|oom", r"\b[Oo]ut of memory\b|\bOOMKilled\b|\boom-kill"),
        ("what went wrong", r"^\* What went wrong:"),
        ("** (", r"^\*\* \(\w+(?:\.\w+)*\) \S"),  # Elixir
        ("detected ***|data race", r"^\*\*\* .*\bdetected \*\*\*|^WARNING: DATA RACE"),
        ("err_", r"^ERR_[A-Z_]+\s+\S"),  # pnpm
        (" line ", r"\bat \S+ line \d+\.$"),  # Perl
        ("could not|cannot|unable|can't", r"^\S+: .*\b(?:could not|cannot|unable to|can't) \w"),
        ("not found|no such", r"^\S+: .*(?:command not found|No such file or directory)$"),
        ("denied|refused", r"^\S+: .*(?:Permission denied|Connection refused)$"),
        ("error|err!", r"^npm (?:ERR!|error) (?!A complete log|code |path |command |errno |$)\S"),
        ("error|err!", r"^npm (?:ERR!|error) code \S"),
        ("error", r"^Failure/Error: \S"),  # RSpec
        ("expected", r"^(?:[-+] )?[Ee]xpected(?: \w+)?:\s*\S"),
        ("expected", r"\b[Ee]xpected\b.{1,120}\b(?:got|but|was|found|received|actual)\b"),
        ("want", r"\bgot\b.{1,120}\bwant\b|\bwant\b.{1,120}\bgot\b"),
    ),
    *_shapes(
        VERDICT,
        ("fail", r"^-{3} FAIL:|^FAIL\b|\bFAILED\b|\*\*\*Failed|\(Failed\)|^Failed \S|^FAILURE\b|\bFAILURE:"),
        ("not ok", r"^not ok\b"),
        ("✕|✗|✘|×|✖|❌|⨯|●|╳", r"^(?:\w+ )?[✕✗✘×✖❌⨯●╳]\s*\S"),
        ("error|fatal|critical|severe", r"\b(?:ERROR|FATAL|CRITICAL|SEVERE)\b|^\[(?:error|fatal)\]"),
        ("error|fatal", r"\blevel=(?:error|fatal)\b|\"level\":\s?\"(?:error|fatal)\""),
        ("error", r"(?:^|[\s\]):])[Ee]rrors?:\s"),
        ("***", r"^\S*make(?:\[\d+\])?: \*\*\* |\*\*\*(?:Timeout|Exception)"),
        ("fail|error", r"\b[1-9]\d{0,8} (?:tests? |specs? |examples? )?(?:failed|failing|failures?|errors?)\b"),
        ("fail|error", r"\b(?:[Ff]ailures?|[Ee]rrors?|[Ff]ailed)[:=]\s?[1-9]"),
        ("killed|aborted|terminated", r"^(?:Killed|Aborted|Terminated)\b|^signal: \w"),
        ("dumped core|halted", r"\bdumped core\b|^Execution halted$"),
        ("conflict", r"^CONFLICT \("),
    ),
)
"""The highest weight comes first."""

_WORDS = regex(
    r"(?<![\w./-])(?:errors?|fail(?:s|ed|ure|ures)?|exceptions?|fatal|can(?:no|')t|could(?: not|n't)|unable to|"
    r"not found|no such|denied|refused|invalid|unexpected(?:ly)?|undefined|unresolved|mismatch(?:ed)?|abort(?:ed|ing)?|"
    r"timed out|illegal|unsupported|forbidden|unauthorized|rejected|violat(?:es|ed|ion)|corrupt(?:ed)?|crash(?:ed)?|"
    r"conflict(?:s|ing)?|unknown|undeclared|missing|unreachable|exceeded|too many|not exist|panic)(?![\w/-]|\.\w)"
)
_WORD_SIGNS = (
    "error", "fail", "exception", "fatal", "cannot", "can't", "could", "unable", "not found", "no such", "denied",
    "refused", "invalid", "unexpected", "undefined", "unresolved", "mismatch", "abort", "timed out", "illegal",
    "unsupported", "forbidden", "unauthori", "rejected", "violat", "corrupt", "crash", "conflict", "unknown",
    "undeclared", "missing", "unreachable", "exceeded", "too many", "not exist", "panic",
)  # fmt: skip

_ALL_SIGNS = (*(sign for shape in SHAPES for sign in shape.signs), *_WORD_SIGNS)
SIGNS: tuple[str, ...] = tuple(
    dict.fromkeys(sign for sign in _ALL_SIGNS if not any(other in sign and other != sign for other in _ALL_SIGNS))
)
"""Every line that reports an error contains one of these in lower case."""

_FLAGS = regex(r"(?<![\w-])--?[A-Za-z][^\s\]]*")
_NOTHING = regex(
    r"(?i)\b(?:0|no|zero|without(?: any)?) (?:tests? |new )?"
    r"(?:errors?|fail(?:ures?|ed|ing)|problems|exceptions|conflicts)\b"
    r"|\b(?:errors?|failures?|failed|failing|aborted)[\"']?\s?[:=]\s?0\b"
)
"""Says that nothing went wrong."""
_COUNTS = regex(r"\b[1-9]\d{0,8} (?:tests? |specs? |examples? )?(?:failed|failing|failures?|errors?)\b")
_PASSES = regex(
    r"^(?:ok\b|[✓✔√☑]|PASS(?:ED)?\b|-{3} (?:PASS|SKIP)|=== (?:RUN|CONT|PAUSE|NAME)|\[\s*(?:OK|PASSED|RUN)\s*\]|[↓○⊝]\s)"
    r"|^Passed\b|\b(?:PASSED|XFAIL|XPASS|SKIPPED)\b|\bPassed\s+[\d.]+ ?s|\.{3,} ?(?:ok|passed|yes|no|PASS|OK)\b|\bok$"
    r"|: ok\b|\bexpected (?:failure|error|to fail)"
)
_PROGRESS = regex(
    r"\[\s*\d+(?:\s?%|\s?/\s?\d+)|\d+(?:\.\d+)?%|\(?\d+/\d+\)?\s|Get:|Hit:|-- |Start\s+\d+:|inflating:"
    r"|(?:Compiling|Building|Download(?:ing|ed)|Installing|Fetching|Linking|Checking|Check(?:ed)? for|Looking for"
    r"|Running|Unpacking|Setting up|Collecting|Resolving|[Cc]opying|Generating|Processing|Creat(?:ing|ed)|[Aa]dding"
    r"|Extracting|Preparing|Selecting|Scanning|Skipping|skipp(?:ed|ing)|Writing|Reading|Loading|transform(?:ed|ing))\b"
)
_WARNS = regex(
    r"\bwarn(?:ing)?\b(?!: data race)\s?(?:[:\[(\]]|$)|^(?:npm )?warn\b|^\[?warn(?!ing: data race)|level=warn"
    r"|\bwarning\s{2}|\bdeprecationwarning\b"
)
_ERROR = regex(r"\berror\b")
_CHATS = regex(
    r"(?:\S{1,40}\s){0,3}\[?(?:INFO|DEBUG|TRACE|NOTICE|info|debug|trace|verb|verbose|sill|http|LOG)\b"
    r"|.*\blevel=(?:info|debug)\b"
)
_FOOTERS = regex(
    r"npm (?:ERR!|error) (?:A complete log|path|command|errno|Lifecycle|workspace|location)\b|npm (?:ERR!|error) \d+$"
    r"|\[ERROR\]\s*(?:$|->|\[Help|To see|Re-run|For more|After correcting)|.*\[Help \d\]$"
    r"|error: (?:could not compile|aborting due|test failed, to rerun|process didn't exit)|For more information"
    r"|\w+: all warnings being|\S*make(?:\[\d+\])?: (?:\*\*\* \[|Target|Leaving)|.*\bexited with"
    r"|.*\b(?:non-zero|exit (?:code|status))\b|FAILURE: Build failed|BUILD FAILED|collect2: |FAIL$|FAIL\t|FAILED$"
    r"|error Command failed|Errors? while running|.*stderr for |failures:$|Traceback \("
)
"""Summaries of an error reported before, which says more."""
_DECORATION = regex(
    r"^\s*(?:#\d+ \d+\.\d+ |[\w.-]+ +\| )?"  # container builds, several programs at once
    r"(?:(?:npm (?:ERR!|error) )?gyp (?:ERR!|verb|info|http|WARN) (?:stack )?)?"  # prefix of npm's build output
    r"(?:\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]? +)?"
    r"[\s│┃|╷╵├└─╰╭>•#]*"
)
"""Prefix of a line's message: boxes, times, the name of the program."""

_QUOTED_TEXT = regex(r"'[^']{0,200}'|\"[^\"]{0,200}\"|`[^`]{0,200}`|‘[^’]{0,200}’")
_PLACE = regex(r"(?<![^\s:('\"])[^\s:('\"]{1,200}(?=[:(]\d)")
_NUMBERED_NAME = regex(r"(?<=[A-Za-z_/-])\d+|\d+(?=[A-Za-z_])")
_NUMBER = regex(r"\b0x[0-9a-f]+\b|\d+(?:\.\d+)*|\b[0-9a-f]{12,}\b")


def weight_of(line: str) -> int:
    """Return how strongly a line reports an error: `CAUSE`, `VERDICT`, `WORDS`, `PASSING_MENTION`, or 0 for not at
    all."""
    line = line[:MAX_LINE_CHARS]
    bare = _NOTHING.sub("", _FLAGS.sub("", _DECORATION.sub("", line, count=1)))
    if _PASSES.search(bare) and not _COUNTS.search(bare):
        return 0
    small = bare.lower()
    held = {sign for sign in _ALL_SIGNS if sign in small}
    fitting = (shape.weight for shape in SHAPES if not held.isdisjoint(shape.signs) and shape.pattern.search(bare))
    found = next(fitting, 0) or (WORDS if _WORDS.search(small) else 0)
    if found and _FOOTERS.match(bare):
        return PASSING_MENTION
    if "warn" in small and _WARNS.search(small) and not (found == CAUSE and _ERROR.search(small)):
        return 0
    if found <= VERDICT and _PROGRESS.match(bare) and "FAILED" not in bare:
        return 0
    return min(found, PASSING_MENTION) if found <= WORDS and _CHATS.match(bare) else found


def most_telling(lines: Sequence[str]) -> str:
    """Return the first line with the highest weight; empty if no line reports an error."""
    best, most = "", 0
    for line in lines:
        weight = weight_of(line) if most < CAUSE else 0
        if weight > most:
            best, most = line, weight
    return best


def is_routine(line: str) -> bool:
    """Whether a line reports success, progress, a warning or other routine."""
    bare = _DECORATION.sub("", line[:MAX_LINE_CHARS], count=1)
    is_quiet = (
        _PASSES.search(bare)
        or _NOTHING.search(bare)
        or _PROGRESS.match(bare)
        or _WARNS.search(bare.lower())
        or _CHATS.match(bare)
    )
    return bool(is_quiet) and not weight_of(line)


def shape_of(line: str) -> str:
    """Normalise a line for grouping: numbers, positions and quoted names are replaced."""
    return _NUMBER.sub("0", _PLACE.sub("@", _QUOTED_TEXT.sub("''", line)))


def named_alike(line: str) -> str:
    """Normalise only the numbers within names: a table of figures is not a repetition."""
    return _NUMBERED_NAME.sub("0", line)
