"""Finds a project's language servers, without starting any: configured servers, and known ones that the user or the
project has installed. The folder must be trusted if a server belongs to the project or runs the project's code. Without
trust, a server that only runs the project's code can still run in a sandbox."""

import hashlib
import json
import os
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast

from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.trust import ProjectTrust, TrustItem, hash_texts
from ebbtide.tools.files.bounded import read_prefix
from ebbtide.tools.files.file_suffixes import count_suffixes
from ebbtide.tools.integrations.lsp.spec import (
    PROJECT_PROGRAM_FOLDERS,
    DetectableServer,
    LanguageServerSpec,
    detectable_servers,
)
from ebbtide.tools.sandbox.system import NoSandbox, detect_sandbox

LanguageServerState: TypeAlias = Literal["on", "off", "not approved"]

_TRUST_EXPLANATION = "A language server runs automatically when files are changed: in the sandbox, if there is one."
_PACKAGE_FOLDERS = (".venv", "venv", "env")
"""Folders with the project's Python packages."""
_MAX_PACKAGE_BYTES = 1_000_000
_MAX_PROGRAM_BYTES = 64_000_000


@dataclass(frozen=True, slots=True)
class DetectedServer:
    """A language server that was found."""

    spec: LanguageServerSpec
    state: LanguageServerState
    source: str
    """Where the server was found, as text for the user."""
    trust_item: TrustItem | None = None
    """The item that the user must approve before the server may run; None if no approval is needed."""


def find_servers(config: Config, root: Path, environment: Mapping[str, str]) -> tuple[DetectedServer, ...]:
    """Find the servers for a working folder, and determine whether each may run. If the project's own copy of a known
    server is not approved, the user's copy is used."""
    trust = ProjectTrust(config)
    servers = [*_configured_servers(config, environment), *_detected_servers(config, root, environment, trust)]
    enabled_names = {server.spec.name for server in servers if server.state == "on"}
    replaced_names = {
        known_server.replaces for known_server in detectable_servers() if known_server.name in enabled_names
    }
    return tuple(server for server in servers if server.spec.name not in replaced_names)


def language_server_trust_items(
    config: Config, root: Path, environment: Mapping[str, str], extensions: Container[str]
) -> tuple[TrustItem, ...]:
    """Return the trust items for files with these extensions: one for each language server that belongs to the project
    or runs its code."""
    servers = find_servers(config, root, environment)
    relevant_servers = [server for server in servers if any(ending in extensions for ending in server.spec.extensions)]
    return tuple(server.trust_item for server in relevant_servers if server.trust_item is not None)


def project_trust_items(
    config: Config, environment: Mapping[str, str]
) -> tuple[tuple[TrustItem, ...], tuple[str, ...]]:
    """Return the trust items of the language servers for the project's files, and an empty list of problems."""
    if not config.lsp_enabled:
        return (), ()
    return language_server_trust_items(
        config, config.working_folder, environment, count_suffixes(config.project_folder)
    ), ()


def _configured_servers(config: Config, environment: Mapping[str, str]) -> Iterator[DetectedServer]:
    """Yield the servers for which the user configured a command."""
    for name, table in config.language_servers.items():
        command_words = (*_string_tuple(table.get("command")), *_string_tuple(table.get("args")))
        known_server = next((server for server in detectable_servers() if server.name == name), None)
        if not _string_tuple(table.get("command")):
            continue
        program = os.path.expanduser(command_words[0])
        command = (_program_path(program, environment, None) or program, *command_words[1:])
        source = config.sources.get(f"lsp.servers.{name}.command", "configuration")
        spec = _create_spec(known_server or DetectableServer(name, command, ()), command, table, config)
        yield DetectedServer(spec, "on" if table.get("enabled", True) else "off", source)


def _detected_servers(
    config: Config, root: Path, environment: Mapping[str, str], trust: ProjectTrust
) -> Iterator[DetectedServer]:
    for known_server in detectable_servers():
        table = config.language_servers.get(known_server.name, {})
        if table.get("command"):
            continue
        candidates = list(_find_program_candidates(known_server, config, root, environment))
        programs_with_state = [
            (path, item, _server_state(known_server, item, config, trust)) for path, item in candidates
        ]
        programs_with_state.sort(
            key=lambda candidate: candidate[2] != "on"
        )  # stable sort: the project's own comes first if it may run
        for path, item, server_state in programs_with_state[:1]:
            command = (path, *known_server.command[1:])
            spec = _create_spec(known_server, command, table, config)
            state = server_state if table.get("enabled", True) else "off"
            yield DetectedServer(spec, state, path, item if state == "not approved" else None)


def _find_program_candidates(
    known_server: DetectableServer, config: Config, root: Path, environment: Mapping[str, str]
) -> Iterator[tuple[str, TrustItem | None]]:
    """Yield the programs that could run a known server, the project's own first, each with the item to approve, if
    any."""
    for folder in dict.fromkeys((root, config.project_folder)):
        for name in PROJECT_PROGRAM_FOLDERS:
            path = folder / name / known_server.command[0]
            if os.access(path, os.X_OK) and path.is_file() and _has_server_mode(known_server, path):
                yield (
                    str(path),
                    _create_trust_item(
                        known_server,
                        str(path),
                        _program_digest(path),
                        f"runs `{path.relative_to(config.project_folder)}`",
                    ),
                )
    installed = _program_path(known_server.command[0], environment, config.project_folder)
    if installed is not None and _has_server_mode(known_server, Path(installed)):
        detail = f"runs `{installed}`, which runs build scripts and tools of this folder"
        digest = hash_texts(known_server.name, installed)
        yield (
            installed,
            _create_trust_item(known_server, installed, digest, detail) if known_server.runs_project_code else None,
        )


def _create_trust_item(known_server: DetectableServer, source: str, digest: str, detail: str) -> TrustItem:
    return TrustItem(
        "server", f"{known_server.name} (language server)", "project", source, digest, (detail,), _TRUST_EXPLANATION
    )


def _server_state(
    known_server: DetectableServer, item: TrustItem | None, config: Config, trust: ProjectTrust
) -> LanguageServerState:
    if item is None:
        return "on"
    trust_state = trust.trust_state(item)
    if trust_state == "refused":
        return "off"
    is_in_project = item.source.startswith(f"{config.project_folder}{os.sep}")
    is_sandboxed = config.sandbox != "off" and not isinstance(detect_sandbox(), NoSandbox)
    return "on" if trust_state == "on" or (not is_in_project and is_sandboxed) else "not approved"


def _program_path(program: str, environment: Mapping[str, str], project: Path | None) -> str | None:
    """Return the absolute path of a program; None if it is not found. Relative folders of PATH, and files inside
    `project`, are ignored."""
    if os.sep in program:
        return program if os.access(program, os.X_OK) else None
    for folder in environment.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, program)
        is_in_project = project is not None and any(
            Path(candidate).is_relative_to(project) for candidate in (path, os.path.realpath(path))
        )
        if os.path.isabs(folder) and not is_in_project and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _create_spec(
    known_server: DetectableServer,
    command: tuple[str, ...],
    table: Mapping[str, object],
    config: Config,
) -> LanguageServerSpec:
    settings = cast(Mapping[str, object], table.get("settings") or _default_settings(known_server, config))
    return LanguageServerSpec(
        known_server.name,
        command,
        _string_tuple(table.get("extensions")) or known_server.extensions,
        {**known_server.env, **cast(Mapping[str, str], table.get("env") or {})},
        settings,
        {**known_server.options, **cast(Mapping[str, object], table.get("options") or {})},
        cast(float, table.get("startup_timeout", 60.0)),
        known_server.cache_variables,
    )


def _default_settings(known_server: DetectableServer, config: Config) -> Mapping[str, object]:
    """Return settings for Python servers: the project's package folders, found without running its interpreter."""
    if ".py" not in known_server.extensions:
        return {}
    paths = [
        str(path)
        for name in _PACKAGE_FOLDERS
        for path in (config.project_folder / name).glob("lib/python3*/site-packages")
    ]
    analysis = {"analysis": {"extraPaths": paths}}
    return {"python": analysis, "basedpyright": analysis} if paths else {}


def _string_tuple(value: object) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _has_server_mode(known_server: DetectableServer, program: Path) -> bool:
    """Whether the installed version of a program can act as a language server, according to its `package.json`."""
    for folder in program.resolve().parents[:3] if known_server.min_major_version else ():
        with suppress(OSError, ValueError, AttributeError, RecursionError):
            package = json.loads(read_prefix(folder / "package.json", _MAX_PACKAGE_BYTES))
            if package.get("name") == known_server.name:
                return int(str(package.get("version")).partition(".")[0]) >= known_server.min_major_version
    return not known_server.min_major_version


def _program_digest(program: Path) -> str:
    """Return a digest of a program and its `package.json` files."""
    resolved_program = program.resolve()
    hasher = hashlib.sha256(os.fsencode(resolved_program))
    for path in (resolved_program, *(folder / "package.json" for folder in resolved_program.parents[:3])):
        with suppress(OSError):
            hasher.update(read_prefix(path, _MAX_PROGRAM_BYTES))
    return hasher.hexdigest()
