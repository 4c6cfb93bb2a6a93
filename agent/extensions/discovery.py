"""Finds extensions of one kind in the user's folders, in plugins and in the project's folders."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, Self, TypeVar

from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.extension_files import UnusableFileError, list_files_below
from ebbtide.agent.extensions.extension_folders import ExtensionFolder, ExtensionKind, find_extension_folders
from ebbtide.agent.extensions.front_matter import FrontMatterError

MAX_EXTENSIONS_PER_KIND = 200
"""Maximum number of extensions of one kind."""
SKILL_FILE = "SKILL.md"
_MAX_SKILL_DEPTH = 3
"""Maximum depth of nested folders in which skills are searched for."""


class NamedExtension(Protocol):
    @property
    def name(self) -> str: ...

    def with_name(self, name: str) -> Self:
        """Return a copy with another name."""
        ...


N = TypeVar("N", bound=NamedExtension)


def discover_extensions(
    kind: ExtensionKind, config: Config, parse_file: Callable[[Path, ExtensionFolder], N | None]
) -> tuple[tuple[N, ...], tuple[str, ...]]:
    """Return all extensions of a kind in order of precedence, and one line for each file that was skipped. If several
    extensions have the same name, only the first is included. `parse_file` parses a file; it returns None if the file
    is not of this kind, and raises `UnusableFileError` or `FrontMatterError`."""
    extensions_by_name: dict[str, N] = {}
    problems: list[str] = []
    for extension_folder in find_extension_folders(kind, config):
        try:
            for path in list_candidate_files(extension_folder):
                if len(extensions_by_name) == MAX_EXTENSIONS_PER_KIND:
                    return tuple(extensions_by_name.values()), (
                        *problems,
                        f"more than {MAX_EXTENSIONS_PER_KIND} {kind}s: the others are skipped",
                    )
                try:
                    extension = parse_file(path, extension_folder)
                except (UnusableFileError, FrontMatterError) as error:
                    problems.append(f"the {kind} `{extension_folder.display_path(path)}` is skipped: {error}")
                else:
                    if extension is not None:
                        if (
                            extension_folder.plugin_name and extension.name in extensions_by_name
                        ):  # other programs always prepend it
                            extension = extension.with_name(f"{extension_folder.plugin_name}:{extension.name}")
                        extensions_by_name.setdefault(extension.name, extension)
        except UnusableFileError as error:
            problems.append(f"{kind}s of `{extension_folder.display_path(extension_folder.path)}` are skipped: {error}")
    return tuple(extensions_by_name.values()), tuple(problems)


class HasHooks(NamedExtension, Protocol):
    @property
    def has_hooks(self) -> bool: ...


def ignored_hook_notices(kind: ExtensionKind, extensions: Iterable[HasHooks]) -> tuple[str, ...]:
    """Return a line for each extension whose own hooks are ignored, so that the user does not rely on them."""
    notice = "the {} `{}` declares its own hooks, which do not run here; hooks in `.claude/settings.json` do"
    return tuple(notice.format(kind, extension.name) for extension in extensions if extension.has_hooks)


def _find_skill_files(folder: Path, follows_links: bool, remaining_depth: int) -> Iterator[Path]:
    """Yield the skill in this folder, or else the skills in its subfolders, since some users group skills by subject.
    In the top folder, both are yielded."""
    skill_file = next((name for name in (SKILL_FILE, SKILL_FILE.lower()) if os.path.lexists(folder / name)), "")
    if skill_file:
        yield folder / skill_file
    is_top_folder = remaining_depth == _MAX_SKILL_DEPTH  # only the top folder may both be a skill and contain skills
    for path in _sorted_entries(folder) if remaining_depth and (not skill_file or is_top_folder) else ():
        is_link = path.is_symlink() and not (follows_links or is_top_folder)
        if path.name[0] != "." and path.is_dir() and not is_link:
            yield from _find_skill_files(path, follows_links, remaining_depth - 1)


def _sorted_entries(folder: Path) -> Sequence[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:  # the folder may not be readable
        return ()


def list_candidate_files(extension_folder: ExtensionFolder) -> Iterator[Path]:
    """Yield the files in a folder that might be extensions of its kind, sorted. Raises `UnusableFileError`."""
    if extension_folder.only_file:
        yield extension_folder.path / extension_folder.only_file
    elif extension_folder.kind == "skill":
        yield from _find_skill_files(extension_folder.path, extension_folder.boundary is None, _MAX_SKILL_DEPTH)
    else:
        suffix = ".toml" if (extension_folder.kind, extension_folder.source) == ("command", "gemini") else ".md"
        files = list_files_below(extension_folder.path, extension_folder.boundary)
        yield from (path for path in files if path.suffix.lower() == suffix and path.name.lower() != SKILL_FILE.lower())
