"""Describes a plugin's contents in lines, for approval by the user."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from ebbtide.agent.config.hook_tables import read_hooks
from ebbtide.agent.extensions.discovery import files_in
from ebbtide.agent.extensions.extension_files import FILE_KINDS, UnusableFile, digest_of, table_of, text_of
from ebbtide.agent.extensions.extension_folders import ExtensionFolder
from ebbtide.agent.extensions.front_matter import BrokenFrontMatter, split, text_at
from ebbtide.agent.extensions.plugins import Plugin
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import ellipsize, pluralize

_MAX_DESCRIPTION_CHARS = 100


@dataclass(frozen=True, slots=True)
class PluginContents:
    lines: tuple[str, ...]
    """Everything that would be read or run."""
    problems: tuple[str, ...]
    """What is left out, and why."""


def contents_of(plugin: Plugin) -> PluginContents:
    """Describe a plugin's contents: skills, commands and agents by their description, hooks and servers by their
    command. Raises `UnusableFile`."""
    lines: list[str] = []
    problems: list[str] = []
    for kind in FILE_KINDS:
        parts = plugin.parts(kind)
        found = [ExtensionFolder(kind, "plugin", "claude", folder, plugin.folder, only=only) for folder, only in parts]
        paths = (path for place in found for path in files_in(place))
        lines += [f"  {kind} {_component_line(kind, path, plugin, problems)}" for path in paths]
    lines += _hooks(plugin, problems)
    problems += plugin.unsupported_parts
    lines += _servers(plugin, problems)
    _, names = digest_of(plugin.folder, plugin.folder)
    lines += [f"  program {name}" for name in names if _runs(plugin.folder / name)]
    lines.append(f"  {pluralize(len(names), 'file')} in all")
    return PluginContents(tuple(lines), tuple(problems))


def _component_line(kind: str, path: Path, plugin: Plugin, problems: list[str]) -> str:
    name = path.parent.name if kind == "skill" else path.stem
    try:
        head, _ = split(text_of(path, plugin.folder))
    except (UnusableFile, BrokenFrontMatter) as error:
        problems.append(f"the {kind} `{name}` is left out: {error}")
        return name
    about = text_at(head, "description")
    return f"{text_at(head, 'name') or name}{f': {ellipsize(about, _MAX_DESCRIPTION_CHARS)}' if about else ''}"


def _hooks(plugin: Plugin, problems: list[str]) -> Iterator[str]:
    for path in plugin.files("hooks", "hooks/hooks.json"):
        shown = path.relative_to(plugin.folder)
        try:
            tables = table_of(path, plugin.folder).get("hooks", {})
        except UnusableFile as error:
            problems.append(f"`{shown}` is left out: {error}")
            continue
        found, left_out = read_hooks(tables) if isinstance(tables, dict) else ((), ("its `hooks` is not a table",))
        problems += [f"`{shown}`: {problem}" for problem in left_out]
        yield from (f"  hook {each.summary}" for each in found)


def _servers(plugin: Plugin, problems: list[str]) -> Iterator[str]:
    try:
        for name, entry in plugin.servers():
            yield f"  server {name}: {json.dumps(entry, ensure_ascii=False)}"
    except UnusableFile as error:
        problems.append(f"its servers are left out: {error}")


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
