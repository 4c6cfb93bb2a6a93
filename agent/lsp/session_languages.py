"""The language servers of a session. Nothing is loaded before it is needed."""

import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.agent.config.values import Config
from ebbtide.tools.base import AppliedChange
from ebbtide.tools.files.endings import endings_in
from ebbtide.tools.lsp.spec import PROGRAMS, PROJECT_FOLDERS
from ebbtide.tools.outputs.new_problems import NewProblems
from ebbtide.tools.sandbox.sandbox import Sandbox

if TYPE_CHECKING:  # types only: few runs change a file that has a language server
    from ebbtide.agent.extensions.trust import TrustItem
    from ebbtide.tools.lsp.pool import LanguageServers, LanguageServerState
    from ebbtide.tools.lsp.spec import LanguageServerSpec


_BUILDS = ("Cargo.toml", "tsconfig.json", "package.json")
"""Files of projects whose code is run by tools that analyse it."""


def _extensions(table: Mapping[str, object]) -> tuple[str, ...]:
    found = table.get("extensions")
    return found if isinstance(found, tuple) and table.get("enabled", True) else ()


class SessionLanguages:
    """Finds, starts and stops language servers for a working folder."""

    def __init__(
        self,
        config: Config,
        root: Path,
        sandbox: Sandbox | None,
        environment: Mapping[str, str] = os.environ,
        logs: Path | None = None,
    ) -> None:
        """`sandbox` is the sandbox for commands, also used for servers. `environment` is searched for programs. `logs`
        is the folder for server output, if not the default one."""
        self._logs = logs or config.folders.logs / "language-servers"
        self._environment = environment
        self._config = config
        self._root = root
        self._sandbox = sandbox
        self._servers: LanguageServers | None = None

    def servers(self) -> "LanguageServers":
        """The language servers; none is started yet."""
        if self._servers is None:
            from ebbtide.tools.lsp.pool import LanguageServers  # noqa: PLC0415  # deferred: see above

            self._servers = LanguageServers(self._root, self._find, self._logs, self._config.lsp_timeout)
        return self._servers

    def are_there_for(self, endings: Container[str]) -> bool:
        """Whether a server probably exists for files with one of these endings. Called at every start, so it only looks
        for file names."""
        if not self._config.lsp_enabled:
            return False
        if any(ending in endings for table in self._config.language_servers.values() for ending in _extensions(table)):
            return True
        programs = {name for name, theirs in PROGRAMS.items() if any(ending in endings for ending in theirs)}
        of_project = (str(self._config.project / name) for name in PROJECT_FOLDERS)
        folders = (*self._environment.get("PATH", os.defpath).split(os.pathsep), *of_project)
        return any(os.access(os.path.join(folder, name), os.X_OK) for folder in folders for name in programs)

    @property
    def may_want_trust(self) -> bool:
        """Whether the project contains language servers, or its code could be run by one without a sandbox. Called at
        every start."""
        project = self._config.project
        folders = [project / name for name in PROJECT_FOLDERS if (project / name).is_dir()]
        is_bare = self._config.sandbox == "off" and any((project / name).is_file() for name in _BUILDS)
        return self._config.lsp_enabled and (
            is_bare or any(os.access(folder / name, os.X_OK) for folder in folders for name in PROGRAMS)
        )

    def items(self) -> "tuple[TrustItem, ...]":
        """Items to approve for language servers of the project's file types."""
        from ebbtide.agent.lsp.find import language_server_items  # noqa: PLC0415  # deferred: see above

        return language_server_items(self._config, self._root, self._environment, endings_in(self._config.project))

    async def after_edit(self, made: Sequence[AppliedChange]) -> NewProblems | None:
        """Return the new diagnostics caused by edits, for the model; None if there are none."""
        if not self._config.lsp_enabled or not any(change.path.suffix for change in made):
            return None
        return await self.servers().after_edit(made)

    @property
    def states(self) -> "tuple[LanguageServerState, ...]":
        """The servers that were needed so far."""
        return self._servers.states if self._servers is not None else ()

    async def close(self) -> None:
        if self._servers is not None:
            await self._servers.close()

    def _find(self, extension: str) -> "Sequence[LanguageServerSpec]":
        """The servers for an extension that may run now."""
        from ebbtide.agent.lsp.find import found_servers  # noqa: PLC0415  # deferred: see above

        found = found_servers(self._config, self._root, self._environment)
        return [
            replace(one.spec, sandbox=self._sandbox)
            for one in found
            if one.standing == "on" and extension in one.spec.extensions
        ]
