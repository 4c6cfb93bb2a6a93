"""Describes a plugin's contents as lines that the user approves."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from ebbtide.agent.config.hook_tables import parse_hooks
from ebbtide.agent.extensions.discovery import list_candidate_files
from ebbtide.agent.extensions.extension_files import (
    FILE_KINDS,
    UnusableFileError,
    hash_folder,
    read_json_table,
    read_text_file,
)
from ebbtide.agent.extensions.extension_folders import ExtensionFolder
from ebbtide.agent.extensions.front_matter import FrontMatterError, one_line_value, split_front_matter
from ebbtide.agent.extensions.plugins import Plugin
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import ellipsize, pluralize

_MAX_DESCRIPTION_CHARS = 100


@dataclass(frozen=True, slots=True)
class PluginContents:
    lines: tuple[str, ...]
    """Everything that would be read or run, one line each."""
    problems: tuple[str, ...]
    """What was skipped and why, one line each."""


def describe_plugin(plugin: Plugin) -> PluginContents:
    """Describe a plugin's contents: skills, commands and agents by their description, hooks and servers by their
    command. Raises `UnusableFileError`."""
    lines: list[str] = []
    problems: list[str] = []
    for kind in FILE_KINDS:
        locations = plugin.component_locations(kind)
        folders = [
            ExtensionFolder(kind, "plugin", "claude", folder, plugin.folder, only_file=only_file)
            for folder, only_file in locations
        ]
        paths = (path for extension_folder in folders for path in list_candidate_files(extension_folder))
        lines += [f"  {kind} {_component_line(kind, path, plugin, problems)}" for path in paths]
    lines += _hook_lines(plugin, problems)
    problems += plugin.unsupported_notices
    lines += _server_lines(plugin, problems)
    _, names = hash_folder(plugin.folder, plugin.folder)
    lines += [f"  program {name}" for name in names if _is_executable(plugin.folder / name)]
    lines.append(f"  {pluralize(len(names), 'file')} in all")
    return PluginContents(tuple(lines), tuple(problems))


def _component_line(kind: str, path: Path, plugin: Plugin, problems: list[str]) -> str:
    name = path.parent.name if kind == "skill" else path.stem
    try:
        front_matter, _ = split_front_matter(read_text_file(path, plugin.folder))
    except (UnusableFileError, FrontMatterError) as error:
        problems.append(f"the {kind} `{name}` is skipped: {error}")
        return name
    description = one_line_value(front_matter, "description")
    shortened = f": {ellipsize(description, _MAX_DESCRIPTION_CHARS)}" if description else ""
    return f"{one_line_value(front_matter, 'name') or name}{shortened}"


def _hook_lines(plugin: Plugin, problems: list[str]) -> Iterator[str]:
    for path in plugin.files_declaring("hooks", "hooks/hooks.json"):
        relative = path.relative_to(plugin.folder)
        try:
            tables = read_json_table(path, plugin.folder).get("hooks", {})
        except UnusableFileError as error:
            problems.append(f"`{relative}` is skipped: {error}")
            continue
        hooks, hook_problems = (
            parse_hooks(tables) if isinstance(tables, dict) else ((), ("its `hooks` is not a table",))
        )
        problems += [f"`{relative}`: {problem}" for problem in hook_problems]
        yield from (f"  hook {hook.summary}" for hook in hooks)


def _server_lines(plugin: Plugin, problems: list[str]) -> Iterator[str]:
    try:
        for name, entry in plugin.read_servers():
            yield f"  server {name}: {json.dumps(entry, ensure_ascii=False)}"
    except UnusableFileError as error:
        problems.append(f"its servers are skipped: {error}")


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
