"""Rates how strongly a line of output reports an error, with a table of patterns and weights. Used by previews, stubs
and the ledger."""

import re
from collections.abc import Iterator, Sequence

from ebbtide.tools.lazy import dataclass, regex

MAX_LINE_CHARS = 600
"""Maximum number of characters examined in a line."""

CAUSE_WEIGHT, VERDICT_WEIGHT, WORDS_WEIGHT, MENTION_WEIGHT = 4, 3, 2, 1
"""Weights of a line. `CAUSE_WEIGHT`: it states what is wrong. `VERDICT_WEIGHT`: it names what failed. `WORDS_WEIGHT`:
it contains words for failure. `MENTION_WEIGHT`: it only mentions such words."""


@dataclass(frozen=True, slots=True)
class ErrorPattern:
    """A format that tools use for errors."""

    keywords: tuple[str, ...]
    """Lower-case strings, at least one of which occurs in every line that the pattern matches. They are searched for
    first, because that is faster than matching the pattern."""
    pattern: "re.Pattern[str]"
    weight: int


def _create_error_patterns(weight: int, *rows: tuple[str, str]) -> Iterator[ErrorPattern]:
    for keywords, pattern in rows:
        yield ErrorPattern(tuple(keywords.split("|")), regex(pattern), weight)


_POSITION = r"[:(]\d{1,7}(?:[:,.]\d{1,7}){0,3}\)?"
"""The position that follows a file name, such as `:12:5`."""

ERROR_PATTERNS: tuple[ErrorPattern, ...] = (
    *_create_error_patterns(
        CAUSE_WEIGHT,
        ("error", rf"{_POSITION}\s?:\s(?:\w+\s)?[Ee]rror\b"),  # compilers, type checkers
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
        # Rust prints the reason for a panic on the next line
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
            rf"^(?:lua: )?[^\s:()]+\.\w{{1,6}}{_POSITION}: (?!warning|note|info|remark|style)\S",
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
    *_create_error_patterns(
        VERDICT_WEIGHT,
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
"""All patterns, in descending order of weight."""

_FAILURE_WORDS = regex(
    r"(?<![\w./-])(?:errors?|fail(?:s|ed|ure|ures)?|exceptions?|fatal|can(?:no|')t|could(?: not|n't)|unable to|"
    r"not found|no such|denied|refused|invalid|unexpected(?:ly)?|undefined|unresolved|mismatch(?:ed)?|abort(?:ed|ing)?|"
    r"timed out|illegal|unsupported|forbidden|unauthorized|rejected|violat(?:es|ed|ion)|corrupt(?:ed)?|crash(?:ed)?|"
    r"conflict(?:s|ing)?|unknown|undeclared|missing|unreachable|exceeded|too many|not exist|panic)(?![\w/-]|\.\w)"
)
_WORD_KEYWORDS = (
    "error", "fail", "exception", "fatal", "cannot", "can't", "could", "unable", "not found", "no such", "denied",
    "refused", "invalid", "unexpected", "undefined", "unresolved", "mismatch", "abort", "timed out", "illegal",
    "unsupported", "forbidden", "unauthori", "rejected", "violat", "corrupt", "crash", "conflict", "unknown",
    "undeclared", "missing", "unreachable", "exceeded", "too many", "not exist", "panic",
)  # fmt: skip

_ALL_KEYWORDS = (*(keyword for shape in ERROR_PATTERNS for keyword in shape.keywords), *_WORD_KEYWORDS)
ERROR_KEYWORDS: tuple[str, ...] = tuple(
    dict.fromkeys(
        keyword
        for keyword in _ALL_KEYWORDS
        if not any(other in keyword and other != keyword for other in _ALL_KEYWORDS)
    )
)
"""Lower-case strings, at least one of which occurs in every line that reports an error (ignoring case)."""

_FLAGS = regex(r"(?<![\w-])--?[A-Za-z][^\s\]]*")
_NO_ERRORS = regex(
    r"(?i)\b(?:0|no|zero|without(?: any)?) (?:tests? |new )?"
    r"(?:errors?|fail(?:ures?|ed|ing)|problems|exceptions|conflicts)\b"
    r"|\b(?:errors?|failures?|failed|failing|aborted)[\"']?\s?[:=]\s?0\b"
)
"""Phrases such as "0 errors", which say that nothing went wrong."""
_FAILURE_COUNTS = regex(r"\b[1-9]\d{0,8} (?:tests? |specs? |examples? )?(?:failed|failing|failures?|errors?)\b")
_SUCCESS = regex(
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
_WARNING = regex(
    r"\bwarn(?:ing)?\b(?!: data race)\s?(?:[:\[(\]]|$)|^(?:npm )?warn\b|^\[?warn(?!ing: data race)|level=warn"
    r"|\bwarning\s{2}|\bdeprecationwarning\b"
)
_ERROR_WORD = regex(r"\berror\b")
_VERBOSE_LOG = regex(
    r"(?:\S{1,40}\s){0,3}\[?(?:INFO|DEBUG|TRACE|NOTICE|info|debug|trace|verb|verbose|sill|http|LOG)\b"
    r"|.*\blevel=(?:info|debug)\b"
)
_ERROR_FOOTER = regex(
    r"npm (?:ERR!|error) (?:A complete log|path|command|errno|Lifecycle|workspace|location)\b|npm (?:ERR!|error) \d+$"
    r"|\[ERROR\]\s*(?:$|->|\[Help|To see|Re-run|For more|After correcting)|.*\[Help \d\]$"
    r"|error: (?:could not compile|aborting due|test failed, to rerun|process didn't exit)|For more information"
    r"|\w+: all warnings being|\S*make(?:\[\d+\])?: (?:\*\*\* \[|Target|Leaving)|.*\bexited with"
    r"|.*\b(?:non-zero|exit (?:code|status))\b|FAILURE: Build failed|BUILD FAILED|collect2: |FAIL$|FAIL\t|FAILED$"
    r"|error Command failed|Errors? while running|.*stderr for |failures:$|Traceback \("
)
"""Lines that only summarise an error reported in earlier lines."""
_DECORATION = regex(
    r"^\s*(?:#\d+ \d+\.\d+ |[\w.-]+ +\| )?"  # output of container builds, or of several programs at once
    r"(?:(?:npm (?:ERR!|error) )?gyp (?:ERR!|verb|info|http|WARN) (?:stack )?)?"  # prefix of npm's build output
    r"(?:\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]? +)?"
    r"[\s│┃|╷╵├└─╰╭>•#]*"
)
"""Text before a line's actual message: box-drawing characters, times, program names."""

_QUOTED_TEXT = regex(r"'[^']{0,200}'|\"[^\"]{0,200}\"|`[^`]{0,200}`|‘[^’]{0,200}’")
_FILE_NAME = regex(r"(?<![^\s:('\"])[^\s:('\"]{1,200}(?=[:(]\d)")
_NUMBERED_NAME = regex(r"(?<=[A-Za-z_/-])\d+|\d+(?=[A-Za-z_])")
_NUMBER = regex(r"\b0x[0-9a-f]+\b|\d+(?:\.\d+)*|\b[0-9a-f]{12,}\b")


def error_weight(line: str) -> int:
    """Return how strongly a line reports an error: one of the weights above, or 0 if it reports no error."""
    line = line[:MAX_LINE_CHARS]
    bare = _NO_ERRORS.sub("", _FLAGS.sub("", _DECORATION.sub("", line, count=1)))
    if _SUCCESS.search(bare) and not _FAILURE_COUNTS.search(bare):
        return 0
    lowered = bare.lower()
    keywords = {keyword for keyword in _ALL_KEYWORDS if keyword in lowered}
    matching_weights = (
        shape.weight
        for shape in ERROR_PATTERNS
        if not keywords.isdisjoint(shape.keywords) and shape.pattern.search(bare)
    )
    weight = next(matching_weights, 0) or (WORDS_WEIGHT if _FAILURE_WORDS.search(lowered) else 0)
    if weight and _ERROR_FOOTER.match(bare):
        return MENTION_WEIGHT
    if "warn" in lowered and _WARNING.search(lowered) and not (weight == CAUSE_WEIGHT and _ERROR_WORD.search(lowered)):
        return 0
    if weight <= VERDICT_WEIGHT and _PROGRESS.match(bare) and "FAILED" not in bare:
        return 0
    return min(weight, MENTION_WEIGHT) if weight <= WORDS_WEIGHT and _VERBOSE_LOG.match(bare) else weight


def strongest_error_line(lines: Sequence[str]) -> str:
    """Find the line that reports an error most strongly, or the first of several such lines. Empty if no line reports
    an error."""
    strongest, highest_weight = "", 0
    for line in lines:
        weight = error_weight(line) if highest_weight < CAUSE_WEIGHT else 0
        if weight > highest_weight:
            strongest, highest_weight = line, weight
    return strongest


def is_routine_line(line: str) -> bool:
    """Whether a line only reports success, progress, a warning or the like."""
    bare = _DECORATION.sub("", line[:MAX_LINE_CHARS], count=1)
    is_quiet = (
        _SUCCESS.search(bare)
        or _NO_ERRORS.search(bare)
        or _PROGRESS.match(bare)
        or _WARNING.search(bare.lower())
        or _VERBOSE_LOG.match(bare)
    )
    return bool(is_quiet) and not error_weight(line)


def line_shape(line: str) -> str:
    """Return the line with numbers, file names and quoted names replaced, so that similar lines become equal."""
    return _NUMBER.sub("0", _FILE_NAME.sub("@", _QUOTED_TEXT.sub("''", line)))


def normalise_name_numbers(line: str) -> str:
    """Replace numbers within names with 0. Other numbers stay, because lines with different figures are not
    repetitions."""
    return _NUMBERED_NAME.sub("0", line)
