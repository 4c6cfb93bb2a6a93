"""What is known of a language server before it is started, and which servers are looked for."""

from collections.abc import Mapping
from dataclasses import field
from pathlib import PurePath

from tools.lazy import dataclass
from tools.sandbox.sandbox import Sandbox

_PYTHON = (".py", ".pyi")
_SCRIPTS = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")

LANGUAGES: Mapping[str, str] = {
    ".py": "python", ".pyi": "python", ".go": "go", ".rs": "rust", ".ts": "typescript", ".mts": "typescript",
    ".cts": "typescript", ".tsx": "typescriptreact", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript",
    ".jsx": "javascriptreact", ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".hpp": "cpp", ".java": "java",
    ".rb": "ruby", ".php": "php", ".cs": "csharp", ".kt": "kotlin", ".swift": "swift", ".lua": "lua", ".zig": "zig",
    ".sh": "shellscript", ".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".html": "html",
    ".css": "css", ".scss": "scss", ".vue": "vue", ".svelte": "svelte", ".ex": "elixir", ".exs": "elixir",
    ".hs": "haskell", ".ml": "ocaml", ".scala": "scala", ".dart": "dart", ".md": "markdown", ".tf": "terraform",
}  # fmt: skip
"""What the protocol calls the language of a file, by its extension."""


@dataclass(frozen=True, slots=True)
class LanguageServerSpec:
    """A server that can be started."""

    name: str
    command: tuple[str, ...]
    """The program, by its path or a name, and its arguments."""
    extensions: tuple[str, ...]
    """Of the files that it is told of."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What the program finds in its environment besides what commands do."""
    settings: Mapping[str, object] = field(default_factory=dict, repr=False)
    """What it may ask for, as nested tables."""
    options: Mapping[str, object] = field(default_factory=dict, repr=False)
    """What it is told at its start."""
    startup_timeout: float = 60.0
    sandbox: Sandbox | None = field(default=None, repr=False, compare=False)
    """The boundary that it runs in; None: none."""

    def takes(self, path: PurePath) -> bool:
        return path.suffix.lower() in self.extensions


@dataclass(frozen=True, slots=True)
class KnownServer:
    """A server that is looked for."""

    name: str
    command: tuple[str, ...]
    extensions: tuple[str, ...]
    runs_project: bool = False
    """At its work it runs what the project holds: build scripts, a compiler of the project's own."""
    env: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    instead_of: str = ""
    """One that finds the same, which is left alone where this one is there."""


KNOWN: tuple[KnownServer, ...] = (
    KnownServer("basedpyright", ("basedpyright-langserver", "--stdio"), _PYTHON, instead_of="pyright"),
    KnownServer("pyright", ("pyright-langserver", "--stdio"), _PYTHON),
    KnownServer("ruff", ("ruff", "server"), _PYTHON),
    # Nothing is downloaded for a look at a file, and what is built for it is kept apart from what the user builds.
    KnownServer("gopls", ("gopls",), (".go",), env={"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}),
    KnownServer("rust-analyzer", ("rust-analyzer",), (".rs",), runs_project=True, env={"CARGO_NET_OFFLINE": "true"}),
    KnownServer(
        "typescript-language-server",
        ("typescript-language-server", "--stdio"),
        _SCRIPTS,
        runs_project=True,
        options={"disableAutomaticTypingAcquisition": True},
    ),
)
