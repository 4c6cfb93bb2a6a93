"""Options of commands.

For tools that check, build or format a project, an option is harmless if it does not make the tool load or run anything
else, or write elsewhere. Options that are not listed are unknown. For deny rules, an option counts in all its forms:
`-rf` is the same as `-fr`, `-r -f` or `--recursive --force`.
"""

import posixpath
import re
from collections.abc import Mapping, Sequence
from functools import cache

from ebbtide.tools.lazy import dataclass, regex

_CARGO = (
    "-q -v -r -j: -p: -F: --release --all --workspace --exclude: --all-targets --all-features --features:"
    " --no-default-features --package: --lib --bin: --bins --test: --tests --example: --examples --bench: --benches"
    " --doc --quiet --verbose --locked --offline --frozen --jobs: --no-run --no-fail-fast --keep-going --profile:"
    " --message-format: --color:"
)
_GO = (
    "-v -race -short -count: -run: -skip: -bench: -benchmem -benchtime: -timeout: -cover -failfast -json -p: -parallel:"
    " -tags: -n -x -a -cpu: -list: -shuffle: -trimpath"
)
_NPM = (
    "-s -ws --silent --if-present --workspaces --workspace: -w: --no-audit --no-fund --ignore-scripts --prefer-offline"
)
_OPTIONS_BY_TOOL: Mapping[str, str] = {
    "pytest": "-q -v -x -s -l -h -k: -m: -n: -r: --tb: --lf --ff --nf --sw --last-failed --failed-first --new-first"
    " --stepwise --maxfail: --collect-only --co --durations: --durations-min: --no-header --no-summary --cov --no-cov"
    " --cov-branch --cov-fail-under: --disable-warnings --verbose --quiet --exitfirst --strict-markers --strict-config"
    " --timeout: --numprocesses: --dist: --showlocals --color: --capture: --runxfail --fixtures --markers --version"
    " --help --deselect: --randomly-seed: --assert:",
    "ruff": "-q -v -s -n -e --fix --unsafe-fixes --fix-only --diff --check --select: --ignore: --extend-select: --quiet"
    " --extend-ignore: --statistics --show-fixes --show-files --no-cache --exit-zero --output-format: --preview"
    " --line-length: --target-version: --isolated --verbose --silent --exclude: --extend-exclude: --version --no-fix",
    "mypy": "-v --strict --ignore-missing-imports --show-error-codes --show-error-context --pretty --no-error-summary"
    " --check-untyped-defs --explicit-package-bases --namespace-packages --follow-imports: --no-incremental --version"
    " --disallow-untyped-defs --warn-unused-ignores --no-color-output --python-version: --platform: --exclude:",
    "pyright": "--outputjson --stats --verbose --warnings --level: --pythonversion: --pythonplatform: --version",
    "flake8": "-q -v --select: --ignore: --extend-ignore: --extend-select: --max-line-length: --max-complexity: --count"
    " --statistics --show-source --exclude: --version",
    "black": "-q -v -S -C -t: -l: --check --diff --quiet --verbose --line-length: --color --target-version: --fast"
    " --safe --preview --skip-string-normalization --version --exclude:",
    "isort": "-q -v -c --check --check-only --diff --profile: --quiet --line-length: --only-modified --atomic"
    " --version",
    "pylint": "-E -j: --disable: --enable: --errors-only --score: --recursive: --jobs: --version --max-line-length:",
    "eslint": "--fix --quiet --max-warnings: --ext: --color --no-color --report-unused-disable-directives --version"
    " --no-error-on-unmatched-pattern --fix-dry-run --debug",
    "prettier": "-c -w -l -u --check --write --list-different --log-level: --loglevel: --ignore-unknown --no-config"
    " --version --no-color",
    "tsc": "-w -b -p/ --noEmit --project/ --watch --pretty --build --incremental --skipLibCheck --strict --version"
    " --listFiles --showConfig --dry --verbose",
    "shellcheck": "-x -a -s: -e: -i: -f: -S: -o: -C: --severity: --shell: --format: --exclude: --include: --color:"
    " --version --external-sources",
    "gofmt": "-l -w -d -s -e",
    "rustfmt": "-l -v -q --check --edition: --color: --version",
    "git add": "-A -u -N -f -v -n --all --update --intent-to-add --force --verbose --dry-run --no-all --renormalize",
    "git commit": "-m: -a -s -q -o -i -u --message: --all --signoff --quiet --amend --no-edit --allow-empty --dry-run"
    " --allow-empty-message --only --include --no-gpg-sign --author: --date: --reset-author --short --porcelain -v"
    " -F/ --file/ -C: --reuse-message: --fixup: --squash: --trailer: --cleanup: --verbose",
    "git fetch": "-p -P -q -v -t -n -k -a -j: --all --prune --prune-tags --quiet --verbose --tags --no-tags --depth:"
    " --deepen: --unshallow --dry-run --jobs: --multiple --keep --append --shallow-since: --progress --atomic --force",
    **dict.fromkeys(("cargo build", "cargo check", "cargo test"), _CARGO),
    "cargo clippy": _CARGO + " --fix --allow-dirty --allow-staged --no-deps",
    "cargo fmt": "-q -v -p: --all --check --package: --quiet --verbose",
    **dict.fromkeys(("go build", "go test"), _GO),
    "go vet": "-v -json -n -x -tags: -c:",
    "go fmt": "-n -x",
    **dict.fromkeys(("npm test", "npm ci", "pnpm test", "yarn test"), _NPM),
    "npm ls": _NPM + " -a -l -g --depth: --all --long --json --global --parseable --prod --omit: --link",
}  # fmt: skip
"""Rows similar to those in `programs`. An option with a colon takes a value that is not a path, in the next word or
after `=`. An option with a slash takes a path. Single letters can be combined unless they take a value."""
_OPTIONS_AFTER_DASHES: Mapping[str, str] = {
    "cargo test": "-q --nocapture --no-capture --test-threads: --ignored --include-ignored --exact --list --skip:"
    " --quiet --show-output",
    "cargo clippy": "-D: -W: -A: -F:",
    "cargo fmt": "-l --check",
    **dict.fromkeys(
        ("npm test", "pnpm test", "yarn test"),
        "-i -t: --watch: --watchAll: --coverage --ci --runInBand --verbose --silent --bail --run --testNamePattern:"
        " --testPathPattern: --testPathPatterns: --passWithNoTests --grep: --no-coverage --updateSnapshot -u",
    ),
}
"""Options after `--`, which the tool passes on to the tests or the compiler. For tools that are not listed, words after
`--` are operands."""
_LINT_LEVEL_OPTIONS = {"-D", "-W", "-A", "-F"}
_NO_RESPONSE_FILES = ("git", "npm", "pnpm", "yarn")
"""Programs for which `@` at the start of an argument has no special meaning. Other programs, such as pytest, ruff, mypy
and tsc, would read arguments from the file named after it."""
_LINT_NAME = regex(r"[\w:-]{1,80}")
_GO_MODULE = regex(r"[\w.-]+\.[a-z]{2,}/.*|.*@.*")
"""Matches Go modules that would be downloaded and then tested."""


_ESCAPING_LONG_OPTION = regex(
    r"--?(?!no-)(?:[a-z]+-)*(?:config|configfile|config-file|kubeconfig|userconfig|globalconfig|rcfile|init-script|exec"
    r"|init-file|settings-file|execute|toolexec|shell|rsh|rsync-path|pager|editor|plugins?|require|preload|loader|eval"
    r"|askpass|modfile|overlay|vettool|manifest-path|node-options|registry|index-url|prefix|cwd|chdir|project-dir)"
    r"(?:=.*|\..*)?",
    re.DOTALL,
)
"""Matches options whose names suggest that they make the tool load, run or read something else, or work elsewhere."""
_ESCAPING_SHORT_OPTIONS: Mapping[str, str] = {
    "rsync": "e", "ssh": "oF", "scp": "oFS", "sftp": "oFSb", "curl": "K", "wget": "e", "kubectl": "s", "npm": "C",
    "pnpm": "C", "go": "C", "cargo": "CZ", "gradle": "Ibcp", "gradlew": "Ibcp", "mvn": "fs", "node": "rep",
    "perl": "eEmMI", "ruby": "erI", "php": "drBRFc",
}  # fmt: skip
_SCRIPT_RUNNERS = ("node", "perl", "ruby", "php", "python", "python3", "ssh")
_SCRIPT_NAME = regex(r"\A\.?/|\.(?:py|[cm]?[jt]sx?|sh|rb|pl|php)\Z")
"""Matches a script. The words after it are the script's own arguments."""
_SAFE_MAKE_ARGUMENT = regex(
    r"-j\d*|\d+|-[ksBiwnO]+|--(?:silent|keep-going|no-print-directory|always-make)|[A-Z_]+=\d{0,4}"
)


@dataclass(frozen=True, slots=True)
class _ParsedOptions:
    flags: frozenset[str]
    value_options: frozenset[str]
    path_options: frozenset[str]


def find_unsafe_argument_indices(command: Sequence[str]) -> tuple[int, ...]:
    """Return the indices of words that may change what the tool does or where; empty for an unknown program."""
    name = " ".join(command[:2]) if " ".join(command[:2]) in _OPTIONS_BY_TOOL else "".join(command[:1])
    if name not in _OPTIONS_BY_TOOL:
        return ()
    options = _parse_row(_OPTIONS_BY_TOOL[name])
    indices = list[int]()
    index = 2 if " " in name else 1
    is_after_dashes = False
    while index < len(command):
        word = command[index]
        if word[:1] == "@" and not name.startswith(_NO_RESPONSE_FILES):
            indices.append(index)
        elif word == "--" and not is_after_dashes:
            options, is_after_dashes = _parse_row(_OPTIONS_AFTER_DASHES.get(name, "")), True
        elif word[:1] != "-" or word == "-":
            if not _is_inside_working_folder(word) or (name[:3] == "go " and _GO_MODULE.fullmatch(word)):
                indices.append(index)
        elif is_after_dashes and name not in _OPTIONS_AFTER_DASHES:
            pass  # a file whose name begins with a dash
        else:
            is_known, value_count = _check_option(command, index, options)
            reads_response_file = (
                value_count and command[index + 1][:1] == "@" and not name.startswith(_NO_RESPONSE_FILES)
            )
            indices += [] if is_known and not reads_response_file else [index]
            index += value_count
        index += 1
    return tuple(indices)


def escapes_rule(command: Sequence[str], rule_word_count: int) -> bool:
    """Whether the words after a rule's words make the program do something other than what the rule says. False for a
    rule that consists only of the program's name, because it does not say what the program does."""
    name, later_words = posixpath.basename(command[0]), command[rule_word_count:]
    if rule_word_count < 2:
        return False
    if name in ("make", "gmake"):
        has_target = any(word[:1] != "-" and "=" not in word for word in command[1:rule_word_count])
        return has_target and not all(map(_SAFE_MAKE_ARGUMENT.fullmatch, later_words))
    letters = _ESCAPING_SHORT_OPTIONS.get(name, "")
    operands = [word for word in command[1:rule_word_count] if word[:1] != "-"]
    if len(operands) > (name == "ssh") and (name in _SCRIPT_RUNNERS or any(map(_SCRIPT_NAME.search, operands))):
        return False
    if _SCRIPT_NAME.search(command[0]) and not letters:
        return False
    for word in later_words[: later_words.index("--")] if "--" in later_words else later_words:
        if name == "ssh" and word[:1] != "-":
            return False
        is_short = word[:1] == "-" and (word[1:2] in letters or (word[1:].isalpha() and len(word) < 6))
        if _ESCAPING_LONG_OPTION.fullmatch(word) or (
            is_short and word != "-" and not set(letters).isdisjoint(word[1:])
        ):
            return True
    return name == "go" and command[1:2] == ["env"] and any(word in ("-w", "-u") for word in later_words)


def _check_option(command: Sequence[str], index: int, options: _ParsedOptions) -> tuple[bool, int]:
    """Check whether an option and its value are known to be harmless. Also return how many of the following words are
    its value."""
    word = command[index]
    name, equals, value = word.partition("=")
    if name in options.flags:
        return not equals, 0
    if name in options.value_options or name in options.path_options:
        value_count = 0 if equals else 1
        value = value if equals else "".join(command[index + 1 : index + 2])
        is_lint_level = name in _LINT_LEVEL_OPTIONS and name in options.value_options
        is_valid = (
            bool(_LINT_NAME.fullmatch(value))
            if is_lint_level
            else name in options.value_options or _is_inside_working_folder(value)
        )
        return is_valid and (bool(equals) or value == "-" or value[:1] != "-"), value_count
    letters = [f"-{letter}" for letter in word[1:]]
    if word[:2] != "--" and len(letters) > 1 and command[0] != "go":  # go has `-pkgdir` as one option
        if letters[0] in options.value_options and letters[0] not in _LINT_LEVEL_OPTIONS:
            return True, 0  # e.g. `-j4` or `-k3`
        *flags, last = letters
        if all(letter in options.flags for letter in flags) and last in options.value_options | options.flags:
            return True, int(last in options.value_options)
    return False, 0


def _is_inside_working_folder(word: str) -> bool:
    """Whether the word cannot be a path outside the working folder."""
    return word[:1] not in ("/", "~", "") and ".." not in re.split("[/:]", word)


@cache
def _parse_row(row: str) -> _ParsedOptions:
    words = row.split()
    return _ParsedOptions(
        frozenset(word for word in words if word[-1] not in ":/"),
        frozenset(word[:-1] for word in words if word[-1] == ":"),
        frozenset(word[:-1] for word in words if word[-1] == "/"),
    )


_LONG_BY_SHORT: Mapping[str, str] = {"r": "--recursive", "f": "--force"}
"""Long names of options whose letters have the same meaning in nearly every program. Letters are in lower case: `-R`
counts as `-r`."""
_SHORT_BY_LONG = {name: letter for letter, name in _LONG_BY_SHORT.items()}
_SHORT_OPTION_CLUSTER, _LETTER_GROUP = regex("-[a-z]{1,3}"), regex("-[a-z]+")
_SINGLE_DASH_LONG_OPTIONS = {"find", "go", "java", "javac", "terraform", "openssl", "ffmpeg", "xargs"}
"""Programs in which several letters after one dash form one option."""


def has_option(program: str, words: Sequence[str], option: str) -> bool:
    """Whether the words contain the option, in one word or spread over several. When in doubt, the result is true. All
    arguments must be in lower case."""
    if any(word == option or word.startswith(f"{option}=") for word in words if option[:2] == "--" or word == option):
        return True
    if option[:2] == "--":
        return _has_long_option(words, option) or _has_short_option(words, _SHORT_BY_LONG.get(option, ""))
    is_cluster = _SHORT_OPTION_CLUSTER.fullmatch(option) is not None and program not in _SINGLE_DASH_LONG_OPTIONS
    return is_cluster and all(
        _has_short_option(words, letter) or _has_long_option(words, _LONG_BY_SHORT.get(letter, ""))
        for letter in option[1:]
    )


def _has_short_option(words: Sequence[str], letter: str) -> bool:
    return bool(letter) and any(letter in word and _LETTER_GROUP.fullmatch(word) for word in words)


def _has_long_option(words: Sequence[str], name: str) -> bool:
    """Whether the words contain the long name or an abbreviation of it."""
    return bool(name) and any(len(word) > len("--") and word[:2] == "--" and name.startswith(word) for word in words)
