"""Finds the language servers for a project: configured ones, and known ones among the programs of the user or the
project. A server that belongs to the project, or that runs the project's code, requires trust in the folder; the latter
may also run in a sandbox without trust. Starts none."""

import hashlib
import json
import os
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast

from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.trust import FolderTrust, TrustItem, digest_of_text
from ebbtide.tools.files.bounded import beginning_of
from ebbtide.tools.lsp.spec import PROJECT_FOLDERS, KnownServer, LanguageServerSpec, known_servers
from ebbtide.tools.sandbox.system import NoSandbox, found_sandbox

LanguageServerStanding: TypeAlias = Literal["on", "off", "not approved"]

_EFFECT = "A language server runs automatically when files are changed: in the sandbox, if there is one."
_PACKAGES = (".venv", "venv", "env")
"""Folders with the project's Python packages."""
_MAX_PACKAGE_BYTES = 1_000_000
_MAX_PROGRAM_BYTES = 64_000_000


@dataclass(frozen=True, slots=True)
class FoundServer:
    """A language server that was found."""

    spec: LanguageServerSpec
    standing: LanguageServerStanding
    source: str
    """Where it was found, for people."""
    item: TrustItem | None = None
    """The item that must be approved before it may run, if any."""


def found_servers(config: Config, root: Path, environment: Mapping[str, str]) -> tuple[FoundServer, ...]:
    """Return the servers that could run in a working folder. If the project has its own copy of a known server that is
    not approved, the user's is used."""
    trust = FolderTrust(config)
    found = [*_configured_servers(config, environment), *_detected_servers(config, root, environment, trust)]
    on = {one.spec.name for one in found if one.standing == "on"}
    instead = {known.instead_of for known in known_servers() if known.name in on}
    return tuple(one for one in found if one.spec.name not in instead)


def language_server_items(
    config: Config, root: Path, environment: Mapping[str, str], endings: Container[str]
) -> tuple[TrustItem, ...]:
    """Return the items to approve among the project's language servers, and servers that run the project's code, for
    files with these endings."""
    found = found_servers(config, root, environment)
    wanted = [one for one in found if any(ending in endings for ending in one.spec.extensions)]
    return tuple(one.item for one in wanted if one.item is not None)


def _configured_servers(config: Config, environment: Mapping[str, str]) -> Iterator[FoundServer]:
    """Yield the servers for which the user configured a command."""
    for name, table in config.language_servers.items():
        words = (*_words(table.get("command")), *_words(table.get("args")))
        known = next((one for one in known_servers() if one.name == name), None)
        if not _words(table.get("command")):
            continue
        program = os.path.expanduser(words[0])
        command = (_on_path(program, environment, None) or program, *words[1:])
        source = config.sources.get(f"lsp.servers.{name}.command", "configuration")
        spec = _spec(known or KnownServer(name, command, ()), command, table, config)
        yield FoundServer(spec, "on" if table.get("enabled", True) else "off", source)


def _detected_servers(
    config: Config, root: Path, environment: Mapping[str, str], trust: FolderTrust
) -> Iterator[FoundServer]:
    for known in known_servers():
        table = config.language_servers.get(known.name, {})
        if table.get("command"):
            continue
        candidates = list(_programs(known, config, root, environment))
        standings = [(path, item, _standing(known, item, config, trust)) for path, item in candidates]
        standings.sort(key=lambda one: one[2] != "on")  # a stable sort: the project's own comes first if it may run
        for path, item, standing in standings[:1]:
            command = (path, *known.command[1:])
            spec = _spec(known, command, table, config)
            state = standing if table.get("enabled", True) else "off"
            yield FoundServer(spec, state, path, item if state == "not approved" else None)


def _programs(
    known: KnownServer, config: Config, root: Path, environment: Mapping[str, str]
) -> Iterator[tuple[str, TrustItem | None]]:
    """Yield the programs of a known server, the project's own first, with the item to approve, if any."""
    for folder in dict.fromkeys((root, config.project)):
        for name in PROJECT_FOLDERS:
            path = folder / name / known.command[0]
            if os.access(path, os.X_OK) and path.is_file() and _is_server(known, path):
                yield str(path), _item(known, str(path), _digest(path), f"runs `{path.relative_to(config.project)}`")
    found = _on_path(known.command[0], environment, config.project)
    if found is not None and _is_server(known, Path(found)):
        runs = f"runs `{found}`, which runs build scripts and tools of this folder"
        digest = digest_of_text(known.name, found)
        yield found, _item(known, found, digest, runs) if known.runs_project else None


def _item(known: KnownServer, source: str, digest: str, shown: str) -> TrustItem:
    return TrustItem("server", f"{known.name} (language server)", "project", source, digest, (shown,), _EFFECT)


def _standing(known: KnownServer, item: TrustItem | None, config: Config, trust: FolderTrust) -> LanguageServerStanding:
    if item is None:
        return "on"
    standing = trust.standing(item)
    if standing == "refused":
        return "off"
    is_own = item.source.startswith(f"{config.project}{os.sep}")
    is_held = config.sandbox != "off" and not isinstance(found_sandbox(), NoSandbox)
    return "on" if standing == "on" or (not is_own and is_held) else "not approved"


def _on_path(program: str, environment: Mapping[str, str], project: Path | None) -> str | None:
    """The absolute path of a program; never one in a relative folder or in the project."""
    if os.sep in program:
        return program if os.access(program, os.X_OK) else None
    for folder in environment.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, program)
        is_theirs = project is not None and any(
            Path(each).is_relative_to(project) for each in (path, os.path.realpath(path))
        )
        if os.path.isabs(folder) and not is_theirs and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _spec(
    known: KnownServer,
    command: tuple[str, ...],
    table: Mapping[str, object],
    config: Config,
) -> LanguageServerSpec:
    own = cast(Mapping[str, object], table.get("settings") or _usual_settings(known, config))
    return LanguageServerSpec(
        known.name,
        command,
        _words(table.get("extensions")) or known.extensions,
        {**known.env, **cast(Mapping[str, str], table.get("env") or {})},
        own,
        {**known.options, **cast(Mapping[str, object], table.get("options") or {})},
        cast(float, table.get("startup_timeout", 60.0)),
        known.caches,
    )


def _usual_settings(known: KnownServer, config: Config) -> Mapping[str, object]:
    """Settings for Python servers: the folders of the project's packages, found without running its interpreter."""
    if ".py" not in known.extensions:
        return {}
    paths = [str(path) for name in _PACKAGES for path in (config.project / name).glob("lib/python3*/site-packages")]
    analysis = {"analysis": {"extraPaths": paths}}
    return {"python": analysis, "basedpyright": analysis} if paths else {}


def _words(value: object) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _is_server(known: KnownServer, program: Path) -> bool:
    """Whether the program's version can act as a language server, according to its package."""
    for folder in program.resolve().parents[:3] if known.since else ():
        with suppress(OSError, ValueError, AttributeError, RecursionError):
            package = json.loads(beginning_of(folder / "package.json", _MAX_PACKAGE_BYTES))
            if package.get("name") == known.name:
                return int(str(package.get("version")).partition(".")[0]) >= known.since
    return not known.since


def _digest(program: Path) -> str:
    """Digest of a program and of the package file with its version."""
    real = program.resolve()
    digest = hashlib.sha256(os.fsencode(real))
    for path in (real, *(folder / "package.json" for folder in real.parents[:3])):
        with suppress(OSError):
            digest.update(beginning_of(path, _MAX_PROGRAM_BYTES))
    return digest.hexdigest()
