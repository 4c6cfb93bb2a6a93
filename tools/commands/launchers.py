"""Recognises tools that are started indirectly: `python -m pytest`, `uv run pytest`, `.venv/bin/pytest`, `CI=1 pytest`
and `timeout 60 pytest` are all calls to pytest. No I/O.

A rule for a tool covers these calls too: allowing `pytest` means allowing the project's tests, however they are
started. An unknown option or variable could change the meaning of a call, so calls with unknown options or variables
are not recognised.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ebbtide.tools.commands.command_line import Word
from ebbtide.tools.commands.nested import SHELLS, WRAPPERS
from ebbtide.tools.commands.programs import READ_ONLY_ROWS, RULE_APPROVED_ROWS, split_words
from ebbtide.tools.lazy import dataclass, regex

_TOOL_NAME = regex(r"[A-Za-z][\w-]*")
_ASSIGNMENT = regex(r"[A-Za-z_]\w*=.*")
_PLAIN_VALUE = regex(r"[\w.,+@-]{0,80}|[A-Z][a-z]+/[A-Za-z_]+")
"""Matches a value that is neither a path nor an address. Time zones also match."""
_HARMLESS_VARIABLES = split_words(
    "CI TERM TZ LANG LANGUAGE NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE PY_COLORS COLUMNS LINES DEBUG VERBOSE"
    " LOG_LEVEL PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONUTF8 PYTHONIOENCODING PYTHONDEVMODE"
    " PYTHONFAULTHANDLER PYTHONASYNCIODEBUG PYTHONTRACEMALLOC PYTHONNOUSERSITE PYTHONSAFEPATH HYPOTHESIS_PROFILE"
    " PYTEST_DISABLE_PLUGIN_AUTOLOAD NODE_ENV APP_ENV RAILS_ENV RACK_ENV FLASK_ENV ENVIRONMENT TESTING RUST_BACKTRACE"
    " RUST_LOG RUST_TEST_THREADS CARGO_TERM_COLOR CARGO_INCREMENTAL CGO_ENABLED GOOS GOARCH GO111MODULE GOMAXPROCS"
    " OMP_NUM_THREADS MKL_NUM_THREADS CUDA_VISIBLE_DEVICES TF_CPP_MIN_LOG_LEVEL TOKENIZERS_PARALLELISM HF_HUB_OFFLINE"
    " UV_OFFLINE UV_FROZEN UV_NO_SYNC QT_QPA_PLATFORM SDL_VIDEODRIVER"
)
"""Variables that only change a tool's output, mode or number of threads, and do not load anything."""
_HARMLESS_ASSIGNMENT = regex(
    r"PYTHONWARNINGS=(?:default|error|always|module|once|ignore)(?:::[A-Za-z]+)?"
    r"|GOFLAGS=-(?:mod=(?:vendor|mod|readonly)|v|race|count=\d+)"
    r"|GIT_(?:SEQUENCE_)?EDITOR=(?:true|:)|(?:GIT_)?PAGER=(?:cat|)|GIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL|DATE)=[^\n]*"
    r"|GIT_(?:TERMINAL_PROMPT|OPTIONAL_LOCKS|LFS_SKIP_SMUDGE|TRACE)=[012]|GIT_MERGE_AUTOEDIT=no"
)
"""Matches harmless values of variables that can also load or run code: `PYTHONWARNINGS` could name a class, and
`GOFLAGS` a program."""
_CODE_ASSIGNMENT = regex(r"PYTHONPATH=(?P<folders>[\w./:-]*)|DJANGO_SETTINGS_MODULE=[A-Za-z_][\w.]*")
"""Matches assignments that point a variable at project code."""
_RUNNERS: Mapping[str, str] = {
    "uv run": "--frozen --locked --no-sync --offline --quiet -q --verbose -v --dev --no-dev --all-extras --all-groups "
    "--active --no-progress --extra: --group: --only-group: --python: -p:",
    **dict.fromkeys(("poetry run", "pdm run", "hatch run", "pipenv run", "rye run", "pixi run", "bundle exec"), ""),
    "npx": "--no-install --no", "npm exec": "--no-install --no --", "bunx": "--no-install", "pnpm exec": "",
    "yarn exec": "", "yarn run": "", "yarn": "", "pnpm": "",
}  # fmt: skip
"""Programs that start a tool from the project's environment, each with its harmless options. An option with a colon
takes a value."""
_FETCHING_RUNNERS = {"npx", "npm exec", "bunx"}
"""Runners that download a tool if it is not installed."""
_NO_FETCH_OPTIONS = {"--no-install", "--no"}
_PYTHON, _PYTHON_FLAGS = regex(r"python(?:3(?:\.\d{1,2})?)?"), regex("-[uBqbOsPI]+")
_MODULES = split_words(
    "pytest ruff mypy black isort flake8 pylint pyright tox nox unittest coverage pip build alembic bandit"
)
"""Python modules that are equivalent to the program of the same name."""
_NODE_TOOLS = split_words(
    "eslint prettier tsc jest vitest mocha ava playwright cypress tsx biome vue-tsc rollup vite webpack"
)
_PROJECT_CODE_TOOLS = split_words(
    "pytest tox nox unittest coverage mypy pylint flake8 alembic eslint prettier jest vitest mocha ava playwright "
    "cypress vite webpack rollup rspec rake rails phpunit npm pnpm yarn make"
)
"""Tools that always run the project's code: its tests, plugins or settings. Starting the project's own copy of such a
tool runs no more code than the user has allowed."""
_TOOL_PATH = regex(r"(?:\./)?(?:(?:\.?venv|env|vendor)/bin|node_modules/\.bin)/(?P<name>[\w.-]+)")
_LIMITING_PROGRAMS: Mapping[str, str] = {"timeout": r"[\d.]+[smhd]?", "nice": "", "stdbuf": ""}
"""Programs that only limit the program after them, each with a pattern for its required argument."""
_LIMIT_OPTIONS = regex(
    r"-[ks][\w.]+|--(?:signal|kill-after)=[\w.]+|--foreground|--preserve-status|-n?\d{1,2}|--adjustment=\d+|-[ioe][L0]"
)
_LIMIT_VALUES = {"-k", "-s", "-n"}
_MOVABLE_OPTIONS: Mapping[str, str] = {
    "npm": "-s|--silent|--quiet", "pnpm": "-s|--silent", "yarn": "-s|--silent",
    "cargo": "-q|--quiet|-v|--verbose|--locked|--offline",
    "make": r"-[skB]+|--silent|--keep-going|--no-print-directory|--always-make|-j\d{0,3}",
}  # fmt: skip
"""Patterns of options that mean the same before and after a subcommand."""
_SCRIPTS = {(tool, word) for tool in ("npm", "pnpm", "yarn") for word in ("run", "run-script")}
_ACTIVATION = regex(r"(?:\./)?(?P<folder>\.?venv|env)/bin/activate")
_MAX_DEPTH = 4


@dataclass(frozen=True, slots=True)
class ToolLaunch:
    """A tool that is started indirectly."""

    words: tuple[Word, ...]
    """The equivalent direct call."""
    programs: tuple[str, ...] = ()
    """Paths of the project's programs that the command names."""
    fetched_tool: str = ""
    """The tool that is downloaded if the project does not have it; empty if none."""
    may_run_project_code: bool = False
    """Whether project code might run before the tool or instead of it."""

    @property
    def runs_other_project_code(self) -> bool:
        """Whether more of the project's code might run than the tool itself would run."""
        return self.may_run_project_code and self.words[0].text not in _PROJECT_CODE_TOOLS

    @property
    def needs_file_check(self) -> bool:
        """Whether files must be examined to verify that the command starts this tool."""
        return bool(self.programs or self.fetched_tool or self.runs_other_project_code)


def find_tool_launch(words: Sequence[Word]) -> ToolLaunch | None:
    """Find the tool that a command starts indirectly. None if there is no such tool or if it is unclear which tool is
    started."""
    launch = _without_indirections(ToolLaunch(tuple(words)))
    if launch is None:
        return None
    launch = replace(launch, words=_with_subcommand_first(launch.words))
    name = launch.words[0].text
    is_tool = _TOOL_NAME.fullmatch(name) is not None and name not in _NOT_TOOLS
    return launch if is_tool and launch.words != tuple(words) else None


def _without_indirections(launch: ToolLaunch) -> ToolLaunch | None:
    """Remove all indirections from the call. None if one of them is unknown."""
    for _ in range(_MAX_DEPTH):
        reduced = _without_one_indirection(launch)
        if reduced is None or reduced == launch:
            return reduced
        launch = reduced
    return launch


def find_wrapped_git_call(words: Sequence[Word]) -> tuple[Word, ...] | None:
    """Return the git call without the harmless variables and limits (such as `timeout 60`) before it. None if it is not
    a git call."""
    launch = _without_indirections(ToolLaunch(tuple(words)))
    is_git = launch is not None and launch.words[0].text == "git" and launch.words != tuple(words)
    return launch.words if is_git and launch is not None else None


_NOT_TOOLS = (
    SHELLS
    | WRAPPERS
    | {name.split()[0] for name in _RUNNERS if " " in name and name.split()[0] not in _PROJECT_CODE_TOOLS}
    | {name.split()[0] for name in (*READ_ONLY_ROWS, *RULE_APPROVED_ROWS, "find", "sed", "awk")}
    | {"eval", "source", "npx", "bunx"}
)
"""Programs that do not count as tools: programs that run other programs, and read-only programs. Read-only programs are
judged by their own words, and rules cover them as written."""


def venv_bin_folder(command: Sequence[str]) -> str:
    """Return the folder that a command such as `source .venv/bin/activate` puts first in the path. Empty for other
    commands."""
    activation_match = (
        _ACTIVATION.fullmatch(command[1]) if len(command) == 2 and command[0] in ("source", ".") else None
    )
    return f"{activation_match['folder']}/bin" if activation_match is not None else ""


def _without_one_indirection(launch: ToolLaunch) -> ToolLaunch | None:
    """Remove one indirection from the call. Return the same call if there is none, or None if the indirection is
    unknown."""
    words = launch.words
    texts = [word.text if word.is_plain else "" for word in words]
    if not texts or not texts[0]:
        return None
    if _ASSIGNMENT.fullmatch(texts[0]):
        return _without_variable(launch, texts[0]) if len(texts) > 1 else None
    if texts[0] == "env":
        is_assigned = len(texts) > 1 and _ASSIGNMENT.fullmatch(texts[1])
        return replace(launch, words=words[1:]) if is_assigned else None
    if texts[0] in _LIMITING_PROGRAMS:
        index = _index_after_limits(texts)
        return replace(launch, words=words[index:]) if index else None
    path_match = _TOOL_PATH.fullmatch(texts[0])
    if path_match is not None:
        direct_words = (Word(path_match["name"]), *words[1:])
        return replace(launch, words=direct_words, programs=(*launch.programs, texts[0]), may_run_project_code=True)
    if _PYTHON.fullmatch(texts[0]):
        index = next(
            (index for index, text in enumerate(texts) if index and not _PYTHON_FLAGS.fullmatch(text)), len(texts)
        )
        is_module = texts[index : index + 1] == ["-m"] and index + 1 < len(texts) and texts[index + 1] in _MODULES
        return replace(launch, words=words[index + 1 :], may_run_project_code=True) if is_module else launch
    return _without_runner(launch, texts)


def _without_variable(launch: ToolLaunch, text: str) -> ToolLaunch | None:
    name, _, value = text.partition("=")
    code_match = _CODE_ASSIGNMENT.fullmatch(text)
    if code_match is not None:
        folders = (code_match["folders"] or "").split(":")
        is_inside = not any(folder[:1] == "/" or ".." in folder.split("/") for folder in folders)
        return replace(launch, words=launch.words[1:], may_run_project_code=True) if is_inside else None
    is_harmless = (name in _HARMLESS_VARIABLES or name.startswith("LC_")) and _PLAIN_VALUE.fullmatch(value)
    return replace(launch, words=launch.words[1:]) if is_harmless or _HARMLESS_ASSIGNMENT.fullmatch(text) else None


def _index_after_limits(texts: Sequence[str]) -> int:
    """Return the index of the program after a limiting program. 0 if it cannot be determined."""
    index, required_pattern = 1, _LIMITING_PROGRAMS[texts[0]]
    while index < len(texts) and texts[index][:1] == "-":
        if texts[index] in _LIMIT_VALUES and index + 1 < len(texts) and texts[index + 1][:1] not in ("-", ""):
            index += 1
        elif not _LIMIT_OPTIONS.fullmatch(texts[index]):
            return 0
        index += 1
    if required_pattern:
        index = index + 1 if index < len(texts) and regex(required_pattern).fullmatch(texts[index]) else len(texts)
    return index if index < len(texts) else 0


def _without_runner(launch: ToolLaunch, texts: Sequence[str]) -> ToolLaunch | None:
    runner = next((name for name in (" ".join(texts[:2]), texts[0]) if name in _RUNNERS), None)
    if runner is None:
        return launch
    options, index = _RUNNERS[runner].split(), runner.count(" ") + 1
    while index < len(texts) and texts[index][:1] == "-":
        if runner == "uv run" and texts[index] in ("-m", "--module"):
            is_known = texts[index + 1 : index + 2] and texts[index + 1] in _MODULES
            return replace(launch, words=launch.words[index + 1 :], may_run_project_code=True) if is_known else None
        if texts[index] not in options and f"{texts[index]}:" not in options:
            return None
        if f"{texts[index]}:" in options:
            index += 1
            if index >= len(texts) or not _PLAIN_VALUE.fullmatch(texts[index]) or texts[index][:1] in ("-", ""):
                return None
        index += 1
    if index >= len(texts) or not texts[index]:
        return None
    if runner.startswith(("yarn", "pnpm")) and runner[-5:] != " exec" and texts[index] not in _NODE_TOOLS:
        return launch  # a script, or a subcommand of the runner itself
    is_fetched = runner in _FETCHING_RUNNERS and _NO_FETCH_OPTIONS.isdisjoint(texts[:index])
    return replace(
        launch, words=launch.words[index:], may_run_project_code=True, fetched_tool=texts[index] if is_fetched else ""
    )


def _with_subcommand_first(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Move the subcommand to the front, and write `test` in its usual form."""
    name, *arguments = words
    option_pattern = _MOVABLE_OPTIONS.get(name.text)
    if option_pattern is None:
        return words
    subcommand_index = next(
        (index for index, word in enumerate(arguments) if not regex(option_pattern).fullmatch(word.text)),
        len(arguments),
    )
    reordered = (name, *arguments[subcommand_index:], *arguments[:subcommand_index])
    if tuple(word.text for word in reordered[:2]) in _SCRIPTS and [word.text for word in reordered[2:3]] == ["test"]:
        return (name, *reordered[2:])
    return (
        (name, Word("test"), *reordered[2:])
        if [word.text for word in reordered[:2]] in (["npm", "t"], ["npm", "tst"])
        else reordered
    )
