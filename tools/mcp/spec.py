"""What is known of a server before it is started. It knows no protocol."""

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
"""Bytes of one message of a server. It has to be in memory whole, about three times over, before it can be read."""

_MAX_PREFIX_CHARS = 30
"""Characters of a server's name in the names of its tools."""


@dataclass(frozen=True, slots=True)
class Login:
    """How to log in to a server that asks for it. Everything may be left out: a server can say it itself."""

    client_id: str = ""
    """Of a client that is registered there already; empty: one is registered."""
    client_secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = ()
    port: int = 0
    """Of the local address that the browser is sent back to; 0: any that is free."""
    patience: float = 300
    """Seconds in which the user can log in."""


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A server as it is configured: a command that talks over its pipes, or an address."""

    name: str
    command: tuple[str, ...] = ()
    """The program and its arguments; empty when `url` is given."""
    url: str = field(default="", repr=False)
    """It may hold a password."""
    is_sse: bool = False
    """The address speaks the transport from before streamable HTTP."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What the program finds in its environment besides a few harmless variables of ours."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: Path | None = None
    enabled_tools: tuple[str, ...] | None = None
    """Patterns such as `read_*`, of the names that the server uses; None: every tool."""
    disabled_tools: tuple[str, ...] = ()
    startup_timeout: float = 30
    call_timeout: float = 60
    """Seconds without any sign of progress, while the server is not waiting for us."""
    most_bytes: int = MAX_MESSAGE_BYTES
    """Of one result."""
    login: Login = Login()
    sandbox: Sandbox | None = field(default=None, repr=False, compare=False)
    """The boundary that the program runs in; None: it runs as a program of the user's own."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What it is given that nobody should read in what it says."""
        sent = [word for value in self.headers.values() for word in (value, value.rpartition(" ")[2])]
        given = [value for value in self.env.values() if not value.startswith("/")]
        shown = zip(self.command, without_options(self.command), strict=True)
        options = [word.partition("=")[2] or word for word, instead in shown if word != instead]
        return tuple(
            value for value in (*sent, *given, *options, self.login.client_secret) if len(value) >= MIN_SECRET_CHARS
        )

    @property
    def prefix(self) -> str:
        """The name as it stands in the names of tools and in permission rules: it holds no `__` and ends in no `_`, so
        that nobody can name a server and a tool so that they look like another server's."""
        plain = re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]", "_", self.name)).strip("_") or "server"
        return plain if len(plain) <= _MAX_PREFIX_CHARS else shorten_name(plain, self.name, _MAX_PREFIX_CHARS)

    @property
    def label(self) -> str:
        """The name on one line, for messages."""
        return printable(self.name)


def shorten_name(name: str, whole: str, most: int) -> str:
    """The beginning of a name that is too long, and a few signs that stand for all of it."""
    return f"{name[: most - 7]}_{hashlib.sha256(whole.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}"
