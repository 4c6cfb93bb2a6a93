"""The configuration of an MCP server. Independent of the protocol."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ebbtide.tools.outputs.plain_text import printable_name
from ebbtide.tools.sandbox.sandbox import Sandbox
from ebbtide.tools.secrets.redaction import redact_options
from ebbtide.tools.secrets.secret_fragments import MIN_SECRET_CHARS

MAX_MESSAGE_BYTES = 64 * 1024**2
"""Maximum size of a message in bytes. Parsing one needs about three times as much memory."""

_MAX_PREFIX_CHARS = 30
"""Maximum length of the server's name within a tool name, in characters."""


@dataclass(frozen=True, slots=True)
class LoginSettings:
    """Login settings for a server. All are optional, because servers can publish them."""

    client_id: str = ""
    """The id of a client that is already registered. If empty, a new client is registered."""
    client_secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = ()
    port: int = 0
    """Port of the local callback URL; 0 for any free port."""
    timeout: float = 300
    """Seconds within which the user must log in."""


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A configured server: either a command that uses standard input and output, or a URL."""

    name: str
    command: tuple[str, ...] = ()
    """The program and its arguments; empty if `url` is given."""
    url: str = field(default="", repr=False)
    """The URL, which may contain a password."""
    is_sse: bool = False
    """Whether the server uses the older SSE transport instead of streamable HTTP."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables for the program. It also inherits a few harmless ones."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: Path | None = None
    enabled_tools: tuple[str, ...] | None = None
    """Patterns such as `read_*` for the server's own tool names; None for all tools."""
    disabled_tools: tuple[str, ...] = ()
    startup_timeout: float = 30
    call_timeout: float = 60
    """Timeout of a call, in seconds without progress. Time in which the server waits for this program does not
    count."""
    max_result_bytes: int = MAX_MESSAGE_BYTES
    """Maximum size of a result in bytes."""
    login: LoginSettings = LoginSettings()
    sandbox: Sandbox | None = field(default=None, repr=False, compare=False)
    """The sandbox to run the program in; None to run it outside a sandbox."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values in the configuration that must be redacted from the server's output."""
        header_values = [word for value in self.headers.values() for word in (value, value.rpartition(" ")[2])]
        env_values = [value for value in self.env.values() if not value.startswith("/")]
        redacted = zip(self.command, redact_options(self.command), strict=True)
        options = [
            argument.partition("=")[2] or argument for argument, replacement in redacted if argument != replacement
        ]
        return tuple(
            value
            for value in (*header_values, *env_values, *options, self.login.client_secret)
            if len(value) >= MIN_SECRET_CHARS
        )

    @property
    def prefix(self) -> str:
        """The server's name in tool names and permission rules. It contains no `__` and does not end in `_`, so that
        `mcp__SERVER__TOOL` can be split in only one way."""
        plain_name = re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]", "_", self.name)).strip("_") or "server"
        return (
            plain_name
            if len(plain_name) <= _MAX_PREFIX_CHARS
            else shorten_name(plain_name, self.name, _MAX_PREFIX_CHARS)
        )

    @property
    def label(self) -> str:
        """The name on one line, for messages."""
        return printable_name(self.name)


def shorten_name(name: str, original: str, max_chars: int) -> str:
    """Return the beginning of a long name, followed by a few characters of a hash of `original`."""
    return f"{name[: max_chars - 7]}_{hashlib.sha256(original.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}"
