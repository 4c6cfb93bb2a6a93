"""The language servers of a session, loaded only when needed."""

import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.agent.config.values import Config
from ebbtide.agent.integrations import lsp as agent_lsp
from ebbtide.tools.base import AppliedChange
from ebbtide.tools.files.file_suffixes import count_suffixes
from ebbtide.tools.integrations import lsp
from ebbtide.tools.integrations.lsp.spec import PROJECT_PROGRAM_FOLDERS, SERVER_PROGRAMS, detectable_servers
from ebbtide.tools.outputs.new_problems import NewProblems
from ebbtide.tools.sandbox.sandbox import Sandbox

if TYPE_CHECKING:  # imported for types only, because few runs need a language server
    from ebbtide.agent.extensions.trust import TrustItem
    from ebbtide.tools.integrations.lsp.pool import LanguageServers
    from ebbtide.tools.integrations.lsp.spec import LanguageServerSpec


_BUILD_FILES = ("Cargo.toml", "tsconfig.json", "package.json")
"""Build files of projects whose language servers run the project's code."""


def _handled_extensions(name: str, table: Mapping[str, object]) -> tuple[str, ...]:
    """Return the extensions that a configured server handles, from its table or from the known server with this name.
    Empty if the server is disabled."""
    extensions = table.get("extensions")
    if not extensions and table.get("command"):
        extensions = next((server.extensions for server in detectable_servers() if server.name == name), ())
    return extensions if isinstance(extensions, tuple) and table.get("enabled", True) else ()


class SessionLanguageServers:
    """Finds, starts and stops language servers for a working folder."""

    def __init__(
        self,
        config: Config,
        root: Path,
        sandbox: Sandbox | None,
        environment: Mapping[str, str] = os.environ,
        log_folder: Path | None = None,
    ) -> None:
        """`sandbox` is the sandbox for commands; servers also run in it. `environment` determines where programs are
        searched for. `log_folder` is the folder for server output, if not the default one."""
        self._log_folder = log_folder or config.folders.logs / "language-servers"
        self._environment = environment
        self._config = config
        self._root = root
        self._sandbox = sandbox
        self._pool: LanguageServers | None = None

    def servers(self) -> "LanguageServers":
        """Return the language servers, without starting any."""
        if self._pool is None:
            self._pool = lsp.pool.LanguageServers(self._root, self._find, self._log_folder, self._config.lsp_timeout)
        return self._pool

    def is_available_for(self, extensions: Container[str]) -> bool:
        """Whether a server for files with one of these extensions is probably available. Checks only file names,
        because it is called at every start."""
        if not self._config.lsp_enabled:
            return False
        tables = self._config.language_servers
        if any(
            extension in extensions for name, table in tables.items() for extension in _handled_extensions(name, table)
        ):
            return True
        programs = {
            name
            for name, known_extensions in SERVER_PROGRAMS.items()
            if any(extension in extensions for extension in known_extensions)
        }
        project_folders = (str(self._config.project_folder / name) for name in PROJECT_PROGRAM_FOLDERS)
        folders = (*self._environment.get("PATH", os.defpath).split(os.pathsep), *project_folders)
        return any(os.access(os.path.join(folder, name), os.X_OK) for folder in folders for name in programs)

    @property
    def may_need_trust(self) -> bool:
        """Whether the project contains language servers, or a server could run the project's code without a sandbox.
        Called at every start."""
        project = self._config.project_folder
        folders = [project / name for name in PROJECT_PROGRAM_FOLDERS if (project / name).is_dir()]
        runs_unsandboxed = self._config.sandbox == "off" and any((project / name).is_file() for name in _BUILD_FILES)
        return self._config.lsp_enabled and (
            runs_unsandboxed or any(os.access(folder / name, os.X_OK) for folder in folders for name in SERVER_PROGRAMS)
        )

    def trust_items(self) -> "tuple[TrustItem, ...]":
        """Return the trust items of the language servers for the project's file types."""
        return agent_lsp.server_detection.language_server_trust_items(
            self._config, self._root, self._environment, count_suffixes(self._config.project_folder)
        )

    async def diagnose_changes(self, changes: Sequence[AppliedChange]) -> NewProblems | None:
        """Return the new diagnostics caused by edits, for the model; None if there are none."""
        if not self._config.lsp_enabled or not any(change.path.suffix for change in changes):
            return None
        return await self.servers().problems_after_edit(changes)

    @property
    def states(self) -> Sequence[tuple[str, str]]:
        """The servers used so far, each with a description of its state."""
        return self._pool.states if self._pool is not None else ()

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()

    def _find(self, extension: str) -> "Sequence[LanguageServerSpec]":
        """Return the servers that are allowed to run now for a file extension."""
        servers = agent_lsp.server_detection.find_servers(self._config, self._root, self._environment)
        return [
            replace(server.spec, sandbox=self._sandbox)
            for server in servers
            if server.state == "on" and extension in server.spec.extensions
        ]
