"""Collects a session's hooks from our configuration and from files written for Claude Code. Also finds the hook files
that need approval. Does not run hooks."""

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
    HttpAction,
    McpToolAction,
    ModelAction,
    parse_hooks,
)
from ebbtide.agent.config.option_values import AfterToolHook
from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.extension_files import (
    UnusableFileError,
    is_script,
    list_files_below,
    read_json_table,
    read_text_file,
    scripts_in_words,
)
from ebbtide.agent.extensions.extension_folders import ExtensionFolder, ExtensionOwner, find_extension_folders
from ebbtide.agent.extensions.plugins import load_usable_plugins
from ebbtide.agent.extensions.trust import TrustItem, hash_texts
from ebbtide.agent.extensions.variable_expansion import quote_variables
from ebbtide.agent.hooks.matchers import matcher_problem
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.process.shell import shell_argv

DEFAULT_TIMEOUT_S = 600.0
"""Default timeout of a hook, in seconds. It is long, because some hooks run a whole test suite."""
MODEL_TIMEOUT_S, AGENT_TIMEOUT_S = 30.0, 60.0
"""Default timeouts of hooks that ask a model or an agent, in seconds."""
_EVENT_TIMEOUTS_S: Mapping[HookEvent, float] = {"UserPromptSubmit": 30.0, "SessionEnd": 5.0}
"""Default timeouts for events during which the user waits, in seconds."""
PROJECT_DIR_VARIABLE, PLUGIN_ROOT_VARIABLE = "CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT"
"""Environment variables with the path of the project or plugin folder, for hooks."""
_FOLDER_VARIABLE = re.compile(rf"\$\{{({PROJECT_DIR_VARIABLE}|{PLUGIN_ROOT_VARIABLE})\}}")
SANDBOXED_HOOKS_NOTE = (
    "Hooks run automatically, without asking: in the sandbox without network access, or as you if there is no "
    "sandbox; local servers and your model may be sent events. They can deny calls or ask, but not allow them."
)
UNSANDBOXED_HOOKS_NOTE = (
    "They run automatically, without asking, outside the sandbox, and can do anything that you can do."
)


@dataclass(frozen=True, slots=True)
class HookFile:
    """A file that declares hooks and needs approval, as the session read it at its start."""

    trust_item: TrustItem
    current_digest: Callable[[], str] = field(repr=False)
    """Returns the digest of the file as it is now. Raises `UnusableFileError`."""

    def is_unchanged(self) -> bool:
        try:
            return self.current_digest() == self.trust_item.digest
        except UnusableFileError:
            return False


@dataclass(frozen=True, slots=True)
class DeclaredHook:
    """A hook declared for a session."""

    entry: HookEntry
    owner: ExtensionOwner
    declared_in: str
    """The path of the declaring file, as shown to the user."""
    hook_file: HookFile | None = None
    """The file that must be approved; None if no approval is needed."""
    plugin_folder: str = ""
    """The folder of the plugin that contains the hook; empty if none does."""

    @property
    def event(self) -> HookEvent:
        return self.entry.event

    @property
    def timeout(self) -> float:
        """Timeout in seconds."""
        if self.entry.timeout is not None:
            return self.entry.timeout
        if isinstance(action := self.entry.action, ModelAction):
            return AGENT_TIMEOUT_S if action.may_read_files else MODEL_TIMEOUT_S
        return _EVENT_TIMEOUTS_S.get(self.event, DEFAULT_TIMEOUT_S)

    @property
    def unusable_reason(self) -> str:
        """Why the hook will never run; empty if it can."""
        action = self.entry.action
        if self.owner == "project" and isinstance(action, HttpAction) and not action.is_local:
            return f"{self.display_name} is skipped: a project's hooks may only reach servers on this machine"
        if self.owner == "project" and isinstance(action, McpToolAction):
            return f"{self.display_name} is skipped: a project's hooks cannot call tools without asking"
        never_reason = matcher_problem(self.entry.matcher, is_for_calls=self.event in CALL_EVENTS)
        return f"{self.display_name} is skipped: {never_reason}" if never_reason else ""

    @property
    def display_name(self) -> str:
        """How messages refer to the hook."""
        if self.event == "after_tool":
            return f"the hook for `{self.entry.matcher}`"
        return f"the hook `{ellipsize(' '.join(self.entry.action_text.split()), 80)}` for {self.event}"

    def argv(self, project: str) -> tuple[str, ...]:
        """Return the program and its arguments; empty for a hook that does not run a program."""
        folder_variables = {PROJECT_DIR_VARIABLE: project, PLUGIN_ROOT_VARIABLE: self.plugin_folder}
        match self.entry.action:
            case str() as command:
                return shell_argv(quote_variables(command, folder_variables))
            case tuple() as words:
                expanded_words = [
                    _FOLDER_VARIABLE.sub(lambda match: folder_variables[match[1]], word) for word in words
                ]
                return (os.path.expanduser(expanded_words[0]), *expanded_words[1:])
            case _:
                return ()


@dataclass(frozen=True, slots=True)
class DeclaredHooks:
    hooks: tuple[DeclaredHook, ...] = ()
    problems: tuple[str, ...] = ()
    """What was ignored and why, one sentence each."""

    @property
    def files(self) -> tuple[HookFile, ...]:
        return tuple(dict.fromkeys(hook.hook_file for hook in self.hooks if hook.hook_file is not None))


def after_tool_hooks(settings: Sequence[AfterToolHook]) -> tuple[DeclaredHook, ...]:
    """Return the hooks of the setting `hooks.after_tool`."""
    entries = (HookEntry("after_tool", setting.match, setting.command, setting.timeout) for setting in settings)
    return tuple(DeclaredHook(entry, "user", "config.toml") for entry in entries)


def collect_hooks(config: Config) -> DeclaredHooks:
    """Collect all hooks in order of precedence: the user's, then those of plugins, then the project's."""
    source = str(config.folders.config / "config.toml")
    hooks = [DeclaredHook(entry, "user", source) for entry in config.hooks]
    problems: list[str] = []
    for folder in find_extension_folders("hook", config):
        for name in ("hooks.json",) if folder.source == "ebb" else _claude_settings_names(folder):
            path = folder.path / name
            if os.path.lexists(path):
                hooks += _read_hooks_in_file(path, folder, config, problems)
    for plugin in load_usable_plugins(config) if os.path.isdir(config.folders.data / "plugins") else ():
        folder = ExtensionFolder("hook", "plugin", "claude", plugin.folder, plugin.folder)
        for path in plugin.files_declaring("hooks", "hooks/hooks.json"):
            hooks += _read_hooks_in_file(path, folder, config, problems)
    problems += filter(None, (hook.unusable_reason for hook in hooks))
    return DeclaredHooks(tuple(hook for hook in hooks if not hook.unusable_reason), tuple(problems))


def _claude_settings_names(folder: ExtensionFolder) -> tuple[str, ...]:
    return ("settings.json", "settings.local.json") if folder.owner == "project" else ("settings.json",)


def _read_hooks_in_file(
    path: Path, folder: ExtensionFolder, config: Config, problems: list[str]
) -> Iterator[DeclaredHook]:
    display_path = _display_path(path, config)
    try:
        tables, entries = _read_hook_file(path, folder.boundary, display_path, problems)
        if not entries:
            return
        plugin_folder = str(folder.path) if folder.owner == "plugin" else ""
        file = None
        if folder.owner == "project" or (folder.owner == "user" and folder.source != "ebb"):

            def read_current_digest() -> str:
                current_tables, _ = _read_hook_file(path, folder.boundary, display_path, [])
                return _approval_digest(current_tables, _referenced_scripts(entries, config), config)

            item = TrustItem(
                "hook",
                display_path,
                "project",
                display_path,
                _approval_digest(tables, _referenced_scripts(entries, config), config),
                _approval_lines(entries, config),
                SANDBOXED_HOOKS_NOTE if folder.owner == "project" else UNSANDBOXED_HOOKS_NOTE,
            )
            file = HookFile(item, read_current_digest)
    except UnusableFileError as error:
        problems.append(f"the hooks of `{display_path}` are skipped: {error}")
        return
    for entry in entries:
        yield DeclaredHook(entry, folder.owner, display_path, file, plugin_folder)


def _read_hook_file(
    path: Path, boundary: Path | None, display_path: str, problems: list[str]
) -> tuple[Mapping[str, object], tuple[HookEntry, ...]]:
    """Read the hook tables of a file, and the valid hooks in them. Raises `UnusableFileError`."""
    content = read_json_table(path, boundary, may_be_empty=True)
    tables = content.get("hooks", {})
    if content.get("disableAllHooks") is True or not tables:
        return {}, ()
    if not isinstance(tables, dict):
        raise UnusableFileError("its `hooks` is not a table of events")
    entries, entry_problems = parse_hooks(tables)
    problems += [f"`{display_path}`: {problem}" for problem in entry_problems]
    return tables, entries


def _referenced_scripts(entries: Sequence[HookEntry], config: Config) -> tuple[Path, ...]:
    """Return the project's scripts that the commands refer to. Their contents must be approved as well."""
    words = (word for entry in entries for word in _action_words(entry.action, config.project_folder))
    return scripts_in_words(words, config.project_folder, config.project_folder)


def _action_words(action: HookAction, project: Path) -> Iterator[str]:
    """Yield all words of a hook's action that could be paths."""
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
        for name in (f"${{{PROJECT_DIR_VARIABLE}}}", f"${PROJECT_DIR_VARIABLE}"):
            word = word.replace(name, str(project))
        yield word


def _approval_digest(tables: Mapping[str, object], scripts: Sequence[Path], config: Config) -> str:
    """Return a digest of everything that would run: the tables and the files they name. If one of these files is in a
    `hooks` folder, the digest includes all other scripts of that folder, since scripts call each other. Raises
    `UnusableFileError`."""
    folders = {path.parent for path in scripts if path.parent.name == "hooks"}
    other_scripts = {
        path for folder in folders for path in list_files_below(folder, config.project_folder) if is_script(path)
    }
    files = sorted({*scripts, *other_scripts})
    relative_names = {path: str(path.relative_to(config.project_folder)) for path in files}  # equal in linked worktrees
    contents = (
        digest_part
        for path in files
        for digest_part in (relative_names[path], read_text_file(path, config.project_folder))
    )
    return hash_texts(json.dumps(tables, sort_keys=True), *contents)


def _approval_lines(entries: Sequence[HookEntry], config: Config) -> tuple[str, ...]:
    lines = [line for entry in entries for line in entry.summary.replace("\n", "\n    ").splitlines()]
    script_names = [str(path.relative_to(config.project_folder)) for path in _referenced_scripts(entries, config)]
    return (*lines, *(f"runs the file {name}" for name in script_names))


def _display_path(path: Path, config: Config) -> str:
    if path.is_relative_to(config.project_folder):
        return str(path.relative_to(config.project_folder))
    home = config.folders.home
    return f"~/{path.relative_to(home)}" if home is not None and path.is_relative_to(home) else str(path)
