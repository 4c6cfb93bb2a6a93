"""Configuration of an MCP server. Independent of the protocol."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ebbtide.tools.outputs.plain_text import printable
from ebbtide.tools.sandbox.sandbox import Sandbox
from ebbtide.tools.secrets.redaction import without_options
from ebbtide.tools.secrets.secret_pieces import MIN_SECRET_CHARS

MAX_MESSAGE_BYTES = 64 * 1024**2
"""Maximum size of a message in bytes. It is kept in memory about three times before it can be parsed."""

_MAX_PREFIX_CHARS = 30
"""Maximum number of characters of a server's name within tool names."""


@dataclass(frozen=True, slots=True)
class Login:
    """Login settings for a server that requires it. All are optional, since servers can publish them."""

    client_id: str = ""
    """Id of a client that is already registered. If empty, one is registered."""
    client_secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = ()
    port: int = 0
    """Port of the local callback address, or 0 for any free one."""
    patience: float = 300
    """Seconds for the user to log in."""


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A configured server: a command with standard input and output, or a URL."""

    name: str
    command: tuple[str, ...] = ()
    """The program and its arguments; empty if `url` is given."""
    url: str = field(default="", repr=False)
    """It may contain a password."""
    is_sse: bool = False
    """Whether it uses the transport before streamable HTTP."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables, in addition to a few harmless ones of ours."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: Path | None = None
    enabled_tools: tuple[str, ...] | None = None
    """Patterns such as `read_*` for the server's tool names, or None for every tool."""
    disabled_tools: tuple[str, ...] = ()
    startup_timeout: float = 30
    call_timeout: float = 60
    """Seconds without progress, not counting time in which the server waits for us."""
    most_bytes: int = MAX_MESSAGE_BYTES
    """Maximum size of a result."""
    login: Login = Login()
    sandbox: Sandbox | None = field(default=None, repr=False, compare=False)
    """The sandbox that the program runs in, or None to run it like any program of the user."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values from its configuration to redact from its output."""
        sent = [word for value in self.headers.values() for word in (value, value.rpartition(" ")[2])]
        given = [value for value in self.env.values() if not value.startswith("/")]
        shown = zip(self.command, without_options(self.command), strict=True)
        options = [word.partition("=")[2] or word for word, instead in shown if word != instead]
        return tuple(
            value for value in (*sent, *given, *options, self.login.client_secret) if len(value) >= MIN_SECRET_CHARS
        )

    @property
    def prefix(self) -> str:
        """The server's name in tool names and permission rules. It contains no `__` and does not end in `_`, so that no
        combination of server and tool looks like one of another server."""
        plain = re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]", "_", self.name)).strip("_") or "server"
        return plain if len(plain) <= _MAX_PREFIX_CHARS else shorten_name(plain, self.name, _MAX_PREFIX_CHARS)

    @property
    def label(self) -> str:
        """The name on one line, for messages."""
        return printable(self.name)


def shorten_name(name: str, whole: str, most: int) -> str:
    """Return the beginning of a long name, with a few characters of a hash of the whole."""
    return f"{name[: most - 7]}_{hashlib.sha256(whole.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}"
