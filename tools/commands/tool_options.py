"""Harmless options of tools that check, build or format a project: none of them makes a tool load or run something
else, or write to other places. Options not listed are unknown."""

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
_OPTIONS: Mapping[str, str] = {
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
"""Rows as in `programs`: an option with a colon takes a value that is not a path, in the next word or after `=`; one
with a slash takes a path. Single letters can be combined if none takes a value."""
_BEHIND_DASHES: Mapping[str, str] = {
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
"""Arguments after `--`, which the tool passes to the tests or to the compiler. For other tools these are operands."""
_LINT_LEVEL_OPTIONS = {"-D", "-W", "-A", "-F"}
_OWN_NAMES = ("git", "npm", "pnpm", "yarn")
"""Programs with arguments that begin with `@`. Others, such as pytest, ruff, mypy and tsc, read arguments from a file
then."""
_LINT = regex(r"[\w:-]{1,80}")
_MODULE = regex(r"[\w.-]+\.[a-z]{2,}/.*|.*@.*")
"""Modules that Go would download and then test."""


_LEADS = regex(
    r"--?(?!no-)(?:[a-z]+-)*(?:config|configfile|config-file|kubeconfig|userconfig|globalconfig|rcfile|init-script|exec"
    r"|init-file|settings-file|execute|toolexec|shell|rsh|rsync-path|pager|editor|plugins?|require|preload|loader|eval"
    r"|askpass|modfile|overlay|vettool|manifest-path|node-options|registry|index-url|prefix|cwd|chdir|project-dir)"
    r"(?:=.*|\..*)?",
    re.DOTALL,
)
"""Options whose name suggests that they load, run or obey something else, or work elsewhere."""
_LEADS_BY_LETTER: Mapping[str, str] = {
    "rsync": "e", "ssh": "oF", "scp": "oFS", "sftp": "oFSb", "curl": "K", "wget": "e", "kubectl": "s", "npm": "C",
    "pnpm": "C", "go": "C", "cargo": "CZ", "gradle": "Ibcp", "gradlew": "Ibcp", "mvn": "fs", "node": "rep",
    "perl": "eEmMI", "ruby": "erI", "php": "drBRFc",
}  # fmt: skip
_LANGUAGES = ("node", "perl", "ruby", "php", "python", "python3", "ssh")
_SCRIPT = regex(r"\A\.?/|\.(?:py|[cm]?[jt]sx?|sh|rb|pl|php)\Z")
"""After a script or a host come arguments of its own."""
_MAKE_ALONE = regex(r"-j\d*|\d+|-[ksBiwnO]+|--(?:silent|keep-going|no-print-directory|always-make)|[A-Z_]+=\d{0,4}")


@dataclass(frozen=True, slots=True)
class _Options:
    flags: frozenset[str]
    valued: frozenset[str]
    places: frozenset[str]


def unknown_at(command: Sequence[str]) -> tuple[int, ...]:
    """Return the indices of words that may change what the tool does or where it does it. Empty for unknown
    programs."""
    name = " ".join(command[:2]) if " ".join(command[:2]) in _OPTIONS else "".join(command[:1])
    if name not in _OPTIONS:
        return ()
    options, found, at, is_over = _parse_row(_OPTIONS[name]), list[int](), 2 if " " in name else 1, False
    while at < len(command):
        word = command[at]
        if word[:1] == "@" and not name.startswith(_OWN_NAMES):
            found.append(at)
        elif word == "--" and not is_over:
            options, is_over = _parse_row(_BEHIND_DASHES.get(name, "")), True
        elif word[:1] != "-" or word == "-":
            if not _is_inside(word) or (name[:3] == "go " and _MODULE.fullmatch(word)):
                found.append(at)
        elif is_over and name not in _BEHIND_DASHES:
            pass  # a file whose name begins with a dash
        else:
            is_known, taken = _option(command, at, options)
            is_read = taken and command[at + 1][:1] == "@" and not name.startswith(_OWN_NAMES)
            found += [] if is_known and not is_read else [at]
            at += taken
        at += 1
    return tuple(found)


def leads_elsewhere(command: Sequence[str], named: int) -> bool:
    """Whether words after those named by a rule make the program do something other than the rule says. A rule by name
    alone says nothing about that."""
    name, behind = posixpath.basename(command[0]), command[named:]
    if named < 2:
        return False
    if name in ("make", "gmake"):
        has_target = any(word[:1] != "-" and "=" not in word for word in command[1:named])
        return has_target and not all(map(_MAKE_ALONE.fullmatch, behind))
    letters = _LEADS_BY_LETTER.get(name, "")
    told = [word for word in command[1:named] if word[:1] != "-"]
    if len(told) > (name == "ssh") and (name in _LANGUAGES or any(map(_SCRIPT.search, told))):
        return False
    if _SCRIPT.search(command[0]) and not letters:
        return False
    for word in behind[: behind.index("--")] if "--" in behind else behind:
        if name == "ssh" and word[:1] != "-":
            return False
        is_short = word[:1] == "-" and (word[1:2] in letters or (word[1:].isalpha() and len(word) < 6))
        if _LEADS.fullmatch(word) or (is_short and word != "-" and not set(letters).isdisjoint(word[1:])):
            return True
    return name == "go" and command[1:2] == ["env"] and any(word in ("-w", "-u") for word in behind)


def _option(command: Sequence[str], at: int, options: _Options) -> tuple[bool, int]:
    """Return whether an option is known with its value, and how many of the following words are that value."""
    word = command[at]
    name, sign, value = word.partition("=")
    if name in options.flags:
        return not sign, 0
    if name in options.valued or name in options.places:
        taken = 0 if sign else 1
        value = value if sign else "".join(command[at + 1 : at + 2])
        is_named = name in _LINT_LEVEL_OPTIONS and name in options.valued
        is_meant = bool(_LINT.fullmatch(value)) if is_named else name in options.valued or _is_inside(value)
        return is_meant and (bool(sign) or value == "-" or value[:1] != "-"), taken
    letters = [f"-{letter}" for letter in word[1:]]
    if word[:2] != "--" and len(letters) > 1 and command[0] != "go":  # `-pkgdir` is a single option there
        if letters[0] in options.valued and letters[0] not in _LINT_LEVEL_OPTIONS:
            return True, 0  # for example `-j4` or `-k3`
        *flags, last = letters
        if all(letter in options.flags for letter in flags) and last in options.valued | options.flags:
            return True, int(last in options.valued)
    return False, 0


def _is_inside(word: str) -> bool:
    """Whether it is not a path outside the working folder."""
    return word[:1] not in ("/", "~", "") and ".." not in re.split("[/:]", word)


@cache
def _parse_row(row: str) -> _Options:
    words = row.split()
    return _Options(
        frozenset(word for word in words if word[-1] not in ":/"),
        frozenset(word[:-1] for word in words if word[-1] == ":"),
        frozenset(word[:-1] for word in words if word[-1] == "/"),
    )
