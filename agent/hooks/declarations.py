"""Collects the hooks of a session, from our configuration and from files written for Claude Code, with what must be
approved. Does not run them."""

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ebbtide.agent.config.hook_tables import (
    CALL_EVENTS,
    HookAction,
    HookEntry,
    HookEvent,
    HttpTarget,
    ModelQuestion,
    ServerCall,
    read_hooks,
)
from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.extension_files import (
    UnusableFile,
    files_below,
    is_script,
    scripts_among,
    table_of,
    text_of,
)
from ebbtide.agent.extensions.extension_folders import ExtensionFolder, Owner, extension_folders
from ebbtide.agent.extensions.folder_names import in_one_word
from ebbtide.agent.extensions.plugins import used_plugins
from ebbtide.agent.extensions.trust import TrustItem, digest_of_text
from ebbtide.agent.hooks.matchers import why_never
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.process.shell import argv_of

DEFAULT_TIMEOUT_S = 600.0
"""Default timeout of a hook; some run a whole test suite."""
MODEL_TIMEOUT_S, AGENT_TIMEOUT_S = 30.0, 60.0
"""Default timeouts of hooks that ask a model or an agent."""
_EVENT_TIMEOUTS_S: Mapping[HookEvent, float] = {"UserPromptSubmit": 30.0, "SessionEnd": 5.0}
"""Default timeouts of events that keep the user waiting."""
PROJECT_DIR, PLUGIN_ROOT = "CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT"
"""Environment variables that tell a hook its project or plugin folder."""
_FOLDER = re.compile(rf"\$\{{({PROJECT_DIR}|{PLUGIN_ROOT})\}}")
IN_SANDBOX = (
    "Hooks run automatically, without asking: in the sandbox without network access, or as you if there is no "
    "sandbox; local servers and your model may be sent events. They can deny calls or ask, but not allow them."
)
AS_YOURS = "They run automatically, without asking, outside the sandbox, and can do anything that you can do."


@dataclass(frozen=True, slots=True)
class HookFile:
    """A file that declares hooks and needs approval, as read at the start of the session."""

    item: TrustItem
    looked_up: Callable[[], str] = field(repr=False)
    """Recompute the current digest. Raises `UnusableFile`."""

    def is_as_it_was(self) -> bool:
        try:
            return self.looked_up() == self.item.digest
        except UnusableFile:
            return False


@dataclass(frozen=True, slots=True)
class DeclaredHook:
    """A hook declared for a session."""

    entry: HookEntry
    owner: Owner
    source: str
    """The file that declares the hook, for people."""
    file: HookFile | None = None
    """The file to approve; None if no approval is needed."""
    plugin: str = ""
    """The folder of the plugin that contains the hook."""

    @property
    def event(self) -> HookEvent:
        return self.entry.event

    @property
    def seconds(self) -> float:
        """Timeout in seconds."""
        if self.entry.timeout is not None:
            return self.entry.timeout
        if isinstance(action := self.entry.action, ModelQuestion):
            return AGENT_TIMEOUT_S if action.looks else MODEL_TIMEOUT_S
        return _EVENT_TIMEOUTS_S.get(self.event, DEFAULT_TIMEOUT_S)

    @property
    def problem(self) -> str:
        """Why the hook will never run; empty if it can."""
        action = self.entry.action
        if self.owner == "project" and isinstance(action, HttpTarget) and not action.is_local:
            return f"{self.label} is left out: hooks of a project may only reach servers on this machine"
        if self.owner == "project" and isinstance(action, ServerCall):
            return f"{self.label} is left out: hooks of a project cannot call tools without asking"
        never = why_never(self.entry.matcher, is_of_calls=self.event in CALL_EVENTS)
        return f"{self.label} is left out: {never}" if never else ""

    @property
    def label(self) -> str:
        """A label for the hook, as used in sentences."""
        return f"the hook `{ellipsize(' '.join(self.entry.action_text.split()), 80)}` for {self.event}"

    def argv(self, project: str) -> tuple[str, ...]:
        """The program with its arguments; empty for a hook that is not a program."""
        folders = {PROJECT_DIR: project, PLUGIN_ROOT: self.plugin}
        match self.entry.action:
            case str() as line:
                return argv_of(in_one_word(line, folders))
            case tuple() as words:
                filled = [_FOLDER.sub(lambda found: folders[found[1]], word) for word in words]
                return (os.path.expanduser(filled[0]), *filled[1:])
            case _:
                return ()


@dataclass(frozen=True, slots=True)
class DeclaredHooks:
    hooks: tuple[DeclaredHook, ...] = ()
    problems: tuple[str, ...] = ()
    """What was ignored and why, one sentence each."""

    @property
    def files(self) -> tuple[HookFile, ...]:
        return tuple(dict.fromkeys(hook.file for hook in self.hooks if hook.file is not None))


def declared_hooks(config: Config) -> DeclaredHooks:
    """Collect all hooks in order of precedence: the user's, then those of plugins, then the project's."""
    source = str(config.folders.config / "config.toml")
    found = [DeclaredHook(each, "user", source) for each in config.hooks]
    problems: list[str] = []
    for place in extension_folders("hook", config):
        for name in ("hooks.json",) if place.source == "ebb" else _settings_of(place):
            path = place.folder / name
            if os.path.lexists(path):
                found += _of_file(path, place, config, problems)
    for plugin in used_plugins(config) if os.path.isdir(config.folders.data / "plugins") else ():
        place = ExtensionFolder("hook", "plugin", "claude", plugin.folder, plugin.folder)
        for path in plugin.files("hooks", "hooks/hooks.json"):
            found += _of_file(path, place, config, problems)
    problems += filter(None, (hook.problem for hook in found))
    return DeclaredHooks(tuple(hook for hook in found if not hook.problem), tuple(problems))


def _settings_of(place: ExtensionFolder) -> tuple[str, ...]:
    return ("settings.json", "settings.local.json") if place.owner == "project" else ("settings.json",)


def _of_file(path: Path, place: ExtensionFolder, config: Config, problems: list[str]) -> Iterator[DeclaredHook]:
    shown = _display_path(path, config)
    try:
        tables, commands = _read_hook_file(path, place.boundary, shown, problems)
        if not commands:
            return
        plugin = str(place.folder) if place.owner == "plugin" else ""
        file = None
        if place.owner == "project" or (place.owner == "user" and place.source != "ebb"):

            def look_up() -> str:
                again, _ = _read_hook_file(path, place.boundary, shown, [])
                return _digest(again, _scripts(commands, config), config)

            item = TrustItem(
                "hook", shown, "project", shown, _digest(tables, _scripts(commands, config), config),
                _lines(commands, config), IN_SANDBOX if place.owner == "project" else AS_YOURS,
            )  # fmt: skip
            file = HookFile(item, look_up)
    except UnusableFile as error:
        problems.append(f"the hooks of `{shown}` are left out: {error}")
        return
    for each in commands:
        yield DeclaredHook(each, place.owner, shown, file, plugin)


def _read_hook_file(
    path: Path, boundary: Path | None, shown: str, problems: list[str]
) -> tuple[Mapping[str, object], tuple[HookEntry, ...]]:
    """Return the hook tables of a file and the hooks that can be run. Raises `UnusableFile`."""
    content = table_of(path, boundary, may_be_empty=True)
    tables = content.get("hooks", {})
    if content.get("disableAllHooks") is True or not tables:
        return {}, ()
    if not isinstance(tables, dict):
        raise UnusableFile("its `hooks` is not a table of events")
    commands, left_out = read_hooks(tables)
    problems += [f"`{shown}`: {problem}" for problem in left_out]
    return tables, commands


def _scripts(commands: Sequence[HookEntry], config: Config) -> tuple[Path, ...]:
    """Project files named in the commands; they are approved together with their contents."""
    words = (word for each in commands for word in _words(each.action, config.project))
    return scripts_among(words, config.project, config.project)


def _words(action: HookAction, project: Path) -> Iterator[str]:
    """Yield all words of a hook's action that may be paths."""
    match action:
        case str():
            try:
                words = shlex.split(action, posix=True)
            except ValueError:
                words = action.split()
        case tuple():
            words = list(action)
        case _:
            words = []
    for word in words:
        for name in (f"${{{PROJECT_DIR}}}", f"${PROJECT_DIR}"):
            word = word.replace(name, str(project))
        yield word


def _digest(tables: Mapping[str, object], scripts: Sequence[Path], config: Config) -> str:
    """Digest of everything that would run: the tables, the files they name and, for files in a `hooks` folder, all
    other scripts there, since scripts call each other. Raises `UnusableFile`."""
    folders = {path.parent for path in scripts if path.parent.name == "hooks"}
    beside = {path for folder in folders for path in files_below(folder, config.project) if is_script(path)}
    files = sorted({*scripts, *beside})
    names = {path: str(path.relative_to(config.project)) for path in files}  # the same in a linked worktree
    texts = (part for path in files for part in (names[path], text_of(path, config.project)))
    return digest_of_text(json.dumps(tables, sort_keys=True), *texts)


def _lines(commands: Sequence[HookEntry], config: Config) -> tuple[str, ...]:
    lines = [line for each in commands for line in each.summary.replace("\n", "\n    ").splitlines()]
    named = [str(path.relative_to(config.project)) for path in _scripts(commands, config)]
    return (*lines, *(f"runs the file {name}" for name in named))


def _display_path(path: Path, config: Config) -> str:
    if path.is_relative_to(config.project):
        return str(path.relative_to(config.project))
    home = config.folders.home
    return f"~/{path.relative_to(home)}" if home is not None and path.is_relative_to(home) else str(path)
