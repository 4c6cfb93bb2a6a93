"""The configuration of language servers, and the table of servers that are detected automatically."""

import os
from collections.abc import Mapping
from dataclasses import field, replace
from functools import cache
from pathlib import Path
from typing import Any

from ebbtide.tools.integrations import lsp
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.process.shell import Launch, child_environment
from ebbtide.tools.sandbox.sandbox import Sandbox

_PYTHON = (".py", ".pyi")
_JAVASCRIPT = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")

SERVER_PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "basedpyright-langserver": _PYTHON,
    "pyright-langserver": _PYTHON,
    "ruff": _PYTHON,
    "gopls": (".go",),
    "rust-analyzer": (".rs",),
    "typescript-language-server": _JAVASCRIPT,
    "tsc": _JAVASCRIPT,
}
"""The programs to search for, with the file extensions that they handle."""
PROJECT_PROGRAM_FOLDERS = ("node_modules/.bin", ".venv/bin", "venv/bin")
"""Folders that contain a project's own programs."""

LANGUAGE_IDS: Mapping[str, str] = {
    ".py": "python", ".pyi": "python", ".go": "go", ".rs": "rust", ".ts": "typescript", ".mts": "typescript",
    ".cts": "typescript", ".tsx": "typescriptreact", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript",
    ".jsx": "javascriptreact", ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".hpp": "cpp", ".java": "java",
    ".rb": "ruby", ".php": "php", ".cs": "csharp", ".kt": "kotlin", ".swift": "swift", ".lua": "lua", ".zig": "zig",
    ".sh": "shellscript", ".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".html": "html",
    ".css": "css", ".scss": "scss", ".vue": "vue", ".svelte": "svelte", ".ex": "elixir", ".exs": "elixir",
    ".hs": "haskell", ".ml": "ocaml", ".scala": "scala", ".dart": "dart", ".md": "markdown", ".tf": "terraform",
}  # fmt: skip
"""Language identifiers of the protocol, by file extension."""


@dataclass(frozen=True, slots=True)
class LanguageServerSpec:
    """A server that can be started."""

    name: str
    command: tuple[str, ...]
    """The program, by path or name, and its arguments."""
    extensions: tuple[str, ...]
    """Extensions of the files that the server handles."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Additional environment variables."""
    settings: Mapping[str, object] = field(default_factory=dict, repr=False)
    """Settings that the server may request, as nested tables."""
    initialization_options: Mapping[str, object] = field(default_factory=dict, repr=False)
    """Options sent in `initialize`."""
    startup_timeout: float = 60.0
    cache_variables: tuple[str, ...] = ()
    """Environment variables that set the server's cache folders. In a sandbox, they are set to folders inside it."""
    sandbox: Sandbox | None = field(default=None, repr=False, compare=False)
    """The sandbox to run the server in; None for no sandbox."""

    def build_launch(self, root: Path) -> Launch:
        """Build the command that launches the server in a working folder. In a sandbox, the server can write only to
        its caches, and its program is visible wherever it is installed. Raises `OSError`."""
        environment = child_environment() | dict(self.env)
        if self.sandbox is None:
            return Launch(self.command, environment)
        if (scratch := self.sandbox.visible_temp_folder) is not None:
            environment |= {name: str(scratch / "language-servers" / name.lower()) for name in self.cache_variables}
        installs = lsp.installs.find_hidden_install_paths(self.command, environment.get("PATH", os.defpath))
        sandbox = replace(self.sandbox, visible_paths=(*self.sandbox.visible_paths, *installs))
        return sandbox.wrap(Launch(self.command, environment), root, may_write=False)


@dataclass(frozen=True, slots=True)
class DetectableServer:
    """A server that is detected automatically."""

    name: str
    command: tuple[str, ...]
    extensions: tuple[str, ...]
    runs_project_code: bool = False
    """Whether the server runs code from the project, such as build scripts or the project's own compiler."""
    env: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    min_major_version: int = 0
    """First usable major version of the package that contains the server."""
    cache_variables: tuple[str, ...] = ()
    """Like `LanguageServerSpec.cache_variables`. Servers that have such variables report nothing if their caches are
    read-only."""
    replaces: str = ""
    """The equivalent server that this one replaces if both are available."""


@cache
def detectable_servers() -> tuple[DetectableServer, ...]:
    """Return the servers to search for. Nothing is downloaded."""
    return (
        _known_server("basedpyright", "basedpyright-langserver", "--stdio", replaces="pyright"),
        _known_server("pyright", "pyright-langserver", "--stdio"),
        _known_server("ruff", "ruff", "server"),
        _known_server(
            "gopls",
            "gopls",
            env={"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"},
            cache_variables=("XDG_CACHE_HOME", "GOCACHE"),
        ),
        _known_server(
            "rust-analyzer",
            "rust-analyzer",
            runs_project_code=True,
            env={"CARGO_NET_OFFLINE": "true"},
            cache_variables=("CARGO_TARGET_DIR",),
        ),
        _known_server(
            "typescript-language-server",
            "typescript-language-server",
            "--stdio",
            runs_project_code=True,
            options={"disableAutomaticTypingAcquisition": True},
        ),
        _known_server(
            "typescript", "tsc", "--lsp", "--stdio", min_major_version=7, replaces="typescript-language-server"
        ),
    )


def _known_server(name: str, program: str, *arguments: str, **fields: Any) -> DetectableServer:  # noqa: ANN401  # fields of the class
    return DetectableServer(name, (program, *arguments), SERVER_PROGRAMS[program], **fields)
