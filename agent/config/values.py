"""The configuration of a run: values, providers and folders."""

from collections.abc import Mapping
from dataclasses import field
from os.path import isdir, lexists  # these return False for folders that may not be read
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from ebbtide.agent.config.option_values import AfterToolHook
from ebbtide.agent.config.options import (
    ContextStyle,
    DetailLevel,
    KeyBindingStyle,
    NotificationMethod,
    PermissionMode,
    PortRule,
    StatusPart,
    ThemeName,
    ThoughtsDisplay,
)
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.recall_scope import RecallScope

if TYPE_CHECKING:  # needed for types only; most users have no hooks
    from ebbtide.agent.config.hook_tables import HookEntry

WireName: TypeAlias = Literal["auto", "sdk", "http"]

EDITOR_SOURCE = "editor option"
"""Source of a value that the user chose in an editor. Like the command line, it overrides all files."""

_EXTENSION_FOLDERS = ("skills", "commands", "agents", "hooks", "plugins")
"""Subfolders of this program's own folders that contain extensions."""
_OTHER_PROGRAM_FOLDERS = (".agents", ".claude", ".opencode", ".config/opencode", ".gemini", ".codex")
"""Folders of other programs, in a project or in the home folder."""


@dataclass(frozen=True, slots=True)
class Folders:
    """The program's folders."""

    config: Path
    data: Path
    logs: Path
    home: Path | None = None
    """The home folder, where other programs' folders are found; None to ignore these folders."""

    @property
    def model_table_folder(self) -> Path:
        """Updated tables of models, one file per provider."""
        return self.data / "models"

    @property
    def draft_folder(self) -> Path:
        """Unsent drafts, one file per session."""
        return self.data / "drafts"

    @property
    def worktrees(self) -> Path:
        """Git worktrees, one folder each. They are outside the data folder, which commands cannot access."""
        return self.data.with_name(f"{self.data.name}-worktrees")


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    base_url: str | None = field(default=None, repr=False)
    """The API's address. `repr` hides it because it might contain a password."""
    api_key_env: str | None = None
    """The environment variable with the API key, if it is not the provider's default."""
    key_command: str | tuple[str, ...] | None = field(default=None, repr=False)
    """A shell command line, or a program with its arguments, that prints the API key. `repr` hides it because it might
    contain a password."""
    client_id: str | None = None
    """The client id for signing in to a subscription, if it is not the published one."""
    sign_in_url: str | None = None
    """The address of the subscription's sign-in server, if it is not the default."""
    wire: WireName = "auto"
    timeout: float | None = None
    """None means 120 seconds, or 600 for a server on this machine."""
    context_window: int | None = None
    max_output_tokens: int | None = None
    context_window_buffer_tokens: int | None = None
    tokenizer: str | None = None
    reasoning_effort: str | None = None
    tool_calls: str | None = None
    """`auto`, `native` (only calls that the server has parsed) or `text` (also calls that the model writes as text)."""
    temperature: float | None = None
    """Temperature sent to Chat Completions and Ollama. None means the server's default, or a low one for small models.
    """
    models: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """The user's corrections to the model registry, by model name."""


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of a run. The fields from `model` to `tools_denied` are named after the keys of `OPTIONS`, see
    `config_field`."""

    folders: Folders
    project_folder: Path
    """The top of the Git worktree that contains the working folder; without Git, the working folder itself."""
    working_folder: Path
    """The working folder: a real path inside the project."""
    model: str | None
    fallback_models: tuple[str, ...]
    """Models to switch to, in order, when a conversation does not fit."""
    permission_mode: PermissionMode
    sandbox: Literal["require", "auto", "off"]
    reasoning_effort: str | None
    context_window: int | None
    max_output_tokens: int | None
    context_window_buffer_tokens: int | None
    tokenizer: str | None
    compact_trigger: float
    threshold_ratio: float | None
    """The compaction trigger as a share of the whole window; overrides `compact_trigger` if set."""
    hard_block: float
    background_at: float
    background_messages: int
    context_note_at: float
    on_full: Literal["compact", "final"]
    protect_tokens: int | None
    """None means 8,000, but at most a quarter of the usable window."""
    keep_last_n: int | None
    result_offload_threshold: int
    preview_bytes: int
    max_message_bytes: int
    max_line_length: int
    tool_output_mode: Literal["auto", "full-chunked", "read-grep", "truncate"]
    tool_deferral_threshold: float
    tail_tokens: int
    retain_last_turns: int
    retain_tokens: int
    summary_tokens: int
    summary_model: str | None
    summary_prompt: str | None
    summary_directives: tuple[str, ...]
    retain_prompt: str | None
    retain_directives: tuple[str, ...]
    context_style: ContextStyle | None
    """None: chosen by the size of the window."""
    rewrite_policy: Literal["cost", "total_budget", "fixed", "off"]
    rewrite_kappa_mask: float
    rewrite_kappa_compact: float
    recall_scope: RecallScope
    recall_embedding_model: str | None
    """Folder of a static embedding model for semantic search."""
    archive_max_age: float | None
    """Maximum age of stored outputs, in days."""
    archive_max_bytes: int | None
    archive_max_output_bytes: int
    checkpoints_enabled: bool
    checkpoints_max_file_bytes: int
    checkpoints_max_files: int
    checkpoints_max_bytes: int
    retry_patience: float
    retry_first: float
    retry_fallback_after: float | None
    mcp_wait: float | None
    mcp_disabled: tuple[str, ...]
    sandbox_ports: PortRule
    jobs_wake: bool
    lsp_enabled: bool
    lsp_timeout: float
    hooks_after_tool: tuple[AfterToolHook, ...]
    telemetry_endpoint: str | None
    telemetry_content: bool
    tui_keys: KeyBindingStyle
    tui_theme: ThemeName
    tui_panel: bool
    tui_animation: bool
    tui_detail: DetailLevel
    tui_thoughts: ThoughtsDisplay
    tui_notify: NotificationMethod
    tui_status: tuple[StatusPart, ...]
    cache_lifetime: Literal["auto", "5m", "1h"]
    """How long Anthropic keeps its cache of an interactive session; `auto` chooses by price."""
    keep_alive: int | Literal["off"]
    """Maximum number of consecutive requests that keep the provider's cache alive."""
    web_search: Literal["auto", "provider", "off"] | tuple[str, ...]
    """What searches the web: the provider (`auto`: only at its official address), a program, or nothing."""
    web_private: tuple[str, ...]
    max_turns: int | None
    max_cost: float | None
    agents_model: str | None
    agents_concurrent: int
    agents_max_turns: int | None
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    roots: tuple[str, ...]
    sandboxed: Literal["ask", "allow"]
    tools_allowed: tuple[str, ...]
    tools_denied: tuple[str, ...]
    providers: Mapping[str, ProviderConfig]
    mcp_servers: Mapping[str, Mapping[str, object]] = field(repr=False)
    """The user's settings for MCP servers, by server name and then by key (`MCP_SERVER_KEYS`)."""
    language_servers: Mapping[str, Mapping[str, object]] = field(repr=False)
    """The user's settings for language servers, by server name and then by key (`LANGUAGE_SERVER_KEYS`)."""
    sources: Mapping[str, str]
    """The source of each value, by key (`agent.model`)."""
    hooks: "tuple[HookEntry, ...]" = ()
    """The user's hooks, except those in `hooks.after_tool`."""
    notices: tuple[str, ...] = ()
    """Notices about the settings, for example about ignored keys of the project's file."""

    is_project_trusted: bool = False
    """Whether the project's declarations may run without approval (`--trust`)."""

    accepts_client_hooks: bool = False
    """Whether the client program may add its own hooks."""

    system_prompt: str = ""
    """Text that replaces the first part of the system prompt (`--system-prompt-file`)."""
    append_system_prompt: str = ""
    """Text appended to the system prompt (`--append-system-prompt`)."""

    @property
    def project_folders(self) -> tuple[Path, ...]:
        """Folders that can contain the project's extensions: the working folder and its parents, up to the project."""
        folders = (self.working_folder, *self.working_folder.parents)
        return tuple(folder for folder in folders if folder.is_relative_to(self.project_folder))

    @property
    def servers_file(self) -> Path:
        """The file in which the project declares MCP servers."""
        return self.project_folder / ".mcp.json"

    @property
    def may_have_servers(self) -> bool:
        return bool(self.mcp_servers) or any(map(lexists, (self.servers_file, self.folders.data / "plugins")))

    @property
    def may_have_extensions(self) -> bool:
        """Whether there is a folder that might contain extensions. Reads no files, because this is checked at every
        start."""
        own_folders = (
            self.folders.config,
            self.folders.data,
            *(project_folder / ".ebb" for project_folder in self.project_folders),
        )
        other_folders = filter(None, (*self.project_folders, self.folders.home))
        return any(isdir(folder / name) for folder in own_folders for name in _EXTENSION_FOLDERS) or any(
            isdir(folder / name) for folder in other_folders for name in _OTHER_PROGRAM_FOLDERS
        )

    @property
    def may_have_hooks(self) -> bool:
        """Whether there is a file that might declare hooks. Reads no files, because this is checked at every start."""
        own_files = (
            self.folders.config / "hooks",
            self.project_folder / ".ebb" / "hooks",
            self.folders.data / "plugins",
        )
        homes = filter(None, (self.project_folder, self.folders.home))
        other_files = (home / ".claude" / name for home in homes for name in ("settings.json", "settings.local.json"))
        return self.accepts_client_hooks or bool(self.hooks) or any(map(lexists, (*own_files, *other_files)))

    def provider_config(self, name: str) -> ProviderConfig:
        return self.providers.get(name, ProviderConfig())


def config_field(key: str) -> str:
    """Return the field of `Config` for a key."""
    table, _, name = key.partition(".")
    return name if table in ("agent", "permissions") else f"{table}_{name}"
