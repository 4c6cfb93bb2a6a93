"""Recognises tools that are started indirectly: `python -m pytest`, `uv run pytest`, `.venv/bin/pytest`, `CI=1 pytest`
and `timeout 60 pytest` are all calls of pytest. Pure; no file is read.

A rule for a tool covers these, since allowing `pytest` means the project's tests however they are started. An unknown
option or variable could change the meaning of a call, so such a call is not recognised.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ebbtide.tools.commands.command_line import Word
from ebbtide.tools.commands.nested import SHELLS, WRAPPERS
from ebbtide.tools.commands.programs import ONLY_KNOWN, ROWS, set_of
from ebbtide.tools.lazy import dataclass, regex

_NAME = regex(r"[A-Za-z][\w-]*")
_ASSIGNMENT = regex(r"[A-Za-z_]\w*=.*")
_VALUE = regex(r"[\w.,+@-]{0,80}|[A-Z][a-z]+/[A-Za-z_]+")
"""Neither a path nor an address, except for time zones."""
_HARMLESS = set_of(
    "CI TERM TZ LANG LANGUAGE NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE PY_COLORS COLUMNS LINES DEBUG VERBOSE"
    " LOG_LEVEL PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONUTF8 PYTHONIOENCODING PYTHONDEVMODE"
    " PYTHONFAULTHANDLER PYTHONASYNCIODEBUG PYTHONTRACEMALLOC PYTHONNOUSERSITE PYTHONSAFEPATH HYPOTHESIS_PROFILE"
    " PYTEST_DISABLE_PLUGIN_AUTOLOAD NODE_ENV APP_ENV RAILS_ENV RACK_ENV FLASK_ENV ENVIRONMENT TESTING RUST_BACKTRACE"
    " RUST_LOG RUST_TEST_THREADS CARGO_TERM_COLOR CARGO_INCREMENTAL CGO_ENABLED GOOS GOARCH GO111MODULE GOMAXPROCS"
    " OMP_NUM_THREADS MKL_NUM_THREADS CUDA_VISIBLE_DEVICES TF_CPP_MIN_LOG_LEVEL TOKENIZERS_PARALLELISM HF_HUB_OFFLINE"
    " UV_OFFLINE UV_FROZEN UV_NO_SYNC QT_QPA_PLATFORM SDL_VIDEODRIVER"
)
"""Variables that only change a tool's output or its number of threads, and load nothing."""
_HARMLESS_VALUES = regex(
    r"PYTHONWARNINGS=(?:default|error|always|module|once|ignore)(?:::[A-Za-z]+)?"
    r"|GOFLAGS=-(?:mod=(?:vendor|mod|readonly)|v|race|count=\d+)"
    r"|GIT_(?:SEQUENCE_)?EDITOR=(?:true|:)|(?:GIT_)?PAGER=(?:cat|)|GIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL|DATE)=[^\n]*"
    r"|GIT_(?:TERMINAL_PROMPT|OPTIONAL_LOCKS|LFS_SKIP_SMUDGE|TRACE)=[012]|GIT_MERGE_AUTOEDIT=no"
)
"""Variables and values that are harmless. Other values would load code: a warning class that is not built in, or a
program that go starts."""
_CODE = regex(r"PYTHONPATH=(?P<folders>[\w./:-]*)|DJANGO_SETTINGS_MODULE=[A-Za-z_][\w.]*")
"""Variables that name code of the project."""
_RUNNERS: Mapping[str, str] = {
    "uv run": "--frozen --locked --no-sync --offline --quiet -q --verbose -v --dev --no-dev --all-extras --all-groups "
    "--active --no-progress --extra: --group: --only-group: --python: -p:",
    **dict.fromkeys(("poetry run", "pdm run", "hatch run", "pipenv run", "rye run", "pixi run", "bundle exec"), ""),
    "npx": "--no-install --no", "npm exec": "--no-install --no --", "bunx": "--no-install", "pnpm exec": "",
    "yarn exec": "", "yarn run": "", "yarn": "", "pnpm": "",
}  # fmt: skip
"""Programs that start a tool from the project's environment, with their harmless options."""
_FETCHES = {"npx", "npm exec", "bunx"}
"""Runners that download a tool if it is not installed."""
_STAY_HERE = {"--no-install", "--no"}
_PYTHON, _PYTHON_FLAGS = regex(r"python(?:3(?:\.\d{1,2})?)?"), regex("-[uBqbOsPI]+")
_MODULES = set_of(
    "pytest ruff mypy black isort flake8 pylint pyright tox nox unittest coverage pip build alembic bandit"
)
"""Python modules that are the program of the same name."""
_NODE_TOOLS = set_of(
    "eslint prettier tsc jest vitest mocha ava playwright cypress tsx biome vue-tsc rollup vite webpack"
)
_RUNS_PROJECT = set_of(
    "pytest tox nox unittest coverage mypy pylint flake8 alembic eslint prettier jest vitest mocha ava playwright "
    "cypress vite webpack rollup rspec rake rails phpunit npm pnpm yarn make"
)
"""Tools that always run the project's code: its tests, plugins or settings. Starting them from the project itself runs
no more than the user has allowed."""
_FOLDER = regex(r"(?:\./)?(?:(?:\.?venv|env|vendor)/bin|node_modules/\.bin)/(?P<name>[\w.-]+)")
_LIMITS: Mapping[str, str] = {"timeout": r"[\d.]+[smhd]?", "nice": "", "stdbuf": ""}
"""Programs that only limit the one after them, with the argument they need before it."""
_LIMIT_OPTIONS = regex(
    r"-[ks][\w.]+|--(?:signal|kill-after)=[\w.]+|--foreground|--preserve-status|-n?\d{1,2}|--adjustment=\d+|-[ioe][L0]"
)
_LIMIT_VALUES = {"-k", "-s", "-n"}
_LEADING: Mapping[str, str] = {
    "npm": "-s|--silent|--quiet", "pnpm": "-s|--silent", "yarn": "-s|--silent",
    "cargo": "-q|--quiet|-v|--verbose|--locked|--offline",
    "make": r"-[skB]+|--silent|--keep-going|--no-print-directory|--always-make|-j\d{0,3}",
}  # fmt: skip
"""Options before a subcommand that mean the same after it."""
_SCRIPTS = {(tool, word) for tool in ("npm", "pnpm", "yarn") for word in ("run", "run-script")}
_ACTIVATION = regex(r"(?:\./)?(?P<folder>\.?venv|env)/bin/activate")
_MAX_DEPTH = 4


@dataclass(frozen=True, slots=True)
class ToolLaunch:
    """A tool that is started indirectly."""

    words: tuple[Word, ...]
    """The equivalent direct call."""
    programs: tuple[str, ...] = ()
    """Programs of the project that are named by path."""
    fetched: str = ""
    """The tool that is downloaded if the project does not have it."""
    runs_project: bool = False
    """Whether the project's code may run before the tool or in place of it."""

    @property
    def runs_more(self) -> bool:
        """Whether more of the project's code may run than the tool runs anyway."""
        return self.runs_project and self.words[0].text not in _RUNS_PROJECT

    @property
    def is_in_doubt(self) -> bool:
        """Whether files must be examined to be sure that it is that tool and nothing more."""
        return bool(self.programs or self.fetched or self.runs_more)


def tool_launch(words: Sequence[Word]) -> ToolLaunch | None:
    """Return the tool that a command starts indirectly, or None if there is none or it is unclear."""
    found = _last_of(ToolLaunch(tuple(words)))
    if found is None:
        return None
    found = replace(found, words=_with_task_first(found.words))
    name = found.words[0].text
    is_tool = _NAME.fullmatch(name) is not None and name not in _NO_TOOLS
    return found if is_tool and found.words != tuple(words) else None


def _last_of(found: ToolLaunch) -> ToolLaunch | None:
    """Remove all indirections from the call. None if one is unknown."""
    for _ in range(_MAX_DEPTH):
        further = _further(found)
        if further is None or further == found:
            return further
        found = further
    return found


def git_behind(words: Sequence[Word]) -> tuple[Word, ...] | None:
    """Return the git call behind harmless variables and limits such as `timeout 60`, or None."""
    found = _last_of(ToolLaunch(tuple(words)))
    is_git = found is not None and found.words[0].text == "git" and found.words != tuple(words)
    return found.words if is_git and found is not None else None


_NO_TOOLS = (
    SHELLS | WRAPPERS | {name.split()[0] for name in _RUNNERS if " " in name and name.split()[0] not in _RUNS_PROJECT}
    | {name.split()[0] for name in (*ROWS, *ONLY_KNOWN, "find", "sed", "awk")}
    | {"eval", "source", "npx", "bunx"}
)  # fmt: skip
"""Not tools: read-only programs are proved by their own words, so rules cover them as written, and the others run
programs."""


def venv_bin_folder(command: Sequence[str]) -> str:
    """Return the folder that a command such as `source .venv/bin/activate` puts first in the path, or an empty
    string."""
    path = _ACTIVATION.fullmatch(command[1]) if len(command) == 2 and command[0] in ("source", ".") else None
    return f"{path['folder']}/bin" if path is not None else ""


def _further(found: ToolLaunch) -> ToolLaunch | None:
    """Remove one indirection. The same call if there is none, None if one is unknown."""
    words = found.words
    texts = [word.text if word.is_plain else "" for word in words]
    if not texts or not texts[0]:
        return None
    if _ASSIGNMENT.fullmatch(texts[0]):
        return _behind_variable(found, texts[0]) if len(texts) > 1 else None
    if texts[0] == "env":
        is_assigned = len(texts) > 1 and _ASSIGNMENT.fullmatch(texts[1])
        return replace(found, words=words[1:]) if is_assigned else None
    if texts[0] in _LIMITS:
        at = _behind_limits(texts)
        return replace(found, words=words[at:]) if at else None
    folder = _FOLDER.fullmatch(texts[0])
    if folder is not None:
        named = (Word(folder["name"]), *words[1:])
        return replace(found, words=named, programs=(*found.programs, texts[0]), runs_project=True)
    if _PYTHON.fullmatch(texts[0]):
        at = next((at for at, text in enumerate(texts) if at and not _PYTHON_FLAGS.fullmatch(text)), len(texts))
        is_module = texts[at : at + 1] == ["-m"] and at + 1 < len(texts) and texts[at + 1] in _MODULES
        return replace(found, words=words[at + 1 :], runs_project=True) if is_module else found
    return _behind_runner(found, texts)


def _behind_variable(found: ToolLaunch, text: str) -> ToolLaunch | None:
    name, _, value = text.partition("=")
    code = _CODE.fullmatch(text)
    if code is not None:
        folders = (code["folders"] or "").split(":")
        is_inside = not any(each[:1] == "/" or ".." in each.split("/") for each in folders)
        return replace(found, words=found.words[1:], runs_project=True) if is_inside else None
    is_harmless = (name in _HARMLESS or name.startswith("LC_")) and _VALUE.fullmatch(value)
    return replace(found, words=found.words[1:]) if is_harmless or _HARMLESS_VALUES.fullmatch(text) else None


def _behind_limits(texts: Sequence[str]) -> int:
    """Return the index of the program after a limiting one, or 0 if unknown."""
    at, needed = 1, _LIMITS[texts[0]]
    while at < len(texts) and texts[at][:1] == "-":
        if texts[at] in _LIMIT_VALUES and at + 1 < len(texts) and texts[at + 1][:1] not in ("-", ""):
            at += 1
        elif not _LIMIT_OPTIONS.fullmatch(texts[at]):
            return 0
        at += 1
    if needed:
        at = at + 1 if at < len(texts) and regex(needed).fullmatch(texts[at]) else len(texts)
    return at if at < len(texts) else 0


def _behind_runner(found: ToolLaunch, texts: Sequence[str]) -> ToolLaunch | None:
    runner = next((name for name in (" ".join(texts[:2]), texts[0]) if name in _RUNNERS), None)
    if runner is None:
        return found
    options, at = _RUNNERS[runner].split(), runner.count(" ") + 1
    while at < len(texts) and texts[at][:1] == "-":
        if runner == "uv run" and texts[at] in ("-m", "--module"):
            is_known = texts[at + 1 : at + 2] and texts[at + 1] in _MODULES
            return replace(found, words=found.words[at + 1 :], runs_project=True) if is_known else None
        if texts[at] not in options and f"{texts[at]}:" not in options:
            return None
        if f"{texts[at]}:" in options:
            at += 1
            if at >= len(texts) or not _VALUE.fullmatch(texts[at]) or texts[at][:1] in ("-", ""):
                return None
        at += 1
    if at >= len(texts) or not texts[at]:
        return None
    if runner.startswith(("yarn", "pnpm")) and runner[-5:] != " exec" and texts[at] not in _NODE_TOOLS:
        return found  # a script, or a subcommand of the runner
    is_fetched = runner in _FETCHES and _STAY_HERE.isdisjoint(texts[:at])
    return replace(found, words=found.words[at:], runs_project=True, fetched=texts[at] if is_fetched else "")


def _with_task_first(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the call with its subcommand first and the tool under its usual name."""
    name, *rest = words
    leading = _LEADING.get(name.text)
    if leading is None:
        return words
    at = next((at for at, word in enumerate(rest) if not regex(leading).fullmatch(word.text)), len(rest))
    told = (name, *rest[at:], *rest[:at])
    if tuple(word.text for word in told[:2]) in _SCRIPTS and [word.text for word in told[2:3]] == ["test"]:
        return (name, *told[2:])
    return (
        (name, Word("test"), *told[2:]) if [word.text for word in told[:2]] in (["npm", "t"], ["npm", "tst"]) else told
    )
